//! Guava's `RateLimiter.create(permitsPerSecond)`: `SmoothRateLimiter.SmoothBursty`.

use std::time::Duration;

use super::{
    Algorithm, Level, Rate, Saved, Verdict,
    exact::{convert, div_ceil, div_floor, mul_div_ceil, nanos},
    rate::UNITS_MAX,
    saved::back,
};
use crate::Tick;

/// A limiter in which a call never pays for itself: it goes when the calls before it are paid
/// for, and the next one waits for it.
///
/// *Formula*: unused time is stored as permits, at most `storage × rate` of them. A call of `n`
/// takes stored permits first; the fresh rest moves the time at which the next call may go by
/// `rest × window / count`. *Burst*: the stored permits, and then one call of any size; from `s` to
/// `t` at most `stored + (t - s) × rate` and the last call's permits go. *Memory*: 24 bytes.
/// *Cost*: one multiplication, one division.
///
/// It is the level of [`super::TokenBucket`] with the capacity of the storage, except that a call
/// may overflow it, and the next waits until it no longer does.
///
/// *Exact*: as the token bucket. Two things are not Guava's: no microseconds are cut off, and a
/// default state has a full storage, as one that has idled for long, so that idle keys can be
/// forgotten. [`SmoothBursty::start`] gives the empty storage that `RateLimiter.create` begins with.
/// But for those microseconds, waits are those of Guava itself: its recorded ones in
/// `vectors/guava.txt`, live ones in the workspace's `tests/guava.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmoothBursty {
    rate: Rate,
    /// Units of a full storage, below 2^118.
    storage: u128,
}

impl SmoothBursty {
    /// `rate` permits, stored for at most `storage` of idle time; Guava stores a second's. A rate
    /// of zero, which Guava refuses, lets nothing through; whoever sets it and another one after it
    /// begins with an empty storage and without debt.
    #[must_use]
    pub fn new(rate: Rate, storage: Duration) -> Self {
        Self { rate, storage: rate.units_in(storage) }
    }

    /// A limiter that is created at `now`: nothing is stored, and the first call goes at once.
    #[must_use]
    pub const fn start(&self, now: Tick) -> Level {
        Level::at(now, self.storage)
    }

    /// `tryAcquire(n, timeout)`: as `take`, but refuses, and books nothing, if the wait would be
    /// longer than `timeout`. With a time-out of zero it never waits.
    #[inline]
    pub fn try_take(&self, state: &mut Level, now: Tick, n: u64, timeout: Duration) -> Verdict {
        self.acquire(state, now, n, self.rate.units_in(timeout))
    }

    #[inline]
    fn acquire(&self, state: &mut Level, now: Tick, n: u64, longest: u128) -> Verdict {
        let used = state.drain(&self.rate, now);
        let cost = self.rate.units(n).filter(|_| self.rate.per_ns() > 0);
        let Some(cost) = cost else { return Verdict::NEVER };
        let wait = used.saturating_sub(self.storage);
        let used = used + cost;
        // However many permits are asked for, the state must be able to hold the debt.
        let over = wait.saturating_sub(longest).max(used.saturating_sub(UNITS_MAX));
        if over > 0 {
            return Verdict::Block { retry: Some(nanos(div_ceil(over, self.rate.per_ns()))) };
        }
        state.set(used);
        if wait > 0 {
            return Verdict::Wait { wait: nanos(div_ceil(wait, self.rate.per_ns())) };
        }
        let stored = self.storage.saturating_sub(used);
        Verdict::Pass { remaining: div_floor(stored, self.rate.per_token()) }
    }

    /// What is missing from this storage if `used` was from one of `storage` units, of which a
    /// nanosecond filled `per_ns`.
    fn convert(&self, used: u128, per_ns: u64, storage: u128) -> u128 {
        let debt = convert(used.saturating_sub(storage), per_ns, self.rate.per_ns());
        let spent = match storage {
            0 => self.storage,
            full => mul_div_ceil(used.min(full), self.storage, full),
        };
        (spent + debt).min(UNITS_MAX)
    }
}

impl Algorithm for SmoothBursty {
    type State = Level;

    /// `acquire(n)`: waits as long as it takes. What remains are the whole stored permits.
    #[inline]
    fn take(&self, state: &mut Level, now: Tick, n: u64) -> Verdict {
        self.acquire(state, now, n, u128::MAX)
    }

