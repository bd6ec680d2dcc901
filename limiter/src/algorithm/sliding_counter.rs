//! Sliding window counter: two windows' counts, and a guess about the one before.

use std::time::Duration;

use super::{
    Algorithm, Invalid, Saved, Verdict,
    exact::{div_ceil, div_floor},
    rate::{check_count, check_window, whole},
    saved::back_by_windows,
};
use crate::Tick;

/// Counts this window and the one before, and takes it that the tokens of the one before were
/// spread evenly (the approximation that Cloudflare made popular).
///
/// *Formula*: with `e` the time since the aligned window began,
/// `previous × (window - e) / window + current + n <= ⌊count⌋`, in exact integers. *Burst*: the
/// count at once after two idle windows. *Error*: if the tokens of the previous window all came at
/// its end, the guess forgets them too early, and in the worst case just under 2 × count pass
/// within one window; if they all came at its start, up to the count is refused although it would
/// fit. Even traffic at the very count loses a token a window, since tokens are whole and the
/// guess is not. [`super::SlidingLog`] has no such error.
/// *Memory*: 24 bytes. *Cost*: one division, and one more while the previous window weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    limit: u64,
    window_ns: u64,
}

/// What one key has used of two windows: 24 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlidingCounterState {
    last: Tick,
    previous: u64,
    current: u64,
}

impl SlidingCounter {
    /// `count` (0 ..= 2^53) tokens per `window` (1 ms ..= 366 days).
    ///
    /// # Errors
    ///
    /// [`Invalid::Count`], [`Invalid::Period`].
    pub fn new(count: f64, window: Duration) -> Result<Self, Invalid> {
        Ok(Self { limit: whole(check_count(count)?), window_ns: check_window(window)? })
    }

    /// Turns to the window of `now`, and returns the time that is left of it (never zero).
    #[inline]
    fn advance(&self, state: &mut SlidingCounterState, now: Tick) -> u64 {
        let into = state.last.0 % self.window_ns;
        let elapsed = now.0.saturating_sub(state.last.0);
        state.last = state.last.max(now);
        if elapsed < self.window_ns - into {
            return self.window_ns - into - elapsed;
        }
        let is_next = elapsed - (self.window_ns - into) < self.window_ns;
        state.previous = if is_next { state.current } else { 0 };
        state.current = 0;
        self.window_ns - now.0 % self.window_ns
    }

    /// Tokens that the window before still stands for, rounded up: a fraction of one takes the
    /// place of a whole one.
    #[inline]
    fn weight(&self, state: &SlidingCounterState, left: u64) -> u64 {
        if state.previous == 0 {
            return 0;
        }
        // At most `previous`, since `left` is at most the window.
        let weight = div_ceil(u128::from(state.previous) * u128::from(left), self.window_ns);
        u64::try_from(weight).unwrap_or(u64::MAX)
    }

    /// Time until `tokens` of one window weigh no more than `room` in the next one, counted from
    /// the start of that.
    fn fades_after(&self, tokens: u64, room: u64) -> u64 {
        let keeps = u128::from(room) * u128::from(self.window_ns);
        self.window_ns - div_floor(keeps, u128::from(tokens.max(1))).min(self.window_ns)
    }

    /// Time until `n` would pass, when they do not pass now and `left` of this window is left.
    fn retry(&self, state: &SlidingCounterState, left: u64, n: u64) -> Duration {
        let ns = match self.limit.saturating_sub(state.current).checked_sub(n) {
            Some(room) => self.fades_after(state.previous, room) - (self.window_ns - left),
            None => left + self.fades_after(state.current, self.limit - n),
        };
        Duration::from_nanos(ns)
    }
}

impl Algorithm for SlidingCounter {
    type State = SlidingCounterState;

    #[inline]
    fn take(&self, state: &mut SlidingCounterState, now: Tick, n: u64) -> Verdict {
        let left = self.advance(state, now);
        if n > self.limit || self.limit == 0 {
            return Verdict::NEVER;
        }
        let used = state.current.saturating_add(self.weight(state, left));
        match self.limit.saturating_sub(used).checked_sub(n) {
            Some(remaining) => {
                state.current += n;
                Verdict::Pass { remaining }
            }
            None => Verdict::Block { retry: Some(self.retry(state, left, n)) },
        }
    }

    #[inline]
    fn peek(&self, state: &SlidingCounterState, now: Tick, n: u64) -> Verdict {
        self.take(&mut { *state }, now, n)
    }

