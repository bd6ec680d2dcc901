//! Calls of a value one after the other: `ParamFlowChecker.passThrottleLocalCheck`.

use std::time::Duration;

use super::keyed::{Answer, Decide, KEPT};
use crate::{Tick, cluster::values::Measure, rule::ParamRule};

/// `limit` tokens a period at an even pace: a call goes as long after the one before it as its own
/// tokens take, or at once if that is past, and is refused when it would wait for the longest wait
/// or more. (Sentinel's flow rules accept the longest wait itself, its hot-parameter rules do not.)
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    limit: u64,
    period_sec: u64,
    /// A wait is shorter than that.
    longest_ns: u64,
}

/// The turn of the last call of one value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    at: Tick,
    /// The most tokens that one of its calls has asked for; none of a value that is new. What they
    /// take is another thing once the rule has other numbers.
    widest: u32,
}

/// From this cost on Sentinel's rounding to the millisecond is at most 5 % off.
const ROUNDED_FROM_MS: f64 = 10.0;

impl Pace {
    /// Nanoseconds that `n` tokens take. Rounded to a millisecond, as in Sentinel, unless that
    /// would be far off: at 700 a second it makes a pace of 1000, above 2000 none at all.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "not negative; saturates; as exact as in Sentinel"
    )]
    fn cost_ns(self, n: u32) -> u64 {
        let ms = 1_000.0 * f64::from(n) * self.period_sec as f64 / self.limit as f64;
        if ms < ROUNDED_FROM_MS {
            ((ms * 1e6).round() as u64).max(1)
        } else {
            ((ms + 0.5) as u64).saturating_mul(1_000_000)
        }
    }
}

impl Decide for Pace {
    fn of(rule: &ParamRule, limit: u64) -> Self {
        let longest_ns = u64::from(rule.max_queueing_time_ms) * 1_000_000;
        Self { limit, period_sec: rule.duration_sec, longest_ns }
    }

    fn may_pass(self, _: u32) -> bool {
        self.limit > 0
    }

    fn ask(self, turn: &mut Turn, now: Tick, n: u32) -> Answer {
        let cost = self.cost_ns(n);
        let is_new = turn.widest == 0;
        let at = if is_new { now } else { Tick(turn.at.0.saturating_add(cost)).max(now) };
        let wait = at.since(now);
        if wait > Duration::ZERO && wait >= Duration::from_nanos(self.longest_ns) {
            return Answer::Block;
        }
        *turn = Turn { at, widest: turn.widest.max(n) };
        if wait.is_zero() { Answer::Pass } else { Answer::Wait(wait) }
    }

    fn retry(self, turn: &Turn, now: Tick, n: u32) -> Option<Duration> {
        if turn.widest == 0 {
            return Some(Duration::ZERO);
        }
        let wait = turn.at.0.checked_add(self.cost_ns(n))?.saturating_sub(now.0);
        // A wait of the longest is too long already, but no wait never is.
        Some(Duration::from_nanos(wait.saturating_sub(self.longest_ns.saturating_sub(1))))
    }

    fn room(self, turn: &Turn, now: Tick) -> (u64, u64) {
        let goes = self.limit > 0 && self.retry(turn, now, 1) == Some(Duration::ZERO);
        (self.limit, u64::from(goes))
    }
}

impl Measure for Pace {
    type Counter = Turn;

    fn begin(self, shared: &Turn) -> Turn {
        *shared
    }

    /// A call as large as its largest would go at once, as that of a new value. One that is larger
    /// than all before it may find its value forgotten, and then goes at once, too: the next one
    /// pays for it.
    fn is_idle(self, turn: &Turn, now: Tick) -> bool {
        // Where nothing passes no cost is known, and none is needed.
        let cost = if self.limit == 0 { 0 } else { self.cost_ns(turn.widest) };
        turn.widest == 0 || now.0.saturating_sub(turn.at.0) >= cost.max(KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pace(limit: u64, period_sec: u64, longest_ms: u64) -> Pace {
        Pace { limit, period_sec, longest_ns: longest_ms * MS }
    }

    fn asked(pace: Pace, turn: &mut Turn, ms: u64, n: u32) -> Answer {
        pace.ask(turn, Tick::from_ms(ms), n)
    }

    #[test]
    fn a_token_costs_what_sentinel_says_unless_that_is_far_off() {
        let cases = [
            (10, 1, 1, 100 * MS),
            (3, 1, 1, 333 * MS),
            (3, 1, 2, 667 * MS),
            (3, 10, 1, 3_333 * MS),
            (100, 1, 1, 10 * MS),
            (300, 1, 1, 3_333_333),
            (700, 1, 1, 1_428_571),
            (700, 1, 10, 14 * MS),
            (2_001, 1, 1, 499_750),
            (1 << 53, 1, 1, 1),
            (1, 1 << 62, 1, u64::MAX),
        ];
        for (limit, period, n, cost) in cases {
            assert_eq!(pace(limit, period, 0).cost_ns(n), cost, "{n} of {limit} in {period} s");
        }
    }

    #[test]
    fn without_a_queue_a_call_goes_only_when_it_is_due() {
        let (pace, mut turn) = (pace(10, 1, 0), Turn::default());
        assert_eq!(asked(pace, &mut turn, 0, 1), Answer::Pass);
        assert_eq!(asked(pace, &mut turn, 99, 1), Answer::Block);
        assert_eq!(asked(pace, &mut turn, 100, 1), Answer::Pass);
        assert_eq!(asked(pace, &mut turn, 250, 1), Answer::Pass);
        assert_eq!(asked(pace, &mut turn, 349, 1), Answer::Block, "100 ms after 250");
    }

    #[test]
    fn a_large_call_waits_for_its_own_tokens_and_the_next_does_not() {
        let (pace, mut turn) = (pace(10, 1, 1_000), Turn::default());
        assert_eq!(asked(pace, &mut turn, 0, 50), Answer::Pass, "the first, whatever it asks");
        assert_eq!(asked(pace, &mut turn, 0, 9), Answer::Wait(Duration::from_millis(900)));
        assert_eq!(asked(pace, &mut turn, 0, 1), Answer::Block, "1000 ms are too long");
        assert_eq!(asked(pace, &mut turn, 1, 1), Answer::Wait(Duration::from_millis(999)));
    }

    #[test]
    fn a_value_is_idle_when_its_largest_call_would_go_at_once() {
        let (pace, mut turn) = (pace(10, 1, 1_000), Turn::default());
        assert!(pace.is_idle(&turn, Tick(0)));
        asked(pace, &mut turn, 0, 50);
        asked(pace, &mut turn, 1_000, 1);
        assert!(!pace.is_idle(&turn, Tick::from_ms(5_999)));
        assert!(pace.is_idle(&turn, Tick::from_ms(6_000)));
    }

    #[test]
    fn the_end_of_time_is_no_place_to_overflow() {
        let (pace, mut turn) = (pace(1, 1 << 62, u64::MAX / MS), Turn::default());
        assert_eq!(pace.ask(&mut turn, Tick(5), 1), Answer::Pass);
        assert_eq!(pace.ask(&mut turn, Tick(6), u32::MAX), Answer::Block);
        assert!(!pace.is_idle(&turn, Tick(u64::MAX)));
    }
}