    #[inline]
    fn peek(&self, state: &Level, now: Tick, n: u64) -> Verdict {
        self.take(&mut { *state }, now, n)
    }

    /// Later calls may go earlier; the waits that were handed out stay.
    fn give_back(&self, state: &mut Level, now: Tick, n: u64) {
        state.give_back(&self.rate, now, n);
    }

    fn give_back_since(&self, state: &mut Level, now: Tick, since: Tick, n: u64) {
        state.give_back_since(&self.rate, now, since, n);
    }

    fn charge(&self, state: &mut Level, now: Tick, n: u64) {
        if self.rate.per_ns() > 0 {
            state.charge(&self.rate, now, n);
        }
    }

    /// Permits that are missing from a full storage, and those of the debt.
    fn used(&self, state: &Level, now: Tick) -> u64 {
        state.tokens(&self.rate, now)
    }

    fn is_idle(&self, state: &Level, now: Tick) -> bool {
        self.rate.per_ns() == 0 || { *state }.drain(&self.rate, now) == 0
    }

    /// `setRate`: the storage stays as full as it was, and a debt keeps its time.
    fn adopt(&self, state: &mut Level, old: &Self, now: Tick) {
        let used = state.drain(&old.rate, now);
        state.set(self.convert(used, old.rate.per_ns(), old.storage));
    }

    fn save(&self, state: &Level, now: Tick) -> Saved {
        let mut state = *state;
        let units = state.drain(&self.rate, now);
        let (per_ns, last) = (self.rate.per_ns(), state.last().0.0);
        Saved::SmoothBursty { per_ns, storage: self.storage, last, units }
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<Level> {
        let Saved::SmoothBursty { per_ns, storage, last, units } = *saved else { return None };
        let units = self.convert(units.min(UNITS_MAX), per_ns, storage.min(UNITS_MAX));
        Some(Level::at(back(last, behind), units))
    }
}

#[cfg(test)]
mod tests {
    use num_rational::BigRational;
    use num_traits::Zero;
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, Model, SECOND, at, ms, pass, ratio, retry, wait};

    fn bursty(count: f64) -> SmoothBursty {
        SmoothBursty::new(Rate::new(count, SECOND).unwrap(), SECOND)
    }

    #[test]
    fn a_call_goes_at_once_whatever_its_size_and_the_next_one_pays() {
        let five = bursty(5.0);
        let mut state = five.start(at(0));
        assert_eq!(five.take(&mut state, at(0), 10), pass(0));
        assert_eq!(five.take(&mut state, at(0), 1), wait(SECOND * 2));
        assert_eq!(five.take(&mut state, at(2_200), 1), pass(0));
    }

    #[test]
    fn permits_of_one_idle_second_are_stored_and_no_more() {
        let five = bursty(5.0);
        let mut state = five.start(at(0));
        assert_eq!(five.peek(&state, at(500), 0), pass(2));
        assert_eq!(five.take(&mut state, at(60_000), 5), pass(0));
        assert_eq!(five.take(&mut state, at(60_000), 1), pass(0), "and one that the next pays");
        assert_eq!(five.take(&mut state, at(60_000), 1), wait(ms(200)));
        assert_eq!(five.take(&mut state, at(60_000), 1), wait(ms(400)));
        // Six from a storage of five: only the sixth must be waited for.
        assert_eq!(five.take(&mut state, at(120_000), 6), pass(0));
        assert_eq!(five.take(&mut state, at(120_000), 1), wait(ms(200)));
    }

    #[test]
    fn a_time_out_refuses_what_would_wait_longer_and_books_nothing() {
        let five = bursty(5.0);
        let mut state = five.start(at(0));
        assert_eq!(five.try_take(&mut state, at(0), 1, Duration::ZERO), pass(0));
        assert_eq!(five.try_take(&mut state, at(0), 1, Duration::ZERO), retry(ms(200)));
        assert_eq!(five.try_take(&mut state, at(0), 1, ms(199)), retry(ms(1)));
        assert_eq!(five.try_take(&mut state, at(0), 1, ms(200)), wait(ms(200)));
        assert_eq!(five.try_take(&mut state, at(400), 1, Duration::ZERO), pass(0));
    }

