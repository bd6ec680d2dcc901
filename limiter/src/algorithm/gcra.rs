//! The generic cell rate algorithm of ATM networks (ITU-T I.371), in its virtual scheduling form.

use std::time::Duration;

use super::{
    Algorithm, Invalid, Level, Rate, Saved, Verdict, exact::div_ceil, level::Bucket,
    rate::UNITS_MAX,
};
use crate::Tick;

/// Each token is expected one emission interval after the one before it, and may come early by
/// a tolerance.
///
/// *Formula*: with the interval `T = window / count`, the tolerance `τ` and the theoretical
/// arrival time `TAT`, `n` tokens conform if `max(now, TAT) + n·T <= now + τ + T`; then
/// `TAT = max(now, TAT) + n·T`. *Burst*: `1 + ⌊τ / T⌋` tokens at once; a tolerance of zero spaces
/// single tokens evenly and refuses pairs. From `s` to `t` at most `1 + (τ + t - s) × rate`
/// pass. [`Self::new`] takes the burst as the whole capacity, which makes it the very
/// [`super::TokenBucket`]. *Memory*: 24 bytes: `TAT` with its fraction of a nanosecond, and the
/// last tick. *Cost* and exactness: as the token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra(Bucket);

impl Gcra {
    /// Lets `burst` tokens come at once: a tolerance of `burst - 1` intervals. A burst or a rate
    /// of zero lets nothing through.
    ///
    /// # Errors
    ///
    /// [`Invalid::TooSlow`] if `TAT` could lie a quarter of a million years ahead.
    pub fn new(rate: Rate, burst: u64) -> Result<Self, Invalid> {
        Bucket::new(rate, burst).map(Self)
    }

    /// Lets tokens come early by `tolerance`, the limit `τ` of the literature; it need not be a
    /// whole number of intervals.
    ///
    /// # Errors
    ///
    /// [`Invalid::TooSlow`] if `TAT` could lie a quarter of a million years ahead.
    pub fn with_tolerance(rate: Rate, tolerance: Duration) -> Result<Self, Invalid> {
        let capacity = rate.per_token() + rate.units_in(tolerance);
        if capacity >= UNITS_MAX {
            return Err(Invalid::TooSlow { tokens: 1 });
        }
        Ok(Self(Bucket::with_capacity(rate, capacity)))
    }

    /// The theoretical arrival time, rounded up to a nanosecond: when the next token would be
    /// exactly on time. `now` or earlier for a key that has used nothing lately.
    #[must_use]
    pub fn theoretical_arrival(&self, state: &Level) -> Tick {
        let (last, ahead) = state.last();
        let ahead = div_ceil(ahead, self.0.rate().per_ns().max(1));
        Tick(last.0.saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX)))
    }
}

impl Algorithm for Gcra {
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

    fn gcra(count: f64, window: Duration, burst: u64) -> Gcra {
        Gcra::new(Rate::new(count, window).unwrap(), burst).unwrap()
    }

    #[test]
    fn without_tolerance_tokens_are_an_interval_apart_and_pairs_are_refused() {
        let rate = Rate::new(5.0, SECOND).unwrap();
        let (gcra, mut state) =
            (Gcra::with_tolerance(rate, Duration::ZERO).unwrap(), Level::default());
        assert_eq!(gcra.take(&mut state, at(0), 2), Verdict::NEVER);
        assert_eq!(gcra.take(&mut state, at(0), 1), pass(0));
        assert_eq!(gcra.take(&mut state, at(199), 1), retry(ms(1)));
        assert_eq!(gcra.take(&mut state, at(200), 1), pass(0));
    }

    #[test]
    fn a_tolerance_need_not_be_a_whole_number_of_intervals() {
        let rate = Rate::new(5.0, SECOND).unwrap();
        let gcra = Gcra::with_tolerance(rate, ms(300)).unwrap();
        let mut state = Level::default();
        assert_eq!(admitted(&gcra, &mut state, at(0), 5), 2, "1 + 300 / 200");
        assert_eq!(gcra.theoretical_arrival(&state), at(400));
        assert_eq!(gcra.take(&mut state, at(0), 1), retry(ms(100)));
        assert_eq!(gcra.take(&mut state, at(100), 1), pass(0), "300 before its time");
        assert_eq!(gcra.theoretical_arrival(&state), at(600));
    }