    /// What this window did not use is taken off the one before.
    fn give_back(&self, state: &mut SlidingCounterState, now: Tick, n: u64) {
        self.advance(state, now);
        state.previous = state.previous.saturating_sub(n.saturating_sub(state.current));
        state.current = state.current.saturating_sub(n);
    }

    /// Tokens of the window before go first: they count for less, and leave sooner.
    fn give_back_since(&self, state: &mut SlidingCounterState, now: Tick, since: Tick, n: u64) {
        let left = self.advance(state, now);
        let start = state.last.0.saturating_sub(self.window_ns - left);
        if since.0 < start.saturating_sub(self.window_ns) {
            return;
        }
        let older = if since.0 < start { state.previous.min(n) } else { 0 };
        state.previous -= older;
        state.current = state.current.saturating_sub(n - older);
    }

    fn charge(&self, state: &mut SlidingCounterState, now: Tick, n: u64) {
        self.advance(state, now);
        state.current = state.current.saturating_add(n);
    }

    fn used(&self, state: &SlidingCounterState, now: Tick) -> u64 {
        let mut state = *state;
        let left = self.advance(&mut state, now);
        state.current.saturating_add(self.weight(&state, left))
    }

    fn is_idle(&self, state: &SlidingCounterState, now: Tick) -> bool {
        let mut state = *state;
        self.advance(&mut state, now);
        (state.previous, state.current) == (0, 0)
    }

