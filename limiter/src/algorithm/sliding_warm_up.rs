//! Warm-up over a sliding window.

use std::time::Duration;

use super::{
    Algorithm, Invalid, Per, Saved, SlidingWindow, Verdict, WarmUpCurve, WarmUpState, rate::whole,
};
use crate::{Tick, WindowShape, window::Ring};

/// A [`SlidingWindow`] whose count starts low after a pause and rises to the full one.
///
/// *Formula*: what the sliding window lets pass, if `sum + n <= threshold × seconds` with the
/// threshold a second of [`WarmUpCurve`] and the seconds of the window; and the first call of an
/// empty window, so that a threshold below one token does not stay shut. *Burst*: the threshold at
/// once; never more than the sliding window alone, so in no run of `buckets` buckets more than the
/// count, which [`super::WarmUp`] cannot say. *Memory*: 168 bytes, and 8 a bucket where there are
/// more than ten. *Cost*: that of the sliding window and two comparisons; some floating-point
/// divisions once a second. *Exact*: as the sliding window and [`super::WarmUp`].
///
/// The threshold rises with the tokens that passed in each second of the clock, or in each aligned
/// window if that is longer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct SlidingWarmUp {
    /// [`SlidingWindow::most`], with which whole numbers decide as doubles do, in less time. First,
    /// since nearly all calls look at nothing else.
    most: Option<u64>,
    window: SlidingWindow,
    curve: WarmUpCurve,
}

/// What one key has used, and how warm it is: 168 bytes, and more on the heap with more than ten
/// buckets.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct SlidingWarmUpState {
    warmth: WarmUpState,
    ring: Ring,
}

impl SlidingWarmUp {
    /// `count` (0 ..= 2^53) tokens per second or window in the end, after a warm-up of `period`
    /// from `count / cold`; see [`WarmUpCurve::new`].
    ///
    /// # Errors
    ///
    /// Those of [`WarmUpCurve::new`] for the count a second that it is.
    pub fn new(
        count: f64,
        per: Per,
        shape: WindowShape,
        period: Duration,
        cold: u32,
    ) -> Result<Self, Invalid> {
        let window = SlidingWindow::new(count, per, shape)?;
        let a_second = match per {
            Per::Second => count,
            Per::Window => count / shape.interval_sec(),
        };
        let length = Duration::from_millis(shape.interval_ms());
        let curve = WarmUpCurve::over(a_second, period, cold, length)?;
        Ok(Self { window, curve, most: window.most() })
    }

    /// Tokens a second that may pass at `now`, on average over the window.
    #[must_use]
    pub fn threshold(&self, state: &SlidingWarmUpState, now: Tick) -> f64 {
        self.curve.threshold(&state.warmth.at(&self.curve, now).reserve)
    }

    /// Whole tokens left when `n` are taken on top of `sum` and the curve lets `limit` pass; `None`
    /// if they do not fit.
    #[inline]
    fn room(&self, limit: u64, sum: u64, n: u64) -> Option<u64> {
        let after = sum.saturating_add(n);
        if after > limit && sum > 0 {
            return None;
        }
        let left = match self.most {
            Some(most) => most.checked_sub(after)?,
            None => Some(self.window.room(sum, n)).filter(|room| *room >= 0.0).map(whole)?,
        };
        Some(left.min(limit.saturating_sub(after)))
    }

    /// Refuses `n` tokens on top of `sum` until they fit one of the windows that come `later`, or
    /// this one in a later second.
    fn refuse(
        &self,
        warmth: &WarmUpState,
        mut sum: u64,
        later: impl Iterator<Item = (Tick, u64)>,
        now: Tick,
        n: u64,
    ) -> Verdict {
        let block = |at: Tick| Verdict::Block { retry: Some(at.since(now)) };
        let in_second_of = |at| {
            let warmth = warmth.at(&self.curve, at);
            (warmth.limit(), warmth.reserve.end())
        };
        let end = warmth.reserve.end();
        let (mut limit, mut until) = (warmth.limit(), end);
        for (at, fewer) in later {
            // The threshold may rise once, when what passed in this second is taken off the reserve.
            if at >= until && until == end {
                let warm = self.curve.stays_warm(&warmth.reserve, warmth.passed);
                (limit, until) = warm.map_or_else(|| in_second_of(end), |until| (u64::MAX, until));
                if end < at && self.room(limit, sum, n).is_some() {
                    return block(end);
                }
            }
            sum = fewer;
            if at >= until {
                // From then on the reserve fills, and the threshold is no higher than it is now.
                if sum > 0 && sum.saturating_add(n) > warmth.limit() {
                    continue;
                }
                (limit, until) = in_second_of(at);
            }
            if self.room(limit, sum, n).is_some() {
                return block(at);
            }
        }
        Verdict::NEVER
    }
}