    #[test]
    fn a_new_rate_keeps_the_debt_and_how_full_the_storage_is() {
        let (five, ten) = (bursty(5.0), bursty(10.0));
        let mut state = five.start(at(0));
        assert_eq!(five.take(&mut state, at(0), 10), pass(0));
        ten.adopt(&mut state, &five, at(0));
        assert_eq!(ten.take(&mut state, at(0), 1), wait(SECOND * 2), "at the old price");
        assert_eq!(ten.take(&mut state, at(0), 1), wait(ms(2_100)), "at the new one");
        let mut state = five.start(at(0));
        ten.adopt(&mut state, &five, at(600));
        assert_eq!(ten.peek(&state, at(600), 0), pass(6), "3 of 5 are 6 of 10");
    }

    #[test]
    fn a_default_state_is_one_that_has_idled() {
        let (five, mut state) = (bursty(5.0), Level::default());
        assert_eq!(five.take(&mut state, at(0), 5), pass(0));
        assert!(!five.is_idle(&state, Tick(at(1_000).0 - 1)));
        assert!(five.is_idle(&state, at(1_000)));
        five.give_back(&mut state, at(0), 9);
        assert!(five.is_idle(&state, at(0)));
    }

    #[test]
    fn zero_much_and_the_ends_of_time() {
        assert_eq!(bursty(0.0).take(&mut Level::default(), at(0), 1), Verdict::NEVER);
        let fifth = bursty(0.2);
        let mut state = fifth.start(Tick(0));
        assert_eq!(fifth.take(&mut state, Tick(0), 1), pass(0));
        assert_eq!(fifth.take(&mut state, Tick(0), 1), wait(SECOND * 5));
        assert_eq!(fifth.take(&mut state, Tick(0), u64::MAX), Verdict::NEVER);
        let most = bursty(9_007_199_254_740_992.0);
        assert_eq!(most.take(&mut state, Tick(u64::MAX), u64::MAX), pass(0));
        assert!(matches!(most.take(&mut state, Tick(0), 1), Verdict::Wait { .. }));
        // A debt of more than a quarter of a million years is refused until some of it is paid.
        let (slow, mut state) = (bursty(1e-6), Level::default());
        let n = (0..200).filter(|_| slow.take(&mut state, at(0), 1 << 20).is_admitted()).count();
        assert!((1..200).contains(&n), "{n}");
    }

    /// Guava's fields, as fractions.
    struct Guava {
        stored: BigRational,
        max: BigRational,
        interval: BigRational,
        next_free: BigRational,
    }

    impl Model for Guava {
        fn take(&mut self, now: u64, n: u64) -> Verdict {
            let now = BigRational::from_integer(now.into());
            if now > self.next_free {
                let new = (&now - &self.next_free) / &self.interval;
                self.stored = (&self.stored + new).min(self.max.clone());
                self.next_free = now.clone();
            }
            let after = &self.next_free - &now;
            let spend = ratio(n.into(), 1).min(self.stored.clone());
            self.next_free += (ratio(n.into(), 1) - &spend) * &self.interval;
            self.stored -= spend;
            if after.is_zero() {
                pass(suite::floor(&self.stored))
            } else {
                wait(suite::ceil_ns(&after))
            }
        }

        fn give_back(&mut self, _now: u64, _n: u64) {}

        fn charge(&mut self, now: u64, n: u64) {
            self.take(now, n);
        }

        fn used(&mut self, now: u64) -> u64 {
            self.take(now, 0);
            let debt = &self.next_free - BigRational::from_integer(now.into());
            suite::ceil(&(&self.max - &self.stored + debt / &self.interval))
        }
    }

    proptest! {
        #[test]
        fn it_decides_as_guava_s_fields_do(
            (count, storage, steps) in (
                prop::sample::select(vec![0.2, 1.0, 2.5, 7.0, 160.0, 1e6]),
                0_u64..3_000,
            ).prop_flat_map(|(count, storage)| {
                (Just(count), Just(ms(storage)), suite::steps(SECOND, 1e9 / count, 20))
            }),
        ) {
            let bursty = SmoothBursty::new(Rate::new(count, SECOND).unwrap(), storage);
            let max = suite::per_ns(count, SECOND) * ratio(storage.as_nanos(), 1);
            let mut model = Guava {
                stored: max.clone(),
                max,
                interval: suite::per_ns(count, SECOND).recip(),
                next_free: ratio(0, 1),
            };
            suite::walk(&bursty, &mut model, &suite::without_refunds(steps), u64::MAX)?;
        }
    }
}
