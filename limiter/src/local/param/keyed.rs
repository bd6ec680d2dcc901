//! The counters of one rule, found by value.

use std::time::Duration;

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use crate::{
    Tick,
    cluster::{
        key::{Key, KeyRef},
        limit::whole,
        values::{At, Measure, Room, Values},
    },
    rule::ParamRule,
};

/// Nanoseconds for which a value is kept after its last call at the least, so that one that comes
/// again and again is not made again and again.
pub(super) const KEPT: u64 = 1_000_000_000;

/// Values that are looked at in one go when idle ones are looked for.
pub(super) const BATCH: usize = 512;

/// What a rule says to one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Pass,
    /// The tokens are taken; the call goes on after the wait, which is not zero.
    Wait(Duration),
    Block,
}

/// How a rule decides about one value: the numbers of a rule, or of one of its items.
pub(super) trait Decide: Measure {
    /// The numbers of a rule for values with this limit.
    fn of(rule: &ParamRule, limit: u64) -> Self;

    /// Whether `n` tokens pass at any time, whatever was used.
    fn may_pass(self, n: u32) -> bool;

    /// Takes `n` tokens, at least one, for which [`Self::may_pass`]. What is refused changes
    /// nothing.
    fn ask(self, counter: &mut Self::Counter, now: Tick, n: u32) -> Answer;

    /// Time until `n` tokens, for which [`Self::may_pass`], are not refused if nobody else asks;
    /// `None`: beyond the end of time.
    fn retry(self, counter: &Self::Counter, now: Tick, n: u32) -> Option<Duration>;

    /// The limit, and how many tokens more pass at once.
    fn room(self, counter: &Self::Counter, now: Tick) -> (u64, u64);
}

/// Values with a threshold of their own are always there; others come and go.
#[derive(Debug)]
pub(super) struct Keyed<D: Decide> {
    numbers: D,
    items: HashMap<Key, (D, D::Counter), RandomState>,
    values: Values<D::Counter>,
}

impl<D: Decide> Keyed<D> {
    pub(super) fn new(rule: &ParamRule) -> Self {
        let item = |limit| (D::of(rule, limit), D::Counter::default());
        Self {
            numbers: D::of(rule, whole(rule.count)),
            items: limits(rule).map(|(key, limit)| (key, item(limit))).collect(),
            values: Values::default(),
        }
    }

    /// Goes on with what the values have used by `old`, the same rule with other numbers. A value
    /// that got a threshold of its own, or lost it, takes what it has used along.
    pub(super) fn adopt(&mut self, mut old: Self, now: Tick, room: &Room) {
        for (key, (numbers, counter)) in &mut self.items {
            if let Some((_, known)) = old.items.remove(key) {
                *counter = known;
                continue;
            }
            let at = old.values.at(key.as_ref());
            *counter = match at {
                At::Own(_) => std::mem::take(old.values.get_mut(at)),
                At::Shared => numbers.begin(old.values.peek(at)),
            };
            old.values.unmake(at);
        }
        self.values = old.values;
        for (key, (_, counter)) in old.items {
            if !self.numbers.is_idle(&counter, now) {
                self.values.put(key.as_ref(), self.numbers, counter, room, true);
            }
        }
    }

    /// Takes `n` tokens of the value; none at all change nothing.
    pub(super) fn ask(&mut self, key: KeyRef<'_>, now: Tick, n: u32, room: &Room) -> Answer {
        let item = self.items.get_mut(&key);
        let numbers = item.as_ref().map_or(self.numbers, |(numbers, _)| *numbers);
        if !numbers.may_pass(n) {
            return Answer::Block;
        }
        if n == 0 {
            return Answer::Pass;
        }
        let counter = match item {
            Some((_, counter)) => counter,
            None => {
                let (at, _) = self.values.locate(key, numbers, now, room, false);
                self.values.get_mut(at)
            }
        };
        numbers.ask(counter, now, n)
    }

    /// The numbers for a value, and what it has used.
    pub(super) fn look(&self, key: KeyRef<'_>) -> (D, &D::Counter) {
        match self.items.get(&key) {
            Some((numbers, counter)) => (*numbers, counter),
            None => (self.numbers, self.values.peek(self.values.at(key))),
        }
    }

    /// Forgets idle values; true when there may be more.
    pub(super) fn tidy(&mut self, now: Tick, room: &Room) -> bool {
        self.values.tidy(self.numbers, now, room, BATCH)
    }

    /// Whether nothing that values have used counts any more.
    pub(super) fn is_idle(&self, now: Tick) -> bool {
        self.values.len() == 0
            && self.values.shared_is_idle(self.numbers, now)
            && self.items.values().all(|(numbers, counter)| numbers.is_idle(counter, now))
    }

    /// Values with a counter that came with a call.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// How often a value found no room and was counted with others.
    pub(super) fn overflow_uses(&self) -> u64 {
        self.values.overflow_uses()
    }
}

/// The values of a rule that have a limit of their own; of one that stands twice, the last counts.
pub(super) fn limits(rule: &ParamRule) -> impl Iterator<Item = (Key, u64)> {
    rule.items.iter().map(|item| (Key::from(&item.value), whole(item.count)))
}
