//! One round trip time for all of a window.

use std::time::Duration;

use super::{Invalid, bounds::check, jitter::Jitter};

/// Most RTTs that a window keeps: half a megabyte.
const KEPT_MAX: u32 = 1 << 15;

/// What stands for the RTTs of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tracked {
    /// Their mean (`AverageSampleWindow`).
    Average,
    /// One of them (`PercentileSampleWindow`).
    Percentile {
        /// Part of them that is not longer, above 0 and up to 1; the nearest rank.
        part: f64,
        /// How many are kept, 1 ..= 32 768, at 16 bytes each. Of a longer window as many are drawn by
        /// chance, each with the same (`concurrency-limits` keeps the first).
        kept: u32,
    },
}

impl Tracked {
    pub(super) fn check(self) -> Result<Self, Invalid> {
        if let Self::Percentile { part, kept } = self {
            check("part", part, part > 0.0 && part <= 1.0)?;
            check("kept", kept.into(), (1..=KEPT_MAX).contains(&kept))?;
        }
        Ok(self)
    }
}

/// The RTTs of a window so far.
#[derive(Debug)]
pub(super) struct Rtts {
    tracked: Tracked,
    seen: u64,
    min: Duration,
    /// Of an average.
    sum_ns: u128,
    /// For a percentile.
    kept: Vec<Duration>,
    kept_max: usize,
    jitter: Jitter,
}

impl Rtts {
    pub(super) fn new(tracked: Tracked) -> Self {
        let kept_max = match tracked {
            Tracked::Average => 0,
            Tracked::Percentile { kept, .. } => usize::try_from(kept).unwrap_or(0),
        };
        Self {
            tracked,
            seen: 0,
            min: Duration::MAX,
            sum_ns: 0,
            kept: Vec::with_capacity(kept_max),
            kept_max,
            jitter: Jitter::new(0),
        }
    }

    pub(super) fn add(&mut self, rtt: Duration) {
        self.seen += 1;
        self.min = self.min.min(rtt);
        if self.tracked == Tracked::Average {
            self.sum_ns = self.sum_ns.saturating_add(rtt.as_nanos());
        } else if self.kept.len() < self.kept_max {
            self.kept.push(rtt);
        } else {
            // One of all that were seen is this one, and takes the place of any.
            let place = usize::try_from(self.jitter.below(self.seen)).unwrap_or(usize::MAX);
            if let Some(kept) = self.kept.get_mut(place) {
                *kept = rtt;
            }
        }
    }

    /// The shortest; `None` of a window without any.
    pub(super) fn min(&self) -> Option<Duration> {
        (self.seen > 0).then_some(self.min)
    }

    /// What stands for all, and leaves none; `None` when there was none.
    pub(super) fn take(&mut self) -> Option<Duration> {
        let rtt = match self.tracked {
            _ if self.seen == 0 => None,
            Tracked::Average => Some(duration(self.sum_ns / u128::from(self.seen))),
            Tracked::Percentile { part, .. } => {
                let rank = rank(part, self.kept.len());
                let (_, rtt, _) = self.kept.select_nth_unstable(rank);
                Some(*rtt)
            }
        };
        (self.seen, self.min, self.sum_ns) = (0, Duration::MAX, 0);
        self.kept.clear();
        rtt
    }
}

fn duration(ns: u128) -> Duration {
    u64::try_from(ns).map_or(Duration::MAX, Duration::from_nanos)
}

/// Counted from 0; there is at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "at most 2^15"
)]
fn rank(part: f64, of: usize) -> usize {
    (part * of as f64).round().clamp(1.0, of as f64) as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn percentile(part: f64, kept: u32) -> Rtts {
        Rtts::new(Tracked::Percentile { part, kept }.check().unwrap())
    }

    #[test]
    fn an_average_is_the_mean_and_begins_anew() {
        let mut rtts = Rtts::new(Tracked::Average);
        assert_eq!((rtts.min(), rtts.take()), (None, None));
        [10, 20, 60].into_iter().for_each(|t| rtts.add(ms(t)));
        assert_eq!((rtts.min(), rtts.take()), (Some(ms(10)), Some(ms(30))));
        assert_eq!((rtts.min(), rtts.take()), (None, None));
    }

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        for (part, right) in [(0.01, 1), (0.1, 1), (0.5, 5), (0.9, 9), (0.94, 9), (1.0, 10)] {
            let mut rtts = percentile(part, 10);
            [3, 1, 2, 10, 9, 8, 7, 4, 5, 6].into_iter().for_each(|t| rtts.add(ms(t)));
            assert_eq!(rtts.take(), Some(ms(right)), "{part}");
            assert_eq!(rtts.take(), None);
        }
        let mut one = percentile(0.5, 10);
        one.add(ms(7));
        assert_eq!(one.take(), Some(ms(7)));
    }

    #[test]
    fn of_many_a_fair_choice_is_kept_and_no_more() {
        let mut rtts = percentile(0.5, 1_000);
        (0..100_000).for_each(|t| rtts.add(ms(t)));
        assert_eq!(rtts.kept.len(), 1_000);
        assert_eq!(rtts.min(), Some(ms(0)));
        // The middle of 100 s within three sigma (half a second over the root of a thousand, × 3).
        let middle = rtts.take().unwrap();
        assert!((ms(45_000)..ms(55_000)).contains(&middle), "{middle:?}");
        assert_eq!(rtts.kept.capacity(), 1_000);
    }

    #[test]
    fn centuries_do_not_overflow() {
        let mut rtts = Rtts::new(Tracked::Average);
        (0..3).for_each(|_| rtts.add(Duration::MAX));
        assert!(rtts.take().is_some());
    }

    #[test]
    fn what_is_no_percentile_is_refused() {
        for (part, kept) in [(0.0, 1), (1.1, 1), (f64::NAN, 1), (0.5, 0), (0.5, KEPT_MAX + 1)] {
            assert!(Tracked::Percentile { part, kept }.check().is_err(), "{part} {kept}");
        }
    }
}
