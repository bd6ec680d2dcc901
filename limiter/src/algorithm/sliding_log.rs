//! Sliding log: remembers when each token was taken.

use std::{collections::VecDeque, time::Duration};

use super::{
    Algorithm, Invalid, Saved, Verdict,
    rate::{check_count, check_window, whole},
    saved::back,
};
use crate::Tick;

/// Most tokens that a log remembers: 160 to 320 KB a key if each came at a tick of its own.
const LOG_MAX: u64 = 10_000;

/// Entries for which there is room in the shortest log.
const RUNS_MIN: usize = 4;

/// Never lets more than the count pass in any window, wherever it begins.
///
/// *Formula*: `|{taken at t : now - t < window}| + n <= ⌊count⌋`. *Burst*: the count at once, and
/// again exactly one window later. *Memory*: 56 bytes and 16 for each tick of the window at which
/// tokens were taken; the log doubles as it fills up (so up to 32) and is never allocated for again.
/// *Cost*: constant, however many tokens; a refusal and a peek are a binary search.
/// *Exact*: to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window_ns: u64,
}

/// When one key took its tokens: 56 bytes, and those on the heap.
#[derive(Clone, Debug, Default)]
pub struct SlidingLogState {
    last: Tick,
    /// One entry a tick, oldest first.
    taken: VecDeque<Run>,
    /// Tokens that were ever taken and are not in the log any more.
    gone: u64,
    /// Tokens that were charged over the limit and have no place in the log. None is newer than
    /// the oldest that has, and all count until that leaves.
    over: u64,
}

/// The tokens of one tick: those up to `end` that no run before it has, counted as
/// [`SlidingLogState::gone`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    at: Tick,
    end: u64,
}

impl SlidingLogState {
    /// Tokens in the log.
    fn len(&self) -> u64 {
        self.taken.back().map_or(0, |run| run.end - self.gone)
    }

    /// Bytes that the log allocates.
    pub(crate) fn heap_bytes(&self) -> u64 {
        (self.taken.capacity() * size_of::<Run>()) as u64
    }

    /// Gives back what a log that was far longer has left; as much again may come before it grows.
    pub(crate) fn give_back_heap(&mut self) {
        if self.taken.len() < self.taken.capacity() / 8 {
            self.taken.shrink_to(RUNS_MIN.max(2 * self.taken.len()));
        }
    }

    /// Makes do with so many bytes, or those of four entries: joins neighbours, the earlier with
    /// the later, so that no token is forgotten before its time. It may then count for longer, by
    /// less than a window: none is put later than now, and none after the first has left.
    pub(crate) fn make_do_with(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let most = (bytes / size_of::<Run>()).max(RUNS_MIN);
        while self.taken.len() > most {
            // Every other one goes, its tokens to the next, but never the first or the last.
            let (last, mut index) = (self.taken.len() - 1, 0);
            self.taken.retain(|_| {
                index += 1;
                index % 2 == 1 || index > last
            });
        }
        self.taken.shrink_to(most);
    }

    /// Where the tokens of the run at `index` begin.
    fn start(&self, index: usize) -> u64 {
        let before = index.checked_sub(1).and_then(|before| self.taken.get(before));
        before.map_or(self.gone, |run| run.end)
    }

    /// The run that has the token before `end`.
    fn run_to(&self, end: u64) -> usize {
        self.taken.partition_point(|run| run.end < end)
    }

    /// Puts in `n` tokens of the last tick.
    fn push(&mut self, n: u64) {
        if n == 0 {
            return;
        }
        let (at, end) = (self.last, self.start(self.taken.len()) + n);
        match self.taken.back_mut() {
            Some(run) if run.at == at => run.end = end,
            _ => self.taken.push_back(Run { at, end }),
        }
    }

    /// Forgets the oldest `n` tokens, of which there are as many.
    fn forget(&mut self, n: u64) {
        self.gone += n;
        while self.taken.front().is_some_and(|run| run.end <= self.gone) {
            self.taken.pop_front();
        }
    }

    /// Forgets all but the oldest `n` tokens.
    fn truncate(&mut self, n: u64) {
        let end = self.gone + n;
        let runs = if n == 0 { 0 } else { self.run_to(end) + 1 };
        self.taken.truncate(runs);
        if let Some(last) = self.taken.back_mut() {
            last.end = last.end.min(end);
        }
    }

