//! Every algorithm, and what it promises about the tokens that it lets through.

use super::rule;

/// How a rule counts, and with which numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Sliding { ms: u64, buckets: u64 },
    Fixed { ms: u64 },
    Log { ms: u64 },
    Bucket { name: &'static str, ms: u64 },
    Queue { longest_ms: u64 },
    WarmUp { ms: u64, buckets: u64 },
    WarmUpQueue { longest_ms: u64 },
}

pub(crate) const SLIDING: [Kind; 5] = [
    Kind::Sliding { ms: 1_000, buckets: 10 },
    Kind::Sliding { ms: 1_000, buckets: 1 },
    Kind::Sliding { ms: 600, buckets: 2 },
    Kind::Sliding { ms: 3_000, buckets: 60 },
    Kind::Sliding { ms: 60_000, buckets: 60 },
];

pub(crate) const OTHERS: [Kind; 10] = [
    Kind::Fixed { ms: 1_000 },
    Kind::Fixed { ms: 7_000 },
    Kind::Log { ms: 1_500 },
    Kind::Bucket { name: "tokenBucket", ms: 1_000 },
    Kind::Bucket { name: "leakyBucket", ms: 60_000 },
    Kind::Bucket { name: "gcra", ms: 250 },
    Kind::Queue { longest_ms: 700 },
    Kind::WarmUp { ms: 1_000, buckets: 10 },
    Kind::WarmUp { ms: 3_000, buckets: 3 },
    Kind::WarmUpQueue { longest_ms: 900 },
];

/// Those that a hot-parameter rule may have.
pub(crate) fn of_values() -> Vec<Kind> {
    let warms_up = |kind: &Kind| matches!(kind, Kind::WarmUp { .. } | Kind::WarmUpQueue { .. });
    SLIDING.into_iter().chain(OTHERS).filter(|kind| !warms_up(kind)).collect()
}

/// Tokens of one call: when they go, how many, and how many the rule allowed then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Went {
    pub(crate) at: u64,
    /// When they were asked for, as the clock stood.
    pub(crate) asked: u64,
    pub(crate) tokens: u64,
    pub(crate) count: f64,
    /// When exactly, if nobody but a client knows.
    pub(crate) spent: Option<u64>,
}

impl Kind {
    /// The rule: `count` in a window, or a second for what paces and what warms up.
    pub(crate) fn rule(self, count: f64, fields: &str, more: &str) -> String {
        let window = |ms, more: String| {
            format!(r#","thresholdUnit":"window","windowIntervalMs":{ms}{more}"#)
        };
        let (behavior, config) = match self {
            Self::Sliding { ms, buckets } => {
                (String::new(), window(ms, format!(r#","sampleCount":{buckets}"#)))
            }
            Self::Fixed { ms } => {
                (String::new(), window(ms, r#","algorithm":"fixedWindow""#.into()))
            }
            Self::Log { ms } => (String::new(), window(ms, r#","algorithm":"slidingLog""#.into())),
            Self::Bucket { name, ms } => {
                (String::new(), window(ms, format!(r#","algorithm":"{name}""#)))
            }
            Self::Queue { longest_ms } => {
                (format!(r#""controlBehavior":2,"maxQueueingTimeMs":{longest_ms},"#), String::new())
            }
            Self::WarmUp { ms, buckets } => (
                r#""controlBehavior":1,"warmUpPeriodSec":4,"#.into(),
                format!(r#","windowIntervalMs":{ms},"sampleCount":{buckets}"#),
            ),
            Self::WarmUpQueue { longest_ms } => (
                format!(
                    r#""controlBehavior":3,"warmUpPeriodSec":4,"maxQueueingTimeMs":{longest_ms},"#
                ),
                String::new(),
            ),
        };
        rule(count, &format!("{fields}{behavior}"), &format!("{config}{more}"))
    }

    pub(crate) fn is_queue(self) -> bool {
        matches!(self, Self::Queue { .. } | Self::WarmUpQueue { .. })
    }

    /// Nanoseconds that the algorithm does not tell apart.
    pub(crate) fn grain(self) -> u64 {
        match self {
            Self::Sliding { ms, buckets } | Self::WarmUp { ms, buckets } => {
                ms * 1_000_000 / buckets
            }
            Self::Fixed { ms } => ms * 1_000_000,
            _ => 1,
        }
    }

    /// Tokens of the largest call of which a queue takes account after it was idle: one that is
    /// larger than the queue goes at once then, as the first.
    pub(crate) fn largest(self, count: f64) -> i32 {
        match self {
            Self::Queue { longest_ms } | Self::WarmUpQueue { longest_ms } => {
                1 + (longest_ms as f64 / 1e3 * count / 3.0) as i32
            }
            _ => i32::MAX,
        }
    }

    /// Nanoseconds that a token counts, of those that count in buckets.
    pub(crate) fn window(self) -> u64 {
        match self {
            Self::Sliding { ms, .. } | Self::WarmUp { ms, .. } | Self::Fixed { ms } => {
                ms * 1_000_000
            }
            _ => u64::MAX / 2,
        }
    }

    /// Tokens a nanosecond under a count, for those that have a rate.
    fn rate(self, count: f64) -> f64 {
        match self {
            Self::Bucket { ms, .. } => count / (ms as f64 * 1e6),
            _ => count / 1e9,
        }
    }

    /// Whether so much may have gone. `went` is in the order of time.
    pub(crate) fn allows(self, went: &[Went]) -> Result<(), String> {
        for (first, start) in went.iter().enumerate() {
            let (mut sum, mut most) = (0, 0.0_f64);
            for end in &went[first..] {
                let apart = end.at - start.at;
                let is_over = match self {
                    Self::Sliding { ms, .. } | Self::WarmUp { ms, .. } | Self::Log { ms } => {
                        apart >= ms * 1_000_000
                    }
                    Self::Fixed { .. } => apart > 0,
                    _ => false,
                };
                if is_over {
                    break;
                }
                (sum, most) = (sum + end.tokens, most.max(end.count));
                let allowed = match self {
                    Self::Bucket { .. } => most.max(1.0) + apart as f64 * self.rate(most),
                    // A token's turn is rounded up to the nanosecond.
                    Self::Queue { .. } | Self::WarmUpQueue { .. } => {
                        start.tokens as f64 + (apart + 1) as f64 * self.rate(most)
                    }
                    Self::WarmUp { ms, .. } => most * (ms as f64 / 1e3).max(1.0),
                    _ => most,
                };
                // Rounding of this sum, which is far less than a token.
                if sum as f64 > allowed + 1e-6 {
                    return Err(format!(
                        "{sum} tokens from {} to {}, {allowed} are allowed",
                        start.at, end.at
                    ));
                }
            }
        }
        Ok(())
    }
}
