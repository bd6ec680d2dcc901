//! What rules of strategy 1 need of other resources.
//!
//! No two resources are locked at once, so it is read before the own lock is taken, and lies here
//! while the rules are checked. When calls race, one may find what another has read a moment later,
//! which is the truer value.

use std::sync::Arc;

use crate::local::stat::Stat;

/// Other resources by name, with the last reading of each; `None` for one that was never called.
#[derive(Debug, Default)]
pub(in crate::local) struct Related {
    names: Arc<[Box<str>]>,
    readings: Vec<Option<RelatedReading>>,
}

/// The counters of another resource's cluster node.
#[derive(Clone, Copy, Debug)]
pub(in crate::local) struct RelatedReading {
    passed: u64,
    previous_pass: u64,
    threads: i64,
}

/// What a flow rule compares with.
pub(super) trait Counters {
    /// Tokens that passed in the last second.
    fn passed(&self) -> u64;
    /// Tokens that passed in the whole second before this one.
    fn previous_pass(&self) -> u64;
    /// Calls in progress.
    fn threads(&self) -> i64;
    /// Whether `n` more tokens leave room for what is borrowed from the next bucket.
    fn spares_booked(&self, n: u64, count: f64) -> bool;
}

impl Related {
    /// Reads these from now on.
    pub(super) fn replace(&mut self, names: Vec<Box<str>>) {
        if *self.names != *names {
            self.readings = vec![None; names.len()];
            self.names = names.into();
        }
    }

    /// The resources that are to be read before a check, to be held meanwhile. `None`: there are
    /// none, or they are those that were just `read`, so that a reading that is missing is that of
    /// a resource that was never called.
    #[inline]
    pub(in crate::local) fn unread(
        &self,
        read: Option<&Arc<[Box<str>]>>,
    ) -> Option<Arc<[Box<str>]>> {
        let is_read = read.is_some_and(|read| Arc::ptr_eq(read, &self.names));
        (!self.names.is_empty() && !is_read).then(|| Arc::clone(&self.names))
    }

    /// Puts the reading of a resource where the rules find it, unless these are the names of rules
    /// before; those in force have [`Self::unread`] ones then.
    pub(in crate::local) fn put(
        &mut self,
        names: &Arc<[Box<str>]>,
        at: usize,
        reading: Option<RelatedReading>,
    ) {
        if Arc::ptr_eq(&self.names, names)
            && let Some(place) = self.readings.get_mut(at)
        {
            *place = reading;
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<&RelatedReading> {
        self.readings.get(at)?.as_ref()
    }
}

impl RelatedReading {
    /// Reads a node that was brought to now.
    pub(in crate::local) fn of(stat: &Stat) -> Self {
        Self { passed: stat.passed(), previous_pass: stat.previous_pass(), threads: stat.threads() }
    }
}

impl Counters for RelatedReading {
    fn passed(&self) -> u64 {
        self.passed
    }

    fn previous_pass(&self) -> u64 {
        self.previous_pass
    }

    fn threads(&self) -> i64 {
        self.threads
    }

    fn spares_booked(&self, _n: u64, _count: f64) -> bool {
        true
    }
}

impl Counters for Stat {
    #[inline]
    fn passed(&self) -> u64 {
        self.passed()
    }

    fn previous_pass(&self) -> u64 {
        self.previous_pass()
    }

    #[inline]
    fn threads(&self) -> i64 {
        self.threads()
    }

    #[inline]
    fn spares_booked(&self, n: u64, count: f64) -> bool {
        self.spares_booked(n, count)
    }
}