impl Algorithm for SlidingWarmUp {
    type State = SlidingWarmUpState;

    #[inline]
    fn take(&self, state: &mut SlidingWarmUpState, now: Tick, n: u64) -> Verdict {
        let verdict = self.try_take(state, now, n);
        if verdict.is_admitted() {
            return verdict;
        }
        let SlidingWarmUpState { warmth, ring } = state;
        let shape = self.window.shape();
        self.refuse(warmth, ring.sum(), ring.later(shape), ring.start(shape).max(now), n)
    }

    #[inline(always)]
    fn try_take(&self, state: &mut SlidingWarmUpState, now: Tick, n: u64) -> Verdict {
        let SlidingWarmUpState { warmth, ring } = state;
        ring.advance(self.window.shape(), now);
        warmth.advance(&self.curve, now);
        let Some(remaining) = self.room(warmth.limit(), ring.sum(), n) else {
            return Verdict::NEVER;
        };
        ring.charge(n);
        warmth.passed = warmth.passed.saturating_add(n);
        Verdict::Pass { remaining }
    }

    fn peek(&self, state: &SlidingWarmUpState, now: Tick, n: u64) -> Verdict {
        let SlidingWarmUpState { warmth, ring } = state;
        let shape = self.window.shape();
        let warmth = warmth.at(&self.curve, now);
        let (sum, later) = ring.at(shape, now);
        if let Some(remaining) = self.room(warmth.limit(), sum, n) {
            return Verdict::Pass { remaining };
        }
        self.refuse(&warmth, sum, later, ring.start(shape).max(now), n)
    }

    /// The oldest tokens of the window are forgotten, and the service is no warmer for those of
    /// this second.
    fn give_back(&self, state: &mut SlidingWarmUpState, now: Tick, n: u64) {
        let shape = self.window.shape();
        state.ring.advance(shape, now);
        state.ring.give_back(shape, now, state.ring.oldest(shape), n);
        state.warmth.give_back(&self.curve, now, n);
    }

    fn give_back_since(&self, state: &mut SlidingWarmUpState, now: Tick, since: Tick, n: u64) {
        state.ring.give_back(self.window.shape(), now, since, n);
        state.warmth.give_back_since(&self.curve, now, since, n);
    }

    /// The tokens warm up the service as others do.
    fn charge(&self, state: &mut SlidingWarmUpState, now: Tick, n: u64) {
        state.ring.advance(self.window.shape(), now);
        state.ring.charge(n);
        state.warmth.charge(&self.curve, now, n);
    }

    fn used(&self, state: &SlidingWarmUpState, now: Tick) -> u64 {
        state.ring.at(self.window.shape(), now).0
    }

    fn is_idle(&self, state: &SlidingWarmUpState, now: Tick) -> bool {
        self.used(state, now) == 0 && state.warmth.at(&self.curve, now).is_idle(&self.curve)
    }

    fn adopt(&self, state: &mut SlidingWarmUpState, old: &Self, now: Tick) {
        state.warmth.adopt(&self.curve, &old.curve, now);
    }

