//! One hot-parameter rule with what its values have used.

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::{
    bucket::Bucket,
    keyed::{Answer, Keyed, limits},
    pace::Pace,
    threads::Threads,
};
use crate::{
    Tick,
    cluster::{
        key::{Key, KeyRef},
        limit::whole,
        values::Room,
    },
    rule::{ControlBehavior, ParamRule},
    sync::Arc,
};

#[derive(Debug)]
pub(super) struct HotRule {
    pub(super) rule: Arc<ParamRule>,
    pub(super) check: Check,
    /// Calls without the argument.
    pub(super) missing: u64,
}

/// What is compared.
#[derive(Debug)]
pub(super) enum Check {
    Bucket(Box<Keyed<Bucket>>),
    Pace(Box<Keyed<Pace>>),
    Threads(Limits),
    /// A grade that Sentinel does not know lets everything pass.
    Nothing,
}

/// How many calls of a value may be in progress.
#[derive(Debug)]
pub(super) struct Limits {
    limit: u64,
    pub(super) items: HashMap<Key, u64, RandomState>,
}

impl Limits {
    pub(super) fn of(&self, key: KeyRef<'_>) -> u64 {
        self.items.get(&key).copied().unwrap_or(self.limit)
    }
}

impl HotRule {
    pub(super) fn new(rule: &Arc<ParamRule>) -> Self {
        let check = match (rule.grade, rule.behavior) {
            (0, _) => {
                Check::Threads(Limits { limit: whole(rule.count), items: limits(rule).collect() })
            }
            (1, ControlBehavior::Pacing) => Check::Pace(Box::new(Keyed::new(rule))),
            (1, _) => Check::Bucket(Box::new(Keyed::new(rule))),
            (2.., _) => Check::Nothing,
        };
        Self { rule: Arc::clone(rule), check, missing: 0 }
    }

    /// Asks for `n` tokens of one value; of a rule of grade 0, for one more call in progress.
    pub(super) fn ask(
        &mut self,
        threads: &mut [Threads],
        now: Tick,
        key: KeyRef<'_>,
        n: u32,
        room: &Room,
    ) -> Answer {
        match &mut self.check {
            Check::Bucket(values) => values.ask(key, now, n, room),
            Check::Pace(values) => values.ask(key, now, n, room),
            Check::Threads(limits) => {
                let calls = threads.iter_mut().find(|c| c.param_idx == self.rule.param_idx);
                let fits = calls.is_none_or(|c| c.fits(key, limits.of(key), now, room));
                if fits { Answer::Pass } else { Answer::Block }
            }
            Check::Nothing => Answer::Pass,
        }
    }

    /// Forgets idle values; true when there may be more.
    pub(super) fn tidy(&mut self, now: Tick, room: &Room) -> bool {
        match &mut self.check {
            Check::Bucket(values) => values.tidy(now, room),
            Check::Pace(values) => values.tidy(now, room),
            Check::Threads(_) | Check::Nothing => false,
        }
    }

    /// Values with a counter, and how often one found no room.
    pub(super) fn values(&self) -> (usize, u64) {
        match &self.check {
            Check::Bucket(values) => (values.len(), values.overflow_uses()),
            Check::Pace(values) => (values.len(), values.overflow_uses()),
            Check::Threads(_) | Check::Nothing => (0, 0),
        }
    }
}
