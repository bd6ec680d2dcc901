//! Guava's `RateLimiter.create(permitsPerSecond, warmupPeriod)`: `SmoothRateLimiter.SmoothWarmingUp`.

use std::time::Duration;

use super::{
    Algorithm, Invalid, Rate, Saved, Verdict,
    exact::{Wide, convert, div_ceil, mul_div_ceil, nanos, tokens_in},
    rate::{UNITS_MAX, check_window},
    saved::back,
};
use crate::Tick;

/// A limiter that is slow after a pause: stored permits cost more than fresh ones.
///
/// *Formula*: with the interval `T = window / count`, permits are stored up to
/// `max = threshold + 2·W / (T + cold·T)`, `threshold = W / 2T`, over an idle time of `W`, the warm-up
/// period. One of them costs `T` up to the threshold; above, the cost rises evenly to `cold·T` at
/// `max`, so that going from `max` to the threshold takes `W`. As in [`super::SmoothBursty`], the
/// call after pays. *Burst*: none but the size of one call; from `s` to `t` at most
/// `(t - s) × rate` and the last call's permits go. *Memory*: 40 bytes. *Cost*: as the bursty one,
/// and a square and a division by `W` while warming up.
///
/// *Exact*: up to the threshold; above, time is rounded up to a fraction of a nanosecond a call. It is
/// held to Guava's own waits as the bursty one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmoothWarmingUp {
    rate: Rate,
    /// The warm-up period in units.
    period: u128,
    cold: u64,
}

/// The storage and the debt of one key: 40 bytes. Cold, the storage full, by default, as a
/// limiter is that Guava creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmoothWarmingUpState {
    last: Tick,
    /// Units of time from `last` until the next call may go.
    ahead: Wide,
    /// Stored permits that are spent, as the units of time of their fresh cost, times
    /// `2 × (cold + 1)`: in those the filling of the storage and its size are whole.
    spent: Wide,
}

impl SmoothWarmingUp {
    /// `rate` permits in the end, after warming up for `period` (1 ms ..= 366 days) from an
    /// interval that is `cold` times longer; Guava's `cold` is 3. A rate of zero lets nothing
    /// through.
    ///
    /// # Errors
    ///
    /// [`Invalid::Period`], [`Invalid::ColdFactor`] outside of 2 ..= 100.
    pub fn new(rate: Rate, period: Duration, cold: u32) -> Result<Self, Invalid> {
        check_window(period)?;
        if !(2..=100).contains(&cold) {
            return Err(Invalid::ColdFactor(cold));
        }
        Ok(Self { rate, period: rate.units_in(period), cold: cold.into() })
    }

    /// `tryAcquire(n, timeout)`: as `take`, but refuses, and books nothing, if the wait would be
    /// longer than `timeout`.
    #[inline]
    pub fn try_take(
        &self,
        state: &mut SmoothWarmingUpState,
        now: Tick,
        n: u64,
        timeout: Duration,
    ) -> Verdict {
        self.acquire(state, now, n, self.rate.units_in(timeout))
    }

    #[inline]
    fn acquire(
        &self,
        state: &mut SmoothWarmingUpState,
        now: Tick,
        n: u64,
        longest: u128,
    ) -> Verdict {
        let wait = self.advance(state, now);
        let cost = self.rate.units(n).filter(|_| self.rate.per_ns() > 0);
        let Some(cost) = cost else { return Verdict::NEVER };
        let (spent, cost) = self.spend(state.spent.get(), cost);
        let over = wait.saturating_sub(longest).max((wait + cost).saturating_sub(UNITS_MAX));
        if over > 0 {
            return Verdict::Block { retry: Some(nanos(div_ceil(over, self.rate.per_ns()))) };
        }
        state.spent = Wide::new(spent);
        state.ahead = Wide::new(wait + cost);
        if wait > 0 {
            return Verdict::Wait { wait: nanos(div_ceil(wait, self.rate.per_ns())) };
        }
        Verdict::Pass { remaining: 0 }
    }

    /// Brings the state to `now`, and returns the units until the next call may go.
    #[inline]
    fn advance(&self, state: &mut SmoothWarmingUpState, now: Tick) -> u128 {
        let ahead = state.ahead.get();
        if now <= state.last {
            return ahead;
        }
        let elapsed = u128::from(now.0 - state.last.0) * u128::from(self.rate.per_ns());
        state.last = now;
        // The storage fills only while no call has to wait, all of it in one period.
        let filled = elapsed.saturating_sub(ahead) * u128::from(self.cold + 5);
        state.spent = Wide::new(state.spent.get().saturating_sub(filled));
        let ahead = ahead.saturating_sub(elapsed);
        state.ahead = Wide::new(ahead);
        ahead
    }

