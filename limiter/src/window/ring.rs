//! The counters of one window: a ring of buckets, their running sum, and what is booked for the
//! bucket that comes next.

mod later;
mod saved;

use std::time::Duration;

use super::{WindowShape, counts::Counts};
use crate::Tick;

pub use saved::SavedRing;

/// Tokens taken per bucket, for one flow or one hot value. The shape is the owner's and is passed
/// in, so that a million rings do not store it a million times.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Ring {
    /// End of the head bucket in nanoseconds; 0 before the first tick. A tick before it, however
    /// old, counts as one in the head bucket, so a clock that steps back changes no limit.
    head_end: u64,
    /// Tokens in the window: the head bucket's and those of all others.
    sum: u64,
    /// Tokens booked for the bucket after the head.
    booked: u64,
    /// Tokens of the head bucket, apart from the others: a take touches no more memory than this.
    head: u64,
    /// Slot of the head bucket in `counts`; its entry there is zero.
    slot: u32,
    counts: Counts,
}

impl Ring {
    /// Turns the ring over to the bucket that holds `now`. Must come first in every decision.
    #[inline]
    pub(crate) fn advance(&mut self, shape: WindowShape, now: Tick) {
        if now.0 >= self.head_end {
            self.turn_over(shape, now);
        }
    }

    #[inline(never)]
    fn turn_over(&mut self, shape: WindowShape, now: Tick) {
        let bucket_ns = shape.bucket_ns();
        let steps = self.steps(shape, now);
        self.head_end = (now.0 / bucket_ns + 1).saturating_mul(bucket_ns);
        if self.sum == 0 && self.booked == 0 {
            return;
        }
        let head = std::mem::take(&mut self.head);
        let counts = self.counts.all(shape);
        if steps > u64::from(shape.buckets()) {
            counts.fill(0);
            (self.sum, self.booked) = (0, 0);
            return;
        }
        if let Some(count) = counts.get_mut(self.slot as usize) {
            *count = head;
        }
        for step in 0..steps {
            self.slot = if self.slot + 1 == shape.buckets() { 0 } else { self.slot + 1 };
            let incoming = if step == 0 { std::mem::take(&mut self.booked) } else { 0 };
            if let Some(count) = counts.get_mut(self.slot as usize) {
                self.sum = self.sum - std::mem::replace(count, incoming) + incoming;
            }
        }
        // The new head's tokens, which can only be booked ones of a single step.
        if let Some(count) = counts.get_mut(self.slot as usize) {
            self.head = std::mem::take(count);
        }
    }

    /// Tokens in the window that ends with the head bucket.
    #[inline]
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Tokens booked for the next bucket.
    #[inline]
    pub(crate) fn booked(&self) -> u64 {
        self.booked
    }

    /// Tokens in the window that ends with the *next* bucket, as far as they are known now.
    #[inline]
    pub(crate) fn sum_next(&self, shape: WindowShape) -> u64 {
        let oldest = if shape.buckets() == 1 {
            self.head
        } else {
            self.counts.get(if self.slot + 1 == shape.buckets() { 0 } else { self.slot + 1 })
        };
        self.sum - oldest + self.booked
    }

    /// Time from `now` to the start of the next bucket.
    pub(crate) fn until_next(&self, now: Tick) -> Duration {
        Tick(self.head_end).since(now)
    }

    /// Takes `count` tokens in the head bucket.
    #[inline]
    pub(crate) fn add(&mut self, count: u64) {
        self.head += count;
        self.sum += count;
    }

    /// Takes `count` tokens, any number: those that make more than 2^64 of a window are not counted.
    ///
    /// [`Self::add`] and [`Self::book`] do not look, since their tokens come in an `i32`: it would
    /// take 2^33 calls for the largest of them within one window.
    #[inline]
    pub(crate) fn charge(&mut self, count: u64) {
        self.add(count.min(self.spare()));
    }

    /// Tokens that can still be added up.
    fn spare(&self) -> u64 {
        (u64::MAX - self.sum).saturating_sub(self.booked)
    }

    /// Books `count` tokens for the next bucket.
    pub(crate) fn book(&mut self, count: u64) {
        self.booked += count;
    }

    /// Forgets every token. Time does not go back.
    pub(crate) fn clear(&mut self) {
        *self = Self { head_end: self.head_end, ..Self::default() };
    }