    fn save(&self, state: &SlidingCounterState, _now: Tick) -> Saved {
        let SlidingCounterState { last: Tick(last), previous, current } = *state;
        Saved::SlidingCounter { window_ns: self.window_ns, last, previous, current }
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<SlidingCounterState> {
        match *saved {
            Saved::SlidingCounter { window_ns, last, previous, current }
                if window_ns == self.window_ns =>
            {
                let last = back_by_windows(last, window_ns, behind);
                Some(SlidingCounterState { last, previous, current })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use num_rational::BigRational;
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, Model, SECOND, admitted, at, ms, pass, ratio, retry};

    fn counter(count: f64, window: Duration) -> SlidingCounter {
        SlidingCounter::new(count, window).unwrap()
    }

    #[test]
    fn the_state_is_24_bytes() {
        assert_eq!(size_of::<SlidingCounterState>(), 24);
    }

    #[test]
    fn five_per_2_s_of_3_pass_3_then_in_a_new_window_of_14_pass_5_and_not_6() {
        let (counter, mut state) = (counter(5.0, SECOND * 2), SlidingCounterState::default());
        assert_eq!(admitted(&counter, &mut state, at(0), 3), 3);
        // The 3 fade out between 2 s and 4 s; only then is the window new.
        let passed = [2_000, 3_000].map(|t| counter.peek(&state, at(t), 0));
        assert_eq!(passed, [pass(2), pass(3)]);
        assert_eq!(admitted(&counter, &mut state, at(4_000), 14), 5);
    }

    #[test]
    fn around_a_border_no_more_than_the_count_passes() {
        let (five, mut state) = (counter(5.0, SECOND), SlidingCounterState::default());
        assert_eq!(admitted(&five, &mut state, at(900), 5), 5);
        let more: usize = (1_000..=1_100).map(|t| admitted(&five, &mut state, at(t), 1)).sum();
        assert_eq!(more, 0);
        let (hundred, mut state) = (counter(100.0, SECOND * 60), SlidingCounterState::default());
        let passed = [59_900, 60_000, 60_100].map(|t| admitted(&hundred, &mut state, at(t), 100));
        assert_eq!(passed, [100, 0, 0]);
    }

    #[test]
    fn even_traffic_at_the_count_loses_at_most_a_token_a_window() {
        let (five, mut state) = (counter(5.0, SECOND), SlidingCounterState::default());
        for second in 0..60 {
            let calls = (0..5).map(|i| at(second * 1_000 + i * 200));
            let passed: usize = calls.map(|t| admitted(&five, &mut state, t, 1)).sum();
            assert!(passed >= 4, "{passed} in second {second}");
        }
    }

    #[test]
    fn at_worst_just_under_twice_the_count_passes_within_a_window() {
        // As documented: 100 at the end of a window, then whatever fits until a window after them.
        let (counter, mut state) = (counter(100.0, SECOND), SlidingCounterState::default());
        assert_eq!(admitted(&counter, &mut state, at(999), 100), 100);
        let more: usize = (1_000..1_999).map(|t| admitted(&counter, &mut state, at(t), 100)).sum();
        assert_eq!(more, 99);
    }

    #[test]
    fn more_than_a_window_counts_per_window() {
        // TC-01, strict.
        for (count, seconds, right) in [(2.0, 3, 2), (30.0, 4, 30), (10.0, 60, 10)] {
            let counter = counter(count, SECOND * seconds);
            let mut state = SlidingCounterState::default();
            assert_eq!(admitted(&counter, &mut state, at(0), 600), right);
            assert_eq!(admitted(&counter, &mut state, Tick(at(0).0 + 999_999_999), 600), 0);
        }
    }

    #[test]
    fn a_nanosecond_decides() {
        let (two, mut state) = (counter(2.0, SECOND), SlidingCounterState::default());
        assert_eq!(two.take(&mut state, at(400), 2), pass(0));
        assert_eq!(two.take(&mut state, at(400), 1), retry(ms(1_100)));
        let early = Tick(at(1_500).0 - 1);
        assert_eq!(two.take(&mut state, early, 1), retry(Duration::from_nanos(1)));
        assert_eq!(two.take(&mut state, at(1_500), 1), pass(0));
        assert_eq!(two.take(&mut state, early, 2), retry(ms(1_500)), "as at the last tick");
    }

    #[test]
    fn the_edges_of_counts_and_of_time() {
        let max = 1 << 53;
        let (most, mut state) =
            (counter(9_007_199_254_740_992.0, SECOND * 31_622_400), SlidingCounterState::default());
        assert_eq!(most.take(&mut state, Tick(0), max), pass(0));
        assert_eq!(most.take(&mut state, Tick(0), max), retry(SECOND * 31_622_400 * 2));
        assert_eq!(most.take(&mut state, Tick(u64::MAX), max), pass(0));
        for count in [0.0, 0.5] {
            let mut state = SlidingCounterState::default();
            assert_eq!(counter(count, SECOND).take(&mut state, at(0), 1), Verdict::NEVER);
        }
        assert_eq!(most.take(&mut state, Tick(u64::MAX), max + 1), Verdict::NEVER);
    }

    /// Tokens by window.
    struct Weighed {
        limit: u64,
        window: u64,
        tokens: std::collections::HashMap<u64, u64>,
    }

    impl Weighed {
        fn counts(&self, now: u64) -> (u64, u64) {
            let at = |window: u64| self.tokens.get(&window).copied().unwrap_or(0);
            (at(now / self.window - 1), at(now / self.window))
        }
    }

    impl Model for Weighed {
        fn take(&mut self, now: u64, n: u64) -> Verdict {
            let (previous, current) = self.counts(now);
            let left = ratio((self.window - now % self.window).into(), self.window.into());
            let whole = |n: u64| BigRational::from_integer(n.into());
            let left = whole(self.limit) - whole(current) - left * whole(previous);
            let room = left.max(whole(0)) - whole(n);
            if room < ratio(0, 1) || self.limit == 0 {
                return Verdict::NEVER;
            }
            *self.tokens.entry(now / self.window).or_default() += n;
            pass(suite::floor(&room))
        }

        fn give_back(&mut self, now: u64, n: u64) {
            let (previous, current) = self.counts(now);
            let older = previous.saturating_sub(n.saturating_sub(current));
            self.tokens.insert(now / self.window - 1, older);
            self.tokens.insert(now / self.window, current.saturating_sub(n));
        }

        fn charge(&mut self, now: u64, n: u64) {
            *self.tokens.entry(now / self.window).or_default() += n;
        }

        fn used(&mut self, now: u64) -> u64 {
            let (previous, current) = self.counts(now);
            let left = ratio((self.window - now % self.window).into(), self.window.into());
            current + suite::ceil(&(left * BigRational::from_integer(previous.into())))
        }
    }

    proptest! {
        #[test]
        fn it_weighs_as_fractions_do(
            (limit, length, steps) in (0_u32..20, prop::sample::select(vec![1_u64, 7, 1_000, 86_400_000]))
                .prop_flat_map(|(limit, length)| {
                    let steps = suite::steps(ms(length), 1e6, u64::from(limit) + 1);
                    (Just(limit), Just(ms(length)), steps)
                }),
        ) {
            let counter = counter(f64::from(limit), length);
            let window = counter.window_ns;
            let mut model = Weighed { limit: limit.into(), window, tokens: Default::default() };
            suite::walk(&counter, &mut model, &steps, u64::MAX)?;
        }
    }
}