    /// Forgets the `n` tokens after `start`, which is where a run begins, of which there are as
    /// many.
    fn forget_after(&mut self, start: u64, n: u64) {
        let whole = self.run_to(start + 1)..self.taken.partition_point(|run| run.end <= start + n);
        for run in self.taken.range_mut(whole.end..) {
            run.end -= n;
        }
        self.taken.drain(whole);
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
    pub(crate) const HEAP_MIN: u64 = (RUNS_MIN * size_of::<Run>()) as u64;

    fn is_past(&self, taken: Tick, now: Tick) -> bool {
        now.0.saturating_sub(taken.0) >= self.window_ns
    }

    fn advance(&self, state: &mut SlidingLogState, now: Tick) {
        state.last = state.last.max(now);
        while let Some(run) = state.taken.front().filter(|run| self.is_past(run.at, state.last)) {
            state.gone = run.end;
            state.taken.pop_front();
            state.over = 0;
        }
    }

    /// How many runs of the log have left the window, and how many tokens beside it have not.
    fn past(&self, state: &SlidingLogState, now: Tick) -> (usize, u64) {
        let past = state.taken.partition_point(|run| self.is_past(run.at, now));
        (past, if past == 0 { state.over } else { 0 })
    }

    /// Decides when the first `past` runs of the log have left the window, and `over` of the tokens
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
        let start = state.start(past);
        let used = (state.gone + state.len() - start).saturating_add(over);
        if let Some(remaining) = self.limit.saturating_sub(used).checked_sub(n) {
            return Verdict::Pass { remaining };
        }
        // As many must leave first, at least one, since something is used if nothing of `n` fits.
        // Those beside the log go with its first.
        let leaving = (used - (self.limit - n)).saturating_sub(over).max(1);
        let last = state.taken.get(state.run_to(start + leaving));
        let leaves = last.map_or(0, |run| now.0 - run.at.0);
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
            state.push(n);
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
        state.truncate(state.len().saturating_sub(n - over));
    }

    /// The oldest tokens that can be meant are forgotten.
    fn give_back_since(&self, state: &mut SlidingLogState, now: Tick, since: Tick, n: u64) {
        self.advance(state, now);
        if self.is_past(since, state.last) {
            return;
        }
        let first = state.taken.partition_point(|run| run.at < since);
        let over = if first == 0 { state.over.min(n) } else { 0 };
        state.over -= over;
        let start = state.start(first);
        state.forget_after(start, (n - over).min(state.gone + state.len() - start));
    }

    /// Only the newest tokens up to the limit decide anything, so that older ones are put beside
    /// the log and it stays as short as it is without charges.
    fn charge(&self, state: &mut SlidingLogState, now: Tick, n: u64) {
        self.advance(state, now);
        // One at least, whose leaving is that of the others.
        let places = self.limit.max(1);
        let in_log = n.min(places);
        let oldest = (state.len() + in_log).saturating_sub(places);
        state.forget(oldest);
        state.push(in_log);
        state.over = state.over.saturating_add(oldest).saturating_add(n - in_log);
    }

    /// Those beside the log count until the oldest in it leaves.
    fn used(&self, state: &SlidingLogState, now: Tick) -> u64 {
        let (past, over) = self.past(state, state.last.max(now));
        (state.gone + state.len() - state.start(past)).saturating_add(over)
    }

    fn is_idle(&self, state: &SlidingLogState, now: Tick) -> bool {
        state.taken.back().is_none_or(|run| self.is_past(run.at, state.last.max(now)))
    }

