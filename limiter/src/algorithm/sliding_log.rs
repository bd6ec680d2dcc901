//! Sliding log: remembers when each token was taken.

use std::{collections::VecDeque, time::Duration};

use super::{
    Algorithm, Invalid, Verdict,
    rate::{check_count, check_window, whole},
};
use crate::Tick;

/// Most tokens that a log remembers: 80 to 160 KB a key.
const LOG_MAX: u64 = 10_000;

/// Never lets more than the count pass in any window, wherever it begins.
///
/// *Formula*: `|{taken at t : now - t < window}| + n <= ⌊count⌋`. *Burst*: the count at once, and
/// again exactly one window later. *Memory*: 40 bytes and 8 for each token of the window; the log
/// doubles as it fills up (so up to 16) and is never allocated for again. *Cost*: constant a token;
/// a peek is a binary search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window_ns: u64,
}

/// When one key took its tokens: 40 bytes, and those on the heap.
#[derive(Clone, Debug, Default)]
pub struct SlidingLogState {
    last: Tick,
    /// One tick a token, oldest first.
    taken: VecDeque<Tick>,
}

impl SlidingLog {
    /// `count` (0 ..= 10 000) tokens in any `window` (1 ms ..= 366 days).
    ///
    /// # Errors
    ///
    /// [`Invalid::LogTooLong`], [`Invalid::Count`], [`Invalid::Period`].
    pub fn new(count: f64, window: Duration) -> Result<Self, Invalid> {
        let limit = whole(check_count(count)?);
        if limit > LOG_MAX {
            return Err(Invalid::LogTooLong(limit));
        }
        Ok(Self { limit, window_ns: check_window(window)? })
    }

    fn is_past(&self, taken: Tick, now: Tick) -> bool {
        now.0.saturating_sub(taken.0) >= self.window_ns
    }

    fn advance(&self, state: &mut SlidingLogState, now: Tick) {
        state.last = state.last.max(now);
        while state.taken.front().is_some_and(|taken| self.is_past(*taken, state.last)) {
            state.taken.pop_front();
        }
    }

    /// Decides when the first `past` tokens of the log have left the window.
    #[inline]
    fn decide(&self, state: &SlidingLogState, past: usize, now: Tick, n: u64) -> Verdict {
        if n > self.limit || self.limit == 0 {
            return Verdict::NEVER;
        }
        let used = (state.taken.len() - past) as u64;
        if let Some(remaining) = self.limit.saturating_sub(used).checked_sub(n) {
            return Verdict::Pass { remaining };
        }
        // All that is over the limit must leave first; the last of it stands here, for `n` is
        // at least 1 if nothing of it fits.
        let over = usize::try_from(used + n - self.limit).unwrap_or(usize::MAX);
        let leaves = state.taken.get(past + over - 1).map_or(0, |taken| now.0 - taken.0);
        Verdict::Block { retry: Some(Duration::from_nanos(self.window_ns - leaves)) }
    }
}

impl Algorithm for SlidingLog {
    type State = SlidingLogState;

    #[inline]
    fn take(&self, state: &mut SlidingLogState, now: Tick, n: u64) -> Verdict {
        self.advance(state, now);
        let verdict = self.decide(state, 0, state.last, n);
        if verdict.is_admitted() {
            state.taken.extend((0..n).map(|_| state.last));
        }
        verdict
    }

    fn peek(&self, state: &SlidingLogState, now: Tick, n: u64) -> Verdict {
        let now = state.last.max(now);
        self.decide(state, state.taken.partition_point(|taken| self.is_past(*taken, now)), now, n)
    }

    /// The newest tokens are forgotten.
    fn give_back(&self, state: &mut SlidingLogState, now: Tick, n: u64) {
        self.advance(state, now);
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        state.taken.truncate(state.taken.len().saturating_sub(n));
    }

