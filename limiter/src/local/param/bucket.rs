//! A bucket of tokens for each value: `ParamFlowChecker.passDefaultLocalCheck`.

use std::time::Duration;

use super::keyed::{Answer, Decide};
use crate::{Tick, cluster::values::Measure, rule::ParamRule};

/// `limit` tokens a period, and up to `burst` more saved up.
///
/// Nothing comes back until a whole period has gone by since the last refill, or the first call.
/// Then comes what belongs to all the time since, whole tokens of it; a value may so use the full
/// bucket at the end of one period and `limit` again right after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    limit: u64,
    /// `limit` and the burst.
    capacity: u64,
    period_ns: u64,
}

/// What one value has used of its bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// The last refill, or the first call.
    since: Tick,
    /// Tokens that are not in the bucket; none of a value that is new.
    used: u64,
}

impl Bucket {
    /// Tokens that are not in the bucket. It may have been a larger one before the rule changed.
    fn used(&self, level: &Level) -> u64 {
        level.used.min(self.capacity)
    }

    /// Tokens that come in `ns`, which is a period or more.
    fn refill(&self, ns: u64) -> u64 {
        let tokens = u128::from(ns) * u128::from(self.limit) / u128::from(self.period_ns);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

impl Decide for Bucket {
    fn of(rule: &ParamRule, limit: u64) -> Self {
        let capacity = limit.saturating_add(rule.burst_count.into());
        Self { limit, capacity, period_ns: rule.duration_sec.max(1).saturating_mul(1_000_000_000) }
    }

    /// A limit of zero shuts the value out, whatever the burst.
    fn may_pass(self, n: u32) -> bool {
        self.limit > 0 && u64::from(n) <= self.capacity
    }

    fn ask(self, level: &mut Level, now: Tick, n: u32) -> Answer {
        if level.used == 0 {
            level.since = now;
        }
        let passed = now.0.saturating_sub(level.since.0);
        let (since, left) = if passed > self.period_ns {
            (now, self.used(level).saturating_sub(self.refill(passed)))
        } else {
            (level.since, self.used(level))
        };
        let used = left.saturating_add(n.into());
        if used > self.capacity {
            return Answer::Block;
        }
        *level = Level { since, used };
        Answer::Pass
    }

    fn retry(self, level: &Level, now: Tick, n: u32) -> Option<Duration> {
        let passed = now.0.saturating_sub(level.since.0);
        let missing = (level.used.saturating_add(n.into())).saturating_sub(self.capacity);
        if missing == 0 {
            return Some(Duration::ZERO);
        }
        let period = u128::from(self.period_ns);
        let enough = (u128::from(missing) * period).div_ceil(u128::from(self.limit));
        let due = u64::try_from(enough.max(period + 1)).ok()?;
        Some(Duration::from_nanos(due.saturating_sub(passed)))
    }

    fn room(self, level: &Level, now: Tick) -> (u64, u64) {
        let passed = now.0.saturating_sub(level.since.0);
        let back = if passed > self.period_ns { self.refill(passed) } else { 0 };
        let used = level.used.saturating_sub(back);
        let remaining = if self.limit == 0 { 0 } else { self.capacity.saturating_sub(used) };
        (self.limit, remaining)
    }
}

impl Measure for Bucket {
    type Counter = Level;

    fn begin(self, shared: &Level) -> Level {
        *shared
    }

    /// Full again: the next call finds what a new value would.
    fn is_idle(self, level: &Level, now: Tick) -> bool {
        let passed = now.0.saturating_sub(level.since.0);
        level.used == 0 || (passed > self.period_ns && self.refill(passed) >= self.used(level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn bucket(limit: u64, burst: u64) -> Bucket {
        Bucket { limit, capacity: limit + burst, period_ns: SECOND }
    }

    #[test]
    fn a_period_to_the_nanosecond_refills_nothing_and_one_more_does() {
        let (bucket, mut level) = (bucket(2, 0), Level::default());
        let start = Tick(5 * SECOND);
        assert_eq!(bucket.ask(&mut level, start, 2), Answer::Pass);
        let at = |ns| Tick(start.0 + ns);
        assert_eq!(bucket.ask(&mut level, at(SECOND), 1), Answer::Block);
        assert!(!bucket.is_idle(&level, at(SECOND)));
        assert!(bucket.is_idle(&level, at(SECOND + 1)));
        assert_eq!(bucket.ask(&mut level, at(SECOND + 1), 2), Answer::Pass);
    }

    #[test]
    fn a_value_with_a_burst_is_idle_when_all_of_it_has_come_back() {
        let (bucket, mut level) = (bucket(2, 3), Level::default());
        assert_eq!(bucket.ask(&mut level, Tick(0), 5), Answer::Pass);
        assert!(!bucket.is_idle(&level, Tick(5 * SECOND / 2 - 1)), "one token is out");
        assert!(bucket.is_idle(&level, Tick(5 * SECOND / 2)));
    }

    #[test]
    fn the_largest_numbers_neither_overflow_nor_wrap() {
        let rule = Bucket { limit: u64::MAX, capacity: u64::MAX, period_ns: u64::MAX };
        let mut level = Level::default();
        assert!(rule.may_pass(u32::MAX));
        assert_eq!(rule.ask(&mut level, Tick(1), u32::MAX), Answer::Pass);
        assert_eq!(rule.ask(&mut level, Tick(u64::MAX), u32::MAX), Answer::Pass);
        assert!(!rule.is_idle(&level, Tick(u64::MAX)), "a period of 584 years");
        let fast = Bucket { period_ns: 1, ..rule };
        assert_eq!(fast.ask(&mut level, Tick(u64::MAX), u32::MAX), Answer::Pass);
        assert_eq!(level.used, u64::from(u32::MAX));
    }
}