    #[test]
    fn around_a_border_only_what_refills_is_admitted_beyond_the_burst() {
        let (gcra, mut state) = (gcra(5.0, SECOND, 5), Level::default());
        assert_eq!(admitted(&gcra, &mut state, at(900), 5), 5);
        let more: usize = (1_000..=1_100).map(|t| admitted(&gcra, &mut state, at(t), 1)).sum();
        assert_eq!(more, 1, "a fifth of a second refills one");
    }

    #[test]
    fn a_short_pause_does_not_bring_a_second_burst() {
        // 10 at 1/s, one call, 8.9 s of pause: implementations that clamp the arrival time to
        // `now - tolerance` let 17 through here.
        let (gcra, mut state) = (gcra(1.0, SECOND, 10), Level::default());
        assert_eq!(gcra.take(&mut state, at(0), 1), pass(9));
        assert_eq!(admitted(&gcra, &mut state, at(8_900), 20), 10);
    }

    #[test]
    fn polling_does_not_starve_it() {
        let gcra = gcra(1.0, SECOND, 5);
        assert_eq!(admitted_at(&gcra, (0..100).map(|i| at(i * 100))), 14);
        assert_eq!(admitted_at(&gcra, (0..60).map(|i| at(i * 999))), 60);
    }

    #[test]
    fn a_tolerance_of_centuries_is_fine_for_a_sane_rate_and_refused_for_the_fastest() {
        let rate = Rate::new(1e6, SECOND).unwrap();
        assert!(Gcra::with_tolerance(rate, Duration::MAX).is_ok());
        let slow = Rate::new(1e-9, SECOND).unwrap();
        assert_eq!(Gcra::new(slow, 1 << 40), Err(Invalid::TooSlow { tokens: 1 << 40 }));
    }

    proptest! {
        /// The standard's virtual scheduling, in its own words.
        #[test]
        fn it_conforms_to_virtual_scheduling(
            interval in 1_u64..1_000_000,
            tolerance in 0_u64..5_000_000,
            gaps in prop::collection::vec(0_u64..3_000_000, 1..100),
        ) {
            let rate = Rate::new(1.0, Duration::from_nanos(1_000_000 * interval)).unwrap();
            let tolerance = tolerance * 1_000_000;
            let gcra = Gcra::with_tolerance(rate, Duration::from_nanos(tolerance)).unwrap();
            let (mut state, mut tat, mut now) = (Level::default(), 0, suite::START);
            for gap in gaps {
                now += gap * 1_000_000;
                let conforms = now + tolerance >= tat;
                if conforms {
                    tat = tat.max(now) + interval * 1_000_000;
                }
                prop_assert_eq!(gcra.take(&mut state, Tick(now), 1).is_admitted(), conforms);
                prop_assert_eq!(gcra.theoretical_arrival(&state), Tick(tat.max(now)));
            }
        }

        #[test]
        fn with_a_fractional_burst_it_decides_as_fractions_do(
            tolerance in 0_u64..4_000,
            steps in suite::steps(SECOND, 4e8, 5),
        ) {
            let rate = Rate::new(2.5, SECOND).unwrap();
            let gcra = Gcra::with_tolerance(rate, ms(tolerance)).unwrap();
            let burst = suite::ratio(u128::from(tolerance) * 25 + 10_000, 10_000);
            let mut model = suite::Tokens::full(burst.clone(), suite::per_ns(2.5, SECOND));
            let steps = suite::takes_only(steps);
            let went = suite::walk(&gcra, &mut model, &steps, u64::MAX)?;
            suite::is_bounded(&went, &burst, &suite::per_ns(2.5, SECOND))?;
        }
    }
}
