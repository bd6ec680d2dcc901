//! The counters of a rule's hot values: bounded, and forgetful only of what no longer counts.
//!
//! Counters are found through a hash index and chained by last use, the longest unused first. All
//! values of a rule share one window, so the first of the chain is the first to fall idle: one
//! look tells whether anything can be reused, however many there are. Of a bucket or a queue that
//! is not so: there the first goes to the end when it is not idle, and somebody else is looked at
//! the next time.

mod chain;
mod gauge;
mod heap;
mod index;
mod measure;
mod room;
mod slab;

use self::{
    chain::{Chain, Slot},
    index::Index,
};
pub(crate) use self::{
    gauge::{Counter, Gauge, Tally, Tuned},
    measure::Measure,
    room::{Account, Room},
};
use super::key::{Key, KeyRef};
use crate::Tick;

/// Which counter answers for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Its own.
    Own(u32),
    /// The one of all values that have none.
    Shared,
}

/// The counters, by default those of a cluster rule.
#[derive(Debug, Default)]
pub(crate) struct Values<C = Counter> {
    index: Index,
    chain: Chain<C>,
    /// What values without a counter of their own have used together, which is nothing as long as
    /// there is room. A new counter begins as this one: the value may be among those that it
    /// answered for, and no new one lies behind the time at which another was forgotten.
    shared: C,
    /// Bytes that it allocates, if it grows.
    shared_heap: u32,
    overflow_uses: u64,
    account: Account,
    /// Bytes that keys and counters allocate.
    beside: u64,
}

impl<C: Default> Values<C> {
    /// The counter that answers for `key` at `now`, made if need be. When there is no room for a
    /// new one, an idle one is taken over; when none is idle, the shared counter answers, unless
    /// the key is `pinned`. Also says whether it was made now.
    pub(crate) fn locate(
        &mut self,
        key: KeyRef<'_>,
        gauge: impl Measure<Counter = C>,
        now: Tick,
        room: &Room,
        pinned: bool,
    ) -> (At, bool) {
        if let Some(at) = self.find(key) {
            self.chain.move_to_end(at);
            return (At::Own(at), false);
        }
        // One more may be freed than is made, so idle values go though new ones keep coming.
        self.free_idle(gauge, now);
        self.free_idle(gauge, now);
        self.settle(room);
        let bytes = text_bytes(key) + u64::from(gauge.heap_bytes(&self.shared));
        // One request asks each value in one place, so also when there is room at its second name.
        let is_full = || !room.has(self.chain.len(), slot_bytes::<C>() + bytes);
        if !pinned && (gauge.is_asked(&self.shared) || is_full()) {
            self.overflow_uses += 1;
            return (At::Shared, false);
        }
        (At::Own(self.push(key, gauge.begin(&self.shared), gauge, room)), true)
    }

    fn push(
        &mut self,
        key: KeyRef<'_>,
        counter: C,
        gauge: impl Measure<Counter = C>,
        room: &Room,
    ) -> u32 {
        let heap = gauge.heap_bytes(&counter);
        let at = self.chain.push(Slot::new(key, counter, heap));
        self.index.insert(self.index.hash(key), at);
        self.beside += text_bytes(key) + u64::from(heap);
        self.settle(room);
        at
    }

    /// Says what is allocated.
    fn settle(&mut self, room: &Room) {
        self.account.set(room, self.chain.bytes() + self.index.bytes() + self.beside);
    }

    fn find(&self, key: KeyRef<'_>) -> Option<u32> {
        self.index.find(self.index.hash(key), |at| self.chain.is(at, key))
    }

    /// Where `key` is counted, now that nothing is made for it.
    pub(crate) fn at(&self, key: KeyRef<'_>) -> At {
        self.find(key).map_or(At::Shared, At::Own)
    }

    /// The counter at that place as it is.
    pub(crate) fn peek(&self, at: At) -> &C {
        match at {
            At::Own(at) => self.chain.get(at).map_or(&self.shared, |slot| &slot.counter),
            At::Shared => &self.shared,
        }
    }

    /// The counter at that place.
    #[inline]
    pub(crate) fn get_mut(&mut self, at: At) -> &mut C {
        match at {
            At::Own(at) => {
                self.chain.get_mut(at).map_or(&mut self.shared, |slot| &mut slot.counter)
            }
            At::Shared => &mut self.shared,
        }
    }