    fn save(&self, state: &SlidingLogState, now: Tick) -> Saved {
        let (past, over) = self.past(state, state.last.max(now));
        let mut start = state.start(past);
        let tokens = |run: &Run| (run.at.0, run.end - std::mem::replace(&mut start, run.end));
        let taken = state.taken.range(past..).map(tokens).collect();
        Saved::SlidingLog { window_ns: self.window_ns, last: state.last.0, over, taken }
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<SlidingLogState> {
        let Saved::SlidingLog { window_ns, last, over, taken } = saved else { return None };
        if *window_ns != self.window_ns {
            return None;
        }
        let has_tokens = taken.iter().filter(|(_, tokens)| *tokens > 0);
        let mut taken: Vec<_> = has_tokens.map(|(at, n)| (back(*at, behind), *n)).collect();
        taken.sort_unstable();
        // The newest tokens up to the longest log are put in it, and the others beside it.
        let (mut over, mut places, mut first) = (*over, LOG_MAX, taken.len());
        for (index, (_, tokens)) in taken.iter_mut().enumerate().rev() {
            let in_log = places.min(*tokens);
            over = over.saturating_add(*tokens - in_log);
            (*tokens, places) = (in_log, places - in_log);
            first = if in_log > 0 { index } else { first };
        }
        let taken = taken.get(first..).unwrap_or_default();
        let over = if taken.is_empty() { 0 } else { over };
        let runs = VecDeque::with_capacity(taken.len());
        let mut state = SlidingLogState { over, taken: runs, ..SlidingLogState::default() };
        for (at, tokens) in taken {
            state.last = *at;
            state.push(*tokens);
        }
        state.last = back(*last, behind).max(state.last);
        Some(state)
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
    fn the_state_is_56_bytes_and_at_most_32_a_token() {
        assert_eq!(size_of::<SlidingLogState>(), 56);
        let (log, mut state) = (log(10_000.0, SECOND), SlidingLogState::default());
        for t in 0..100 {
            admitted(&log, &mut state, at(t * 100), 2_000);
            log.charge(&mut state, at(t * 100), if t % 3 == 0 { u64::MAX } else { 900 });
        }
        assert!(state.taken.capacity() * size_of::<Run>() <= 32 * 10_000);
    }

    #[test]
    fn what_is_taken_or_charged_at_one_tick_is_one_entry() {
        let (log, mut state) = (log(10_000.0, SECOND), SlidingLogState::default());
        assert_eq!(log.take(&mut state, at(0), 4_000), pass(6_000));
        log.charge(&mut state, at(0), 9_000);
        assert_eq!((state.taken.len(), log.used(&state, at(0))), (1, 13_000));
        log.charge(&mut state, at(1), 9_999);
        assert_eq!((state.taken.len(), log.used(&state, at(1))), (2, 22_999));
        log.charge(&mut state, at(2), u64::MAX);
        assert_eq!((state.taken.len(), log.used(&state, at(2))), (1, u64::MAX));
        assert_eq!(log.take(&mut state, at(1_002), 10_000), pass(0));
        log.give_back_since(&mut state, at(1_500), at(1_002), 10_000);
        assert_eq!((state.taken.len(), log.used(&state, at(1_500))), (0, 0));
    }

    #[test]
    fn a_log_that_makes_do_with_less_forgets_no_token_before_its_time() {
        let (log, mut state) = (log(1_000.0, SECOND), SlidingLogState::default());
        for t in 0..101 {
            assert_eq!(log.take(&mut state, at(t), 2), pass(998 - 2 * t));
        }
        let whole = state.clone();
        for (bytes, entries) in [(1_024, 51), (1_024, 51), (100, 5), (0, 3)] {
            state.make_do_with(bytes);
            assert_eq!(state.taken.len(), entries);
            assert!(state.heap_bytes() <= bytes.max(SlidingLog::HEAP_MIN));
            for t in 100..1_200 {
                assert!(log.used(&state, at(t)) >= log.used(&whole, at(t)), "{bytes} {t}");
            }
            assert_eq!((log.used(&state, at(999)), log.used(&state, at(1_100))), (202, 0));
        }
    }

    #[test]
    fn a_log_that_was_long_gives_its_memory_back() {
        let (log, mut state) = (log(10_000.0, SECOND), SlidingLogState::default());
        assert_eq!((0..1_000).map(|t| admitted(&log, &mut state, at(t), 1)).sum::<usize>(), 1_000);
        state.give_back_heap();
        assert!(state.heap_bytes() >= 16_000, "it is in use");
        log.take(&mut state, at(1_990), 1);
        state.give_back_heap();
        assert_eq!((state.len(), state.heap_bytes()), (10, 320));
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
        assert_eq!((used(&state), state.taken.len()), ([11, 8, 8, 6, 0], 3));
        log.give_back(&mut state, at(300), 7);
        assert_eq!((used(&state), state.taken.len()), ([4, 1, 1, 0, 0], 2));
        log.give_back_since(&mut state, at(300), at(0), u64::MAX);
        assert_eq!((used(&state), state.taken.len()), ([0; 5], 0));
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
        assert_eq!((five.used(&state, at(400)), state.len()), (733, 5));
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
        let restored = |last: u64, taken: &[(u64, u64)]| {
            let taken = taken.iter().map(|(ms, tokens)| (at(*ms).0, *tokens)).collect();
            let saved = Saved::SlidingLog { window_ns: 1_000_000_000, last, over: 9, taken };
            five.restore(&saved, Duration::ZERO).unwrap()
        };
        let mut state = restored(0, &[(300, 1), (200, 0), (100, 1), (200, 1)]);
        assert_eq!(five.used(&state, at(0)), 12, "as at the newest");
        assert_eq!(five.take(&mut state, at(300), 3), retry(ms(800)));
        assert_eq!(five.take(&mut state, at(300), 4), retry(ms(900)));
        assert_eq!(five.used(&restored(at(0).0, &[]), at(0)), 0, "nothing would ever end them");
        let state = restored(0, &[(0, 1); 20_000]);
        assert_eq!((state.len(), five.used(&state, at(0))), (10_000, 20_009));
        assert_eq!(state.taken.len(), 1);
        let state = restored(0, &[(0, 3), (1, u64::MAX), (2, 9_000)]);
        assert_eq!((state.len(), five.used(&state, at(2))), (10_000, u64::MAX));
        assert_eq!(state.taken.len(), 2, "the oldest is beside the log");
    }

    #[test]
    fn what_is_saved_is_as_long_as_the_log_however_many_tokens_there_are() {
        let (log, mut state) = (log(10_000.0, SECOND), SlidingLogState::default());
        for t in 0..14 {
            log.charge(&mut state, at(t), 700);
        }
        let saved = log.save(&state, at(14));
        assert_eq!(saved.heap_bytes(), 14 * 16);
        let restored = log.restore(&saved, Duration::ZERO).unwrap();
        assert_eq!((&restored.taken, restored.heap_bytes()), (&state.taken, 14 * 16));
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
