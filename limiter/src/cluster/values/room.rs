//! How much memory hot values may take.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{cluster::Settings, sync::Arc};

/// How much may be kept.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// Values of one rule.
    pub(super) values: usize,
    /// Bytes of all rules together, and how many are used.
    pub(super) bytes: u64,
    used: Arc<AtomicU64>,
}

impl Room {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::of(settings.values_max, settings.values_bytes_max)
    }

    /// Room for so many values of a rule, and so many bytes of all rules together.
    pub(crate) fn of(values: usize, bytes: u64) -> Self {
        Self { values, bytes, used: Arc::default() }
    }

    /// Whether there is room for `bytes` more, of one value more than a rule's `values`.
    pub(super) fn has(&self, values: usize, bytes: u64) -> bool {
        values < self.values && self.has_bytes(bytes)
    }

    /// Whether there is room for `bytes` more.
    pub(crate) fn has_bytes(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) <= self.bytes
    }

    /// Bytes that all rules use.
    pub(crate) fn used(&self) -> u64 {
        // Relaxed: a bound on memory may be passed by what is being allocated at this moment.
        self.used.load(Ordering::Relaxed)
    }
}

/// What one rule uses of the room. Given back when the rule's counters go, whatever they held.
#[derive(Debug, Default)]
pub(crate) struct Account {
    of: Option<Arc<AtomicU64>>,
    bytes: u64,
}

impl Account {
    /// Says that `bytes` are used in all.
    pub(super) fn set(&mut self, room: &Room, bytes: u64) {
        let used = self.of.get_or_insert_with(|| Arc::clone(&room.used));
        // Relaxed: as in `Room::used`. The sum wraps around and back.
        used.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Account {
    /// Says that so many `bytes` more are used.
    pub(crate) fn add(&mut self, room: &Room, bytes: u64) {
        self.set(room, self.bytes + bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(used) = &self.of {
            used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}
