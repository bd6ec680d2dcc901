//! How many tokens live, and how many may.

use crate::sync::{AtomicU64, Ordering};

/// No decision was made: as many tokens live as may at once, of all flows together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{max} concurrency tokens are held, which is the most that may be at once")]
pub struct TokensFull {
    /// The bound.
    pub max: u64,
}

/// The live tokens of all shards.
#[derive(Debug)]
pub(super) struct Live {
    count: AtomicU64,
    max: u64,
}

impl Live {
    pub(super) fn new(max: u64) -> Self {
        Self { count: AtomicU64::new(0), max }
    }

    pub(super) fn count(&self) -> u64 {
        // Relaxed, here and below: the count is the whole state.
        self.count.load(Ordering::Relaxed)
    }

    /// Counts one more, if there may be one. Check and count are one compare-exchange, so that a
    /// refusal never stands in the way of another thread's token.
    pub(super) fn add(&self) -> Result<(), TokensFull> {
        let next = |count| (count < self.max).then_some(count + 1);
        match self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(()),
            Err(_) => Err(TokensFull { max: self.max }),
        }
    }

    /// Counts one less; for each [`add`](Self::add) once.
    pub(super) fn sub(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
