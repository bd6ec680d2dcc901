//! Sliding log: remembers when each token was taken.

use std::{collections::VecDeque, time::Duration};

use super::{
    Algorithm, Invalid, Saved, Verdict,
    rate::{check_count, check_window, whole},
    saved::back,
};
use crate::Tick;

/// Most tokens that a log remembers: 80 to 160 KB a key.
const LOG_MAX: u64 = 10_000;

/// Never lets more than the count pass in any window, wherever it begins.
///
/// *Formula*: `|{taken at t : now - t < window}| + n <= ⌊count⌋`. *Burst*: the count at once, and
/// again exactly one window later. *Memory*: 48 bytes and 8 for each token of the window; the log
/// doubles as it fills up (so up to 16) and is never allocated for again. *Cost*: constant a token;
/// a peek is a binary search. *Exact*: to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window_ns: u64,
}

/// When one key took its tokens: 48 bytes, and those on the heap.
#[derive(Clone, Debug, Default)]
pub struct SlidingLogState {
    last: Tick,
    /// One tick a token, oldest first.
    taken: VecDeque<Tick>,
    /// Tokens that were charged over the limit and have no place in the log. None is newer than
    /// the oldest that has, and all count until that leaves.
    over: u64,
}

impl SlidingLog {
    /// Largest count: a log holds every token.
    pub const COUNT_MAX: f64 = 10_000.0;

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

    /// Most tokens that it holds.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    fn is_past(&self, taken: Tick, now: Tick) -> bool {
        now.0.saturating_sub(taken.0) >= self.window_ns
    }

    fn advance(&self, state: &mut SlidingLogState, now: Tick) {
        state.last = state.last.max(now);
        while state.taken.front().is_some_and(|taken| self.is_past(*taken, state.last)) {
            state.taken.pop_front();
            state.over = 0;
        }
    }

    /// How many tokens of the log have left the window, and how many beside it have not.
    fn past(&self, state: &SlidingLogState, now: Tick) -> (usize, u64) {
        let past = state.taken.partition_point(|taken| self.is_past(*taken, now));
        (past, if past == 0 { state.over } else { 0 })
    }

    /// Decides when the first `past` tokens of the log have left the window, and `over` of those
    /// beside it have not.
    #[inline]
    fn decide(
        &self,
        state: &SlidingLogState,
        (past, over): (usize, u64),
        now: Tick,
        n: u64,
    ) -> Verdict {
        if n > self.limit || self.limit == 0 {
            return Verdict::NEVER;
        }
        let used = ((state.taken.len() - past) as u64).saturating_add(over);
        if let Some(remaining) = self.limit.saturating_sub(used).checked_sub(n) {
            return Verdict::Pass { remaining };
        }
        // As many must leave first, at least one, since something is used if nothing of `n` fits.
        // Those beside the log go with its first.
        let leaving = (used - (self.limit - n)).saturating_sub(over).max(1);
        let last = past + usize::try_from(leaving).unwrap_or(usize::MAX) - 1;
        let leaves = state.taken.get(last).map_or(0, |taken| now.0 - taken.0);
        Verdict::Block { retry: Some(Duration::from_nanos(self.window_ns - leaves)) }
    }
}

impl Algorithm for SlidingLog {
    type State = SlidingLogState;

    #[inline]
    fn take(&self, state: &mut SlidingLogState, now: Tick, n: u64) -> Verdict {
        self.advance(state, now);
        let verdict = self.decide(state, (0, state.over), state.last, n);
        if verdict.is_admitted() {
            for _ in 0..n {
                state.taken.push_back(state.last);
            }
        }
        verdict
    }

    fn peek(&self, state: &SlidingLogState, now: Tick, n: u64) -> Verdict {
        let now = state.last.max(now);
        self.decide(state, self.past(state, now), now, n)
    }

    /// What was charged over the limit is forgotten first, then the newest tokens.
    fn give_back(&self, state: &mut SlidingLogState, now: Tick, n: u64) {
        self.advance(state, now);
        let over = state.over.min(n);
        state.over -= over;
        let n = usize::try_from(n - over).unwrap_or(usize::MAX);
        state.taken.truncate(state.taken.len().saturating_sub(n));
    }

    /// The oldest tokens that can be meant are forgotten.
    fn give_back_since(&self, state: &mut SlidingLogState, now: Tick, since: Tick, n: u64) {
        self.advance(state, now);
        if self.is_past(since, state.last) {
            return;
        }
        let first = state.taken.partition_point(|taken| *taken < since);
        let over = if first == 0 { state.over.min(n) } else { 0 };
        state.over -= over;
        let n = usize::try_from(n - over).unwrap_or(usize::MAX);
        state.taken.drain(first..state.taken.len().min(first.saturating_add(n)));
    }

    /// Only the newest tokens up to the limit decide anything, so that older ones are put beside
    /// the log and it stays as short as it is without charges.
    fn charge(&self, state: &mut SlidingLogState, now: Tick, n: u64) {
        self.advance(state, now);
        // One at least, whose leaving is that of the others.
        let places = usize::try_from(self.limit.max(1)).unwrap_or(usize::MAX);
        let entries = usize::try_from(n).unwrap_or(usize::MAX).min(places);
        let oldest = (state.taken.len() + entries).saturating_sub(places);
        state.taken.drain(..oldest);
        state.taken.extend(std::iter::repeat_n(state.last, entries));
        state.over = state.over.saturating_add(oldest as u64).saturating_add(n - entries as u64);
    }

    /// Those beside the log count until the oldest in it leaves.
    fn used(&self, state: &SlidingLogState, now: Tick) -> u64 {
        let (past, over) = self.past(state, state.last.max(now));
        ((state.taken.len() - past) as u64).saturating_add(over)
    }

