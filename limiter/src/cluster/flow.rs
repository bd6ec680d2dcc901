//! A flow rule decides.

mod adjust;
mod concurrent;
mod explain;
mod lease;
mod life;
mod look;

pub(crate) use concurrent::Calls;
pub use lease::{LeaseRefused, Leased};
pub(crate) use life::Inherited;

use super::{
    Ask, Namespace,
    counter::{FlowCounter, Tally, Used},
    limit::{Limit, whole},
    recipe::Recipe,
    sliding::Sliding,
    tuned::Tuned,
    weighed::Weighed,
};
use crate::{
    Decision, Tick,
    algorithm::Verdict,
    rule::{ClusterConfig, FlowRule, Mode},
    sync::{Arc, Lazy, MutexGuard, lock},
};

/// One flow rule in force, with its counter. What the usual decision looks at comes first.
#[derive(Debug)]
#[repr(C)]
pub struct Flow {
    counter: Lazy<Arc<FlowCounter>>,
    namespace: Arc<Namespace>,
    /// Whether the usual decision is all there is to it: a sliding window, enforced.
    is_plain: bool,
    /// The rule's own; a switch of the namespace goes first.
    mode: Mode,
    /// How to make the machine that decides in place of the sliding window.
    recipe: Option<Arc<Recipe>>,
    sliding: Sliding,
    /// What is in use of a thread-grade rule; kept while the rule is a rate, for tokens that are
    /// still held and for the time after.
    calls: Option<Arc<Calls>>,
    rule: FlowRule,
}

impl Flow {
    pub(crate) fn new(
        rule: FlowRule,
        config: &ClusterConfig,
        namespace: Arc<Namespace>,
        recipe: Option<Arc<Recipe>>,
        inherited: Inherited,
    ) -> Self {
        let flow = Self {
            sliding: Sliding { limit: Limit::new(rule.count, config), shape: config.window },
            is_plain: recipe.is_none() && config.mode == Mode::Enforce,
            mode: config.mode,
            counter: inherited.counter.map_or_else(Lazy::default, Lazy::of),
            namespace,
            recipe,
            calls: inherited.calls,
            rule,
        };
        flow.take_over(&inherited.leases);
        flow
    }

    /// Takes `count` tokens, books them for later, or refuses; check and take are one step under
    /// the flow's own lock.
    ///
    /// In no `buckets` consecutive buckets of a sliding window are more tokens admitted than the
    /// rule allows, booked ones included: a plain request must also leave room in the window that
    /// ends with a booked bucket, and a booking must fit into that window.
    #[inline]
    pub(crate) fn acquire(&self, now: Tick, count: u32, prioritized: bool) -> Decision {
        // Before the lock, behind which a look at memory would have to wait for it.
        let recipe = self.recipe.as_ref();
        let used = &mut *lock(&self.used().0);
        let count = u64::from(count);
        let is_usual = self.is_plain && self.namespace.enforces();
        let (true, Used { passed, tally: Tally::Ring(ring), others }) = (is_usual, &mut *used)
        else {
            return self.acquire_otherwise(used, recipe, now, count, prioritized);
        };
        let threshold = self.sliding.limit.threshold(&self.namespace);
        ring.advance(self.sliding.shape, now);
        passed.advance(others, now);
        let room = self.sliding.room(ring, 0, threshold, count);
        if room >= 0.0 {
            ring.add(count);
            passed.add(count);
            return Decision::Pass { remaining: whole(room) };
        }
        let bounds = (threshold, self.namespace.max_occupy_ratio());
        if prioritized && self.sliding.may_book(ring, 0, bounds, count) {
            ring.book(count);
            others.wait_requests += 1;
            others.wait_tokens += count;
            return Decision::Wait { wait: ring.until_next(now) };
        }
        others.block_requests += 1;
        others.block_tokens += count;
        Decision::Block
    }

    /// As [`acquire`](Self::acquire), for all but a plain sliding window.
    #[inline(never)]
    fn acquire_otherwise(
        &self,
        used: &mut Used,
        recipe: Option<&Arc<Recipe>>,
        now: Tick,
        count: u64,
        prioritized: bool,
    ) -> Decision {
        let enforced = self.mode == Mode::Enforce && self.namespace.enforces();
        let Some(recipe) = recipe.filter(|_| enforced) else {
            return self.decide(used, now, count, Ask::prioritized(prioritized)).into();
        };
        used.passed.advance(&mut used.others, now);
        let verdict = self.tuned(used, recipe, now).take(now, count);
        used.note(verdict, count);
        verdict.into()
    }