    fn is_idle(&self, state: &SlidingLogState, now: Tick) -> bool {
        state.taken.back().is_none_or(|taken| self.is_past(*taken, state.last.max(now)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, Model, SECOND, admitted, at, ms, pass, ratio, retry};

    fn log(count: f64, window: Duration) -> SlidingLog {
        SlidingLog::new(count, window).unwrap()
    }

    #[test]
    fn the_state_is_40_bytes_and_at_most_16_a_token() {
        assert_eq!(size_of::<SlidingLogState>(), 40);
        let (log, mut state) = (log(10_000.0, SECOND), SlidingLogState::default());
        for t in 0..100 {
            admitted(&log, &mut state, at(t * 100), 2_000);
        }
        assert!(state.taken.capacity() * size_of::<Tick>() <= 16 * 10_000);
    }

    #[test]
    fn five_per_2_s_of_3_pass_3_then_in_a_new_window_of_14_pass_5_and_not_6() {
        let (log, mut state) = (log(5.0, SECOND * 2), SlidingLogState::default());
        assert_eq!(admitted(&log, &mut state, at(0), 3), 3);
        assert_eq!(admitted(&log, &mut state, at(2_000), 14), 5);
    }

    #[test]
    fn around_a_border_no_more_than_the_count_passes() {
        let (five, mut state) = (log(5.0, SECOND), SlidingLogState::default());
        let first: usize = (0..5).map(|i| admitted(&five, &mut state, at(900 + 20 * i), 1)).sum();
        let more: usize = (1_000..=1_100).map(|t| admitted(&five, &mut state, at(t), 1)).sum();
        assert_eq!((first, more), (5, 0));
        let (hundred, mut state) = (log(100.0, SECOND * 60), SlidingLogState::default());
        let passed = [59_900, 60_000, 60_100].map(|t| admitted(&hundred, &mut state, at(t), 100));
        assert_eq!(passed, [100, 0, 0]);
    }

    #[test]
    fn a_window_longer_than_a_second_counts_per_window() {
        // TC-01, strict: here each token leaves by itself, 3 s after it came.
        let (two, mut state) = (log(2.0, SECOND * 3), SlidingLogState::default());
        let calls = [100, 200, 300, 700, 2_999, 3_099, 3_100, 3_100, 3_200];
        let passed = calls.map(|t| admitted(&two, &mut state, at(t), 1));
        assert_eq!(passed, [1, 1, 0, 0, 0, 0, 1, 0, 1]);
        for (count, seconds, right) in [(30.0, 4, 30), (10.0, 60, 10)] {
            let log = log(count, SECOND * seconds);
            assert_eq!(admitted(&log, &mut SlidingLogState::default(), at(0), 600), right);
        }
    }

    #[test]
    fn each_token_leaves_exactly_a_window_after_it_came() {
        let (log, mut state) = (log(3.0, SECOND), SlidingLogState::default());
        assert_eq!(log.take(&mut state, Tick(5), 1), pass(2), "the first tick ever");
        assert_eq!(log.take(&mut state, at(0), 2), pass(1));
        assert_eq!(log.take(&mut state, at(300), 2), retry(ms(700)));
        assert_eq!(log.take(&mut state, at(300), 1), pass(0));
        assert_eq!(log.take(&mut state, at(300), 3), retry(SECOND));
        let early = Tick(at(1_000).0 - 1);
        assert_eq!(log.take(&mut state, early, 2), retry(Duration::from_nanos(1)));
        assert_eq!(log.take(&mut state, at(1_000), 2), pass(0));
        assert_eq!(log.take(&mut state, Tick(0), 1), retry(ms(300)), "as at the last tick");
        assert!(!log.is_idle(&state, at(1_999)));
        assert!(log.is_idle(&state, at(2_000)));
    }

    #[test]
    fn a_token_taken_at_an_older_tick_stays_as_long_as_one_at_the_last() {
        let (log, mut state) = (log(2.0, SECOND), SlidingLogState::default());
        assert_eq!(log.take(&mut state, at(0), 1), pass(1));
        assert_eq!(log.take(&mut state, at(900), 2), retry(ms(100)));
        assert_eq!(log.take(&mut state, at(100), 1), pass(0));
        assert_eq!(log.take(&mut state, at(1_000), 2), retry(ms(900)));
    }

    #[test]
    fn a_log_that_would_be_large_is_refused() {
        assert!(SlidingLog::new(10_000.9, SECOND).is_ok());
        assert_eq!(SlidingLog::new(10_001.0, SECOND), Err(Invalid::LogTooLong(10_001)));
        let too_many = 9_007_199_254_740_994.0;
        assert_eq!(SlidingLog::new(too_many, SECOND), Err(Invalid::Count(too_many)));
        for count in [0.0, 0.5] {
            let mut state = SlidingLogState::default();
            assert_eq!(log(count, SECOND).take(&mut state, at(0), 1), Verdict::NEVER);
        }
    }

    #[test]
    fn a_new_count_keeps_the_tokens_that_were_used() {
        // TC-17.
        let minute = SECOND * 60;
        let mut state = SlidingLogState::default();
        let passed: usize =
            (0..6).map(|t| admitted(&log(5.0, minute), &mut state, at(t * 1_000), 1)).sum();
        assert_eq!(passed, 5);
        assert_eq!(admitted(&log(10.0, minute), &mut state, at(20_000), 6), 5);
        // Eight of the ten must go: the first five, and with them two of 20 s later.
        assert_eq!(log(3.0, minute).take(&mut state, at(30_000), 1), retry(SECOND * 50));
    }

    #[derive(Default)]
    struct Listed {
        limit: u64,
        window: u64,
        taken: Vec<u64>,
    }

    impl Model for Listed {
        fn take(&mut self, now: u64, n: u64) -> Verdict {
            let used = self.taken.iter().filter(|then| now - **then < self.window).count() as u64;
            match self.limit.checked_sub(used + n) {
                Some(remaining) if self.limit > 0 => {
                    self.taken.extend((0..n).map(|_| now));
                    pass(remaining)
                }
                _ => Verdict::NEVER,
            }
        }

        fn give_back(&mut self, now: u64, n: u64) {
            for _ in 0..n {
                if self.taken.last().is_some_and(|then| now - then < self.window) {
                    self.taken.pop();
                }
            }
        }
    }

    proptest! {
        #[test]
        fn it_counts_as_a_list_of_tokens_does_and_never_exceeds_the_count(
            (limit, length, steps) in (0_u32..20, prop::sample::select(vec![1_u64, 7, 1_000, 86_400_000]))
                .prop_flat_map(|(limit, length)| {
                    let steps = suite::steps(ms(length), 1e6, u64::from(limit) + 1);
                    (Just(limit), Just(ms(length)), steps)
                }),
            is_full_of_refunds: bool,
        ) {
            let log = log(f64::from(limit), length);
            let window = log.window_ns;
            let mut model = Listed { limit: limit.into(), window, ..Listed::default() };
            let steps = if is_full_of_refunds { steps } else { suite::without_refunds(steps) };
            let went = suite::walk(&log, &mut model, &steps, u64::MAX)?;
            for (start, _) in went.iter().filter(|_| !is_full_of_refunds) {
                let within = went.iter().filter(|(t, _)| t >= start && t - start < window);
                let sum: u64 = within.map(|(_, n)| n).sum();
                prop_assert!(ratio(sum.into(), 1) <= ratio(limit.into(), 1));
            }
        }
    }
}