    fn is_idle(&self, state: &SlidingLogState, now: Tick) -> bool {
        state.taken.back().is_none_or(|taken| self.is_past(*taken, state.last.max(now)))
    }

    fn save(&self, state: &SlidingLogState, now: Tick) -> Saved {
        let (past, over) = self.past(state, state.last.max(now));
        Saved::SlidingLog {
            window_ns: self.window_ns,
            last: state.last.0,
            over,
            taken: state.taken.range(past..).map(|taken| taken.0).collect(),
        }
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<SlidingLogState> {
        let Saved::SlidingLog { window_ns, last, over, taken } = saved else { return None };
        if *window_ns != self.window_ns {
            return None;
        }
        let mut taken: Vec<Tick> = taken.iter().map(|taken| back(*taken, behind)).collect();
        taken.sort_unstable();
        let older = taken.len().saturating_sub(usize::try_from(LOG_MAX).unwrap_or(usize::MAX));
        taken.drain(..older);
        let over = if taken.is_empty() { 0 } else { over.saturating_add(older as u64) };
        let last = back(*last, behind).max(taken.last().copied().unwrap_or_default());
        Some(SlidingLogState { last, taken: taken.into(), over })
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
    fn the_state_is_48_bytes_and_at_most_16_a_token() {
        assert_eq!(size_of::<SlidingLogState>(), 48);
        let (log, mut state) = (log(10_000.0, SECOND), SlidingLogState::default());
        for t in 0..100 {
            admitted(&log, &mut state, at(t * 100), 2_000);
            log.charge(&mut state, at(t * 100), if t % 3 == 0 { u64::MAX } else { 900 });
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
    fn a_cost_that_is_known_later_is_paid_a_window_after_it() {
        let (five, mut state) = (log(5.0, SECOND), SlidingLogState::default());
        assert_eq!(five.take(&mut state, at(0), 2), pass(3));
        five.charge(&mut state, at(400), 731);
        assert_eq!((five.used(&state, at(400)), state.taken.len()), (733, 5));
        assert_eq!(five.take(&mut state, at(500), 1), retry(ms(900)));
        five.give_back_since(&mut state, at(500), at(401), 731);
        assert_eq!(five.used(&state, at(500)), 733, "taken before that");
        five.give_back_since(&mut state, at(500), at(400), 729);
        assert_eq!(five.take(&mut state, at(500), 1), pass(0));
        five.charge(&mut state, at(500), u64::MAX);
        assert_eq!(five.used(&state, at(500)), u64::MAX);
        assert_eq!(five.used(&state, at(1_500)), 0);
        five.charge(&mut state, at(1_500), 700);
        five.give_back(&mut state, at(1_600), 698);
        assert_eq!(five.take(&mut state, at(1_600), 3), pass(0));
    }

    #[test]
    fn what_no_log_holds_is_mended() {
        let five = log(5.0, SECOND);
        let restored = |last: u64, taken: &[u64]| {
            let taken = taken.iter().map(|ms| at(*ms).0).collect();
            let saved = Saved::SlidingLog { window_ns: 1_000_000_000, last, over: 9, taken };
            five.restore(&saved, Duration::ZERO).unwrap()
        };
        let mut state = restored(0, &[300, 100, 200]);
        assert_eq!(five.used(&state, at(0)), 12, "as at the newest");
        assert_eq!(five.take(&mut state, at(300), 3), retry(ms(800)));
        assert_eq!(five.take(&mut state, at(300), 4), retry(ms(900)));
        assert_eq!(five.used(&restored(at(0).0, &[]), at(0)), 0, "nothing would ever end them");
        let state = restored(0, &[0; 20_000]);
        assert_eq!((state.taken.len(), five.used(&state, at(0))), (10_000, 20_009));
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

    impl Listed {
        fn count(&self, now: u64) -> u64 {
            self.taken.iter().filter(|then| now - **then < self.window).count() as u64
        }
    }

    impl Model for Listed {
        fn take(&mut self, now: u64, n: u64) -> Verdict {
            match self.limit.saturating_sub(self.count(now)).checked_sub(n) {
                Some(remaining) if self.limit > 0 => {
                    self.taken.extend((0..n).map(|_| now));
                    pass(remaining)
                }
                _ => Verdict::NEVER,
            }
        }

        /// Those over the limit first, which decide nothing, then the newest.
        fn give_back(&mut self, now: u64, n: u64) {
            for _ in 0..n {
                let count = self.count(now);
                if count > self.limit {
                    self.taken.remove(self.taken.len() - usize::try_from(count).unwrap());
                } else if count > 0 {
                    self.taken.pop();
                }
            }
        }

        /// Those over the limit stay as long as the oldest that is not.
        fn charge(&mut self, now: u64, n: u64) {
            self.taken.retain(|then| now - then < self.window);
            self.taken.extend((0..n).map(|_| now));
            let over = self.taken.len().saturating_sub(usize::try_from(self.limit.max(1)).unwrap());
            let oldest = self.taken.get(over).copied().unwrap_or(now);
            self.taken[..over].fill(oldest);
        }

        fn used(&mut self, now: u64) -> u64 {
            self.count(now)
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
            let steps = if is_full_of_refunds { steps } else { suite::takes_only(steps) };
            let went = suite::walk(&log, &mut model, &steps, u64::MAX)?;
            for (start, _) in went.iter().filter(|_| !is_full_of_refunds) {
                let within = went.iter().filter(|(t, _)| t >= start && t - start < window);
                let sum: u64 = within.map(|(_, n)| n).sum();
                prop_assert!(ratio(sum.into(), 1) <= ratio(limit.into(), 1));
            }
        }
    }
}
