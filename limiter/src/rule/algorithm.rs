//! How a cluster rule counts, and what its count comes to in tokens and time.

use std::{sync::Arc, time::Duration};

use super::{COUNT_MAX, ClusterConfig, ThresholdUnit};
use crate::algorithm::{Calendar, Invalid, Rate};

/// `algorithm` and `calendar`: how tokens are counted. See [`crate::algorithm`].
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Algorithm {
    /// Sentinel's ring of buckets.
    #[default]
    SlidingWindow,
    /// One counter a window; windows begin at multiples of their length since the epoch.
    FixedWindow,
    /// One counter a calendar period.
    Calendar(Arc<Calendar>),
    /// Each token leaves by itself, one window after it came.
    SlidingLog,
    /// Tokens drip into a bucket, which starts full.
    TokenBucket {
        /// What it holds.
        burst: Burst,
    },
    /// Calls fill a bucket that leaks; one that would overflow it is refused.
    LeakyBucket {
        /// What it holds; it starts empty.
        burst: Burst,
    },
    /// The decisions of [`Self::TokenBucket`] from the time at which the next token is due.
    Gcra {
        /// Most tokens at once.
        burst: Burst,
    },
}

/// `burst`: most tokens at once, so the whole capacity and not what comes on top of the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst(u64);

impl Burst {
    /// The rule names none: [`Rate::default_burst`] of the count, which differs from value to
    /// value under a hot-parameter rule whose items have their own.
    pub const COUNT: Self = Self(u64::MAX);

    /// This many tokens; 0 lets nothing pass.
    #[must_use]
    pub const fn tokens(tokens: u64) -> Self {
        Self(tokens)
    }

    /// Tokens at once under a threshold of `count`, which is `times` what the rule names: once a
    /// client, say.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bursts end at 2^53; the cast cuts and saturates"
    )]
    pub fn of(self, count: f64, times: f64) -> u64 {
        match self {
            Self::COUNT => Rate::default_burst(count),
            Self(tokens) if times == 1.0 => tokens,
            Self(tokens) => (tokens as f64 * times).min(COUNT_MAX) as u64,
        }
    }
}

impl Algorithm {
    /// The same for one of `clients` that share the rule: a burst that the rule names is shared,
    /// too.
    #[must_use]
    pub fn shared_by(&self, clients: u32) -> Self {
        let share = |burst: Burst| match burst {
            Burst::COUNT => burst,
            Burst(tokens) => Burst(tokens / u64::from(clients.max(1))),
        };
        match self {
            Self::TokenBucket { burst } => Self::TokenBucket { burst: share(*burst) },
            Self::LeakyBucket { burst } => Self::LeakyBucket { burst: share(*burst) },
            Self::Gcra { burst } => Self::Gcra { burst: share(*burst) },
            other => other.clone(),
        }
    }
}

impl ClusterConfig {
    /// The tokens that `count` allows in one window, fractions included: with
    /// [`ThresholdUnit::Sentinel`] the count times the window in seconds, but for windows under a
    /// second the count itself, since Sentinel compares an average with whole tokens.
    #[must_use]
    pub fn tokens(&self, count: f64) -> f64 {
        match self.unit {
            ThresholdUnit::Sentinel => count * self.window.interval_sec().max(1.0),
            ThresholdUnit::Window => count,
        }
    }

    /// `count` as a rate: per second with [`ThresholdUnit::Sentinel`], otherwise per window.
    ///
    /// # Errors
    ///
    /// Those of [`Rate::new`]; never for the count of a rule whose algorithm needs a rate.
    pub fn rate(&self, count: f64) -> Result<Rate, Invalid> {
        let window_ms = match self.unit {
            ThresholdUnit::Sentinel => 1_000,
            ThresholdUnit::Window => self.window.interval_ms(),
        };
        Rate::new(count, Duration::from_millis(window_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_that_nobody_names_is_that_of_the_count() {
        assert_eq!([2.5, 0.0, 7.0].map(|count| Burst::COUNT.of(count, 1.0)), [2, 1, 7]);
        assert_eq!([2.5, 0.0, 7.0].map(|count| Burst::tokens(0).of(count, 1.0)), [0; 3]);
    }

    #[test]
    fn a_burst_grows_with_the_clients_and_ends_at_2_to_the_53() {
        assert_eq!(Burst::tokens(5).of(30.0, 3.0), 15);
        assert_eq!(Burst::tokens(5).of(5.0, 0.5), 2);
        assert_eq!(Burst::tokens(1 << 53).of(1.0, 1.0), 1 << 53);
        assert_eq!(Burst::tokens(1 << 53).of(2.0, 2.0), 1 << 53);
        assert_eq!(Burst::tokens(5).of(0.0, 0.0), 0);
    }
}
