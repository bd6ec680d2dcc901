//! Why parameters cannot be used.

use std::time::Duration;

/// Parameters that no algorithm can work with. Each names the value and what would do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A count that is negative, not a number, or too large to be counted exactly.
    #[error("count {0} is not in 0 ..= 2^53")]
    Count(f64),
    /// A window or warm-up period outside of what ticks can hold.
    #[error("{0:?} is not in 1 ms ..= 366 days")]
    Period(Duration),
    /// Emptying or filling would take longer than a quarter of a million years.
    #[error("{tokens} tokens at this rate take more than 2^73 ns")]
    TooSlow {
        /// Size of the bucket or queue.
        tokens: u64,
    },
    /// A log that would need too much memory for each key.
    #[error("a log of {0} tokens is over the limit of 10000")]
    LogTooLong(u64),
    /// A factor that makes a cold start faster than a warm one, or absurdly slow.
    #[error("cold factor {0} is not in 2 ..= 100")]
    ColdFactor(u32),
    /// More tokens in a warm-up period than can be counted.
    #[error("count {count} over {warm_up:?} is more than 2^53 tokens")]
    WarmUpTooLong {
        /// Tokens a second.
        count: f64,
        /// The warm-up period.
        warm_up: Duration,
    },
    /// A time zone that is not in the IANA database.
    #[error("unknown time zone {0:?}")]
    TimeZone(String),
}
