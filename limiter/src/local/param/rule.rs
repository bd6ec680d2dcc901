//! One hot-parameter rule with what its values have used.

use std::{cmp::Ordering, mem::discriminant, sync::Arc};

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::{
    bucket::Bucket,
    keyed::{Answer, Keyed, limits},
    pace::Pace,
    threads::Threads,
};
use crate::{
    Decision, LocalLimit, LocalParam, Param, Tick,
    cluster::{
        key::{Key, KeyRef},
        limit::whole,
        values::Room,
    },
    local::{succession::Successor, unserved::Unserved},
    rule::{ControlBehavior, ParamRule},
};

#[derive(Debug)]
pub(super) struct HotRule {
    /// The same as long as the counters go on.
    pub(super) number: u32,
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
    /// A cluster rule without a server, in windows or by an algorithm of its own.
    Client(Box<LocalParam>),
    /// A grade that Sentinel does not know lets everything pass, as do some cluster rules without a
    /// server.
    Nothing,
}

/// How many calls of a value may be in progress.
#[derive(Debug)]
pub(super) struct Limits {
    limit: u64,
    pub(super) items: HashMap<Key, u64, RandomState>,
}

impl Check {
    fn new(rule: &ParamRule, room: &Room) -> Self {
        let Some(cluster) = &rule.cluster else { return Self::of(rule) };
        match Unserved::of(cluster, is_asked(rule)) {
            Unserved::Open => Self::Nothing,
            Unserved::Shut => {
                Self::of(&ParamRule { count: 0.0, items: Vec::new(), ..rule.clone() })
            }
            Unserved::AsLocal(None) => Self::of(rule),
            Unserved::AsLocal(Some(count)) => Self::of(&ParamRule { count, ..rule.clone() }),
            Unserved::AsClient => Self::client(rule, None, room).unwrap_or_else(|| Self::of(rule)),
        }
    }

    fn client(rule: &ParamRule, before: Option<&LocalParam>, room: &Room) -> Option<Self> {
        let values = LocalParam::within(rule, LocalLimit::Own, before, room.clone())?;
        Some(Self::Client(Box::new(values)))
    }

    fn of(rule: &ParamRule) -> Self {
        match (rule.grade, rule.behavior) {
            (0, _) => {
                Self::Threads(Limits { limit: whole(rule.count), items: limits(rule).collect() })
            }
            (1, ControlBehavior::Pacing) => Self::Pace(Box::new(Keyed::new(rule))),
            (1, _) => Self::Bucket(Box::new(Keyed::new(rule))),
            (2.., _) => Self::Nothing,
        }
    }
}

impl Limits {
    pub(super) fn of(&self, key: KeyRef<'_>) -> u64 {
        self.items.get(&key).copied().unwrap_or(self.limit)
    }
}

/// Whether a token server decides a rule that has a flow id. Calls in progress with a value are this
/// process's own (`ParamFlowChecker.passCheck`).
fn is_asked(rule: &ParamRule) -> bool {
    rule.grade == 1
}

impl Successor for HotRule {
    /// For the same argument, and of the same kind.
    fn is_akin(&self, other: &Self) -> bool {
        let subject = |rule: &ParamRule| (rule.param_idx, rule.regex);
        subject(&self.rule) == subject(&other.rule)
            && self.rule.resource == other.rule.resource
            && discriminant(&self.check) == discriminant(&other.check)
    }

    fn likeness(&self, other: &Self) -> u32 {
        let (one, other) = (&*self.rule, &*other.rule);
        let flow_id = |rule: &ParamRule| rule.cluster.as_ref().map(|cluster| cluster.flow_id);
        let numbers = u32::from(one.count == other.count)
            + u32::from(one.burst_count == other.burst_count)
            + u32::from(one.max_queueing_time_ms == other.max_queueing_time_ms)
            + u32::from(one.items == other.items);
        u32::from(flow_id(one) == flow_id(other)) << 4
            | u32::from(one.duration_sec == other.duration_sec) << 3
            | numbers
    }

