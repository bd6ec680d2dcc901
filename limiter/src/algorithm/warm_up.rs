//! Warm-up: refuses what is above the threshold of Sentinel's warm-up curve.

use std::time::Duration;

use super::{Algorithm, Invalid, Reserve, Verdict, WarmUpCurve, rate::whole};
use crate::Tick;

/// A limit per second that starts low after a pause and rises to its count.
///
/// *Formula*: `passed in this second + n <= threshold` of [`WarmUpCurve`], in seconds that begin
/// with the epoch's. An owner who counts passes in another window asks the curve instead.
/// *Burst*: the threshold at once, and twice that around the border of two seconds.
/// *Memory*: 32 bytes. *Cost*: two floating-point divisions; a few more once a second.
///
/// The threshold rises only while tokens pass: an idle or unused service stays cold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUp(WarmUpCurve);

/// The reserve of one key and what passed in its second: 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmUpState {
    reserve: Reserve,
    passed: u64,
}

impl WarmUp {
    /// `count` tokens a second, less while cold; see [`WarmUpCurve::new`].
    ///
    /// # Errors
    ///
    /// Those of [`WarmUpCurve::new`].
    pub fn new(count: f64, period: Duration, cold: u32) -> Result<Self, Invalid> {
        WarmUpCurve::new(count, period, cold).map(Self)
    }

    /// Tokens a second that may pass at `now`.
    #[must_use]
    pub fn threshold(&self, state: &WarmUpState, now: Tick) -> f64 {
        let mut state = *state;
        state.advance(&self.0, now);
        self.0.threshold(&state.reserve)
    }
}

impl WarmUpState {
    #[inline]
    fn advance(&mut self, curve: &WarmUpCurve, now: Tick) {
        if let Some(previous) = self.reserve.previous(now, self.passed) {
            curve.advance(&mut self.reserve, now, previous);
            self.passed = 0;
        }
    }
}

impl Algorithm for WarmUp {
    type State = WarmUpState;

    #[inline]
    fn take(&self, state: &mut WarmUpState, now: Tick, n: u64) -> Verdict {
        state.advance(&self.0, now);
        let limit = whole(self.0.count());
        if n > limit || limit == 0 {
            return Verdict::NEVER;
        }
        let threshold = self.0.threshold(&state.reserve);
        if self.0.admits(threshold, state.passed, n) {
            state.passed += n;
            return Verdict::Pass { remaining: whole(threshold).saturating_sub(state.passed) };
        }
        // The first call of a second passes if the count allows it, and this one's does.
        Verdict::Block { retry: Some(state.reserve.until_next(now)) }
    }

    #[inline]
    fn peek(&self, state: &WarmUpState, now: Tick, n: u64) -> Verdict {
        self.take(&mut { *state }, now, n)
    }

    /// Only what passed in this second can be given back.
    fn give_back(&self, state: &mut WarmUpState, now: Tick, n: u64) {
        state.advance(&self.0, now);
        state.passed = state.passed.saturating_sub(n);
    }

    fn is_idle(&self, state: &WarmUpState, now: Tick) -> bool {
        let mut state = *state;
        state.advance(&self.0, now);
        state.passed == 0 && self.0.is_cold(&state.reserve)
    }

    fn adopt(&self, state: &mut WarmUpState, old: &Self, now: Tick) {
        state.advance(&old.0, now);
        self.0.adopt(&mut state.reserve, &old.0);
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
    fn the_state_is_32_bytes() {
        assert_eq!(size_of::<WarmUpState>(), 32);
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
        let mut right = vec![
            (33, 1_000),
            (34, 967),
            (36, 933),
            (38, 897),
            (41, 859),
            (44, 818),
            (47, 774),
            (52, 727),
            (58, 675),
            (68, 617),
            (83, 549),
        ];
        right.resize(22, (100, 466));
        assert_eq!(seconds.collect::<Vec<_>>(), right);
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
