//! Leaky bucket as a meter: requests pour in, a hole lets them out at a rate, and what would
//! overflow is refused.

use std::time::Duration;

use super::{Algorithm, Invalid, Level, Rate, Saved, Verdict, level::Bucket};
use crate::Tick;

/// A bucket with a hole that starts empty and refuses what does not fit. Nobody waits; for the
/// leaky bucket whose callers queue see [`super::LeakyQueue`].
///
/// *Formula*: `level = max(0, level - elapsed × count / window)`; `n` pass if
/// `level + n <= capacity`. *Burst*: the capacity, at once, when the bucket is empty; from `s` to
/// `t` at most `capacity + (t - s) × rate` pass. The mirror image of [`super::TokenBucket`]:
/// `level = burst - tokens`. *Memory*: 24 bytes. *Cost* and exactness: as the token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyMeter(Bucket);

impl LeakyMeter {
    /// A bucket that holds `capacity` tokens and leaks at `rate`. A capacity or a rate of zero
    /// lets nothing through.
    ///
    /// # Errors
    ///
    /// [`Invalid::TooSlow`] if it would take a quarter of a million years to run empty.
    pub fn new(rate: Rate, capacity: u64) -> Result<Self, Invalid> {
        Bucket::new(rate, capacity).map(Self)
    }
}

impl Algorithm for LeakyMeter {
    type State = Level;

    #[inline]
    fn take(&self, state: &mut Level, now: Tick, n: u64) -> Verdict {
        self.0.take(state, now, n)
    }

    #[inline(always)]
    fn try_take(&self, state: &mut Level, now: Tick, n: u64) -> Verdict {
        self.0.try_take(state, now, n)
    }

    #[inline]
    fn peek(&self, state: &Level, now: Tick, n: u64) -> Verdict {
        self.0.peek(state, now, n)
    }

    fn give_back(&self, state: &mut Level, now: Tick, n: u64) {
        state.give_back(self.0.rate(), now, n);
    }

    fn give_back_since(&self, state: &mut Level, now: Tick, since: Tick, n: u64) {
        state.give_back_since(self.0.rate(), now, since, n);
    }

    fn charge(&self, state: &mut Level, now: Tick, n: u64) {
        self.0.charge(state, now, n);
    }

    fn used(&self, state: &Level, now: Tick) -> u64 {
        state.tokens(self.0.rate(), now)
    }

    fn is_idle(&self, state: &Level, now: Tick) -> bool {
        self.0.is_idle(state, now)
    }

    fn adopt(&self, state: &mut Level, old: &Self, now: Tick) {
        self.0.adopt(state, &old.0, now);
    }

    fn save(&self, state: &Level, now: Tick) -> Saved {
        self.0.save(*state, now)
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<Level> {
        self.0.restore(saved, behind)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, SECOND, admitted, admitted_at, at, ms, pass, retry};

    fn meter(count: f64, window: Duration, capacity: u64) -> LeakyMeter {
        LeakyMeter::new(Rate::new(count, window).unwrap(), capacity).unwrap()
    }

    #[test]
    fn bucket_of_5_at_1_a_second_of_3_pass_3_and_5_s_later_of_14_pass_5() {
        let (meter, mut state) = (meter(1.0, SECOND, 5), Level::default());
        assert_eq!(admitted(&meter, &mut state, at(0), 3), 3);
        assert_eq!(admitted(&meter, &mut state, at(5_000), 14), 5);
    }

    #[test]
    fn polling_does_not_starve_the_bucket() {
        let meter = meter(1.0, SECOND, 5);
        assert_eq!(admitted_at(&meter, (0..100).map(|i| at(i * 100))), 14);
        assert_eq!(admitted_at(&meter, (0..60).map(|i| at(i * 999))), 60);
    }

    #[test]
    fn what_would_overflow_is_refused_until_it_fits() {
        let (meter, mut state) = (meter(1.0, SECOND, 5), Level::default());
        assert_eq!(meter.take(&mut state, at(0), 4), pass(1));
        assert_eq!(meter.take(&mut state, at(500), 2), retry(ms(500)));
        assert_eq!(
            meter.take(&mut state, Tick(at(1_000).0 - 1), 2),
            retry(Duration::from_nanos(1))
        );
        assert_eq!(meter.take(&mut state, at(1_000), 2), pass(0));
        assert_eq!(meter.take(&mut state, at(1_000), 6), Verdict::NEVER);
        assert!(!meter.is_idle(&state, Tick(at(6_000).0 - 1)));
        assert!(meter.is_idle(&state, at(6_000)));
    }

    proptest! {
        /// The definition from the full side, in whole units: one token is a window's nanoseconds.
        #[test]
        fn it_is_a_level_that_leaks(
            count in 1_u64..1_000,
            capacity in 1_u64..50,
            calls in prop::collection::vec((0_u64..100_000_000, 0_u64..60), 1..80),
        ) {
            let window = 1_000_000_000_i128;
            #[expect(clippy::cast_precision_loss, reason = "below 1 000")]
            let meter = meter(count as f64, SECOND, capacity);
            let (mut state, mut level, mut now) = (Level::default(), 0_i128, suite::START);
            for (gap, n) in calls {
                now += gap;
                level = (level - i128::from(gap) * i128::from(count)).max(0);
                let fits = level + i128::from(n) * window <= i128::from(capacity) * window;
                level += if fits { i128::from(n) * window } else { 0 };
                prop_assert_eq!(meter.take(&mut state, Tick(now), n).is_admitted(), fits);
            }
        }
    }
}
