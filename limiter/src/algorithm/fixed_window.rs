//! Fixed window: so many tokens between one border and the next.

use std::time::Duration;

use super::{
    Algorithm, Invalid, Saved, Verdict,
    rate::{check_count, check_window, whole},
    saved::back_by_windows,
};
use crate::Tick;

/// Counts tokens in windows whose borders are multiples of their length since the epoch, so that
/// every key, process and restart has the same ones.
///
/// *Formula*: `used(⌊now / window⌋) + n <= ⌊count⌋`. *Burst*: the whole count at once, and twice
/// that around a border: 2 × count may pass within any time longer than zero. *Memory*: 16 bytes.
/// *Cost*: two comparisons; one division when a window begins. *Exact*: to the nanosecond; borders
/// do not drift with the times of calls.
///
/// Fractions of a token are lost, since windows share nothing: say 1 per 5 s, not 0.2 per second,
/// which never passes. Tokens of an earlier window must not be given back: the window has
/// forgotten them already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    window_ns: u64,
}

/// What one key has used of its window: 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedWindowState {
    /// Start of the window, in nanoseconds. A tick before it counts as one in the window.
    start: u64,
    used: u64,
}

impl FixedWindow {
    /// `count` (0 ..= 2^53) tokens in each `window` (1 ms ..= 366 days).
    ///
    /// # Errors
    ///
    /// [`Invalid::Count`], [`Invalid::Period`].
    pub fn new(count: f64, window: Duration) -> Result<Self, Invalid> {
        Ok(Self { limit: whole(check_count(count)?), window_ns: check_window(window)? })
    }

    /// Turns to the window of `now` and returns the time since its start.
    #[inline]
    fn advance(&self, state: &mut FixedWindowState, now: Tick) -> u64 {
        let elapsed = now.0.saturating_sub(state.start);
        if elapsed < self.window_ns {
            return elapsed;
        }
        let elapsed = now.0 % self.window_ns;
        *state = FixedWindowState { start: now.0 - elapsed, used: 0 };
        elapsed
    }
}

impl Algorithm for FixedWindow {
    type State = FixedWindowState;

    #[inline(always)]
    fn take(&self, state: &mut FixedWindowState, now: Tick, n: u64) -> Verdict {
        let elapsed = self.advance(state, now);
        if n > self.limit || self.limit == 0 {
            return Verdict::NEVER;
        }
        match self.limit.saturating_sub(state.used).checked_sub(n) {
            Some(remaining) => {
                state.used += n;
                Verdict::Pass { remaining }
            }
            None => Verdict::Block { retry: Some(Duration::from_nanos(self.window_ns - elapsed)) },
        }
    }

    #[inline]
    fn peek(&self, state: &FixedWindowState, now: Tick, n: u64) -> Verdict {
        self.take(&mut { *state }, now, n)
    }

    fn give_back(&self, state: &mut FixedWindowState, now: Tick, n: u64) {
        self.advance(state, now);
        state.used = state.used.saturating_sub(n);
    }

    fn give_back_since(&self, state: &mut FixedWindowState, now: Tick, since: Tick, n: u64) {
        self.advance(state, now);
        if since.0 >= state.start {
            state.used = state.used.saturating_sub(n);
        }
    }

    fn charge(&self, state: &mut FixedWindowState, now: Tick, n: u64) {
        self.advance(state, now);
        state.used = state.used.saturating_add(n);
    }

    fn used(&self, state: &FixedWindowState, now: Tick) -> u64 {
        let mut state = *state;
        self.advance(&mut state, now);
        state.used
    }

    fn is_idle(&self, state: &FixedWindowState, now: Tick) -> bool {
        self.used(state, now) == 0
    }

