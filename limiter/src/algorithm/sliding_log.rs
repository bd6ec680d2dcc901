//! Sliding log: remembers when each token was taken.

#[cfg(test)]
mod model;
mod runs;
mod saved;

use std::time::Duration;

use self::runs::Runs;
use super::{
    Algorithm, Invalid, Saved, Verdict,
    rate::{check_count, check_window, whole},
};
use crate::Tick;

/// Most tokens that a log remembers: 160 to 320 KB a key if each came at a tick of its own.
const LOG_MAX: u64 = 10_000;

/// Never lets more than the count pass in any window, wherever it begins.
///
/// *Formula*: `|{taken at t : now - t < window}| + n <= ⌊count⌋`. *Burst*: the count at once, and
/// again exactly one window later. *Memory*: 56 bytes and 16 for each tick of the window at which
/// tokens were taken; the log doubles as it fills up (so up to 32) and is never allocated for again.
/// *Cost*: constant, however many tokens; a search where many leave, for a peek and for the time of
/// a refusal. *Exact*: to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window_ns: u64,
}

/// When one key took its tokens: 56 bytes, and those on the heap.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct SlidingLogState {
    last: Tick,
    /// Tokens that were charged over the limit and have no place in the log. None is newer than
    /// the oldest that has, and all count until that leaves.
    over: u64,
    log: Runs,
}

impl SlidingLogState {
    /// Bytes that the log allocates.
    pub(crate) fn heap_bytes(&self) -> u64 {
        self.log.heap_bytes()
    }

    /// Gives back what a log that was far longer has left; as much again may come before it grows.
    pub(crate) fn give_back_heap(&mut self) {
        self.log.give_back_heap();
    }

    /// Makes do with so many bytes, or those of the shortest log: joins neighbours, the earlier with
    /// the later, so that no token is forgotten before its time. It may then count for longer, by
    /// less than a window: none is put later than now, and none after the first has left.
    pub(crate) fn make_do_with(&mut self, bytes: u64) {
        self.log.make_do_with(bytes);
    }
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

    /// Bytes that the shortest log allocates.
    pub(crate) const HEAP_MIN: u64 = Runs::HEAP_MIN;

    #[inline]
    fn is_past(&self, taken: Tick, now: Tick) -> bool {
        now.0.saturating_sub(taken.0) >= self.window_ns
    }

    #[inline]
    fn advance(&self, state: &mut SlidingLogState, now: Tick) {
        state.last = state.last.max(now);
        let (past, over) = self.past(state, state.last);
        if past > 0 {
            state.log.skip(past);
            state.over = over;
        }
    }

    /// How many runs of the log have left the window, and how many tokens beside it have not.
    #[inline]
    fn past(&self, state: &SlidingLogState, now: Tick) -> (usize, u64) {
        if !self.is_past(state.log.oldest(), now) {
            return (0, state.over);
        }
        let past = state.log.before(|run| self.is_past(run.at, now));
        (past, if past == 0 { state.over } else { 0 })
    }

    /// What remains when `n` tokens are added to those `used`; `None` when they do not fit.
    #[inline]
    fn room(&self, used: u64, n: u64) -> Option<u64> {
        self.limit.saturating_sub(used).checked_sub(n).filter(|_| self.limit > 0)
    }

    /// Takes `n` tokens if they fit.
    #[inline]
    fn admit(&self, state: &mut SlidingLogState, now: Tick, n: u64) -> Option<Verdict> {
        self.advance(state, now);
        let remaining = self.room(state.log.tokens().saturating_add(state.over), n)?;
        state.log.push(state.last, n);
        Some(Verdict::Pass { remaining })
    }

    /// When `n` tokens will fit that do not at `now`, when the first `past` runs of the log have left
    /// the window, and `over` of the tokens beside it have not.
    fn refusal(
        &self,
        state: &SlidingLogState,
        (past, over): (usize, u64),
        now: Tick,
        n: u64,
    ) -> Verdict {
        if n > self.limit || self.limit == 0 {
            return Verdict::NEVER;
        }
        let start = state.log.start(past);
        let used = (state.log.end() - start).saturating_add(over);
        // As many must leave first, at least one, since something is used if nothing of `n` fits.
        // Those beside the log go with its first.
        let leaving = (used - (self.limit - n)).saturating_sub(over).max(1);
        let last = state.log.get(state.log.run_to(start + leaving));
        let leaves = last.map_or(0, |run| now.0 - run.at.0);
        Verdict::Block { retry: Some(Duration::from_nanos(self.window_ns - leaves)) }
    }
}

impl Algorithm for SlidingLog {
    type State = SlidingLogState;

    #[inline]
    fn take(&self, state: &mut SlidingLogState, now: Tick, n: u64) -> Verdict {
        let admitted = self.admit(state, now, n);
        admitted.unwrap_or_else(|| self.refusal(state, (0, state.over), state.last, n))
    }

    #[inline]
    fn try_take(&self, state: &mut SlidingLogState, now: Tick, n: u64) -> Verdict {
        self.admit(state, now, n).unwrap_or(Verdict::NEVER)
    }

