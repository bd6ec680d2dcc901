//! Questions beyond "may I?", and what they are answered.

use std::{fmt, time::Duration};

use super::Param;
use crate::{Decision, rule::Mode};

/// Tokens that somebody asks for, gives back or is charged with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What<'a> {
    /// Of a flow rule.
    Flow {
        /// The flow id.
        id: i64,
        /// Tokens.
        count: i32,
    },
    /// Of each of some values under a hot-parameter rule.
    Param {
        /// The flow id.
        id: i64,
        /// Tokens for each value.
        count: i32,
        /// The values; one that stands twice is asked for twice.
        values: &'a [Param<'a>],
    },
}

impl What<'_> {
    /// The flow id.
    #[must_use]
    pub fn id(&self) -> i64 {
        match self {
            Self::Flow { id, .. } | Self::Param { id, .. } => *id,
        }
    }

    /// Tokens, of each value.
    #[must_use]
    pub fn count(&self) -> i32 {
        match self {
            Self::Flow { count, .. } | Self::Param { count, .. } => *count,
        }
    }
}

/// How something is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Tokens of the next bucket may be booked when this one is used up.
    pub prioritized: bool,
    /// Nothing is taken: the answer is what a request would get now.
    pub peek: bool,
    /// A longer wait is a refusal, and books nothing; `None`: any wait will do.
    pub max_wait: Option<Duration>,
}

impl Ask {
    /// As a client of Sentinel's asks.
    pub(super) fn prioritized(prioritized: bool) -> Self {
        Self { prioritized, ..Self::default() }
    }
}

/// A decision with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// What was decided, or would be.
    pub decision: Decision,
    /// After [`Decision::Block`]: the exact time until the request would pass or be booked if
    /// nobody else asked; `None` if it never would.
    pub retry: Option<Duration>,
    /// Tokens that counted before this request. Of a bucket: what it lacks, rounded up.
    pub used: u64,
    /// What they are compared with, at this moment: per-client rules and `exceedCount` are in it.
    pub threshold: f64,
    /// What `threshold` is a number of.
    pub unit: Unit,
    /// Length of the window in milliseconds; of the present period for a calendar.
    pub window_ms: u64,
    /// What becomes of the decision.
    pub mode: Mode,
    /// Clients connected to the rule's namespace.
    pub connected: u32,
    /// What the rule protects.
    pub resource: Box<str>,
}

/// What a threshold counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Tokens in one window.
    PerWindow,
    /// Tokens a second, in the average of the window.
    PerSecond,
    /// Calls in progress.
    InProgress,
}

impl Explained {
    /// The limit in words: "100 per second", "5 per 60 s", "100 concurrent".
    #[must_use]
    pub fn limit(&self) -> String {
        limit_in_words(self.threshold, self.unit, self.window_ms)
    }
}

/// A threshold in words.
#[must_use]
pub fn limit_in_words(threshold: f64, unit: Unit, window_ms: u64) -> String {
    match unit {
        Unit::InProgress => format!("{threshold} concurrent"),
        Unit::PerSecond if window_ms == 1_000 => format!("{threshold} per second"),
        Unit::PerSecond => format!("{threshold} per second over {}", Length(window_ms)),
        Unit::PerWindow if window_ms == 1_000 => format!("{threshold} per second"),
        Unit::PerWindow => format!("{threshold} per {}", Length(window_ms)),
    }
}

/// A window's length in the largest unit that divides it.
struct Length(u64);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms if ms % 86_400_000 == 0 => write!(f, "{} d", ms / 86_400_000),
            ms if ms % 3_600_000 == 0 => write!(f, "{} h", ms / 3_600_000),
            ms if ms % 1_000 == 0 => write!(f, "{} s", ms / 1_000),
            ms => write!(f, "{ms} ms"),
        }
    }
}

/// What came of several requests that take all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum All {
    /// Everything was taken or booked.
    Taken {
        /// The longest wait; zero: go on now.
        wait: Duration,
    },
    /// Nothing was taken.
    Refused {
        /// The first request that was refused.
        index: usize,
        /// The exact time until that one would be admitted; `None`: never.
        retry: Option<Duration>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_said_with_grade_and_unit() {
        for (threshold, unit, ms, words) in [
            (100.0, Unit::PerSecond, 1_000, "100 per second"),
            (0.5, Unit::PerSecond, 60_000, "0.5 per second over 60 s"),
            (5.0, Unit::PerWindow, 60_000, "5 per 60 s"),
            (5.0, Unit::PerWindow, 1_000, "5 per second"),
            (5.0, Unit::PerWindow, 86_400_000, "5 per 1 d"),
            (5.0, Unit::PerWindow, 7_200_000, "5 per 2 h"),
            (5.0, Unit::PerWindow, 250, "5 per 250 ms"),
            (100.0, Unit::InProgress, 0, "100 concurrent"),
        ] {
            assert_eq!(limit_in_words(threshold, unit, ms), words);
        }
    }
}