    /// Gives back `n` tokens that were taken or booked at `since` or later.
    ///
    /// Where they lie is not known, so those go that leave first, of the buckets that end after
    /// `since`: no window, this one and later ones, ever holds less than if the tokens had not been
    /// taken. Nothing is given back if the window may have forgotten some of them.
    ///
    /// While others are booked, tokens may have been taken of this window or of the next. Those
    /// that could be either count until the next bucket begins: they become ones of the oldest.
    pub(crate) fn give_back(&mut self, shape: WindowShape, now: Tick, since: Tick, n: u64) {
        self.advance(shape, now);
        let ends = self.head_end.saturating_sub(since.0).div_ceil(shape.bucket_ns());
        let Ok(oldest) = u32::try_from(ends.saturating_sub(1)) else { return };
        if oldest >= shape.buckets() {
            return;
        }
        let taken: u64 = (0..=oldest).map(|age| self.of(shape, age)).sum();
        let n = n.min(taken + self.booked);
        let surely_taken = n.saturating_sub(self.booked);
        let surely_booked = n.saturating_sub(taken);
        let unsure = n - surely_taken - surely_booked;
        let mut left = surely_taken + unsure;
        for age in (0..=oldest).rev() {
            left -= self.remove(shape, age, left);
        }
        self.put(shape, shape.buckets() - 1, unsure);
        self.booked -= surely_booked;
    }

    /// How many buckets after the head the one is that holds `now`.
    fn steps(&self, shape: WindowShape, now: Tick) -> u64 {
        // The last bucket before the end of time is shorter, which rounding up makes whole.
        let next = self.head_end.div_ceil(shape.bucket_ns());
        (now.0 / shape.bucket_ns() + 1).saturating_sub(next)
    }

    /// When the head bucket began.
    pub(crate) fn start(&self, shape: WindowShape) -> Tick {
        Tick(self.head_end.saturating_sub(shape.bucket_ns()))
    }

    /// When the oldest bucket of the window began.
    pub(crate) fn oldest(&self, shape: WindowShape) -> Tick {
        Tick(self.head_end.saturating_sub(shape.bucket_ns() * u64::from(shape.buckets())))
    }

    /// Tokens of the bucket that lies `age` before the head, which is less than there are.
    fn of(&self, shape: WindowShape, age: u32) -> u64 {
        if age == 0 { self.head } else { self.counts.get(self.slot_of(shape, age)) }
    }

    /// Takes up to `n` tokens out of a bucket, and says how many those were.
    fn remove(&mut self, shape: WindowShape, age: u32, n: u64) -> u64 {
        let n = n.min(self.of(shape, age));
        if n > 0 {
            *self.bucket(shape, age) -= n;
            self.sum -= n;
        }
        n
    }

    /// Puts `n` tokens into a bucket, as many as can be added up.
    fn put(&mut self, shape: WindowShape, age: u32, n: u64) {
        let n = n.min(self.spare());
        if n > 0 {
            *self.bucket(shape, age) += n;
            self.sum += n;
        }
    }

    fn bucket(&mut self, shape: WindowShape, age: u32) -> &mut u64 {
        let slot = self.slot_of(shape, age) as usize;
        match self.counts.all(shape).get_mut(slot) {
            Some(count) if age > 0 => count,
            _ => &mut self.head,
        }
    }

    fn slot_of(&self, shape: WindowShape, age: u32) -> u32 {
        if age <= self.slot { self.slot - age } else { self.slot + shape.buckets() - age }
    }

    /// Bytes that a ring of this shape allocates beside itself.
    pub(crate) fn heap_bytes(shape: WindowShape) -> u64 {
        Counts::heap_bytes(shape)
    }

