//! Token bucket: tokens drip in at a rate, a request takes them out.

use std::time::Duration;

use super::{Algorithm, Invalid, Level, Rate, Saved, Verdict, level::Bucket};
use crate::Tick;

/// A bucket of `burst` tokens that starts full and is refilled continuously.
///
/// *Formula*: `tokens = min(burst, tokens + elapsed × count / window)`; `n` pass if `n <= tokens`.
/// *Burst*: `burst` is the whole capacity, not an extra; from `s` to `t` at most
/// `burst + (t - s) × rate` pass, so around any instant a burst and what refills.
/// *Memory*: 24 bytes. *Cost*: one multiplication, one division for what remains. *Exact*: parts of
/// a token are whole units of [`Rate`], so nothing is lost however often it is asked; a wait is
/// rounded up to a nanosecond.
///
/// It is the same machine as [`super::LeakyMeter`] seen from the empty side, and as
/// [`super::Gcra`]; the three differ in words and parameters only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket(Bucket);

impl TokenBucket {
    /// A bucket of `burst` tokens (see [`Rate::default_burst`]), refilled at `rate`. A burst or a
    /// rate of zero lets nothing through.
    ///
    /// # Errors
    ///
    /// [`Invalid::TooSlow`] if it would take a quarter of a million years to fill.
    pub fn new(rate: Rate, burst: u64) -> Result<Self, Invalid> {
        Bucket::new(rate, burst).map(Self)
    }

    /// Tokens a nanosecond, to compare buckets by.
    #[expect(clippy::cast_precision_loss, reason = "it is compared, not counted with")]
    pub(crate) fn speed(&self) -> f64 {
        let rate = self.0.rate();
        rate.per_ns() as f64 / rate.per_token() as f64
    }

    /// Takes `n` tokens, or all there are if that is fewer: no debt is left.
    pub(crate) fn drain(&self, state: &mut Level, now: Tick, n: u64) {
        self.0.fill(state, now, n);
    }
}

