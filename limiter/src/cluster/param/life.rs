//! The counters of a hot-parameter rule outlive the rule, and forget what no longer counts.

use super::{ParamCounter, ParamFlow, Used};
use crate::{
    Tick,
    cluster::{
        counting::Counting,
        recipe::Recipe,
        values::{Gauge, Room},
    },
    sync::{Arc, lock},
};

/// Values that are looked at under one lock.
const BATCH: usize = 512;

impl ParamFlow {
    /// How the rule counts.
    pub(crate) fn counting(&self) -> Counting {
        let config = self.rule.cluster.as_ref();
        config.map_or(Counting::Sliding(self.window), |config| {
            Counting::of(config, Recipe::behavior_of_param(&self.rule))
        })
    }

    /// The counters, for a rule that takes this one's place.
    pub(crate) fn counter(&self) -> Arc<ParamCounter> {
        Arc::clone(&self.counter)
    }

    /// The room that the counters are in.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Whether nothing of any value counts any more. Forgets idle values.
    pub(crate) fn is_idle(&self, now: Tick) -> bool {
        self.tidy(now);
        self.is_forgotten(now)
    }

    /// As [`Self::is_idle`], and forgets nothing: values that are not forgotten yet may count.
    pub(crate) fn is_forgotten(&self, now: Tick) -> bool {
        let Used { values, machines, .. } = &*lock(&self.counter.0);
        let gauge = Gauge::of(self.window, machines.as_deref());
        values.len() == 0 && values.shared_is_idle(gauge, now)
    }

    /// Forgets idle values, letting go of the lock now and then.
    pub(crate) fn tidy(&self, now: Tick) {
        while self.tidy_some(now) {}
    }

    /// Forgets some idle values; true when there may be more.
    pub(crate) fn tidy_some(&self, now: Tick) -> bool {
        let Used { values, machines, .. } = &mut *lock(&self.counter.0);
        let gauge = Gauge::of(self.window, machines.as_deref());
        values.tidy(gauge, now, &self.room, BATCH)
    }
}
