//! Calls in progress by value of one argument: the thread counts of `ParameterMetric`.

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::keyed::{BATCH, KEPT};
use crate::{
    Tick,
    cluster::{
        key::{Key, KeyRef},
        values::{At, Measure, Room, Values},
    },
};

/// The calls in progress of all values of the argument at one index, for all rules on it.
#[derive(Debug)]
pub(super) struct Threads {
    /// As the rules have it: negative counts from the end.
    pub(super) param_idx: i32,
    /// Values that always have a counter of their own, each with the flood during which it became
    /// one: calls from before are among those that the shared counter has. Zero for none.
    pinned: HashMap<Key, u32, RandomState>,
    values: Values<Calls>,
    /// Counted calls in progress: a call counts once for each of its values.
    open: u64,
    overflow_uses: u64,
}

/// The calls in progress of one value, or of all those that share a counter.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    open: u32,
    /// Of the shared counter: how often it came into use. Of another: in which of these times it
    /// was made, zero if in none: until the shared counter is at zero again, calls of the value
    /// may be among those that it counts.
    flood: u32,
    /// When it was last looked for or given back.
    used: Tick,
}

#[derive(Clone, Copy)]
struct InProgress;

impl Measure for InProgress {
    type Counter = Calls;

    fn begin(self, shared: &Calls) -> Calls {
        Calls { open: 0, flood: if shared.open > 0 { shared.flood } else { 0 }, used: Tick(0) }
    }

    fn is_idle(self, calls: &Calls, now: Tick) -> bool {
        calls.open == 0 && now.0.saturating_sub(calls.used.0) >= KEPT
    }
}

impl Threads {
    pub(super) fn new(param_idx: i32) -> Self {
        Self {
            param_idx,
            pinned: HashMap::default(),
            values: Values::default(),
            open: 0,
            overflow_uses: 0,
        }
    }

    /// Gives these values a counter of their own from now on, whatever the room.
    pub(super) fn pin<'k>(&mut self, keys: impl Iterator<Item = &'k Key>) {
        self.pinned.extend(keys.map(|key| (key.clone(), 0)));
    }

    /// Goes on with the calls of `old`, with the pinned values of these.
    pub(super) fn adopt(&mut self, old: Self) {
        let shared = old.values.peek(At::Shared);
        let flood = if shared.open > 0 { shared.flood } else { 0 };
        for (key, since) in &mut self.pinned {
            *since = old.pinned.get(key).copied().unwrap_or(flood);
        }
        *self = Self { pinned: std::mem::take(&mut self.pinned), ..old };
    }

    /// Whether one more call with the value stays within `limit`.
    pub(super) fn fits(&mut self, key: KeyRef<'_>, limit: u64, now: Tick, room: &Room) -> bool {
        if limit == 0 {
            return false;
        }
        let at = self.locate(key, now, room);
        self.overflow_uses += u64::from(at == At::Shared);
        self.open_at(at) < limit
    }

    /// Calls in progress that count for the value.
    pub(super) fn open_of(&self, key: KeyRef<'_>) -> u64 {
        self.open_at(self.values.at(key))
    }

    fn open_at(&self, at: At) -> u64 {
        let (calls, shared) = (self.values.peek(at), self.values.peek(At::Shared));
        let beside = at != At::Shared && calls.flood > 0 && calls.flood == shared.flood;
        u64::from(calls.open) + if beside { u64::from(shared.open) } else { 0 }
    }

    /// A call with the value begins; says where it is counted.
    pub(super) fn raise(&mut self, key: KeyRef<'_>, now: Tick, room: &Room) -> At {
        let at = self.locate(key, now, room);
        let calls = self.values.get_mut(at);
        if at == At::Shared && calls.open == 0 {
            calls.flood = calls.flood.wrapping_add(1).max(1);
        }
        calls.open = calls.open.saturating_add(1);
        self.open += 1;
        at
    }

    /// A call that was counted there has ended.
    pub(super) fn lower(&mut self, at: At, now: Tick) {
        let calls = self.values.get_mut(at);
        (calls.open, calls.used) = (calls.open.saturating_sub(1), now);
        self.open = self.open.saturating_sub(1);
    }

    fn locate(&mut self, key: KeyRef<'_>, now: Tick, room: &Room) -> At {
        let pinned = self.pinned.get(&key).copied();
        let (at, is_new) = self.values.locate(key, InProgress, now, room, pinned.is_some());
        let calls = self.values.get_mut(at);
        calls.used = now;
        if is_new && let Some(flood) = pinned {
            // Since it is pinned none of its calls is counted elsewhere.
            calls.flood = flood;
        }
        at
    }

    /// Whether no call is in progress, so that nobody will come to lower it.
    pub(super) fn is_done(&self) -> bool {
        self.open == 0
    }

    /// Forgets idle values; true when there may be more.
    pub(super) fn tidy(&mut self, now: Tick, room: &Room) -> bool {
        self.values.tidy(InProgress, now, room, BATCH)
    }

    /// Values with a counter of their own.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// How often a value found no room and was counted with others.
    pub(super) fn overflow_uses(&self) -> u64 {
        self.overflow_uses
    }
}

/// Where a call in progress is counted, to be given back when it ends. To be used again for another
/// call, so that only one with more values than any before allocates.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<Place>);

