//! A call in progress.

use std::{sync::Arc, thread};

use limiter::{Clock, local::Entry};

use super::Engine;
use crate::Held;

/// A call that was let through, in progress until this is dropped: its response time is counted
/// then, and whether it failed.
///
/// Guards may be dropped in any order, on any thread and in any task. One that is dropped by a panic
/// counts as an error. It does not keep [`Engine::keep`] running.
#[derive(Debug)]
#[must_use = "the call ends when its guard is dropped"]
pub struct Guard {
    /// `None` once it has ended.
    entry: Option<Entry>,
    clock: Arc<dyn Clock>,
    held: Vec<Held>,
    /// A panic that came before it is not its own.
    was_panicking: bool,
}

impl Guard {
    pub(super) fn new(engine: &Engine, entry: Entry, held: Vec<Held>) -> Self {
        let clock = Arc::clone(&engine.shared.clock);
        Self { entry: Some(entry), clock, held, was_panicking: thread::panicking() }
    }

    /// Marks the call as failed: it counts as an error when it ends.
    pub fn fail(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.fail();
        }
    }

    /// What the call holds of rules with `clusterMode` and grade 0, in the order of the rules: its
    /// place among the calls in progress in the whole cluster.
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    pub(super) const fn entry(&self) -> Option<&Entry> {
        self.entry.as_ref()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if thread::panicking() && !self.was_panicking {
            self.fail();
        }
        if let Some(entry) = self.entry.take() {
            entry.exit(self.clock.now());
        }
    }
}
