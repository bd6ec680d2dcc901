//! A ring as plain data, for a snapshot on disk.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Ring;
use crate::WindowShape;

/// The tokens of one window and how it is cut. Buckets without tokens are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRing {
    /// Length of the window in milliseconds.
    pub interval_ms: u64,
    /// Number of buckets in the window.
    pub buckets: u32,
    /// End of the newest bucket, in nanoseconds since the epoch; 0 if no tick was ever seen.
    pub head_end: u64,
    /// Tokens that are booked for the bucket after the newest.
    pub booked: u64,
    /// How many buckets ago (the newest is 0), and the tokens of that bucket.
    pub tokens: Vec<(u32, u64)>,
}

impl Ring {
    /// The ring as plain data.
    pub(crate) fn save(&self, shape: WindowShape) -> SavedRing {
        let ages = 0..shape.buckets();
        SavedRing {
            interval_ms: shape.interval_ms(),
            buckets: shape.buckets(),
            head_end: self.head_end,
            booked: self.booked,
            tokens: ages.map(|age| (age, self.of(shape, age))).filter(|(_, n)| *n > 0).collect(),
        }
    }

    /// The ring that was saved, on a clock that is `behind` the one it was saved by: every bucket
    /// moves back by that, in whole buckets rounded down, so that none leaves its window early.
    /// `None` if the window was cut in another way.
    ///
    /// What no ring holds is mended: an end between buckets, a bucket outside of the window, and
    /// more tokens than can be added up.
    pub(crate) fn restore(saved: &SavedRing, shape: WindowShape, behind: Duration) -> Option<Self> {
        if (saved.interval_ms, saved.buckets) != (shape.interval_ms(), shape.buckets()) {
            return None;
        }
        let bucket_ns = shape.bucket_ns();
        let head = saved.head_end / bucket_ns;
        let back = u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX) / bucket_ns;
        let mut ring = Self { head_end: head.saturating_sub(back) * bucket_ns, ..Self::default() };
        ring.booked = saved.booked;
        for (age, tokens) in saved.tokens.iter().filter(|(age, _)| *age < shape.buckets()) {
            ring.put(shape, *age, *tokens);
        }
        Some(ring)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Tick;

    const SHAPE: WindowShape = WindowShape::SECOND;

    fn used() -> Ring {
        let mut ring = Ring::default();
        ring.advance(SHAPE, Tick::from_ms(5_050));
        ring.add(3);
        ring.advance(SHAPE, Tick::from_ms(5_450));
        ring.add(4);
        ring.book(2);
        ring
    }

    fn restored(saved: &SavedRing, behind_ms: u64) -> Ring {
        Ring::restore(saved, SHAPE, Duration::from_millis(behind_ms)).unwrap()
    }

    #[test]
    fn only_buckets_with_tokens_are_saved() {
        let saved = used().save(SHAPE);
        assert_eq!((saved.head_end, saved.booked), (5_500_000_000, 2));
        assert_eq!(saved.tokens, [(0, 4), (4, 3)]);
        assert_eq!(Ring::default().save(SHAPE).tokens, []);
    }

    #[test]
    fn a_window_that_was_cut_in_another_way_is_not_restored() {
        let saved = used().save(SHAPE);
        for (interval_ms, buckets) in [(1_000, 5), (2_000, 10)] {
            let other = WindowShape::new(interval_ms, buckets).unwrap();
            assert!(Ring::restore(&saved, other, Duration::ZERO).is_none());
        }
    }

    #[test]
    fn a_clock_that_is_behind_moves_whole_buckets_and_none_before_the_epoch() {
        let saved = used().save(SHAPE);
        for (behind, head_end) in [(0, 5_500), (99, 5_500), (100, 5_400), (1_999, 3_600)] {
            assert_eq!(restored(&saved, behind).save(SHAPE).head_end, head_end * 1_000_000);
        }
        let mut first = restored(&saved, u64::MAX);
        assert_eq!(first.save(SHAPE).head_end, 0);
        first.advance(SHAPE, Tick::from_ms(899));
        assert_eq!(first.sum(), 6, "the head is the bucket before the epoch");
    }

    #[test]
    fn what_no_ring_holds_is_mended() {
        let mut saved = used().save(SHAPE);
        saved.head_end += 7;
        saved.tokens = vec![(10, 1), (u32::MAX, 1), (1, 5), (1, 6)];
        let mended = restored(&saved, 0).save(SHAPE);
        assert_eq!((mended.head_end, mended.tokens), (5_500_000_000, vec![(1, 11)]));
        saved.booked = u64::MAX - 3;
        let mended = restored(&saved, 0).save(SHAPE);
        assert_eq!((mended.booked, mended.tokens), (u64::MAX - 3, vec![(1, 3)]));
    }

    proptest! {
        /// Whatever happens to a ring, one that was saved and restored goes on as it does, also on
        /// a clock that is whole buckets behind.
        #[test]
        fn a_restored_ring_is_the_ring(
            buckets in 1_u32..14,
            behind in 0_u64..40,
            steps in prop::collection::vec((0_u64..150, 0_u64..5, any::<bool>(), any::<bool>()), 1..100),
        ) {
            let shape = WindowShape::new(10 * u64::from(buckets), buckets).unwrap();
            let (mut ring, mut now) = (Ring::default(), 1_000);
            ring.advance(shape, Tick::from_ms(now));
            let back = Duration::from_millis(10 * behind);
            let mut twin = Ring::restore(&ring.save(shape), shape, back).unwrap();
            for (gap, n, book, saves) in steps {
                now += gap;
                for (ring, now) in [(&mut ring, now), (&mut twin, now - 10 * behind)] {
                    ring.advance(shape, Tick::from_ms(now));
                    if book { ring.book(n) } else { ring.add(n) }
                }
                if saves {
                    twin = Ring::restore(&twin.save(shape), shape, Duration::ZERO).unwrap();
                }
                prop_assert_eq!(ring.sum(), twin.sum());
                prop_assert_eq!(ring.booked(), twin.booked());
                prop_assert_eq!(ring.sum_next(shape), twin.sum_next(shape));
                prop_assert_eq!(ring.save(shape).tokens, twin.save(shape).tokens);
            }
        }

        /// A bucket never leaves its window before it would have on the first clock.
        #[test]
        fn nothing_is_forgotten_early(behind in 0_u64..3_000, later in 0_u64..2_000) {
            let (mut ring, saved) = (used(), used().save(SHAPE));
            let mut twin = restored(&saved, behind);
            let now = 5_450 + later;
            ring.advance(SHAPE, Tick::from_ms(now));
            twin.advance(SHAPE, Tick::from_ms(now - behind));
            prop_assert!(twin.sum() + twin.booked() >= ring.sum() + ring.booked());
        }
    }
}