/// Places that are kept for another call.
const PLACES: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Place {
    param_idx: i32,
    at: At,
}

impl Held {
    pub(super) fn push(&mut self, param_idx: i32, at: At) {
        self.0.push(Place { param_idx, at });
    }

    /// The call has ended.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
        self.0.shrink_to(PLACES);
    }

    /// The index of the argument, and where its value is counted.
    pub(super) fn places(&self) -> impl Iterator<Item = (i32, At)> {
        self.0.iter().map(|place| (place.param_idx, place.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: u64) -> KeyRef<'static> {
        KeyRef::Bits(1, key)
    }

    fn fits(threads: &mut Threads, of: u64, limit: u64, room: &Room) -> bool {
        threads.fits(key(of), limit, Tick::from_ms(5_000), room)
    }

    fn raise(threads: &mut Threads, of: u64, room: &Room) -> At {
        threads.raise(key(of), Tick::from_ms(5_000), room)
    }

    #[test]
    fn calls_in_progress_are_counted_by_value() {
        let (mut threads, room) = (Threads::new(0), Room::of(10, u64::MAX));
        assert!(fits(&mut threads, 1, 2, &room) && !fits(&mut threads, 1, 0, &room));
        let first = raise(&mut threads, 1, &room);
        assert!(fits(&mut threads, 1, 2, &room));
        raise(&mut threads, 1, &room);
        assert!(!fits(&mut threads, 1, 2, &room) && fits(&mut threads, 2, 1, &room));
        threads.lower(first, Tick::from_ms(5_000));
        assert!(fits(&mut threads, 1, 2, &room) && !threads.is_done());
    }

    #[test]
    fn without_room_new_values_share_a_count_and_known_ones_keep_theirs() {
        let (mut threads, room) = (Threads::new(0), Room::of(2, u64::MAX));
        for value in 1..=2 {
            assert_ne!(raise(&mut threads, value, &room), At::Shared);
        }
        assert!(fits(&mut threads, 3, 1, &room));
        assert_eq!(raise(&mut threads, 3, &room), At::Shared);
        assert!(!fits(&mut threads, 4, 1, &room), "3 is in progress where 4 would be counted");
        assert!(!fits(&mut threads, 1, 1, &room) && fits(&mut threads, 1, 2, &room));
        threads.lower(At::Shared, Tick::from_ms(5_000));
        assert!(fits(&mut threads, 4, 1, &room));
        assert_eq!((threads.len(), threads.overflow_uses()), (2, 3));
    }

    #[test]
    fn a_value_that_gets_its_own_count_still_sees_what_it_shared() {
        let (mut threads, room) = (Threads::new(0), Room::of(1, u64::MAX));
        let first = raise(&mut threads, 1, &room);
        let of_2 = raise(&mut threads, 2, &room);
        assert_eq!(of_2, At::Shared);
        threads.lower(first, Tick::from_ms(5_000));
        let later = Tick::from_ms(6_000);
        assert!(!threads.fits(key(2), 1, later, &room), "its own now, but one is in progress");
        assert!(threads.fits(key(2), 2, later, &room));
        assert_eq!((threads.len(), threads.overflow_uses()), (1, 0));
        threads.lower(of_2, later);
        assert!(threads.fits(key(2), 1, later, &room));
        // Another time at which the shared count is in use is none of its business.
        assert_ne!(threads.raise(key(2), later, &room), At::Shared);
        assert_eq!(threads.raise(key(3), later, &room), At::Shared);
        assert!(threads.fits(key(2), 2, later, &room));
    }

    #[test]
    fn a_pinned_value_has_its_own_count_whatever_the_room() {
        let (mut threads, room) = (Threads::new(0), Room::of(1, u64::MAX));
        threads.pin([key(7).to_key()].iter());
        raise(&mut threads, 1, &room);
        assert_eq!(raise(&mut threads, 8, &room), At::Shared);
        assert!(fits(&mut threads, 7, 1, &room), "8 is none of its business");
        assert_ne!(raise(&mut threads, 7, &room), At::Shared);
        assert!(!fits(&mut threads, 7, 1, &room));
    }

    #[test]
    fn a_value_is_forgotten_a_second_after_its_last_call() {
        let (mut threads, room) = (Threads::new(0), Room::of(10, u64::MAX));
        let at = raise(&mut threads, 1, &room);
        threads.tidy(Tick::from_ms(60_000), &room);
        assert_eq!(threads.len(), 1, "in progress");
        threads.lower(at, Tick::from_ms(60_000));
        threads.tidy(Tick::from_ms(60_999), &room);
        assert_eq!((threads.len(), threads.is_done()), (1, true));
        threads.tidy(Tick::from_ms(61_000), &room);
        assert_eq!((threads.len(), room.used()), (0, 0));
    }

    #[test]
    fn every_place_is_held_however_many() {
        let mut held = Held::default();
        let places: Vec<(i32, At)> =
            (0..9).map(|i| (i, At::Own(7))).chain([(-1, At::Shared)]).collect();
        for &(param_idx, at) in &places {
            held.push(param_idx, at);
        }
        assert_eq!(held.places().collect::<Vec<_>>(), places);
        held.clear();
        assert_eq!(held.places().count(), 0);
    }
}