    fn save(&self, state: &SlidingWarmUpState, _now: Tick) -> Saved {
        let WarmUpState { reserve, passed, .. } = &state.warmth;
        let ring = state.ring.save(self.window.shape());
        Saved::SlidingWarmUp { ring, reserve: self.curve.save(reserve), passed: *passed }
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<SlidingWarmUpState> {
        let Saved::SlidingWarmUp { ring, reserve, passed } = saved else { return None };
        let ring = Ring::restore(ring, self.window.shape(), behind)?;
        let warmth = WarmUpState::restore(&self.curve, reserve, *passed, behind);
        Some(SlidingWarmUpState { warmth, ring })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, SECOND, admitted, at, ms, pass, retry};

    type State = SlidingWarmUpState;

    fn warm_up(count: f64, seconds: u32) -> SlidingWarmUp {
        SlidingWarmUp::new(count, Per::Second, WindowShape::SECOND, SECOND * seconds, 3).unwrap()
    }

    fn shaped(count: f64, per: Per, interval_ms: u64, buckets: u32) -> SlidingWarmUp {
        let shape = WindowShape::new(interval_ms, buckets).unwrap();
        SlidingWarmUp::new(count, per, shape, SECOND * 10, 3).unwrap()
    }

    #[test]
    fn the_state_is_168_bytes() {
        assert_eq!(size_of::<State>(), 168);
    }

    #[test]
    fn a_service_warms_up_as_sentinel_s_does() {
        // B02: 12 calls each 100 ms.
        let (hundred, mut state) = (warm_up(100.0, 10), State::default());
        let seconds = (0..22).map(|second| {
            let calls = (0..10).map(|i| at(second * 1_000 + i * 100));
            let passed: usize = calls.map(|t| admitted(&hundred, &mut state, t, 12)).sum();
            (passed, state.warmth.reserve.tokens())
        });
        assert_eq!(seconds.collect::<Vec<_>>(), suite::sentinel_s_warm_up());
        // B03: after an idle while it is cold again, and stays so.
        assert_eq!(admitted(&hundred, &mut state, at(27_000), 120), 33);
        assert_eq!(state.warmth.reserve.tokens(), 1_000);
    }

    #[test]
    fn around_the_border_of_a_second_the_threshold_passes_once() {
        let (hundred, mut state) = (warm_up(100.0, 10), State::default());
        assert_eq!(admitted(&hundred, &mut state, at(950), 50), 33);
        assert_eq!(admitted(&hundred, &mut state, at(1_050), 50), 1, "warmer by 33");
        assert_eq!(hundred.take(&mut state, at(1_050), 1), retry(ms(850)));
    }

    #[test]
    fn a_small_count_does_not_stay_shut_and_is_warm_in_the_end() {
        for (per, interval_ms, buckets) in [
            (Per::Second, 1_000, 10),
            (Per::Second, 1_000, 1),
            (Per::Second, 5_000, 10),
            (Per::Second, 60_000, 60),
            (Per::Window, 1_000, 10),
            (Per::Window, 500, 5),
        ] {
            for count in [1.0, 2.0, 3.0] {
                let small = shaped(count, per, interval_ms, buckets);
                let (mut state, mut plain) = (State::default(), Default::default());
                // Ten calls a second for twenty minutes.
                let runs = (0..10_u64).map(|run| {
                    let calls = (0..1_200).map(|call| at(run * 120_000 + call * 100));
                    let window = small.window;
                    calls.fold((0, 0), |(warm, full), t| {
                        (
                            warm + admitted(&small, &mut state, t, 1),
                            full + admitted(&window, &mut plain, t, 1),
                        )
                    })
                });
                let runs: Vec<_> = runs.collect();
                assert!(runs.iter().all(|(warm, _)| *warm > 0), "{count} {per:?} {runs:?}");
                let (warm, full) = runs[9];
                // Below the count, which an average over more than a second ends at, it cools a
                // little now and then.
                assert!(warm * 50 >= full * 49, "{count} {per:?} {interval_ms}: {warm} of {full}");
            }
        }
    }

    #[test]
    fn a_call_larger_than_the_cold_threshold_passes_first_in_a_window() {
        let (three, mut state) = (warm_up(3.0, 10), State::default());
        assert_eq!(three.take(&mut state, at(400), 2), pass(0));
        assert_eq!(three.take(&mut state, at(400), 2), retry(SECOND));
        assert_eq!(three.take(&mut state, at(1_400), 3), pass(0));
        assert_eq!(three.take(&mut state, at(2_400), 4), Verdict::NEVER);
    }

    #[test]
    fn the_full_count_of_a_window_is_reached_though_its_rate_is_rounded() {
        for count in 1..200 {
            let window = shaped(f64::from(count), Per::Window, 700, 7);
            let mut state = State::default();
            window.charge(&mut state, at(0), 1 << 40);
            assert_eq!(admitted(&window, &mut state, at(699), 1), 0);
            assert_eq!(admitted(&window, &mut state, at(1_000), count + 1), count as usize);
        }
    }

    #[test]
    fn a_refused_call_may_pass_when_a_second_begins_amid_a_bucket() {
        // Of 300 ms, so that the second begins between two borders.
        let thousand = shaped(1_000.0, Per::Second, 900, 3);
        let mut state = State::default();
        assert_eq!(admitted(&thousand, &mut state, at(910), 999), 300);
        assert_eq!(thousand.take(&mut state, at(950), 1), retry(ms(50)), "warmer by 300");
        assert_eq!(thousand.take(&mut state, at(950), 100), retry(ms(850)));
        assert_eq!(admitted(&thousand, &mut state, at(1_000), 999), 12);
    }

    #[test]
    fn zero_and_less_than_one_a_second_are_never_admitted() {
        for count in [0.0, 0.2] {
            let verdict = warm_up(count, 10).take(&mut State::default(), at(0), 1);
            assert_eq!(verdict, Verdict::NEVER);
        }
    }

    #[test]
    fn the_first_tick_is_cold_and_so_is_one_after_centuries() {
        let (hundred, mut state) = (warm_up(100.0, 10), State::default());
        assert_eq!(admitted(&hundred, &mut state, Tick(0), 50), 33);
        assert_eq!(admitted(&hundred, &mut state, Tick(u64::MAX - 1), 50), 33);
        assert_eq!(admitted(&hundred, &mut state, Tick(7), 50), 0, "counts as the last");
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_does_not_warm() {
        let (hundred, mut state) = (warm_up(100.0, 10), State::default());
        assert_eq!(hundred.take(&mut state, at(0), 30), pass(3));
        hundred.give_back_since(&mut state, at(300), at(0), 10);
        assert_eq!(hundred.peek(&state, at(300), 0), pass(13));
        hundred.give_back(&mut state, at(300), 99);
        assert_eq!(hundred.peek(&state, at(300), 0), pass(33));
        assert!(hundred.is_idle(&state, at(300)));
        hundred.charge(&mut state, at(300), 99);
        assert_eq!(hundred.used(&state, at(1_299)), 99);
        assert_eq!(hundred.take(&mut state, at(300), 1), retry(SECOND));
    }

    #[test]
    fn a_new_count_is_as_warm_as_the_old_one_was() {
        let (old, new) = (warm_up(100.0, 10), warm_up(200.0, 10));
        let mut state = State::default();
        for second in 0..15 {
            admitted(&old, &mut state, at(second * 1_000), 120);
        }
        new.adopt(&mut state, &old, at(14_000));
        assert_eq!(state.warmth.reserve.tokens(), 932);
        assert_eq!(whole(new.threshold(&state, at(14_999))), 200);
        assert_eq!(new.take(&mut state, at(14_999), 101), retry(ms(1)), "100 are used");
    }

    proptest! {
        #[test]
        fn no_window_ever_holds_more_than_the_count_and_each_retry_is_exact(
            count in prop_oneof![1.0..50.0, prop::sample::select(vec![1.0, 2.0, 3.0, 20.0])],
            per in prop::sample::select(vec![Per::Second, Per::Window]),
            (buckets, bucket_ms) in (1_u32..13, prop::sample::select(vec![10_u64, 100, 300, 1_000, 7_000])),
            calls in prop::collection::vec((0_u64..1_500, 0_u64..40, 0_u8..10), 1..150),
            gaps in prop::sample::select(vec![1_u64, 10, 1_000]),
        ) {
            let interval_ms = bucket_ms * u64::from(buckets);
            let warm_up = shaped(count, per, interval_ms, buckets);
            let mut state = State::default();
            let (mut now, mut passed) = (suite::START, Vec::<(u64, u64)>::new());
            for (gap, n, what) in calls {
                now += gap * 1_000_000 / gaps;
                if what == 0 {
                    let saved = warm_up.save(&state, Tick(now));
                    state = warm_up.restore(&saved, Duration::ZERO).unwrap();
                }
                let idle = warm_up.is_idle(&state, Tick(now));
                let peek = warm_up.peek(&state, Tick(now), n);
                let verdict = warm_up.take(&mut state, Tick(now), n);
                prop_assert_eq!(peek, verdict);
                if idle {
                    prop_assert_eq!(warm_up.take(&mut State::default(), Tick(now), n), verdict);
                }
                match verdict {
                    Verdict::Block { retry: Some(retry) } => {
                        suite::is_exact(&warm_up, &state, now, n, retry)?;
                    }
                    Verdict::Block { retry: None } => prop_assert!(n > whole(count)),
                    Verdict::Pass { .. } | Verdict::Wait { .. } => {
                        passed.push((now / (bucket_ms * 1_000_000), n));
                    }
                }
                let last = now / (bucket_ms * 1_000_000);
                let sum: u64 = passed.iter().filter(|p| p.0 + u64::from(buckets) > last).map(|p| p.1).sum();
                let most = match per {
                    Per::Second => count * Duration::from_millis(interval_ms).as_secs_f64().max(1.0),
                    Per::Window => count,
                };
                prop_assert!(sum <= whole(most), "{sum} of {most}");
                prop_assert_eq!(warm_up.used(&state, Tick(now)), sum);
            }
            let later = Tick(now + 1_000_000_000_000);
            prop_assert!(warm_up.is_idle(&state, later));
        }
    }
}