    /// Looks at up to `most` places from `start` on, and gives where to go on.
    pub(crate) fn each(
        &self,
        start: u32,
        most: u32,
        mut look: impl FnMut(&Key, &C),
    ) -> Option<u32> {
        self.each_while(start, most, |key, counter| {
            look(key, counter);
            true
        })
    }

    /// As [`each`](Self::each), until it has `look`ed at one and that is enough.
    pub(crate) fn each_while(
        &self,
        start: u32,
        most: u32,
        mut look: impl FnMut(&Key, &C) -> bool,
    ) -> Option<u32> {
        let end = self.chain.places().min(start.saturating_add(most));
        let last = (start..end)
            .find(|at| self.chain.get(*at).is_some_and(|slot| !look(&slot.key, &slot.counter)));
        let next = last.map_or(end, |last| last + 1);
        (next < self.chain.places()).then_some(next)
    }

    /// Puts in what a value had used before a restart, as the longest unused one. Gives it back if
    /// there is no room, unless the value is `pinned`.
    pub(crate) fn put(
        &mut self,
        key: KeyRef<'_>,
        gauge: impl Measure<Counter = C>,
        counter: C,
        room: &Room,
        pinned: bool,
    ) -> Option<C> {
        if self.find(key).is_some() {
            return None;
        }
        let bytes = text_bytes(key) + u64::from(gauge.heap_bytes(&counter));
        if !pinned && !room.has(self.chain.len(), slot_bytes::<C>() + bytes) {
            return Some(counter);
        }
        let at = self.push(key, counter, gauge, room);
        self.chain.move_to_front(at);
        None
    }

    /// Puts in what values without a counter of their own had used together before a restart.
    pub(crate) fn put_shared(&mut self, counter: C) {
        self.shared = counter;
    }

    /// Whether nothing that values without a counter of their own have used counts any more.
    pub(crate) fn shared_is_idle(&self, gauge: impl Measure<Counter = C>, now: Tick) -> bool {
        gauge.is_idle(&self.shared, now)
    }

    /// Frees idle values, looking at up to `most`; true when there may be more.
    pub(crate) fn tidy(
        &mut self,
        gauge: impl Measure<Counter = C>,
        now: Tick,
        room: &Room,
        most: usize,
    ) -> bool {
        // So many that are not idle, one after the other, say that few are.
        let patience = if gauge.is_out_of_order() { 64 } else { 1 };
        let (mut in_a_row, mut looks) = (0, 0);
        while in_a_row < patience && looks < most {
            in_a_row = if self.free_idle(gauge, now) { 0 } else { in_a_row + 1 };
            looks += 1;
        }
        if self.chain.len() == 0 {
            (self.index, self.chain) = (Index::default(), Chain::default());
        }
        if self.shared_heap > 0 {
            self.weigh(At::Shared, gauge, room);
        }
        self.settle(room);
        in_a_row < patience
    }

    /// Values with a counter of their own.
    pub(crate) fn len(&self) -> usize {
        self.chain.len()
    }

    /// How often the shared counter stood in.
    pub(crate) fn overflow_uses(&self) -> u64 {
        self.overflow_uses
    }

    /// Forgets a value that was made for a request that took nothing.
    pub(crate) fn unmake(&mut self, at: At) {
        if let At::Own(at) = at {
            self.forget(at);
        }
    }

    fn forget(&mut self, at: u32) {
        let Some(slot) = self.chain.get(at) else { return };
        let key = slot.key.as_ref();
        let hash = self.index.hash(key);
        self.beside -= text_bytes(key) + u64::from(slot.heap);
        self.index.remove(hash, at);
        self.chain.remove(at);
    }

    /// Forgets the longest unused value if nothing of it counts any more.
    fn free_idle(&mut self, gauge: impl Measure<Counter = C>, now: Tick) -> bool {
        let Some((at, slot)) = self.chain.first() else { return false };
        // One of the request that is being decided is not idle, though it used nothing yet.
        if gauge.is_asked(&slot.counter) || !gauge.is_idle(&slot.counter, now) {
            if gauge.is_out_of_order() {
                self.chain.move_to_end(at);
            }
            return false;
        }
        self.forget(at);
        gauge.see(&mut self.shared, now);
        true
    }
}