    /// What is counted for longer, and held to less, is used up for longer.
    fn strictness(&self, other: &Self) -> Ordering {
        let (one, other) = (&*self.rule, &*other.rule);
        one.duration_sec.cmp(&other.duration_sec).then(other.count.total_cmp(&one.count))
    }
}

impl HotRule {
    pub(super) fn new(number: u32, rule: &Arc<ParamRule>, room: &Room) -> Self {
        Self { number, rule: Arc::clone(rule), check: Check::new(rule, room), missing: 0 }
    }

    /// The rule's flow id, if a token server decides it.
    pub(super) fn flow_id(&self) -> Option<i64> {
        let cluster = self.rule.cluster.as_ref().filter(|_| is_asked(&self.rule))?;
        Some(cluster.flow_id)
    }

    /// Goes on where `old` ends, which is akin.
    pub(super) fn adopt(&mut self, old: Self, now: Tick, room: &Room) {
        (self.number, self.missing) = (old.number, old.missing);
        match (&mut self.check, old.check) {
            (Check::Bucket(new), Check::Bucket(old)) => new.adopt(*old, now, room),
            (Check::Pace(new), Check::Pace(old)) => new.adopt(*old, now, room),
            (Check::Client(_), Check::Client(old)) => {
                if let Some(check) = Check::client(&self.rule, Some(&old), room) {
                    self.check = check;
                }
            }
            // Calls in progress are counted by argument, whatever rules there are.
            _ => {}
        }
    }

    /// Asks for `n` tokens of one value; of a rule of grade 0, for one more call in progress.
    pub(super) fn ask(
        &mut self,
        threads: &mut [Threads],
        now: Tick,
        value: &Param<'_>,
        n: u32,
        room: &Room,
    ) -> Answer {
        let key = KeyRef::of(value);
        match &mut self.check {
            Check::Bucket(values) => values.ask(key, now, n, room),
            Check::Pace(values) => values.ask(key, now, n, room),
            Check::Threads(limits) => {
                let calls = threads.iter_mut().find(|c| c.param_idx == self.rule.param_idx);
                let fits = calls.is_none_or(|c| c.fits(key, limits.of(key), now, room));
                if fits { Answer::Pass } else { Answer::Block }
            }
            Check::Client(values) => {
                match values.acquire(now, n, None, std::iter::once(value.borrowed())) {
                    Decision::Pass { .. } => Answer::Pass,
                    Decision::Wait { wait } => Answer::Wait(wait),
                    Decision::Block => Answer::Block,
                }
            }
            Check::Nothing => Answer::Pass,
        }
    }

    /// Forgets idle values; true when there may be more.
    pub(super) fn tidy(&mut self, now: Tick, room: &Room) -> bool {
        match &mut self.check {
            Check::Bucket(values) => values.tidy(now, room),
            Check::Pace(values) => values.tidy(now, room),
            Check::Client(values) => values.tidy(now),
            Check::Threads(_) | Check::Nothing => false,
        }
    }

    /// Whether nothing that values have used counts any more.
    pub(super) fn is_idle(&self, now: Tick) -> bool {
        match &self.check {
            Check::Bucket(values) => values.is_idle(now),
            Check::Pace(values) => values.is_idle(now),
            Check::Client(values) => values.is_idle(now),
            Check::Threads(_) | Check::Nothing => true,
        }
    }

    /// Values with a counter, and how often one found no room.
    pub(super) fn values(&self) -> (usize, u64) {
        match &self.check {
            Check::Bucket(values) => (values.len(), values.overflow_uses()),
            Check::Pace(values) => (values.len(), values.overflow_uses()),
            Check::Client(values) => values.values(),
            Check::Threads(_) | Check::Nothing => (0, 0),
        }
    }
}
