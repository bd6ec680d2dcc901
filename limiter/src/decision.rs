//! What a check answers.

use std::time::Duration;

/// What was decided about one request. Refusing is a decision, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The tokens were taken.
    Pass {
        /// Whole tokens that could still be taken now: Sentinel's `threshold - average - count`,
        /// cut towards zero. Of several hot values, that of the one with the least.
        remaining: u64,
    },
    /// The tokens are booked for later; the caller goes on after the wait.
    Wait {
        /// Time to the start of the bucket that the tokens were booked for; never zero.
        wait: Duration,
    },
    /// Refused; nothing was taken.
    Block,
}

/// Why no decision was made. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// The request asks for no tokens, names no possible flow id, or has no parameter values.
    #[error("flow id and count must be positive, and a parameter check needs a value")]
    BadRequest,
    /// No rule of this kind has the flow id.
    #[error("no rule has this flow id")]
    NoRule,
    /// The namespace's guard refused the request before any rule was looked at.
    #[error("the namespace is over its request limit")]
    TooManyRequests,
}
