//! Warm-up: refuses what is above the threshold of Sentinel's warm-up curve.

use std::time::Duration;

use super::{Algorithm, Invalid, Reserve, Saved, SavedReserve, Verdict, WarmUpCurve, rate::whole};
use crate::Tick;

/// A limit per second that starts low after a pause and rises to its count.
///
/// *Formula*: `passed in this second + n <= threshold` of [`WarmUpCurve`], in seconds that begin
/// with the epoch's; for any second, wherever it begins, see [`super::SlidingWarmUp`].
/// *Burst*: the threshold at once, and twice that around the border of two seconds.
/// *Memory*: 40 bytes. *Cost*: two comparisons; some floating-point divisions once a second.
/// *Exact*: tokens and reserve are counted exactly; the threshold above the warning line is as exact
/// as doubles are.
///
/// The threshold rises only while tokens pass: an idle or unused service stays cold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUp {
    curve: WarmUpCurve,
    /// Most whole tokens a second.
    most: u64,
}

/// The reserve of one key and what passed in its second: 40 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmUpState {
    pub(super) reserve: Reserve,
    pub(super) passed: u64,
    /// [`WarmUpCurve::limit`] with this reserve.
    limit: u64,
}

impl WarmUp {
    /// `count` tokens a second, less while cold; see [`WarmUpCurve::new`].
    ///
    /// # Errors
    ///
    /// Those of [`WarmUpCurve::new`].
    pub fn new(count: f64, period: Duration, cold: u32) -> Result<Self, Invalid> {
        Ok(Self { curve: WarmUpCurve::new(count, period, cold)?, most: whole(count) })
    }

    /// Tokens a second that may pass at `now`.
    #[must_use]
    pub fn threshold(&self, state: &WarmUpState, now: Tick) -> f64 {
        self.curve.threshold(&state.at(&self.curve, now).reserve)
    }
}

impl WarmUpState {
    #[inline]
    pub(super) fn advance(&mut self, curve: &WarmUpCurve, now: Tick) {
        if !self.reserve.holds(now) {
            self.turn_over(curve, now);
        }
    }

    #[inline(never)]
    fn turn_over(&mut self, curve: &WarmUpCurve, now: Tick) {
        let previous = curve.previous(&self.reserve, now, self.passed);
        curve.advance(&mut self.reserve, now, previous);
        (self.passed, self.limit) = (0, curve.limit(&self.reserve));
    }

    /// The state as it is at `now`.
    pub(super) fn at(mut self, curve: &WarmUpCurve, now: Tick) -> Self {
        self.advance(curve, now);
        self
    }

    /// Tokens that the curve lets pass.
    #[inline]
    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn give_back(&mut self, curve: &WarmUpCurve, now: Tick, n: u64) {
        self.advance(curve, now);
        self.passed = self.passed.saturating_sub(n);
    }

    /// Gives back tokens that passed at `since` or later, if that is in this second.
    pub(super) fn give_back_since(&mut self, curve: &WarmUpCurve, now: Tick, since: Tick, n: u64) {
        self.advance(curve, now);
        if curve.had_begun(&self.reserve, since) {
            self.passed = self.passed.saturating_sub(n);
        }
    }

    pub(super) fn charge(&mut self, curve: &WarmUpCurve, now: Tick, n: u64) {
        self.advance(curve, now);
        self.passed = self.passed.saturating_add(n);
    }

    /// Whether it is, at the tick it was brought to, as one that was never used.
    pub(super) fn is_idle(&self, curve: &WarmUpCurve) -> bool {
        self.passed == 0 && curve.is_cold(&self.reserve)
    }

    pub(super) fn adopt(&mut self, curve: &WarmUpCurve, old: &WarmUpCurve, now: Tick) {
        self.advance(old, now);
        curve.adopt(&mut self.reserve, old);
        self.limit = curve.limit(&self.reserve);
    }

    pub(super) fn restore(
        curve: &WarmUpCurve,
        reserve: &SavedReserve,
        passed: u64,
        behind: Duration,
    ) -> Self {
        let reserve = curve.restore(reserve, behind);
        Self { reserve, passed, limit: curve.limit(&reserve) }
    }
}

impl Algorithm for WarmUp {
    type State = WarmUpState;

