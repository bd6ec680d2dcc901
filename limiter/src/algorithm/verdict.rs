//! What an algorithm answers.

use std::time::Duration;

/// The answer to one request for `n` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The tokens are taken; go on now.
    Pass {
        /// Whole tokens that could be taken at once after this.
        remaining: u64,
    },
    /// The tokens are booked; go on after `wait`.
    Wait {
        /// Time from the tick of the request to the turn of the caller; never zero.
        wait: Duration,
    },
    /// Nothing is taken.
    Block {
        /// Exact time until the request would pass or be booked if nobody else asks; `None` when
        /// it never will.
        retry: Option<Duration>,
    },
}

impl Verdict {
    pub(super) const NEVER: Self = Self::Block { retry: None };

    /// Whether the tokens are taken or booked.
    #[must_use]
    pub const fn is_admitted(self) -> bool {
        matches!(self, Self::Pass { .. } | Self::Wait { .. })
    }
}
