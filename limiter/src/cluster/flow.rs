//! A flow rule decides: `ClusterFlowChecker.acquireClusterToken`, exact.

use super::{
    FlowTotals, Namespace, SecondTotals,
    limit::{Limit, whole},
    totals::{Others, Passed},
};
use crate::{
    Concurrency, Decision, Hold, Level, OwnerId, Tick, TokenId, Undecided, WindowShape,
    rule::{ClusterConfig, FlowRule},
    sync::{Arc, Mutex, lock},
    window::Ring,
};

/// One flow rule in force, with its counter.
#[derive(Debug)]
pub struct Flow {
    limit: Limit,
    window: WindowShape,
    counter: Arc<FlowCounter>,
    namespace: Arc<Namespace>,
    /// Apart, so that what a decision looks at lies close together.
    rest: Box<Rest>,
}

/// What a decision about a rate does not look at.
#[derive(Debug)]
struct Rest {
    rule: FlowRule,
    /// What is in use of a thread-grade rule.
    level: Option<Arc<Level>>,
}

/// What a flow has used; shared by the rule sets before and after a rule change.
///
/// Aligned to a cache line: with many flows each line is a wait for memory.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct FlowCounter(Mutex<Used>);

/// In this order, so that a pass touches one cache line: the lock, what passed, and the first
/// four words of the ring.
#[derive(Debug, Default)]
#[repr(C)]
struct Used {
    passed: Passed,
    ring: Ring,
    others: Others,
}

impl Flow {
    pub(crate) fn new(
        rule: FlowRule,
        config: &ClusterConfig,
        namespace: Arc<Namespace>,
        counter: Arc<FlowCounter>,
        level: Option<Arc<Level>>,
    ) -> Self {
        Self {
            limit: Limit::new(rule.count, config),
            window: config.window,
            counter,
            namespace,
            rest: Box::new(Rest { rule, level }),
        }
    }

    /// Takes `count` tokens, books them for the next bucket, or refuses; check and take are one
    /// step under the flow's own lock.
    ///
    /// In no `buckets` consecutive buckets are more tokens admitted than the rule allows, booked
    /// ones included: a plain request must also leave room in the window that ends with a booked
    /// bucket, and a booking must fit into that window.
    #[inline]
    pub(crate) fn acquire(&self, now: Tick, count: u32, prioritized: bool) -> Decision {
        let count = u64::from(count);
        let threshold = self.limit.threshold(&self.namespace);
        let used = &mut *lock(&self.counter.0);
        used.ring.advance(self.window, now);
        used.passed.advance(&mut used.others, now);
        let room = self.room(&used.ring, threshold, count);
        if room >= 0.0 {
            used.ring.add(count);
            used.passed.add(count);
            return Decision::Pass { remaining: whole(room) };
        }
        if prioritized && self.may_book(&used.ring, threshold, count) {
            used.ring.book(count);
            used.others.wait_requests += 1;
            used.others.wait_tokens += count;
            return Decision::Wait { wait: used.ring.until_next(now) };
        }
        used.others.block_requests += 1;
        used.others.block_tokens += count;
        Decision::Block
    }

    /// Room that `count` plain tokens would leave: in this window, and in the next one when
    /// somebody has booked there.
    #[inline]
    fn room(&self, ring: &Ring, threshold: f64, count: u64) -> f64 {
        let room = self.limit.room(threshold, ring.sum(), count);
        // With one bucket the next window begins where this one ends, so they share no token.
        if ring.booked() == 0 || self.window.buckets() == 1 {
            return room;
        }
        room.min(self.limit.room(threshold, ring.sum_next(self.window), count))
    }

    fn may_book(&self, ring: &Ring, threshold: f64, count: u64) -> bool {
        self.limit.average(ring.booked()) <= self.namespace.max_occupy_ratio() * threshold
            && self.limit.room(threshold, ring.sum_next(self.window), count) >= 0.0
    }

    /// Takes a concurrency token for `count` calls in progress, or `None` when the level is full.
    ///
    /// The level is the rule's count, times the connected clients for a rule that counts per
    /// client; `exceedCount` is for rates only (`ConcurrentClusterFlowChecker.java`).
    ///
    /// # Errors
    ///
    /// [`Undecided::BadRequest`] for a rule that is not of thread grade;
    /// [`Undecided::TooManyRequests`] when as many tokens are held as the engine allows.
    pub(crate) fn acquire_concurrent(
        &self,
        now: Tick,
        count: u32,
        owner: OwnerId,
        tokens: &Concurrency,
    ) -> Result<Option<TokenId>, Undecided> {
        let (Some(level), Some(config)) = (&self.rest.level, &self.rest.rule.cluster) else {
            return Err(Undecided::BadRequest);
        };
        let hold = Hold {
            count,
            owner,
            resource_timeout_ms: config.resource_timeout_ms,
            client_offline_ms: config.client_offline_ms,
        };
        let threshold = self.limit.scoped(&self.namespace);
        let taken = tokens.acquire(now, level, threshold, hold);
        taken.map_err(|_full| Undecided::TooManyRequests)
    }

    /// Calls in progress of a thread-grade rule; `None` for a rate. Tokens that are due but not
    /// yet swept may still be counted.
    #[must_use]
    pub fn in_use(&self) -> Option<u64> {
        self.rest.level.as_ref().map(|level| level.in_use())
    }

    /// The level, for the rule that takes this one's place.
    pub(crate) fn level(&self) -> Option<&Arc<Level>> {
        self.rest.level.as_ref()
    }

    /// The rule as it was loaded.
    #[must_use]
    pub fn rule(&self) -> &FlowRule {
        &self.rest.rule
    }

    /// The namespace that the flow belongs to.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// What the flow decided since its counter was made.
    #[must_use]
    pub fn totals(&self) -> FlowTotals {
        let used = lock(&self.counter.0);
        used.passed.totals(&used.others)
    }

    /// What the flow decided in the last whole second before `now`.
    #[must_use]
    pub fn last_second(&self, now: Tick) -> SecondTotals {
        let used = &mut *lock(&self.counter.0);
        used.passed.last_second(&mut used.others, now)
    }

    /// Tokens in the window at `now`, and tokens booked for the bucket after it.
    #[must_use]
    pub fn usage(&self, now: Tick) -> (u64, u64) {
        let used = &mut *lock(&self.counter.0);
        used.ring.advance(self.window, now);
        (used.ring.sum(), used.ring.booked())
    }

    pub(crate) fn guard(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// The counter, for a rule that takes this one's place with the same window.
    pub(crate) fn counter_for(&self, window: WindowShape) -> Option<Arc<FlowCounter>> {
        (self.window == window).then(|| Arc::clone(&self.counter))
    }
}
