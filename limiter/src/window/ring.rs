//! The counters of one window: a ring of buckets, their running sum, and what is booked for the
//! bucket that comes next.

use std::time::Duration;

use super::{WindowShape, counts::Counts};
use crate::Tick;

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
        let head_end = (now.0 / bucket_ns + 1).saturating_mul(bucket_ns);
        let steps = (head_end - self.head_end) / bucket_ns;
        self.head_end = head_end;
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

    /// Books `count` tokens for the next bucket.
    pub(crate) fn book(&mut self, count: u64) {
        self.booked += count;
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
            }
        }
    }
}