impl Algorithm for TokenBucket {
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
    use num_rational::BigRational;
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, SECOND, admitted, admitted_at, at, ms, pass, retry};

    fn bucket(count: f64, window: Duration, burst: u64) -> TokenBucket {
        TokenBucket::new(Rate::new(count, window).unwrap(), burst).unwrap()
    }

    #[test]
    fn the_state_is_24_bytes() {
        assert_eq!(size_of::<Level>(), 24);
    }

    #[test]
    fn bucket_of_5_at_1_a_second_of_3_pass_3_and_5_s_later_of_14_pass_5() {
        let (bucket, mut state) = (bucket(1.0, SECOND, 5), Level::default());
        assert_eq!(admitted(&bucket, &mut state, at(0), 3), 3);
        assert_eq!(admitted(&bucket, &mut state, at(5_000), 14), 5);
    }

    #[test]
    fn one_a_second_for_a_second_and_a_half_is_one_token_and_a_half() {
        let (bucket, mut state) = (bucket(1.0, SECOND, 5), Level::default());
        assert_eq!(bucket.take(&mut state, at(0), 5), pass(0));
        assert_eq!(bucket.take(&mut state, at(1_500), 1), pass(0));
        assert_eq!(bucket.take(&mut state, at(1_500), 1), retry(ms(500)));
        assert_eq!(bucket.take(&mut state, at(2_000), 1), pass(0));
    }

    #[test]
    fn around_a_border_only_what_refills_is_admitted_beyond_the_burst() {
        let (bucket, mut state) = (bucket(5.0, SECOND, 5), Level::default());
        assert_eq!(admitted(&bucket, &mut state, at(900), 5), 5);
        let more: usize = (1_000..=1_100).map(|t| admitted(&bucket, &mut state, at(t), 1)).sum();
        assert_eq!(more, 1, "a fifth of a second refills one");
    }

    #[test]
    fn polling_does_not_starve_the_bucket() {
        let bucket = bucket(1.0, SECOND, 5);
        assert_eq!(admitted_at(&bucket, (0..100).map(|i| at(i * 100))), 14);
        assert_eq!(admitted_at(&bucket, (0..60).map(|i| at(i * 999))), 60);
    }

    #[test]
    fn a_refused_call_is_told_to_the_nanosecond_when_to_come_back() {
        let (bucket, mut state) = (bucket(3.0, SECOND, 1), Level::default());
        assert_eq!(bucket.take(&mut state, at(0), 1), pass(0));
        let third = Duration::from_nanos(333_333_334);
        assert_eq!(bucket.take(&mut state, at(0), 1), retry(third));
        let early = Tick(at(0).0 + 333_333_333);
        assert_eq!(bucket.take(&mut state, early, 1), retry(Duration::from_nanos(1)));
        assert_eq!(bucket.take(&mut state, Tick(early.0 + 1), 1), pass(0));
    }

    #[test]
    fn zero_and_more_than_the_burst_are_never_admitted() {
        let blocked =
            |count, burst, n| bucket(count, SECOND, burst).take(&mut Level::default(), at(0), n);
        assert_eq!(blocked(0.0, 5, 1), Verdict::NEVER);
        assert_eq!(blocked(0.0, 5, 0), Verdict::NEVER);
        assert_eq!(blocked(5.0, 0, 1), Verdict::NEVER);
        assert_eq!(blocked(5.0, 5, 6), Verdict::NEVER);
        assert_eq!(blocked(5.0, 5, u64::MAX), Verdict::NEVER);
    }

    #[test]
    fn the_first_tick_may_be_zero_and_the_last_the_end_of_time() {
        let (bucket, mut state) = (bucket(1.0, SECOND, 2), Level::default());
        assert_eq!(bucket.take(&mut state, Tick(0), 2), pass(0));
        assert_eq!(bucket.take(&mut state, Tick(0), 1), retry(SECOND));
        assert_eq!(bucket.take(&mut state, Tick(u64::MAX), 2), pass(0));
        assert_eq!(bucket.take(&mut state, Tick(5), 1), retry(SECOND), "counts as the last");
    }

    #[test]
    fn the_largest_count_and_centuries_of_idling_do_not_overflow() {
        let (max, year) = (9_007_199_254_740_992, Duration::from_secs(366 * 86_400));
        for window in [ms(1), SECOND, year] {
            let (bucket, mut state) =
                (bucket(9_007_199_254_740_992.0, window, max), Level::default());
            assert_eq!(bucket.take(&mut state, Tick(0), max), pass(0));
            let blocked = bucket.take(&mut state, Tick(0), max);
            assert_eq!(blocked, retry(window));
            assert_eq!(bucket.take(&mut state, Tick(u64::MAX), max), pass(0));
        }
        let slow = TokenBucket::new(Rate::new(0.2, year).unwrap(), 10_000).unwrap();
        let mut state = Level::default();
        assert_eq!(slow.take(&mut state, Tick(0), 10_000), pass(0));
        // An f64 of 0.2 is a little more than a fifth.
        let five_years = Duration::from_nanos(158_112_000_000_000_000 - 8);
        assert_eq!(slow.take(&mut state, Tick(0), 1), retry(five_years));
        let refused = TokenBucket::new(Rate::new(0.2, year).unwrap(), u64::MAX);
        assert_eq!(refused, Err(Invalid::TooSlow { tokens: u64::MAX }));
    }

    #[test]
    fn a_million_steps_do_not_drift() {
        // Whoever always comes back exactly when told goes at the multiples of the interval. (From
        // a bucket of one token, what drips within the nanosecond in which it is full is lost.)
        for (count, window) in [(3.0, SECOND), (7.0, SECOND), (1_000_000.0, SECOND * 3_600)] {
            let (bucket, mut state) = (bucket(count, window, 2), Level::default());
            let mut now = at(0);
            for _ in 0..1_000_000 {
                match bucket.take(&mut state, now, 1) {
                    Verdict::Block { retry: Some(retry) } => now = now.plus(retry),
                    verdict => assert!(verdict.is_admitted()),
                }
            }
            let exact = BigRational::from_integer(499_999.into()) / suite::per_ns(count, window);
            assert_eq!(now.since(at(0)), suite::ceil_ns(&exact));
        }
    }

    #[test]
    fn a_new_count_keeps_the_tokens_that_were_used() {
        // 5 a minute; five calls; then 10, then 3.
        let minute = SECOND * 60;
        let (five, ten, three) =
            (bucket(5.0, minute, 5), bucket(10.0, minute, 10), bucket(3.0, minute, 3));
        let mut state = Level::default();
        assert_eq!(five.take(&mut state, at(0), 5), pass(0));
        ten.adopt(&mut state, &five, at(0));
        assert_eq!(ten.take(&mut state, at(0), 5), pass(0));
        three.adopt(&mut state, &ten, at(0));
        // Ten are used, three may be: eight must drain at 20 s each.
        assert_eq!(three.take(&mut state, at(0), 1), retry(SECOND * 160));
    }

    #[test]
    fn a_cost_that_is_known_later_is_paid_at_the_rate() {
        let (ten, mut state) = (bucket(10.0, SECOND, 10), Level::default());
        assert_eq!(ten.take(&mut state, at(0), 1), pass(9));
        ten.charge(&mut state, at(0), 731);
        assert_eq!(ten.used(&state, at(0)), 732);
        assert_eq!(ten.take(&mut state, at(0), 1), retry(ms(72_300)));
        assert_eq!(ten.take(&mut state, at(72_300), 1), pass(0));
        let (slow, mut state) = (bucket(1e-9, SECOND, 1), Level::default());
        for _ in 0..9 {
            slow.charge(&mut state, at(0), u64::MAX);
            assert!(matches!(slow.take(&mut state, at(0), 1), Verdict::Block { retry: Some(_) }));
        }
    }

    #[test]
    fn what_may_have_been_refilled_is_not_given_back_again() {
        let (ten, mut state) = (bucket(10.0, SECOND, 10), Level::default());
        assert_eq!(ten.take(&mut state, at(0), 8), pass(2));
        ten.give_back_since(&mut state, at(150), at(0), 5);
        // 1.5 of the 8 are refilled, and of the 5 so many may be among them.
        assert_eq!((ten.used(&state, at(150)), ten.peek(&state, at(150), 0)), (3, pass(7)));
        ten.give_back_since(&mut state, at(450), at(0), 4);
        assert_eq!(ten.peek(&state, at(450), 0), pass(10), "3 are refilled");
        assert_eq!(ten.take(&mut state, at(1_000), 5), pass(5));
        ten.give_back_since(&mut state, at(1_300), at(0), 13);
        assert_eq!(ten.used(&state, at(1_300)), 2);
    }

    #[test]
    fn what_is_given_back_never_overfills_the_bucket() {
        let (bucket, mut state) = (bucket(1.0, SECOND, 5), Level::default());
        assert_eq!(bucket.take(&mut state, at(0), 3), pass(2));
        bucket.give_back(&mut state, at(0), 2);
        assert_eq!(bucket.peek(&state, at(0), 0), pass(4));
        bucket.give_back(&mut state, at(0), u64::MAX);
        assert_eq!(bucket.peek(&state, at(0), 0), pass(5));
        assert!(bucket.is_idle(&state, at(0)));
    }

    proptest! {
        #[test]
        fn it_decides_as_fractions_do_and_never_exceeds_burst_and_rate(
            (count, window, burst, steps) in (
                prop::sample::select(vec![0.0, 0.2, 1.0, 2.5, 7.0, 160.0, 1e6, 9_007_199_254_740_992.0]),
                prop::sample::select(vec![1_u64, 1_000, 60_000, 3_600_000, 31_622_400_000]),
                prop_oneof![1_u64..20, Just(10_000)],
            ).prop_flat_map(|(count, window, burst)| {
                let steps = suite::steps(ms(window), ms(window).as_secs_f64() * 1e9 / count, burst + 1);
                (Just(count), Just(ms(window)), Just(burst), steps)
            }),
            is_full_of_refunds: bool,
        ) {
            let bucket = bucket(count, window, burst);
            let per_ns = suite::per_ns(count, window);
            let burst_tokens = suite::ratio(burst.into(), 1);
            let mut model = suite::Tokens::full(burst_tokens.clone(), per_ns.clone());
            let steps = if is_full_of_refunds { steps } else { suite::takes_only(steps) };
            let went = suite::walk(&bucket, &mut model, &steps, u64::MAX)?;
            if !is_full_of_refunds {
                suite::is_bounded(&went, &burst_tokens, &per_ns)?;
            }
        }
    }
}