    /// A state of which so much is `ahead` and `spent` in a storage of this size, in units of
    /// which a nanosecond worked off `per_ns`.
    fn convert(
        &self,
        last: Tick,
        ahead: u128,
        spent: u128,
        per_ns: u64,
        storage: u128,
    ) -> SmoothWarmingUpState {
        let ahead = convert(ahead, per_ns, self.rate.per_ns());
        let spent = mul_div_ceil(spent, self.storage(), storage.max(1));
        SmoothWarmingUpState { last, ahead: Wide::new(ahead), spent: Wide::new(spent) }
    }

    /// The whole storage, in the units of `spent`.
    fn storage(&self) -> u128 {
        self.period * u128::from(self.cold + 5)
    }

    /// What is spent, and what it costs in units, when permits are taken that would cost `cost`
    /// units fresh.
    fn spend(&self, spent: u128, cost: u128) -> (u128, u128) {
        let scale = u128::from(2 * (self.cold + 1));
        // The part of the storage above the threshold is worth four periods in these units.
        let above = (4 * self.period).saturating_sub(spent);
        let fresh = cost.saturating_mul(scale);
        let all = (spent.saturating_add(fresh)).min(self.storage());
        if above == 0 {
            return (all, cost);
        }
        // The integral of the interval over `part` of what is above the threshold: `part` at the
        // stable interval, and the area below the slope.
        let part = fresh.min(above);
        let slope = mul_div_ceil(
            part * u128::from(self.cold - 1),
            2 * above - part,
            8 * self.period * scale,
        );
        (all, cost + slope)
    }
}

impl Algorithm for SmoothWarmingUp {
    type State = SmoothWarmingUpState;

    /// `acquire(n)`: waits as long as it takes.
    #[inline]
    fn take(&self, state: &mut SmoothWarmingUpState, now: Tick, n: u64) -> Verdict {
        self.acquire(state, now, n, u128::MAX)
    }

    #[inline]
    fn peek(&self, state: &SmoothWarmingUpState, now: Tick, n: u64) -> Verdict {
        self.take(&mut { *state }, now, n)
    }

    /// Later calls may go earlier, by the cost of fresh permits; the storage stays as it is.
    fn give_back(&self, state: &mut SmoothWarmingUpState, now: Tick, n: u64) {
        let ahead = self.advance(state, now);
        let ahead = self.rate.units(n).map_or(0, |units| ahead.saturating_sub(units));
        state.ahead = Wide::new(ahead);
    }

    /// As [`Self::give_back`], less the time that has gone by since.
    fn give_back_since(&self, state: &mut SmoothWarmingUpState, now: Tick, since: Tick, n: u64) {
        let ahead = self.advance(state, now);
        let gone = self.rate.units_in(state.last.since(since));
        let units = self.rate.units(n).map_or(u128::MAX, |units| units.saturating_sub(gone));
        state.ahead = Wide::new(ahead.saturating_sub(units));
    }

    fn charge(&self, state: &mut SmoothWarmingUpState, now: Tick, n: u64) {
        let ahead = self.advance(state, now);
        if self.rate.per_ns() > 0 {
            let cost = self.rate.units(n).unwrap_or(UNITS_MAX);
            let (spent, cost) = self.spend(state.spent.get(), cost);
            state.spent = Wide::new(spent);
            state.ahead = Wide::new((ahead + cost).min(UNITS_MAX));
        }
    }

    /// Fresh permits in the time until the next call may go.
    fn used(&self, state: &SmoothWarmingUpState, now: Tick) -> u64 {
        tokens_in(self.advance(&mut { *state }, now), self.rate.per_token())
    }

    fn is_idle(&self, state: &SmoothWarmingUpState, now: Tick) -> bool {
        let mut state = *state;
        let ahead = self.advance(&mut state, now);
        self.rate.per_ns() == 0 || ahead == 0 && state.spent == Wide::default()
    }

    /// `setRate`: the storage stays as full as it was, and a debt keeps its time.
    fn adopt(&self, state: &mut SmoothWarmingUpState, old: &Self, now: Tick) {
        old.advance(state, now);
        let (ahead, spent) = (state.ahead.get(), state.spent.get());
        *state = self.convert(state.last, ahead, spent, old.rate.per_ns(), old.storage());
    }