    #[inline]
    fn take(&self, state: &mut WarmUpState, now: Tick, n: u64) -> Verdict {
        state.advance(&self.curve, now);
        if n > self.most || self.most == 0 {
            return Verdict::NEVER;
        }
        let limit = self.most.min(state.limit);
        let passed = state.passed.saturating_add(n);
        // The first call of a second passes if the count allows it, and this one's does.
        if passed <= limit || state.passed == 0 {
            state.passed = passed;
            return Verdict::Pass { remaining: limit.saturating_sub(passed) };
        }
        Verdict::Block { retry: Some(state.reserve.until_next(now)) }
    }

    #[inline]
    fn peek(&self, state: &WarmUpState, now: Tick, n: u64) -> Verdict {
        self.take(&mut { *state }, now, n)
    }

    /// Only what passed in this second can be given back.
    fn give_back(&self, state: &mut WarmUpState, now: Tick, n: u64) {
        state.give_back(&self.curve, now, n);
    }

    fn give_back_since(&self, state: &mut WarmUpState, now: Tick, since: Tick, n: u64) {
        state.give_back_since(&self.curve, now, since, n);
    }

    /// The tokens warm up the service as others do.
    fn charge(&self, state: &mut WarmUpState, now: Tick, n: u64) {
        state.charge(&self.curve, now, n);
    }

    fn used(&self, state: &WarmUpState, now: Tick) -> u64 {
        state.at(&self.curve, now).passed
    }

    fn is_idle(&self, state: &WarmUpState, now: Tick) -> bool {
        state.at(&self.curve, now).is_idle(&self.curve)
    }

    fn adopt(&self, state: &mut WarmUpState, old: &Self, now: Tick) {
        state.adopt(&self.curve, &old.curve, now);
    }

