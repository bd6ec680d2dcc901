//! The counters of values as objects: to give back to, to charge, to reset, and to look at.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use super::{ParamFlow, Used};
use crate::{
    Tick,
    cluster::{
        key::{Key, KeyRef, Param},
        values::{At, Counter, Gauge, Tally},
    },
    rule::ItemValue,
    sync::lock,
};

impl ParamFlow {
    /// Gives back `count` tokens of each value, as a flow does. A value that has no counter of its
    /// own has nothing to give back to.
    pub(crate) fn give_back(&self, now: Tick, count: u32, age: Duration, params: &[Param<'_>]) {
        let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let since = Tick(now.0.saturating_sub(age_ns));
        self.each(now, params.iter().cloned(), false, |_, _, counter| match &mut counter.tally {
            Tally::Ring(ring) => ring.give_back(self.window, now, since, count.into()),
            Tally::Tuned(tuned) => tuned.give_back(now, count.into(), age),
        });
    }

    /// Takes `count` tokens more of each value, even over the limit.
    pub(crate) fn charge<'a>(
        &self,
        now: Tick,
        count: u32,
        params: impl IntoIterator<Item = Param<'a>>,
    ) {
        self.each(now, params, true, |_, _, counter| counter.charge(now, count.into()));
    }

    /// Takes `count` tokens of each value that were granted elsewhere, to be used after `wait`.
    pub(crate) fn granted<'a>(
        &self,
        now: Tick,
        count: u32,
        wait: Duration,
        params: impl IntoIterator<Item = Param<'a>>,
    ) {
        self.each(now, params, true, |_, _, counter| counter.granted(now, count.into(), wait));
    }

    /// Forgets what the values have used.
    pub(crate) fn reset(&self, now: Tick, params: &[Param<'_>]) {
        self.each(now, params.iter().cloned(), false, |gauge, index, counter| {
            gauge.reset(counter, index, now);
        });
    }

    /// The values that have used most of their tokens at `now`, the most used first, with what
    /// they have used. Looks at all values, a part of them at a time.
    #[must_use]
    pub fn top(&self, now: Tick, most: usize) -> Vec<(ItemValue, u64)> {
        const BATCH: u32 = 4_096;
        let mut top: BinaryHeap<Reverse<(u64, Key)>> = BinaryHeap::new();
        let mut from = Some(0);
        while let Some(start) = from {
            let Used { values, machines, .. } = &*lock(&self.counter.0);
            let gauge = Gauge::of(self.window, machines.as_deref());
            from = values.each(start, BATCH, |key, counter| {
                let used = gauge.used(counter, now);
                let has_place = |least: &Reverse<(u64, Key)>| top.len() < most || used > least.0.0;
                if used > 0 && top.peek().is_none_or(has_place) {
                    top.push(Reverse((used, key.clone())));
                    if top.len() > most {
                        top.pop();
                    }
                }
            });
        }
        let sorted = top.into_sorted_vec().into_iter();
        sorted.map(|Reverse((tokens, key))| (key.to_value(), tokens)).collect()
    }

    /// Runs `change` on the counter of each value, made if `make`, with the index of its count.
    fn each<'a>(
        &self,
        now: Tick,
        params: impl IntoIterator<Item = Param<'a>>,
        make: bool,
        change: impl Fn(Gauge<'_>, u32, &mut Counter),
    ) {
        let used = &mut *lock(&self.counter.0);
        if let Some(recipe) = &self.recipe {
            self.tune(used, recipe);
        }
        let Used { values, machines, .. } = used;
        let gauge = Gauge::of(self.window, machines.as_deref());
        for param in params {
            let key = KeyRef::of(&param);
            let own = self.own(key);
            let at = match values.at(key) {
                At::Shared if !make => continue,
                _ => values.locate(key, gauge, now, &self.room, own.is_some()).0,
            };
            let index = own.map_or(0, |own| own.index);
            change(gauge, index, values.counter(at, gauge, index, now));
            values.weigh(at, gauge, &self.room);
        }
    }
}