    fn save(&self, state: &FixedWindowState, _now: Tick) -> Saved {
        let FixedWindowState { start, used } = *state;
        Saved::FixedWindow { window_ns: self.window_ns, start, used }
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<FixedWindowState> {
        match *saved {
            Saved::FixedWindow { window_ns, start, used } if window_ns == self.window_ns => {
                let start = start - start % window_ns;
                Some(FixedWindowState { start: back_by_windows(start, window_ns, behind).0, used })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{
        self, Model, SECOND, admitted, admitted_at, at, ms, pass, retry,
    };

    fn window(count: f64, window: Duration) -> FixedWindow {
        FixedWindow::new(count, window).unwrap()
    }

    #[test]
    fn the_state_is_16_bytes() {
        assert_eq!(size_of::<FixedWindowState>(), 16);
    }

    #[test]
    fn five_per_2_s_of_3_pass_3_then_in_a_new_window_of_14_pass_5() {
        let (window, mut state) = (window(5.0, SECOND * 2), FixedWindowState::default());
        assert_eq!(admitted(&window, &mut state, at(0), 3), 3);
        assert_eq!(admitted(&window, &mut state, at(2_000), 14), 5);
    }

    #[test]
    fn around_a_border_twice_the_count_passes() {
        let (five, mut state) = (window(5.0, SECOND), FixedWindowState::default());
        let passed = [900, 1_000].map(|t| admitted(&five, &mut state, at(t), 5));
        assert_eq!(passed, [5, 5]);
        let (hundred, mut state) = (window(100.0, SECOND * 60), FixedWindowState::default());
        let passed = [59_900, 60_000].map(|t| admitted(&hundred, &mut state, at(t), 100));
        assert_eq!(passed, [100, 100]);
    }

    #[test]
    fn borders_do_not_drift_with_the_times_of_calls() {
        let calls = (0..302).map(|i| at(i * 199));
        assert_eq!(admitted_at(&window(5.0, SECOND), calls), 300);
    }

    #[test]
    fn a_window_longer_than_a_second_counts_per_window() {
        // TC-01, strict.
        let (two, mut state) = (window(2.0, SECOND * 3), FixedWindowState::default());
        let calls = [100, 200, 300, 400, 500, 600, 700, 2_999, 3_000];
        let passed = calls.map(|t| admitted(&two, &mut state, at(t), 1));
        assert_eq!(passed, [1, 1, 0, 0, 0, 0, 0, 0, 1]);
        for (count, seconds, right) in [(30.0, 4, 30), (10.0, 60, 10)] {
            let window = window(count, SECOND * seconds);
            assert_eq!(admitted(&window, &mut FixedWindowState::default(), at(0), 600), right);
        }
    }

    #[test]
    fn tokens_are_counted_and_not_requests() {
        // TC-02.
        let (ten, mut state) = (window(10.0, SECOND), FixedWindowState::default());
        assert_eq!(ten.take(&mut state, at(0), 5), pass(5));
        assert_eq!(ten.take(&mut state, at(0), 5), pass(0));
        assert_eq!(ten.take(&mut state, at(0), 5), retry(SECOND));
        assert_eq!(ten.take(&mut state, at(10), 11), Verdict::NEVER);
        assert_eq!(ten.take(&mut state, at(1_000), 10), pass(0));
    }

    #[test]
    fn a_nanosecond_before_the_border_is_before_it() {
        let (one, mut state) = (window(1.0, SECOND), FixedWindowState::default());
        assert_eq!(one.take(&mut state, at(400), 1), pass(0));
        let early = Tick(at(1_000).0 - 1);
        assert_eq!(one.take(&mut state, early, 1), retry(Duration::from_nanos(1)));
        assert_eq!(one.take(&mut state, at(1_000), 1), pass(0));
        assert_eq!(one.take(&mut state, early, 1), retry(SECOND), "as in the window of the last");
        assert_eq!(one.take(&mut state, at(500_000), 1), pass(0), "many windows later");
    }

    #[test]
    fn the_first_and_the_last_window_of_time_are_windows() {
        let (max, mut state) =
            (window(9_007_199_254_740_992.0, SECOND), FixedWindowState::default());
        assert_eq!(max.take(&mut state, Tick(0), 1 << 53), pass(0));
        assert_eq!(max.take(&mut state, Tick(999_999_999), 1), retry(Duration::from_nanos(1)));
        assert_eq!(max.take(&mut state, Tick(u64::MAX), 1 << 53), pass(0));
        assert!(!max.take(&mut state, Tick(u64::MAX), 1).is_admitted());
    }

    #[test]
    fn a_fraction_of_a_token_and_none_never_pass() {
        for count in [0.0, 0.2, 0.999] {
            let mut state = FixedWindowState::default();
            assert_eq!(window(count, SECOND).take(&mut state, at(0), 1), Verdict::NEVER);
        }
        assert_eq!(admitted(&window(2.5, SECOND), &mut FixedWindowState::default(), at(0), 9), 2);
        assert_eq!(FixedWindow::new(1.0, ms(0)), Err(Invalid::Period(ms(0))));
    }

    #[test]
    fn a_new_count_keeps_the_tokens_that_were_used() {
        // TC-17.
        let minute = SECOND * 60;
        let mut state = FixedWindowState::default();
        assert_eq!(admitted(&window(5.0, minute), &mut state, at(0), 6), 5);
        assert_eq!(admitted(&window(10.0, minute), &mut state, at(20_000), 6), 5);
        assert_eq!(window(3.0, minute).take(&mut state, at(30_000), 1), retry(SECOND * 30));
    }

    #[test]
    fn a_cost_that_is_known_later_is_paid_until_the_border() {
        let (ten, mut state) = (window(10.0, SECOND), FixedWindowState::default());
        assert_eq!(ten.take(&mut state, at(0), 1), pass(9));
        ten.charge(&mut state, at(300), 731);
        assert_eq!(ten.used(&state, at(999)), 732);
        assert_eq!(ten.take(&mut state, at(300), 1), retry(ms(700)));
        ten.give_back_since(&mut state, at(400), Tick(at(0).0 - 1), 732);
        assert_eq!(ten.used(&state, at(400)), 732, "of the window before");
        ten.give_back_since(&mut state, at(400), at(0), 725);
        assert_eq!(ten.take(&mut state, at(400), 3), pass(0));
        assert_eq!(ten.take(&mut state, at(1_000), 10), pass(0));
    }

    #[test]
    fn a_window_between_two_borders_is_mended() {
        let (window_ns, start) = (1_000_000_000, at(7).0);
        let saved = Saved::FixedWindow { window_ns, start, used: 5 };
        let mut state = window(5.0, SECOND).restore(&saved, Duration::ZERO).unwrap();
        assert_eq!(window(5.0, SECOND).take(&mut state, at(400), 1), retry(ms(600)));
    }

    #[derive(Default)]
    struct Counted {
        limit: u64,
        window: u64,
        taken: Vec<(u64, u64)>,
    }

    impl Counted {
        fn count(&self, now: u64) -> u64 {
            let same = |then: u64| then / self.window == now / self.window;
            self.taken.iter().filter(|(then, _)| same(*then)).map(|(_, n)| n).sum()
        }
    }

    impl Model for Counted {
        fn take(&mut self, now: u64, n: u64) -> Verdict {
            match self.limit.saturating_sub(self.count(now)).checked_sub(n) {
                Some(remaining) if self.limit > 0 => {
                    self.taken.push((now, n));
                    pass(remaining)
                }
                _ => Verdict::NEVER,
            }
        }

        fn give_back(&mut self, now: u64, n: u64) {
            let left = self.count(now).saturating_sub(n);
            self.taken = vec![(now, left)];
        }

        fn charge(&mut self, now: u64, n: u64) {
            self.taken.push((now, n));
        }

        fn used(&mut self, now: u64) -> u64 {
            self.count(now)
        }
    }

    proptest! {
        #[test]
        fn it_counts_as_a_list_of_tokens_does(
            (limit, length, steps) in (0_u32..20, prop::sample::select(vec![1_u64, 7, 1_000, 86_400_000]))
                .prop_flat_map(|(limit, length)| {
                    let steps = suite::steps(ms(length), 1e6, u64::from(limit) + 1);
                    (Just(limit), Just(ms(length)), steps)
                }),
        ) {
            let window = window(f64::from(limit), length);
            let mut model =
                Counted { limit: limit.into(), window: window.window_ns, ..Counted::default() };
            suite::walk(&window, &mut model, &steps, u64::MAX)?;
        }
    }
}
