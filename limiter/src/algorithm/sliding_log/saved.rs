//! A log as plain data.

use std::time::Duration;

use super::{
    LOG_MAX, SlidingLog, SlidingLogState,
    runs::{Run, Runs},
};
use crate::{
    Tick,
    algorithm::{Saved, saved::back},
};

impl SlidingLog {
    pub(super) fn saved(&self, state: &SlidingLogState, now: Tick) -> Saved {
        let (past, over) = self.past(state, state.last.max(now));
        let mut start = state.log.start(past);
        let tokens = |run: &Run| (run.at.0, run.end - std::mem::replace(&mut start, run.end));
        let taken = state.log.iter().skip(past).map(tokens).collect();
        Saved::SlidingLog { window_ns: self.window_ns, last: state.last.0, over, taken }
    }

    pub(super) fn restored(&self, saved: &Saved, behind: Duration) -> Option<SlidingLogState> {
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
        let mut log = Runs::with_places(taken.len());
        for (at, tokens) in taken {
            log.push(*at, *tokens);
        }
        let newest = log.last().map_or(Tick(0), |run| run.at);
        // Nothing would ever end those beside an empty log.
        let over = if taken.is_empty() { 0 } else { over };
        Some(SlidingLogState { last: back(*last, behind).max(newest), over, log })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{
        Algorithm,
        suite::{SECOND, at, ms, retry},
    };

    fn log(count: f64) -> SlidingLog {
        SlidingLog::new(count, SECOND).unwrap()
    }

    #[test]
    fn what_no_log_holds_is_mended() {
        let five = log(5.0);
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
        assert_eq!((state.log.tokens(), five.used(&state, at(0))), (10_000, 20_009));
        assert_eq!(state.log.len(), 1);
        let state = restored(0, &[(0, 3), (1, u64::MAX), (2, 9_000)]);
        assert_eq!((state.log.tokens(), five.used(&state, at(2))), (10_000, u64::MAX));
        assert_eq!(state.log.len(), 2, "the oldest is beside the log");
    }

    #[test]
    fn what_is_saved_is_as_long_as_the_log_however_many_tokens_there_are() {
        let (log, mut state) = (log(10_000.0), SlidingLogState::default());
        for t in 0..14 {
            log.charge(&mut state, at(t), 700);
        }
        let saved = log.save(&state, at(14));
        assert_eq!(saved.heap_bytes(), 14 * 16);
        let restored = log.restore(&saved, Duration::ZERO).unwrap();
        assert_eq!((log.save(&restored, at(14)), restored.heap_bytes()), (saved, 14 * 16));
    }
}
