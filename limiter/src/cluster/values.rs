//! The counters of a rule's hot values: bounded, and forgetful only of what no longer counts.
//!
//! Slots lie in one vector, found through a hash index and chained by last use, the longest
//! unused first. All values of a rule share one window, so the first slot of the chain is the
//! first to fall idle: one look tells whether anything can be reused, however many there are.

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use super::key::{Key, KeyRef};
use crate::{Tick, WindowShape, window::Ring};

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Values {
    /// Seeded at random: the keys are chosen by clients.
    hasher: RandomState,
    index: HashTable<u32>,
    slots: Vec<Slot>,
    /// Ends of the chain: the longest unused and the last used.
    first: u32,
    last: u32,
    /// What values beyond the cap share.
    overflow: Counter,
    overflow_uses: u64,
}

/// What one value has used, and what the request that is being decided asks of it: a value may
/// stand in it several times.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) ring: Ring,
    /// Zero between two decisions.
    pub(crate) asked: u64,
}

#[derive(Debug)]
struct Slot {
    key: Key,
    counter: Counter,
    before: u32,
    after: u32,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            index: HashTable::new(),
            slots: Vec::new(),
            first: NONE,
            last: NONE,
            overflow: Counter::default(),
            overflow_uses: 0,
        }
    }
}

impl Values {
    /// The counter of `key` at `now`, made if need be. At `cap` slots an idle one is taken over;
    /// when none is idle, the shared overflow counter answers, unless the key is `pinned`.
    pub(crate) fn counter(
        &mut self,
        key: KeyRef<'_>,
        shape: WindowShape,
        now: Tick,
        cap: usize,
        pinned: bool,
    ) -> &mut Counter {
        let hash = self.hasher.hash_one(key);
        let at = match self.find(key, hash) {
            Some(at) => Some(at),
            None => self.insert(key, hash, shape, now, if pinned { usize::MAX } else { cap }),
        };
        if let Some(at) = at {
            self.move_to_end(at);
        } else {
            self.overflow_uses += 1;
        }
        let counter = match at.and_then(|at| self.slots.get_mut(at as usize)) {
            Some(slot) => &mut slot.counter,
            None => &mut self.overflow,
        };
        counter.ring.advance(shape, now);
        counter
    }

    /// The counter that the last call of [`counter`](Self::counter) for `key` gave, in the same
    /// critical section.
    pub(crate) fn again(&mut self, key: KeyRef<'_>) -> &mut Counter {
        let hash = self.hasher.hash_one(key);
        match self.find(key, hash).and_then(|at| self.slots.get_mut(at as usize)) {
            Some(slot) => &mut slot.counter,
            None => &mut self.overflow,
        }
    }

    fn find(&self, key: KeyRef<'_>, hash: u64) -> Option<u32> {
        let is_key = |&at: &u32| self.slots.get(at as usize).is_some_and(|s| key.is(&s.key));
        self.index.find(hash, is_key).copied()
    }

    /// Values with a counter of their own, idle ones that nobody has replaced yet included.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How often the overflow counter stood in.
    pub(crate) fn overflow_uses(&self) -> u64 {
        self.overflow_uses
    }

    fn insert(
        &mut self,
        key: KeyRef<'_>,
        hash: u64,
        shape: WindowShape,
        now: Tick,
        cap: usize,
    ) -> Option<u32> {
        let at = match self.take_idle(shape, now) {
            Some(at) => {
                let slot = self.slots.get_mut(at as usize)?;
                slot.key = key.to_key();
                slot.counter.ring.clear();
                at
            }
            None if self.slots.len() < cap.min(NONE as usize) => {
                let at = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Slot {
                    key: key.to_key(),
                    counter: Counter::default(),
                    before: NONE,
                    after: NONE,
                });
                self.link_last(at);
                at
            }
            None => return None,
        };
        let (hasher, slots) = (&self.hasher, &self.slots);
        self.index.insert_unique(hash, at, |&i| {
            slots.get(i as usize).map_or(0, |s| hasher.hash_one(s.key.as_ref()))
        });
        Some(at)
    }

    /// The longest unused slot, out of the index, if no window holds a token of it any more.
    fn take_idle(&mut self, shape: WindowShape, now: Tick) -> Option<u32> {
        let at = self.first;
        let slot = self.slots.get(at as usize)?;
        if !slot.counter.ring.is_idle(shape, now) {
            return None;
        }
        let hash = self.hasher.hash_one(slot.key.as_ref());
        if let Ok(entry) = self.index.find_entry(hash, |&i| i == at) {
            entry.remove();
        }
        Some(at)
    }

    fn move_to_end(&mut self, at: u32) {
        if self.last == at {
            return;
        }
        let Some(slot) = self.slots.get(at as usize) else { return };
        let (before, after) = (slot.before, slot.after);
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.after = after,
            None => self.first = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(slot) => slot.before = before,
            None => self.last = before,
        }
        self.link_last(at);
    }

    fn link_last(&mut self, at: u32) {
        let last = self.last;
        if let Some(slot) = self.slots.get_mut(at as usize) {
            (slot.before, slot.after) = (last, NONE);
        }
        match self.slots.get_mut(last as usize) {
            Some(slot) => slot.after = at,
            None => self.first = at,
        }
        self.last = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: WindowShape = WindowShape::SECOND;

    fn take(values: &mut Values, key: u64, ms: u64, cap: usize, pinned: bool) -> u64 {
        let key = KeyRef::Bits(1, key);
        let ring = &mut values.counter(key, SHAPE, Tick::from_ms(ms), cap, pinned).ring;
        ring.add(SHAPE, 1);
        ring.sum()
    }

    #[test]
    fn each_value_has_its_own_counter() {
        let mut values = Values::default();
        assert_eq!(take(&mut values, 1, 5_000, 10, false), 1);
        assert_eq!(take(&mut values, 1, 5_001, 10, false), 2);
        assert_eq!(take(&mut values, 2, 5_001, 10, false), 1);
        assert_eq!(values.len(), 2);
    }

    #[test]
    fn at_the_cap_live_values_stay_and_new_ones_share_one_counter() {
        let mut values = Values::default();
        for key in 0..3 {
            assert_eq!(take(&mut values, key, 5_000, 3, false), 1);
        }
        assert_eq!(take(&mut values, 7, 5_001, 3, false), 1);
        assert_eq!(take(&mut values, 8, 5_002, 3, false), 2, "the overflow counter");
        assert_eq!(take(&mut values, 0, 5_003, 3, false), 2, "nothing was forgotten");
        assert_eq!((values.len(), values.overflow_uses()), (3, 2));
    }

    #[test]
    fn at_the_cap_a_pinned_value_still_gets_its_own_counter() {
        let mut values = Values::default();
        assert_eq!(take(&mut values, 1, 5_000, 1, false), 1);
        assert_eq!(take(&mut values, 2, 5_000, 1, true), 1);
        assert_eq!(take(&mut values, 2, 5_000, 1, true), 2);
    }

    #[test]
    fn idle_slots_are_taken_over_longest_unused_first() {
        let mut values = Values::default();
        for key in 0..3 {
            take(&mut values, key, 5_000, 3, false);
        }
        take(&mut values, 0, 5_900, 3, false);
        assert_eq!(take(&mut values, 9, 6_000, 3, false), 1, "the slot of 1, idle now");
        assert_eq!(take(&mut values, 0, 6_000, 3, false), 2, "0 was used at 5 900");
        assert_eq!(take(&mut values, 2, 6_000, 3, false), 1);
        assert_eq!((values.len(), values.overflow_uses()), (3, 0));
    }
}
