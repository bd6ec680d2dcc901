//! A hot-parameter rule decides: `ClusterParamFlowChecker.acquireClusterToken`, exact.

mod adjust;
mod explain;
mod life;
mod look;
mod machine;
mod saved;

pub use look::ParamTotals;
pub(crate) use machine::{Machines, OfCount};

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::{
    Ask, Namespace,
    key::{Key, KeyRef, Param},
    limit::{Limit, whole},
    recipe::Recipe,
    values::{At, Gauge, Room, Tally, Tuned, Values},
    weighed::Weighed,
};
use crate::{
    Decision, Tick, Undecided, WindowShape,
    algorithm::Verdict,
    rule::{ClusterConfig, Mode, ParamRule},
    sync::{Arc, Mutex, MutexGuard, lock},
};

/// One hot-parameter rule in force, with the counters of its values.
#[derive(Debug)]
pub struct ParamFlow {
    limit: Limit,
    /// Values with a threshold of their own; never evicted.
    items: HashMap<Key, Own, RandomState>,
    /// The rule's count, and those of the items, each once.
    counts: Box<[f64]>,
    room: Room,
    window: WindowShape,
    mode: Mode,
    counter: Arc<ParamCounter>,
    namespace: Arc<Namespace>,
    /// How to make the machines that decide in place of the sliding window.
    recipe: Option<Arc<Recipe>>,
    rule: ParamRule,
}

/// The threshold of a value.
#[derive(Clone, Copy, Debug)]
struct Own {
    count: f64,
    /// Which of the rule's counts that is.
    index: u32,
}

/// What a rule's values have used; shared by the rule sets before and after a rule change.
#[derive(Debug, Default)]
pub(crate) struct ParamCounter(Mutex<Used>);

#[derive(Debug, Default)]
pub(super) struct Used {
    values: Values,
    totals: ParamTotals,
    /// The machines that the values were used under last; `None` for a sliding window.
    machines: Option<Box<Machines>>,
    /// Of the request that is being decided; kept for its memory.
    asked_at: Vec<Asked>,
}

/// Where one value of a request is counted.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: At,
    /// Which of the rule's counts it is held to.
    index: u32,
    /// Its counter was made for this request.
    is_new: bool,
}

impl ParamFlow {
    pub(crate) fn new(
        rule: ParamRule,
        config: &ClusterConfig,
        room: Room,
        namespace: Arc<Namespace>,
        recipe: Option<Arc<Recipe>>,
        counter: Arc<ParamCounter>,
    ) -> Self {
        let mut counts = vec![rule.count];
        let mut own = |count: f64| {
            let known = counts.iter().position(|known| *known == count);
            let index = known.unwrap_or_else(|| {
                counts.push(count);
                counts.len() - 1
            });
            Own { count, index: u32::try_from(index).unwrap_or(0) }
        };
        let items = rule.items.iter().map(|item| (Key::from(&item.value), own(item.count)));
        Self {
            limit: Limit::new(rule.count, config),
            items: items.collect(),
            counts: counts.into(),
            room,
            window: config.window,
            mode: config.mode,
            counter,
            namespace,
            recipe,
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
        ask: Ask,
        params: impl IntoIterator<Item = Param<'a>>,
    ) -> Result<Decision, Undecided> {
        let used = &mut *lock(&self.counter.0);
        Ok(self.decide(used, now, count, ask, params)?.into())
    }

    /// What the values have used, for several decisions in one.
    pub(super) fn lock(&self) -> MutexGuard<'_, Used> {
        lock(&self.counter.0)
    }

