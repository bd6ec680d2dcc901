//! What a counter's numbers mean: two rules whose counting is the same go on with each other's
//! counters, and all others begin anew.

use std::sync::Arc;

use crate::{
    WindowShape,
    algorithm::Calendar,
    rule::{Algorithm, ClusterConfig, ControlBehavior},
};

/// How a rule counts, without how much it allows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Counting {
    Sliding(WindowShape),
    /// In windows of so many milliseconds.
    Fixed(u64),
    Calendar(Arc<Calendar>),
    /// Over so many milliseconds.
    Log(u64),
    /// Token bucket, leaky bucket and GCRA: what is missing from full, at whatever rate.
    Bucket,
    /// The turn of the last in line, at whatever rate.
    Queue,
    WarmUp(WindowShape),
    WarmUpQueue,
}

impl Counting {
    pub(crate) fn of(config: &ClusterConfig, behavior: ControlBehavior) -> Self {
        let window = config.window;
        match (behavior, &config.algorithm) {
            (ControlBehavior::Pacing, _) => Self::Queue,
            (ControlBehavior::WarmUp, _) => Self::WarmUp(window),
            (ControlBehavior::WarmUpPacing, _) => Self::WarmUpQueue,
            (ControlBehavior::Reject, Algorithm::SlidingWindow) => Self::Sliding(window),
            (ControlBehavior::Reject, Algorithm::FixedWindow) => Self::Fixed(window.interval_ms()),
            (ControlBehavior::Reject, Algorithm::Calendar(calendar)) => {
                Self::Calendar(Arc::clone(calendar))
            }
            (ControlBehavior::Reject, Algorithm::SlidingLog) => Self::Log(window.interval_ms()),
            (
                ControlBehavior::Reject,
                Algorithm::TokenBucket { .. }
                | Algorithm::LeakyBucket { .. }
                | Algorithm::Gcra { .. },
            ) => Self::Bucket,
        }
    }

    /// The window of a sliding window; any other has none, and this is not looked at.
    pub(crate) fn shape(&self) -> WindowShape {
        match self {
            Self::Sliding(shape) | Self::WarmUp(shape) => *shape,
            _ => WindowShape::SECOND,
        }
    }
}
