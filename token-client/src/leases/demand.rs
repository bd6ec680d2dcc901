//! How much a flow is asked for.

use std::time::Duration;

use tokio::time::Instant;

/// What was asked for in the current period and in the one before, whoever granted it. A period
/// begins with the first call after the end of the last one.
#[derive(Debug)]
pub(super) struct Demand {
    since: Instant,
    last: Instant,
    /// Time from the call before the last to that.
    gap: Duration,
    now: Asked,
    before: Asked,
}

#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    calls: u32,
    tokens: u64,
    /// 0 as long as there was no call.
    smallest: u32,
    largest: u32,
}

impl Demand {
    pub(super) fn new(now: Instant) -> Self {
        let (gap, none) = (Duration::MAX, Asked::default());
        Self { since: now, last: now, gap, now: none, before: none }
    }

    /// Takes note of a call for `count` tokens.
    pub(super) fn note(&mut self, now: Instant, count: u32, period: Duration) {
        if self.now.calls > 0 {
            self.gap = now.saturating_duration_since(self.last);
        }
        let gone = now.saturating_duration_since(self.since);
        if gone >= period {
            let follows = gone < 2 * period;
            self.before = if follows { self.now } else { Asked::default() };
            (self.since, self.now) = (now, Asked::default());
        }
        self.last = now;
        self.now.calls = self.now.calls.saturating_add(1);
        self.now.tokens = self.now.tokens.saturating_add(count.into());
        self.now.smallest = least(self.now.smallest, count);
        self.now.largest = self.now.largest.max(count);
    }

    /// Whether it is asked for more than once a period, at the time of the last call.
    pub(super) fn repeats(&self) -> bool {
        self.now.calls.max(self.before.calls) > 1
    }

    /// Whether the last call came sooner than `life` after one before, at the time of that.
    pub(super) fn comes_within(&self, life: Duration) -> bool {
        self.gap < life
    }

    /// Tokens that a period needs, as far as is known: those of the last one, or of this one as
    /// soon as it needs more. So what is asked for in advance at most doubles each time.
    pub(super) fn tokens(&self) -> u64 {
        self.now.tokens.max(self.before.tokens)
    }

    /// The most that one call needs.
    pub(super) fn largest(&self) -> u32 {
        self.now.largest.max(self.before.largest)
    }

    /// The least that one call needs; 0 if there was none. Fewer tokens are of no use.
    pub(super) fn smallest(&self) -> u32 {
        least(self.now.smallest, self.before.smallest)
    }

    /// When the last call was.
    pub(super) fn last(&self) -> Instant {
        self.last
    }
}

/// The smaller of two, of which 0 is none.
fn least(one: u32, other: u32) -> u32 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PERIOD: Duration = Duration::from_millis(50);

    /// What is known after each of these calls (time, count).
    fn after(calls: &[(u32, u32)]) -> Vec<(bool, u64)> {
        let start = crate::time::now();
        let mut demand = Demand::new(start);
        let note = |(ms, count): &(u32, u32)| {
            demand.note(start + *ms * MS, *count, PERIOD);
            (demand.repeats(), demand.tokens())
        };
        calls.iter().map(note).collect()
    }

    #[test]
    fn a_period_needs_what_the_last_one_did_until_it_needs_more() {
        let calls = [(0, 1), (10, 1), (49, 1), (50, 1), (60, 1), (70, 5)];
        let known = [(false, 1), (true, 2), (true, 3), (true, 3), (true, 3), (true, 7)];
        assert_eq!(after(&calls), known);
    }

    #[test]
    fn a_call_now_and_then_is_no_demand_in_advance() {
        assert_eq!(after(&[(0, 9), (60, 9), (120, 9), (500, 9)]), [(false, 9); 4]);
    }

    #[test]
    fn the_last_two_calls_say_whether_another_comes_soon() {
        let start = crate::time::now();
        let mut demand = Demand::new(start);
        let mut comes = |ms: u32| {
            demand.note(start + ms * MS, 1, PERIOD);
            demand.comes_within(2 * PERIOD)
        };
        let soon = [0, 99, 199, 199, 500, 501].map(&mut comes);
        assert_eq!(soon, [false, true, false, true, false, true]);
    }

    #[test]
    fn a_pause_forgets_what_was_before() {
        assert_eq!(after(&[(0, 1), (1, 1), (101, 1)]), [(false, 1), (true, 2), (false, 1)]);
    }
}