    /// Decides under any mode, and counts what came of it unless it was a peek.
    pub(super) fn decide<'a>(
        &self,
        used: &mut Used,
        now: Tick,
        count: u32,
        ask: Ask,
        params: impl IntoIterator<Item = Param<'a>>,
    ) -> Result<Verdict, Undecided> {
        let weighed = self.weigh(used, now, count, ask, params)?;
        if ask.peek {
            self.leave(used, now);
        } else {
            self.take_weighed(used, now, ask, weighed);
        }
        Ok(weighed.answer())
    }

    /// What the mode and the rule say. Each value knows what is asked of it until that is taken or
    /// left, under the same lock and at the same moment.
    pub(super) fn weigh<'a>(
        &self,
        used: &mut Used,
        now: Tick,
        count: u32,
        ask: Ask,
        params: impl IntoIterator<Item = Param<'a>>,
    ) -> Result<Weighed, Undecided> {
        let params = params.into_iter();
        let mode = self.mode();
        let verdict = match (mode, &self.recipe) {
            (Mode::Enforce | Mode::Shadow, Some(recipe)) => {
                self.weigh_by_machines(used, recipe, now, count.into(), ask, params)?
            }
            (Mode::Enforce | Mode::Shadow, None) => {
                self.weigh_sliding(used, now, count.into(), params)?
            }
            (Mode::Pass | Mode::Block, _) => {
                // As of a flow that nothing is taken of: all that the value may have.
                let thresholds = params.map(|param| self.threshold_of(KeyRef::of(&param)));
                let least = thresholds.min_by(f64::total_cmp).ok_or(Undecided::BadRequest)?;
                if mode == Mode::Pass {
                    Verdict::Pass { remaining: whole(least) }
                } else {
                    Verdict::Block { retry: None }
                }
            }
        };
        Ok(Weighed { mode, verdict })
    }

    /// Takes and counts what was weighed, whatever has become of threshold and mode meanwhile.
    pub(super) fn take_weighed(&self, used: &mut Used, now: Tick, ask: Ask, weighed: Weighed) {
        self.settle(used, now, weighed.takes().then_some(ask));
        let totals = &mut used.totals;
        let counted = match weighed.answer() {
            _ if weighed.is_shadowed() => &mut totals.shadow_requests,
            Verdict::Pass { .. } => &mut totals.pass_requests,
            Verdict::Wait { .. } => &mut totals.wait_requests,
            Verdict::Block { .. } => &mut totals.block_requests,
        };
        *counted += 1;
    }

    /// Leaves everything as it was before something was weighed.
    pub(super) fn leave(&self, used: &mut Used, now: Tick) {
        self.settle(used, now, None);
    }

    fn weigh_sliding<'a>(
        &self,
        used: &mut Used,
        now: Tick,
        count: u64,
        params: impl Iterator<Item = Param<'a>>,
    ) -> Result<Verdict, Undecided> {
        let gauge = Gauge::Sliding(self.window);
        used.asked_at.clear();
        let mut least = f64::INFINITY;
        for param in params {
            let key = KeyRef::of(&param);
            let own = self.own(key);
            let limit = own.map_or(self.limit, |own| self.limit.with_count(own.count));
            let (at, is_new) = used.values.locate(key, gauge, now, &self.room, own.is_some());
            used.asked_at.push(Asked { at, index: 0, is_new });
            let counter = used.values.counter(at, gauge, 0, now);
            counter.asked += count;
            let Tally::Ring(ring) = &counter.tally else { continue };
            least = least.min(limit.room(limit.scoped(&self.namespace), ring.sum(), counter.asked));
            if least < 0.0 {
                break;
            }
        }
        if used.asked_at.is_empty() {
            return Err(Undecided::BadRequest);
        }
        if least >= 0.0 {
            Ok(Verdict::Pass { remaining: whole(least) })
        } else {
            Ok(Verdict::Block { retry: None })
        }
    }

    /// Takes what the values were asked for, or forgets it.
    fn settle(&self, used: &mut Used, now: Tick, takes: Option<Ask>) {
        let Used { values, machines, asked_at, .. } = used;
        let gauge = Gauge::of(self.window, machines.as_deref());
        for &Asked { at, index, .. } in &*asked_at {
            let counter = values.counter(at, gauge, index, now);
            let asked = std::mem::take(&mut counter.asked);
            match (takes, &mut counter.tally) {
                // One that stood there before took it.
                (Some(_), _) if asked == 0 => {}
                (Some(_), Tally::Ring(ring)) => ring.charge(asked),
                (Some(ask), Tally::Tuned(Tuned { machine, state, .. })) => {
                    machine.take_within(state, now, asked, ask.max_wait);
                    values.weigh(at, gauge, &self.room);
                }
                (None, _) => {}
            }
        }
        if takes.is_none() {
            for asked in asked_at.iter().filter(|asked| asked.is_new) {
                values.unmake(asked.at);
            }
        }
        asked_at.clear();
    }

    /// The threshold of a value that has its own.
    #[inline]
    fn own(&self, key: KeyRef<'_>) -> Option<Own> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&key).copied()
    }

    /// What a value may have, all clients of the namespace counted.
    fn threshold_of(&self, key: KeyRef<'_>) -> f64 {
        let limit = self.own(key).map_or(self.limit, |own| self.limit.with_count(own.count));
        limit.scoped(&self.namespace)
    }

    /// The threshold of all others.
    fn default(&self) -> Own {
        Own { count: self.rule.count, index: 0 }
    }
}