impl Values {
    /// The counter at that place, brought to `now` and to the rule's count at `index`.
    #[inline]
    pub(crate) fn counter(
        &mut self,
        at: At,
        gauge: Gauge<'_>,
        index: u32,
        now: Tick,
    ) -> &mut Counter {
        let counter = self.get_mut(at);
        gauge.turn(counter, index, now);
        counter
    }
}

/// What one more value takes, about: its slot and its place in the index.
const fn slot_bytes<C>() -> u64 {
    size_of::<Option<Slot<C>>>() as u64 + 32
}

/// Bytes that a value's text allocates.
fn text_bytes(key: KeyRef<'_>) -> u64 {
    match key {
        KeyRef::Bits(..) => 0,
        KeyRef::Str(text) => text.len() as u64 + 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WindowShape, cluster::Settings};

    const SHAPE: Gauge<'static> = Gauge::Sliding(WindowShape::SECOND);

    fn room(values_max: usize) -> Room {
        Room::new(&Settings { values_max, values_bytes_max: u64::MAX, ..Settings::default() })
    }

    fn take(values: &mut Values, key: u64, ms: u64, room: &Room, pinned: bool) -> u64 {
        let now = Tick::from_ms(ms);
        let (at, _) = values.locate(KeyRef::Bits(1, key), SHAPE, now, room, pinned);
        let counter = values.counter(at, SHAPE, 0, now);
        counter.charge(now, 1);
        SHAPE.used(counter, now)
    }

    #[test]
    fn a_value_takes_what_it_was_measured_to_take() {
        assert_eq!((size_of::<Option<Slot<Counter>>>(), size_of::<Counter>()), (176, 136));
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
        assert_eq!(take(&mut values, 8, 5_002, &room, false), 2, "the shared counter");
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
    fn a_value_that_was_forgotten_does_not_come_back_in_the_past() {
        let (mut values, room) = (Values::default(), room(3));
        take(&mut values, 1, 5_000, &room, false);
        assert!(!values.tidy(SHAPE, Tick::from_ms(6_000), &room, 10));
        assert_eq!(values.len(), 0);
        take(&mut values, 1, 5_500, &room, false);
        assert_eq!(take(&mut values, 1, 6_999, &room, false), 2, "it counts as one of 6 000");
    }

    #[test]
    fn a_flood_of_values_is_forgotten_and_its_memory_given_back() {
        let (mut values, room) = (Values::default(), room(100_000));
        for key in 0..50_000 {
            take(&mut values, key, 5_000, &room, false);
        }
        assert!((190..300).contains(&(room.used() / 50_000)), "{} bytes", room.used());
        take(&mut values, 25_000, 5_999, &room, false);
        for _ in 0..10 {
            values.tidy(SHAPE, Tick::from_ms(5_999), &room, 10_000);
        }
        assert_eq!(values.len(), 50_000, "all of them still count");
        while values.tidy(SHAPE, Tick::from_ms(6_000), &room, 10_000) {}
        assert_eq!(values.len(), 1);
        assert!(room.used() < 64 * 512, "one chunk and an index: {} bytes", room.used());
        while values.tidy(SHAPE, Tick::from_ms(7_000), &room, 10_000) {}
        assert_eq!((values.len(), room.used()), (0, 0));
        assert_eq!(take(&mut values, 7, 7_000, &room, false), 1);
        drop(values);
        assert_eq!(room.used(), 0);
    }

    #[test]
    fn the_bound_on_bytes_holds_for_all_rules_together() {
        let settings = Settings { values_bytes_max: 4_000, ..Settings::default() };
        let (room, mut a, mut b) = (Room::new(&settings), Values::default(), Values::default());
        for key in 0..4 {
            take(&mut a, key, 5_000, &room, false);
        }
        for key in 0..20 {
            take(&mut b, key, 5_000, &room, false);
        }
        assert!(b.len() > 4 && b.overflow_uses() > 0 && room.used() < 8_000);
        let left = b.overflow_uses();
        drop(a);
        take(&mut b, 99, 5_000, &room, false);
        assert_eq!(b.overflow_uses(), left, "what another rule used is free");
    }
}