    fn save(&self, state: &WarmUpState, _now: Tick) -> Saved {
        Saved::WarmUp { reserve: self.curve.save(&state.reserve), passed: state.passed }
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<WarmUpState> {
        let Saved::WarmUp { reserve, passed } = saved else { return None };
        Some(WarmUpState::restore(&self.curve, reserve, *passed, behind))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, SECOND, admitted, at, ms, pass, retry};

    fn warm_up(count: f64, seconds: u32) -> WarmUp {
        WarmUp::new(count, SECOND * seconds, 3).unwrap()
    }

    #[test]
    fn the_state_is_40_bytes() {
        assert_eq!(size_of::<WarmUpState>(), 40);
    }

    #[test]
    fn a_service_warms_up_as_sentinel_s_does() {
        // B02: 12 calls each 100 ms.
        let (hundred, mut state) = (warm_up(100.0, 10), WarmUpState::default());
        let seconds = (0..22).map(|second| {
            let calls = (0..10).map(|i| at(second * 1_000 + i * 100));
            let passed: usize = calls.map(|t| admitted(&hundred, &mut state, t, 12)).sum();
            (passed, state.reserve.tokens())
        });
        assert_eq!(seconds.collect::<Vec<_>>(), suite::sentinel_s_warm_up());
        // B03: after an idle while it is cold again, and stays so.
        assert_eq!(admitted(&hundred, &mut state, at(27_000), 120), 33);
        assert_eq!(state.reserve.tokens(), 1_000);
    }

    #[test]
    fn a_small_count_does_not_stay_shut() {
        // B06 and B07, where Sentinel lets nothing through, ever.
        for (count, seconds, calls) in [(1.0, 10, 1), (2.5, 3, 4), (2.0, 100, 3)] {
            let (small, mut state) = (warm_up(count, seconds), WarmUpState::default());
            let passed: Vec<_> =
                (0..600).map(|s| admitted(&small, &mut state, at(s * 1_000), calls)).collect();
            assert!(passed.iter().all(|n| *n >= 1), "{count}: {passed:?}");
            assert_eq!(passed.last(), Some(&whole_count(count)), "{count} is warm in the end");
        }
    }

    fn whole_count(count: f64) -> usize {
        usize::try_from(whole(count)).unwrap()
    }

    #[test]
    fn a_call_larger_than_the_cold_threshold_passes_first_in_a_second() {
        let (three, mut state) = (warm_up(3.0, 10), WarmUpState::default());
        assert_eq!(three.take(&mut state, at(400), 2), pass(0));
        assert_eq!(three.take(&mut state, at(400), 2), retry(ms(600)));
        assert_eq!(three.take(&mut state, at(1_000), 3), pass(0));
        assert_eq!(three.take(&mut state, at(2_000), 4), Verdict::NEVER);
    }

    #[test]
    fn zero_and_less_than_one_a_second_are_never_admitted() {
        for count in [0.0, 0.2] {
            let verdict = warm_up(count, 10).take(&mut WarmUpState::default(), at(0), 1);
            assert_eq!(verdict, Verdict::NEVER);
        }
    }

    #[test]
    fn the_first_tick_is_cold_and_so_is_one_after_centuries() {
        let (hundred, mut state) = (warm_up(100.0, 10), WarmUpState::default());
        assert_eq!(admitted(&hundred, &mut state, Tick(0), 50), 33);
        assert_eq!(admitted(&hundred, &mut state, Tick(u64::MAX), 50), 33);
        assert_eq!(admitted(&hundred, &mut state, Tick(7), 50), 0, "counts as the last");
        let (most, mut state) = (warm_up(9_007_199_254_740_992.0, 1), WarmUpState::default());
        assert_eq!(most.take(&mut state, Tick(0), 1 << 53), pass(0));
        assert!(!most.take(&mut state, Tick(0), 1).is_admitted());
    }

    #[test]
    fn what_is_given_back_can_be_taken_in_the_same_second() {
        let (hundred, mut state) = (warm_up(100.0, 10), WarmUpState::default());
        assert_eq!(hundred.take(&mut state, at(0), 30), pass(3));
        hundred.give_back(&mut state, at(0), 10);
        assert_eq!(hundred.peek(&state, at(0), 0), pass(13));
        hundred.give_back(&mut state, at(0), 99);
        assert_eq!(hundred.peek(&state, at(0), 0), pass(33));
    }

    #[test]
    fn a_cost_that_is_known_later_is_paid_in_its_second_and_warms() {
        let (hundred, mut state) = (warm_up(100.0, 10), WarmUpState::default());
        assert_eq!(hundred.take(&mut state, at(0), 1), pass(32));
        hundred.charge(&mut state, at(400), 731);
        assert_eq!(hundred.used(&state, at(400)), 732);
        assert_eq!(hundred.take(&mut state, at(400), 1), retry(ms(600)));
        assert_eq!(admitted(&hundred, &mut state, at(1_000), 200), 100, "268 are left");
        hundred.give_back_since(&mut state, at(1_000), at(999), 50);
        assert_eq!(hundred.used(&state, at(1_000)), 100, "of the second before");
        hundred.give_back_since(&mut state, at(1_000), at(1_000), 50);
        assert_eq!(hundred.used(&state, at(1_000)), 50);
        hundred.charge(&mut state, at(1_000), u64::MAX);
        assert_eq!(hundred.used(&state, at(1_000)), u64::MAX);
    }

    #[test]
    fn a_new_count_is_as_warm_as_the_old_one_was() {
        let (old, new) = (warm_up(100.0, 10), warm_up(200.0, 10));
        let mut state = WarmUpState::default();
        for second in 0..15 {
            admitted(&old, &mut state, at(second * 1_000), 120);
        }
        assert_eq!(state.reserve.tokens(), 466);
        new.adopt(&mut state, &old, at(14_000));
        assert_eq!(state.reserve.tokens(), 932);
        assert_eq!(whole(new.threshold(&state, at(14_999))), 200);
    }

    proptest! {
        #[test]
        fn no_second_admits_more_than_count_and_each_retry_is_exact(
            count in 1.0..50.0,
            calls in prop::collection::vec((0_u64..1_500_000_000, 0_u64..60), 1..100),
        ) {
            let (warm_up, mut state) = (warm_up(count, 5), WarmUpState::default());
            let (mut now, mut passed) = (suite::START, std::collections::HashMap::new());
            for (gap, n) in calls {
                now += gap;
                let before = state;
                let verdict = warm_up.take(&mut state, Tick(now), n);
                prop_assert_eq!(warm_up.peek(&before, Tick(now), n), verdict);
                match verdict {
                    Verdict::Block { retry: Some(retry) } => {
                        suite::is_exact(&warm_up, &state, now, n, retry)?;
                    }
                    Verdict::Block { retry: None } => prop_assert!(n > whole(count)),
                    Verdict::Pass { .. } | Verdict::Wait { .. } => {
                        *passed.entry(now / 1_000_000_000).or_insert(0) += n;
                    }
                }
                prop_assert!(passed.values().all(|n| *n <= whole(count)));
            }
            let later = Tick(now + 60_000_000_000);
            prop_assert!(warm_up.is_idle(&state, later));
            prop_assert!((warm_up.threshold(&state, later) * 3.0 - count).abs() < count / 4.0);
        }
    }
}
