//! A hot-parameter rule decides: `ClusterParamFlowChecker.acquireClusterToken`, exact.

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::{
    Namespace,
    key::{Key, KeyRef, Param},
    limit::{Limit, whole},
    values::{At, Room, Values},
};
use crate::{
    Decision, Tick, Undecided, WindowShape,
    rule::{ClusterConfig, ParamRule},
    sync::{Arc, Mutex, lock},
};

/// One hot-parameter rule in force, with the counters of its values.
#[derive(Debug)]
pub struct ParamFlow {
    limit: Limit,
    /// Values with a threshold of their own; never evicted.
    items: HashMap<Key, f64, RandomState>,
    room: Room,
    window: WindowShape,
    counter: Arc<ParamCounter>,
    namespace: Arc<Namespace>,
    rule: ParamRule,
}

/// What a rule's values have used; shared by the rule sets before and after a rule change.
#[derive(Debug, Default)]
pub(crate) struct ParamCounter(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    values: Values,
    totals: ParamTotals,
    /// Where the values of the request that is being decided are counted; kept for its memory.
    asked_at: Vec<At>,
}

/// What a hot-parameter rule decided since its counter was made; each only rises but `values`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParamTotals {
    /// Requests that passed.
    pub pass_requests: u64,
    /// Requests that were refused.
    pub block_requests: u64,
    /// Uses of the counter that values beyond the cap share.
    pub overflow_uses: u64,
    /// Values that have a counter of their own now.
    pub values: usize,
}

impl ParamFlow {
    pub(crate) fn new(
        rule: ParamRule,
        config: &ClusterConfig,
        room: Room,
        namespace: Arc<Namespace>,
        counter: Arc<ParamCounter>,
    ) -> Self {
        Self {
            limit: Limit::new(rule.count, config),
            items: rule.items.iter().map(|item| (Key::from(&item.value), item.count)).collect(),
            room,
            window: config.window,
            counter,
            namespace,
            rule,
        }
    }

    /// Takes `count` tokens of every value, or of none: one lock covers all values of the rule.
    ///
    /// A value that stands several times in the request is asked for all of them at once.
    /// `remaining` is that of the value with the least.
    ///
    /// # Errors
    ///
    /// [`Undecided::BadRequest`] when there is no value.
    pub(crate) fn acquire<'a>(
        &self,
        now: Tick,
        count: u32,
        params: impl IntoIterator<Item = Param<'a>>,
    ) -> Result<Decision, Undecided> {
        let count = u64::from(count);
        let used = &mut *lock(&self.counter.0);
        used.asked_at.clear();
        let mut least = f64::INFINITY;
        for param in params {
            let key = KeyRef::of(&param);
            let own = self.own_count(key);
            let limit = own.map_or(self.limit, |own| self.limit.with_count(own));
            let at = used.values.locate(key, self.window, now, &self.room, own.is_some());
            used.asked_at.push(at);
            let counter = used.values.counter(at, self.window, now);
            counter.asked += count;
            let threshold = limit.scoped(&self.namespace);
            least = least.min(limit.room(threshold, counter.ring.sum(), counter.asked));
            if least < 0.0 {
                break;
            }
        }
        if used.asked_at.is_empty() {
            return Err(Undecided::BadRequest);
        }
        let passes = least >= 0.0;
        for &at in &used.asked_at {
            let counter = used.values.counter(at, self.window, now);
            let asked = std::mem::take(&mut counter.asked);
            if passes && asked > 0 {
                counter.ring.add(asked);
            }
        }
        if !passes {
            used.totals.block_requests += 1;
            return Ok(Decision::Block);
        }
        used.totals.pass_requests += 1;
        Ok(Decision::Pass { remaining: whole(least) })
    }

    /// Forgets idle values, letting go of the lock now and then.
    pub(crate) fn tidy(&self, now: Tick) {
        const BATCH: usize = 512;
        while lock(&self.counter.0).values.tidy(self.window, now, &self.room, BATCH) {}
    }

    fn own_count(&self, key: KeyRef<'_>) -> Option<f64> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&key).copied()
    }

    /// The rule as it was loaded.
    #[must_use]
    pub fn rule(&self) -> &ParamRule {
        &self.rule
    }

    /// The namespace that the flow belongs to.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// What the rule decided since its counter was made.
    #[must_use]
    pub fn totals(&self) -> ParamTotals {
        let used = lock(&self.counter.0);
        ParamTotals {
            overflow_uses: used.values.overflow_uses(),
            values: used.values.len(),
            ..used.totals
        }
    }

    pub(crate) fn guard(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// The counters, for a rule that takes this one's place with the same window.
    pub(crate) fn counter_for(&self, window: WindowShape) -> Option<Arc<ParamCounter>> {
        (self.window == window).then(|| Arc::clone(&self.counter))
    }
}