    fn save(&self, state: &SmoothWarmingUpState, now: Tick) -> Saved {
        let mut state = *state;
        self.advance(&mut state, now);
        Saved::SmoothWarmingUp {
            per_ns: self.rate.per_ns(),
            storage: self.storage(),
            last: state.last.0,
            ahead: state.ahead.get(),
            spent: state.spent.get(),
        }
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<SmoothWarmingUpState> {
        let Saved::SmoothWarmingUp { per_ns, storage, last, ahead, spent } = *saved else {
            return None;
        };
        let storage = storage.min(UNITS_MAX);
        Some(self.convert(back(last, behind), ahead, spent.min(storage), per_ns, storage))
    }
}

#[cfg(test)]
mod tests {
    use num_rational::BigRational;
    use num_traits::Zero;
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, SECOND, at, ms, pass, ratio, retry, wait};

    type State = SmoothWarmingUpState;

    /// 2 a second after 4 s: threshold 4, max 8, from 1.5 s down to 0.5 s a permit.
    fn two() -> SmoothWarmingUp {
        warming(2.0, ms(4_000), 3)
    }

    fn warming(count: f64, period: Duration, cold: u32) -> SmoothWarmingUp {
        SmoothWarmingUp::new(Rate::new(count, SECOND).unwrap(), period, cold).unwrap()
    }

    fn turns(warming: &SmoothWarmingUp, state: &mut State, now: Tick, calls: u32) -> Vec<u64> {
        (0..calls)
            .map(|_| match warming.take(state, now, 1) {
                Verdict::Wait { wait } => u64::try_from(wait.as_millis()).unwrap(),
                verdict => u64::from(verdict != pass(0)),
            })
            .collect()
    }

    #[test]
    fn the_state_is_40_bytes() {
        assert_eq!(size_of::<State>(), 40);
    }

    #[test]
    fn it_warms_up_as_in_guava_s_own_test() {
        // `RateLimiterTest.testWarmUp`, its sleeps added up: 0.00 1.38 1.13 0.88 0.63 0.50 0.50 0.50.
        let (two, mut state) = (two(), State::default());
        let first = turns(&two, &mut state, at(0), 8);
        assert_eq!(first, [0, 1_375, 2_500, 3_375, 4_000, 4_500, 5_000, 5_500]);
        // Half a second of it is not idle: "#2" of that test, 0.5 s later, is still warm.
        let mut later = state;
        assert_eq!(turns(&two, &mut later, at(6_500), 3), [0, 500, 1_000]);
        // After 4 s of idling it is as cold as ever.
        assert_eq!(turns(&two, &mut state, at(10_000), 8), first);
    }

    #[test]
    fn from_cold_to_the_threshold_takes_the_period_whatever_the_cold_factor() {
        for cold in [2, 3, 5, 100] {
            // Half the permits above the threshold are 2·W / (1 + cold)·T / 2.
            let permits = 400_000 / u64::from(cold + 1);
            let hundred = warming(100.0, SECOND * 2_000, cold);
            let mut state = State::default();
            hundred.take(&mut state, at(0), permits);
            let Verdict::Wait { wait } = hundred.take(&mut state, at(0), 1) else {
                panic!("no wait")
            };
            let off = wait.abs_diff(SECOND * 2_000);
            assert!(off < SECOND, "cold {cold}: {wait:?}");
        }
    }

    #[test]
    fn a_time_out_refuses_what_would_wait_longer_and_books_nothing() {
        let (two, mut state) = (two(), State::default());
        assert_eq!(two.try_take(&mut state, at(0), 1, Duration::ZERO), pass(0));
        assert_eq!(two.try_take(&mut state, at(0), 1, ms(1_374)), retry(ms(1)));
        assert_eq!(two.try_take(&mut state, at(0), 1, ms(1_375)), wait(ms(1_375)));
        assert_eq!(two.take(&mut state, Tick(0), 1), wait(ms(2_500)), "as at the last tick");
    }

    #[test]
    fn a_cost_that_is_known_later_is_a_call_that_does_not_wait() {
        let (two, mut state, mut other) = (two(), State::default(), State::default());
        two.charge(&mut state, at(0), 3);
        assert_eq!(two.take(&mut other, at(0), 3), pass(0));
        assert_eq!(state, other);
        assert_eq!(two.used(&state, at(0)), 7, "3.375 s at two a second");
        two.give_back_since(&mut state, at(500), at(0), 3);
        assert_eq!(two.take(&mut state, at(500), 0), wait(ms(1_875)), "1 s of 1.5 s is given back");
        two.charge(&mut state, at(500), u64::MAX);
        assert!(matches!(two.take(&mut state, at(500), 1), Verdict::Wait { .. }));
    }

    #[test]
    fn a_new_rate_keeps_the_debt_and_how_full_the_storage_is() {
        let (two, mut state) = (two(), State::default());
        assert_eq!(turns(&two, &mut state, at(0), 5), [0, 1_375, 2_500, 3_375, 4_000]);
        let four = warming(4.0, ms(4_000), 3);
        four.adopt(&mut state, &two, at(0));
        assert_eq!(turns(&four, &mut state, at(0), 3), [4_500, 4_750, 5_000]);
        let mut cold = State::default();
        warming(7.0, ms(9_000), 5).adopt(&mut cold, &two, at(0));
        assert!(four.is_idle(&cold, at(0)));
    }

