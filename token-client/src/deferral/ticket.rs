//! What whoever deferred a call holds.

use std::sync::{Arc, Weak};

use super::queue::Queue;

/// A deferred call. Dropped while the call waits, it takes the call back; a call that was made goes
/// on.
#[derive(Debug)]
#[must_use = "a ticket that is dropped takes its call back"]
pub struct Ticket {
    id: u64,
    /// Empty once it is detached.
    queue: Weak<Queue>,
}

impl Ticket {
    pub(super) fn new(queue: &Arc<Queue>, id: u64) -> Self {
        Self { id, queue: Arc::downgrade(queue) }
    }

    /// Its number, by which [`Deferral::ahead`](super::Deferral::ahead) and
    /// [`Deferral::cancel`](super::Deferral::cancel) know the call. They begin with 0.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Lets the call go on without this ticket, and gives its number.
    pub fn detach(mut self) -> u64 {
        self.queue = Weak::new();
        self.id
    }

    /// Takes the call back; `false` if it waits no more.
    pub fn cancel(mut self) -> bool {
        let queue = std::mem::take(&mut self.queue);
        queue.upgrade().is_some_and(|queue| queue.cancel(self.id))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.cancel(self.id);
        }
    }
}