    fn peek(&self, state: &SlidingLogState, now: Tick, n: u64) -> Verdict {
        let now = state.last.max(now);
        let (past, over) = self.past(state, now);
        let used = (state.log.end() - state.log.start(past)).saturating_add(over);
        match self.room(used, n) {
            Some(remaining) => Verdict::Pass { remaining },
            None => self.refusal(state, (past, over), now, n),
        }
    }

    /// What was charged over the limit is forgotten first, then the newest tokens.
    fn give_back(&self, state: &mut SlidingLogState, now: Tick, n: u64) {
        self.advance(state, now);
        let over = state.over.min(n);
        state.over -= over;
        state.log.truncate(state.log.tokens().saturating_sub(n - over));
    }

    /// The oldest tokens that can be meant are forgotten.
    fn give_back_since(&self, state: &mut SlidingLogState, now: Tick, since: Tick, n: u64) {
        self.advance(state, now);
        if self.is_past(since, state.last) {
            return;
        }
        let first = state.log.before(|run| run.at < since);
        let over = if first == 0 { state.over.min(n) } else { 0 };
        state.over -= over;
        let start = state.log.start(first);
        state.log.forget_after(start, (n - over).min(state.log.end() - start));
    }

    /// Only the newest tokens up to the limit decide anything, so that older ones are put beside
    /// the log and it stays as short as it is without charges.
    fn charge(&self, state: &mut SlidingLogState, now: Tick, n: u64) {
        self.advance(state, now);
        // One at least, whose leaving is that of the others.
        let places = self.limit.max(1);
        let in_log = n.min(places);
        let oldest = (state.log.tokens() + in_log).saturating_sub(places);
        state.log.forget(oldest);
        state.log.push(state.last, in_log);
        state.over = state.over.saturating_add(oldest).saturating_add(n - in_log);
    }

    /// Those beside the log count until the oldest in it leaves.
    fn used(&self, state: &SlidingLogState, now: Tick) -> u64 {
        let (past, over) = self.past(state, state.last.max(now));
        (state.log.end() - state.log.start(past)).saturating_add(over)
    }

    fn is_idle(&self, state: &SlidingLogState, now: Tick) -> bool {
        state.log.last().is_none_or(|run| self.is_past(run.at, state.last.max(now)))
    }

    fn save(&self, state: &SlidingLogState, now: Tick) -> Saved {
        self.saved(state, now)
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<SlidingLogState> {
        self.restored(saved, behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::suite::{SECOND, admitted, at, ms, pass, retry};

    fn log(count: f64, window: Duration) -> SlidingLog {
        SlidingLog::new(count, window).unwrap()
    }

    #[test]
    fn the_state_is_56_bytes_and_at_most_32_a_token() {
        assert_eq!(size_of::<SlidingLogState>(), 56);
        let (log, mut state) = (log(10_000.0, SECOND), SlidingLogState::default());
        for t in 0..100 {
            admitted(&log, &mut state, at(t * 100), 2_000);
            log.charge(&mut state, at(t * 100), if t % 3 == 0 { u64::MAX } else { 900 });
        }
        assert!(state.heap_bytes() <= 32 * 10_000);
    }

    #[test]
    fn what_is_taken_or_charged_at_one_tick_is_one_entry() {
        let (log, mut state) = (log(10_000.0, SECOND), SlidingLogState::default());
        assert_eq!(log.take(&mut state, at(0), 4_000), pass(6_000));
        log.charge(&mut state, at(0), 9_000);
        assert_eq!((state.log.len(), log.used(&state, at(0))), (1, 13_000));
        log.charge(&mut state, at(1), 9_999);
        assert_eq!((state.log.len(), log.used(&state, at(1))), (2, 22_999));
        log.charge(&mut state, at(2), u64::MAX);
        assert_eq!((state.log.len(), log.used(&state, at(2))), (1, u64::MAX));
        assert_eq!(log.take(&mut state, at(1_002), 10_000), pass(0));
        log.give_back_since(&mut state, at(1_500), at(1_002), 10_000);
        assert_eq!((state.log.len(), log.used(&state, at(1_500))), (0, 0));
    }

    #[test]
    fn what_is_given_back_out_of_the_middle_leaves_the_others_where_they_are() {
        let (log, mut state) = (log(20.0, SECOND), SlidingLogState::default());
        for (ms, n) in [(0, 3), (100, 4), (200, 5), (300, 6)] {
            assert!(log.take(&mut state, at(ms), n).is_admitted());
        }
        // One of 100 stays, and all of 0, 200 and 300.
        log.give_back_since(&mut state, at(300), at(50), 3);
        let used = |state: &_| [300, 1_000, 1_100, 1_200, 1_300].map(|ms| log.used(state, at(ms)));
        assert_eq!(used(&state), [15, 12, 11, 6, 0]);
        log.give_back_since(&mut state, at(300), at(50), 4);
        assert_eq!((used(&state), state.log.len()), ([11, 8, 8, 6, 0], 3));
        log.give_back(&mut state, at(300), 7);
        assert_eq!((used(&state), state.log.len()), ([4, 1, 1, 0, 0], 2));
        log.give_back_since(&mut state, at(300), at(0), u64::MAX);
        assert_eq!((used(&state), state.log.len()), ([0; 5], 0));
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
        assert_eq!((five.used(&state, at(400)), state.log.tokens()), (733, 5));
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
}
