//! The counters of a rule's hot values: bounded, and forgetful only of what no longer counts.
//!
//! Counters are found through a hash index and chained by last use, the longest unused first. All
//! values of a rule share one window, so the first of the chain is the first to fall idle: one
//! look tells whether anything can be reused, however many there are.

mod chain;
mod index;

use std::sync::atomic::{AtomicU64, Ordering};

use self::{
    chain::{Chain, Slot},
    index::Index,
};
use super::{Settings, key::KeyRef};
use crate::{Tick, WindowShape, sync::Arc, window::Ring};

/// Which counter answers for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Its own.
    Own(u32),
    /// The one that values beyond the cap share.
    Overflow,
}

/// What one value has used, and what the request that is being decided asks of it: a value may
/// stand in it several times.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) ring: Ring,
    /// Zero between two decisions.
    pub(crate) asked: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Values {
    index: Index,
    chain: Chain,
    /// What values beyond the cap share.
    overflow: Counter,
    overflow_uses: u64,
}

/// How much may be kept.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// Values of one rule.
    pub(crate) values: usize,
    /// Bytes of all rules together, and how many are used.
    pub(crate) bytes: u64,
    pub(crate) used: Arc<AtomicU64>,
}

impl Room {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (values, bytes) = (settings.values_max, settings.values_bytes_max);
        Self { values, bytes, used: Arc::default() }
    }

    fn has(&self, values: usize, bytes: u64) -> bool {
        // Relaxed: a bound on memory may be passed by what is being allocated at this moment.
        values < self.values
            && self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.bytes
    }

    fn take(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Values {
    /// The counter that answers for `key` at `now`, made if need be. When there is no room for a
    /// new one, an idle one is taken over; when none is idle, the shared counter answers, unless
    /// the key is `pinned`.
    pub(crate) fn locate(
        &mut self,
        key: KeyRef<'_>,
        shape: WindowShape,
        now: Tick,
        room: &Room,
        pinned: bool,
    ) -> At {
        let hash = self.index.hash(key);
        if let Some(at) = self.index.find(hash, |at| self.chain.is(at, key)) {
            self.chain.move_to_end(at);
            return At::Own(at);
        }
        // One more may be freed than is made, so idle values go though new ones keep coming.
        let mut freed = self.free_idle(shape, now, room);
        freed |= self.free_idle(shape, now, room);
        let bytes = Slot::bytes(key, shape);
        if !pinned && !freed && !room.has(self.chain.len(), bytes) {
            self.overflow_uses += 1;
            return At::Overflow;
        }
        room.take(bytes);
        let mut slot = Slot::new(key, bytes);
        if !self.overflow.ring.is_idle(shape, now) {
            // The value may be among those that the shared counter answered for: what it took
            // there still counts.
            slot.counter.ring = self.overflow.ring.clone();
        }
        let at = self.chain.push(slot);
        self.index.insert(hash, at);
        At::Own(at)
    }

    /// The counter at that place, turned over to `now`.
    pub(crate) fn counter(&mut self, at: At, shape: WindowShape, now: Tick) -> &mut Counter {
        let counter = match at {
            At::Own(at) => self.chain.counter(at).unwrap_or(&mut self.overflow),
            At::Overflow => &mut self.overflow,
        };
        counter.ring.advance(shape, now);
        counter
    }

    /// Frees up to `most` idle values; true when there may be more.
    pub(crate) fn tidy(&mut self, shape: WindowShape, now: Tick, room: &Room, most: usize) -> bool {
        for _ in 0..most {
            if !self.free_idle(shape, now, room) {
                if self.chain.len() == 0 {
                    (self.index, self.chain) = (Index::default(), Chain::default());
                }
                return false;
            }
        }
        true
    }

    /// Values with a counter of their own.
    pub(crate) fn len(&self) -> usize {
        self.chain.len()
    }

    /// How often the shared counter stood in.
    pub(crate) fn overflow_uses(&self) -> u64 {
        self.overflow_uses
    }

    /// Forgets the longest unused value if no window holds a token of it any more.
    fn free_idle(&mut self, shape: WindowShape, now: Tick, room: &Room) -> bool {
        let Some((at, slot)) = self.chain.first() else { return false };
        if !slot.counter.ring.is_idle(shape, now) {
            return false;
        }
        room.give_back(slot.bytes);
        let hash = self.index.hash(slot.key.as_ref());
        self.index.remove(hash, at);
        self.chain.remove(at);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: WindowShape = WindowShape::SECOND;

    fn room(values: usize) -> Room {
        Room { values, bytes: u64::MAX, used: Arc::default() }
    }

    fn take(values: &mut Values, key: u64, ms: u64, room: &Room, pinned: bool) -> u64 {
        let now = Tick::from_ms(ms);
        let at = values.locate(KeyRef::Bits(1, key), SHAPE, now, room, pinned);
        let ring = &mut values.counter(at, SHAPE, now).ring;
        ring.add(1);
        ring.sum()
    }

    #[test]
    fn each_value_has_its_own_counter() {
        let (mut values, room) = (Values::default(), room(10));
        assert_eq!(take(&mut values, 1, 5_000, &room, false), 1);
        assert_eq!(take(&mut values, 1, 5_001, &room, false), 2);
        assert_eq!(take(&mut values, 2, 5_001, &room, false), 1);
        assert_eq!(values.len(), 2);
    }

    #[test]
    fn at_the_cap_live_values_stay_and_new_ones_share_one_counter() {
        let (mut values, room) = (Values::default(), room(3));
        for key in 0..3 {
            assert_eq!(take(&mut values, key, 5_000, &room, false), 1);
        }
        assert_eq!(take(&mut values, 7, 5_001, &room, false), 1);
        assert_eq!(take(&mut values, 8, 5_002, &room, false), 2, "the overflow counter");
        assert_eq!(take(&mut values, 0, 5_003, &room, false), 2, "nothing was forgotten");
        assert_eq!((values.len(), values.overflow_uses()), (3, 2));
    }

    #[test]
    fn what_a_value_took_from_the_shared_counter_counts_on_in_its_own() {
        let (mut values, room) = (Values::default(), room(1));
        take(&mut values, 1, 5_000, &room, false);
        assert_eq!(take(&mut values, 7, 5_900, &room, false), 1, "shared");
        assert_eq!(take(&mut values, 7, 6_000, &room, false), 2, "its own, now that 1 is idle");
        assert_eq!(values.overflow_uses(), 1);
        assert_eq!(take(&mut values, 7, 6_900, &room, false), 2, "the shared one has left");
    }

    #[test]
    fn at_the_cap_a_pinned_value_still_gets_its_own_counter() {
        let (mut values, room) = (Values::default(), room(1));
        assert_eq!(take(&mut values, 1, 5_000, &room, false), 1);
        assert_eq!(take(&mut values, 2, 5_000, &room, true), 1);
        assert_eq!(take(&mut values, 2, 5_000, &room, true), 2);
    }

    #[test]
    fn idle_values_make_room_longest_unused_first() {
        let (mut values, room) = (Values::default(), room(3));
        for key in 0..3 {
            take(&mut values, key, 5_000, &room, false);
        }
        take(&mut values, 0, 5_900, &room, false);
        assert_eq!(take(&mut values, 9, 6_000, &room, false), 1, "1 and 2 are idle now");
        assert_eq!(take(&mut values, 0, 6_000, &room, false), 2, "0 was used at 5 900");
        assert_eq!((values.len(), values.overflow_uses()), (2, 0));
    }

    #[test]
    fn a_flood_of_values_is_forgotten_and_its_memory_given_back() {
        let (mut values, room) = (Values::default(), room(100_000));
        for key in 0..50_000 {
            take(&mut values, key, 5_000, &room, false);
        }
        assert!(room.used.load(Ordering::Relaxed) > 50_000 * 80);
        for _ in 0..10 {
            values.tidy(SHAPE, Tick::from_ms(5_999), &room, 10_000);
        }
        assert_eq!(values.len(), 50_000, "all of them still count");
        while values.tidy(SHAPE, Tick::from_ms(6_000), &room, 10_000) {}
        assert_eq!((values.len(), room.used.load(Ordering::Relaxed)), (0, 0));
        assert_eq!(take(&mut values, 7, 6_000, &room, false), 1);
    }

    #[test]
    fn the_bound_on_bytes_holds_for_all_rules_together() {
        let one = Slot::bytes(KeyRef::Bits(1, 0), SHAPE);
        let room = Room { values: 10, bytes: 3 * one, used: Arc::default() };
        let (mut a, mut b) = (Values::default(), Values::default());
        take(&mut a, 1, 5_000, &room, false);
        take(&mut a, 2, 5_000, &room, false);
        take(&mut b, 1, 5_000, &room, false);
        assert_eq!(b.overflow_uses(), 0);
        take(&mut b, 2, 5_000, &room, false);
        assert_eq!((b.len(), b.overflow_uses()), (1, 1));
    }
}