    /// What the flow has used, for several decisions in one.
    pub(super) fn lock(&self) -> MutexGuard<'_, Used> {
        lock(&self.used().0)
    }

    /// Decides under any algorithm and mode, and counts what came of it unless it was a peek.
    pub(super) fn decide(&self, used: &mut Used, now: Tick, count: u64, ask: Ask) -> Verdict {
        let weighed = self.weigh(used, now, count, ask);
        if !ask.peek {
            used.note_weighed(weighed, count);
        }
        weighed.answer()
    }

    /// What the mode and the rule say. The rule takes or books, unless it is a peek.
    pub(super) fn weigh(&self, used: &mut Used, now: Tick, count: u64, ask: Ask) -> Weighed {
        used.passed.advance(&mut used.others, now);
        let mode = self.mode();
        let verdict = match (mode, &self.recipe) {
            (Mode::Pass, _) => Verdict::Pass { remaining: whole(self.threshold()) },
            (Mode::Block, _) => Verdict::Block { retry: None },
            (Mode::Enforce | Mode::Shadow, Some(recipe)) => {
                self.tuned(used, recipe, now).ask(now, count, ask)
            }
            (Mode::Enforce | Mode::Shadow, None) => self.admit_sliding(used, now, count, ask),
        };
        Weighed { mode, verdict }
    }

    fn admit_sliding(&self, used: &mut Used, now: Tick, count: u64, ask: Ask) -> Verdict {
        let (ring, leased) = used.window(self.sliding.shape, now);
        let threshold = self.sliding.limit.threshold(&self.namespace);
        let room = self.sliding.room(ring, leased, threshold, count);
        if room >= 0.0 {
            if !ask.peek {
                ring.add(count);
            }
            return Verdict::Pass { remaining: whole(room) };
        }
        let bounds = (threshold, self.namespace.max_occupy_ratio());
        if ask.prioritized && self.sliding.may_book(ring, leased, bounds, count) {
            let wait = ring.until_next(now);
            if ask.max_wait.is_none_or(|max| wait <= max) {
                if !ask.peek {
                    ring.book(count);
                }
                return Verdict::Wait { wait };
            }
        }
        Verdict::Block { retry: None }
    }

    /// The machine and the state of the flow, brought to its rule and to the clients there are.
    #[inline(always)]
    fn tuned<'a>(&self, used: &'a mut Used, recipe: &Arc<Recipe>, now: Tick) -> &'a mut Tuned {
        match used.tally {
            Tally::Tuned(ref mut tuned) => {
                tuned.tune(recipe, &self.rule.count, &self.namespace, now);
                tuned
            }
            Tally::Ring(_) | Tally::Lent(_) => self.newly_tuned(used, recipe, now),
        }
    }

    #[inline(never)]
    fn newly_tuned<'a>(
        &self,
        used: &'a mut Used,
        recipe: &Arc<Recipe>,
        now: Tick,
    ) -> &'a mut Tuned {
        let clients = recipe.clients(&self.namespace);
        let tuned = Tuned::new(recipe, self.rule.count, clients, &self.namespace);
        used.tally = Tally::Tuned(tuned);
        self.tuned(used, recipe, now)
    }

    /// Takes `count` tokens whatever the limit.
    fn take_more(&self, used: &mut Used, now: Tick, count: u64) {
        match &self.recipe {
            Some(recipe) => self.tuned(used, recipe, now).charge(now, count),
            None => used.window(self.sliding.shape, now).0.charge(count),
        }
    }

    /// The counter, made if this is the first that is heard of the flow.
    #[inline]
    fn used(&self) -> &FlowCounter {
        self.counter.get_or_make()
    }
}

impl From<Verdict> for Decision {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass { remaining } => Self::Pass { remaining },
            Verdict::Wait { wait } => Self::Wait { wait },
            Verdict::Block { .. } => Self::Block,
        }
    }
}