    #[test]
    fn what_is_given_back_lets_later_calls_go_earlier_but_not_before_now() {
        let (two, mut state) = (two(), State::default());
        assert_eq!(turns(&two, &mut state, at(0), 2), [0, 1_375]);
        two.give_back(&mut state, at(0), 1);
        assert_eq!(two.peek(&state, at(0), 1), wait(ms(2_000)));
        two.give_back(&mut state, at(0), 99);
        assert_eq!(two.peek(&state, at(0), 1), pass(0));
    }

    #[test]
    fn zero_much_and_the_ends_of_time() {
        assert_eq!(warming(0.0, SECOND, 3).take(&mut State::default(), at(0), 1), Verdict::NEVER);
        let refused = SmoothWarmingUp::new(Rate::new(1.0, SECOND).unwrap(), SECOND, 1);
        assert_eq!(refused, Err(Invalid::ColdFactor(1)));
        let longest = SECOND * 366 * 86_400;
        for count in [0.2, 1e6 + 0.1, 9_007_199_254_740_992.0] {
            let (warming, mut state) = (warming(count, longest, 100), State::default());
            assert_eq!(warming.take(&mut state, Tick(0), 1_000_000_000), pass(0));
            assert!(matches!(warming.take(&mut state, Tick(0), 1), Verdict::Wait { .. }));
            assert_eq!(warming.take(&mut state, Tick(u64::MAX), 1), pass(0));
        }
    }

    /// Guava's fields and integral, as fractions.
    struct Guava {
        stored: BigRational,
        max: BigRational,
        threshold: BigRational,
        interval: BigRational,
        slope: BigRational,
        idle_per_permit: BigRational,
        next_free: BigRational,
    }

    impl Guava {
        fn new(count: f64, period: Duration, cold: u32) -> Self {
            let interval = suite::per_ns(count, SECOND).recip();
            let cold_interval = &interval * ratio(cold.into(), 1);
            let period = ratio(period.as_nanos(), 1);
            let threshold = &period / (&interval * ratio(2, 1));
            let max = &threshold + &period * ratio(2, 1) / (&interval + &cold_interval);
            Self {
                stored: max.clone(),
                slope: (cold_interval - &interval) / (&max - &threshold),
                idle_per_permit: &period / &max,
                next_free: ratio(0, 1),
                max,
                threshold,
                interval,
            }
        }

        /// Time from `now` until a call may go.
        fn resync(&mut self, now: u64) -> BigRational {
            let now = BigRational::from_integer(now.into());
            if now > self.next_free {
                let new = (&now - &self.next_free) / &self.idle_per_permit;
                self.stored = (&self.stored + new).min(self.max.clone());
                self.next_free = now.clone();
            }
            &self.next_free - now
        }

        fn take(&mut self, n: u64) {
            let n = ratio(n.into(), 1);
            let spend = n.clone().min(self.stored.clone());
            let above = (&self.stored - &self.threshold).max(BigRational::zero());
            let part = above.clone().min(spend.clone());
            let price = |above: &BigRational| &self.interval + above * &self.slope;
            let area = &part * (price(&above) + price(&(&above - &part))) / ratio(2, 1);
            self.next_free += area + (&n - &part) * &self.interval;
            self.stored -= spend;
        }
    }

    proptest! {
        /// Waits agree to a nanosecond: ours are rounded up, by a fraction of one for each call
        /// that was taken from above the threshold.
        #[test]
        fn it_decides_as_guava_s_fields_do(
            count in prop::sample::select(vec![0.2, 1.0, 2.5, 7.0, 160.0, 1e6]),
            period in 1_u64..20_000,
            cold in 2_u32..10,
            calls in prop::collection::vec((0_u64..5_000_000_000, 0_u64..20), 1..12),
        ) {
            let warming = warming(count, ms(period), cold);
            let (mut state, mut model) = (State::default(), Guava::new(count, ms(period), cold));
            let mut now = suite::START;
            for (gap, n) in calls {
                now += gap;
                let right = suite::ceil_ns(&model.resync(now));
                model.take(n);
                let wait = match warming.take(&mut state, Tick(now), n) {
                    Verdict::Wait { wait } => wait,
                    verdict => { prop_assert_eq!(verdict, pass(0)); Duration::ZERO }
                };
                prop_assert!(wait.abs_diff(right) <= Duration::from_nanos(12), "{wait:?}, {right:?}");
            }
        }
    }
}
