//! The circuit breaker's rule.

/// A validated rule of a circuit breaker (Sentinel's `DegradeRule.java`, with its defaults).
#[derive(Clone, Debug, PartialEq)]
pub struct DegradeRule {
    /// What is protected; not blank.
    pub resource: Box<str>,
    /// Whether `resource` is a pattern; each name that it matches has a breaker of its own.
    pub regex: bool,
    /// What opens the breaker.
    pub grade: DegradeGrade,
    /// By grade: the longest response time of a call that is not slow, in milliseconds; the ratio
    /// of failed calls that must be exceeded, from 0 to 1; their number that must be exceeded.
    pub count: f64,
    /// How long the breaker stays open before it lets a probe through, in seconds; at least 1.
    pub time_window_sec: u32,
    /// Calls of a window below which the breaker does not open; at least 1.
    pub min_request_amount: u32,
    /// With [`DegradeGrade::SlowRatio`], the ratio of slow calls that must be exceeded, from 0 to
    /// 1; 1 itself is reached when all are slow. Otherwise not used.
    pub slow_ratio_threshold: f64,
    /// Length of the window in which calls are counted, in milliseconds; at least 1. Windows begin
    /// at multiples of it since the epoch.
    pub stat_interval_ms: u32,
}

/// `grade`: what opens a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DegradeGrade {
    /// 0: the ratio of slow calls.
    #[default]
    SlowRatio,
    /// 1: the ratio of failed calls.
    ErrorRatio,
    /// 2: the number of failed calls.
    ErrorCount,
}

impl DegradeRule {
    /// With [`DegradeGrade::SlowRatio`], the longest response time that is not slow, in whole
    /// milliseconds: the count is rounded, half up (`ResponseTimeCircuitBreaker.java`).
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts end at 2^53, and the cast saturates"
    )]
    pub fn max_rt_ms(&self) -> u64 {
        (self.count + 0.5).floor() as u64
    }
}
