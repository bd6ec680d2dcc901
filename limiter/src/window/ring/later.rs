//! The windows to come, if nobody takes anything until then.

use super::Ring;
use crate::{Tick, WindowShape};

/// The start of each bucket after the head and the tokens in the window that ends with it; as many
/// as the window has buckets, and one, whose window is empty.
///
/// By hand and not by adapters, which a caller would not get inlined.
#[derive(Clone, Debug)]
pub(crate) struct Later<'a> {
    ring: &'a Ring,
    shape: WindowShape,
    /// Slot of the bucket that left last.
    slot: u32,
    left: u32,
    start: u64,
    sum: u64,
}

impl Ring {
    pub(crate) fn later(&self, shape: WindowShape) -> Later<'_> {
        Later {
            ring: self,
            shape,
            slot: self.slot,
            left: shape.buckets() + 1,
            start: self.head_end,
            sum: self.sum + self.booked,
        }
    }

    /// Tokens in the window at `now`, which may be later than the head, and the windows after it.
    pub(crate) fn at(&self, shape: WindowShape, now: Tick) -> (u64, Later<'_>) {
        let mut later = self.later(shape);
        let sum = match self.steps(shape, now) {
            0 => self.sum,
            steps => {
                let between = usize::try_from(steps - 1).unwrap_or(usize::MAX);
                later.nth(between).map_or(0, |(_, sum)| sum)
            }
        };
        (sum, later)
    }
}

impl Iterator for Later<'_> {
    type Item = (Tick, u64);

    #[inline]
    fn next(&mut self) -> Option<(Tick, u64)> {
        self.left = self.left.checked_sub(1)?;
        // The oldest bucket leaves first, the head after all others, and then what is booked.
        self.sum -= match self.left {
            0 => self.ring.booked,
            1 => self.ring.head,
            _ => {
                self.slot = if self.slot + 1 == self.shape.buckets() { 0 } else { self.slot + 1 };
                self.ring.counts.get(self.slot)
            }
        };
        let start = self.start;
        self.start = start.saturating_add(self.shape.bucket_ns());
        Some((Tick(start), self.sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: WindowShape = WindowShape::SECOND;

    fn used() -> Ring {
        let mut ring = Ring::default();
        for (ms, n) in [(5_050, 3), (5_350, 4), (5_450, 2)] {
            ring.advance(SHAPE, Tick::from_ms(ms));
            ring.add(n);
        }
        ring.book(1);
        ring
    }

    #[test]
    fn tokens_leave_with_their_buckets_and_those_that_are_booked_last() {
        let right = [
            (5_500, 10),
            (5_600, 10),
            (5_700, 10),
            (5_800, 10),
            (5_900, 10),
            (6_000, 7),
            (6_100, 7),
            (6_200, 7),
            (6_300, 3),
            (6_400, 1),
            (6_500, 0),
        ];
        let ring = used();
        let later = ring.later(SHAPE).map(|(start, sum)| (start.ms(), sum)).collect::<Vec<_>>();
        assert_eq!(later, right);
        let long = WindowShape::new(1_000, 20).unwrap();
        assert_eq!(Ring::default().later(long).count(), 21, "before its first token");
    }

    #[test]
    fn a_later_tick_sees_the_window_that_it_will_find() {
        let ring = used();
        for (ms, right) in [(5_499, 9), (0, 9), (5_500, 10), (6_000, 7), (6_499, 1), (6_500, 0)] {
            let (sum, later) = ring.at(SHAPE, Tick::from_ms(ms));
            let mut turned = ring.clone();
            turned.advance(SHAPE, Tick::from_ms(ms));
            assert_eq!((sum, turned.sum()), (right, right), "{ms}");
            for (ours, turned) in later.zip(turned.later(SHAPE)) {
                assert_eq!(ours, turned);
            }
        }
        let (sum, mut later) = ring.at(SHAPE, Tick(u64::MAX));
        assert_eq!((sum, later.next()), (0, None));
    }
}