    /// Whether nothing of what was counted reaches into the window at `now` any more.
    pub(crate) fn is_idle(&self, shape: WindowShape, now: Tick) -> bool {
        let booked_ns = if self.booked == 0 { 0 } else { shape.bucket_ns() };
        let window_ns = shape.bucket_ns() * u64::from(shape.buckets() - 1);
        now.0 >= self.head_end.saturating_add(booked_ns).saturating_add(window_ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPE: WindowShape = WindowShape::SECOND;

    fn at(ring: &mut Ring, ms: u64) -> u64 {
        ring.advance(SHAPE, Tick::from_ms(ms));
        ring.sum()
    }

    #[test]
    fn a_token_leaves_the_window_with_its_bucket() {
        let mut ring = Ring::default();
        assert_eq!(at(&mut ring, 1_700_000_000_050), 0, "the first tick ever");
        ring.add(3);
        assert_eq!(at(&mut ring, 1_700_000_000_999), 3, "one before the boundary");
        assert_eq!(at(&mut ring, 1_700_000_001_000), 0, "the boundary");
    }

    #[test]
    fn a_tick_older_than_the_last_counts_as_the_last() {
        let mut ring = Ring::default();
        at(&mut ring, 5_000);
        ring.add(2);
        assert_eq!(at(&mut ring, 10), 2);
        ring.add(1);
        assert_eq!(at(&mut ring, 5_999), 3);
        assert_eq!(at(&mut ring, 6_000), 0);
    }

    #[test]
    fn a_booking_belongs_to_the_next_bucket_and_lasts_a_window_from_there() {
        let mut ring = Ring::default();
        at(&mut ring, 930);
        ring.book(4);
        assert_eq!(ring.until_next(Tick::from_ms(930)), Duration::from_millis(70));
        assert_eq!((ring.sum(), ring.sum_next(SHAPE)), (0, 4));
        assert_eq!(at(&mut ring, 1_000), 4);
        assert_eq!(ring.booked(), 0);
        assert_eq!(at(&mut ring, 1_999), 4);
        assert_eq!(at(&mut ring, 2_000), 0);
    }

    #[test]
    fn a_booking_is_not_charged_after_its_window() {
        let mut ring = Ring::default();
        at(&mut ring, 930);
        ring.book(4);
        assert_eq!(at(&mut ring, 15_000), 0);
        assert_eq!(ring.booked(), 0);
    }

    #[test]
    fn a_cleared_ring_holds_nothing_and_time_does_not_go_back() {
        let mut ring = Ring::default();
        at(&mut ring, 5_050);
        ring.add(3);
        at(&mut ring, 5_450);
        ring.add(2);
        ring.book(1);
        ring.clear();
        assert_eq!((ring.sum(), ring.booked(), ring.sum_next(SHAPE)), (0, 0, 0));
        ring.add(1);
        assert_eq!(at(&mut ring, 10), 1, "an older tick counts as the last");
        assert_eq!(at(&mut ring, 6_399), 1);
        assert_eq!(at(&mut ring, 6_400), 0);
    }

    #[test]
    fn a_charge_of_any_size_can_be_added_up() {
        let mut ring = Ring::default();
        at(&mut ring, 5_050);
        ring.book(7);
        for _ in 0..3 {
            ring.charge(u64::MAX);
            assert_eq!((ring.sum(), ring.sum_next(SHAPE)), (u64::MAX - 7, u64::MAX));
        }
        assert_eq!(at(&mut ring, 5_150), u64::MAX);
        ring.charge(u64::MAX);
        assert_eq!(at(&mut ring, 6_050), 7);
    }

    #[test]
    fn what_the_window_may_have_forgotten_is_not_given_back() {
        let mut ring = Ring::default();
        at(&mut ring, 5_050);
        ring.add(3);
        at(&mut ring, 5_950);
        ring.add(2);
        ring.give_back(SHAPE, Tick::from_ms(5_950), Tick::from_ms(4_999), 5);
        assert_eq!(ring.sum(), 5);
        ring.give_back(SHAPE, Tick::from_ms(5_950), Tick::from_ms(5_099), 4);
        assert_eq!((at(&mut ring, 5_950), at(&mut ring, 6_000)), (1, 1), "the oldest first");
        ring.give_back(SHAPE, Tick::from_ms(6_000), Tick::from_ms(6_000), 4);
        assert_eq!(ring.sum(), 1, "it was taken before that");
        ring.give_back(SHAPE, Tick::from_ms(6_000), Tick::from_ms(5_950), u64::MAX);
        assert_eq!(ring.sum(), 0);
    }

    #[test]
    fn while_others_are_booked_what_is_given_back_counts_until_the_next_bucket() {
        let mut ring = Ring::default();
        at(&mut ring, 5_050);
        ring.add(3);
        ring.book(2);
        let now = Tick::from_ms(5_050);
        ring.give_back(SHAPE, now, now, 2);
        assert_eq!((ring.sum(), ring.booked(), ring.sum_next(SHAPE)), (3, 2, 3));
        ring.give_back(SHAPE, now, now, 3);
        assert_eq!((ring.sum(), ring.booked()), (2, 0), "as many are not taken, or not booked");
    }

    #[test]
    fn idle_means_that_no_later_window_holds_a_token() {
        let mut ring = Ring::default();
        at(&mut ring, 930);
        ring.add(1);
        assert!(!ring.is_idle(SHAPE, Tick::from_ms(1_899)));
        assert!(ring.is_idle(SHAPE, Tick::from_ms(1_900)));
        ring.book(1);
        assert!(!ring.is_idle(SHAPE, Tick::from_ms(1_999)));
        assert!(ring.is_idle(SHAPE, Tick::from_ms(2_000)));
    }

    proptest! {
        /// The running sum against a list of every token with its bucket, for any shape and any
        /// walk of the clock, backwards too.
        #[test]
        fn the_running_sum_is_the_sum_of_the_buckets(
            buckets in 1_u32..14,
            bucket_ms in 1_u64..50,
            steps in prop::collection::vec((0_u64..2_000, 0_u64..5, any::<bool>()), 1..200),
        ) {
            let shape = WindowShape::new(bucket_ms * u64::from(buckets), buckets).unwrap();
            let mut ring = Ring::default();
            let mut tokens: Vec<(u64, u64)> = Vec::new();
            let (mut now, mut head) = (1_000_000_u64, 0);
            for (step, count, book) in steps {
                now = if step > 1_900 { now.saturating_sub(step) } else { now + step % 97 };
                head = head.max(now / bucket_ms);
                ring.advance(shape, Tick::from_ms(now));
                if book { ring.book(count) } else { ring.add(count) }
                tokens.push((if book { head + 1 } else { head }, count));
                let within = |end: u64| {
                    let start = (end + 1).saturating_sub(u64::from(buckets));
                    tokens.iter().filter(|t| (start..=end).contains(&t.0)).map(|t| t.1).sum::<u64>()
                };
                prop_assert_eq!(ring.sum(), within(head));
                prop_assert_eq!(ring.sum_next(shape), within(head + 1));
                for (later, (start, sum)) in (head + 1..).zip(ring.later(shape)) {
                    prop_assert_eq!(start.ms(), later * bucket_ms);
                    prop_assert_eq!(sum, within(later));
                    let (at, rest) = ring.at(shape, Tick(start.0 + bucket_ms * 1_000_000 - 1));
                    prop_assert_eq!(at, sum);
                    prop_assert_eq!(rest.count() as u64, u64::from(buckets) - (later - head - 1));
                }
                prop_assert_eq!(ring.later(shape).count() as u64, u64::from(buckets) + 1);
            }
        }

        /// Against a list of every token, from which those go that were given back and no others:
        /// no window ever holds less.
        #[test]
        fn whatever_is_given_back_no_window_holds_less_than_was_used(
            buckets in 1_u32..6,
            steps in prop::collection::vec((0_u64..20, 0_u64..5, 0_u8..4, any::<prop::sample::Index>()), 1..120),
        ) {
            let shape = WindowShape::new(10 * u64::from(buckets), buckets).unwrap();
            let mut ring = Ring::default();
            // When it was taken, its bucket, and how many tokens.
            let mut tokens: Vec<(u64, u64, u64)> = Vec::new();
            let mut now = 1_000;
            for (gap, n, what, which) in steps {
                now += gap;
                let head = now / 10;
                ring.advance(shape, Tick::from_ms(now));
                match what {
                    0 => ring.book(n),
                    1 | 2 => ring.add(n),
                    _ if tokens.is_empty() => {}
                    _ => {
                        let (taken, _, n) = tokens.swap_remove(which.index(tokens.len()));
                        ring.give_back(shape, Tick::from_ms(now), Tick::from_ms(taken), n);
                    }
                }
                if what < 3 {
                    tokens.push((now, if what == 0 { head + 1 } else { head }, n));
                }
                let within = |end: u64| {
                    let start = (end + 1).saturating_sub(u64::from(buckets));
                    tokens.iter().filter(|t| (start..=end).contains(&t.1)).map(|t| t.2).sum::<u64>()
                };
                prop_assert!(ring.sum() >= within(head));
                for (later, (_, sum)) in (head + 1..).zip(ring.later(shape)) {
                    prop_assert!(sum >= within(later), "{} of {} in {}", sum, within(later), later);
                }
                let all = (0..buckets).map(|age| ring.of(shape, age)).sum::<u64>();
                prop_assert_eq!(ring.sum(), all);
            }
        }
    }
}
