//! What is enforced of a rule with `clusterMode` while no token server decides it.

use crate::rule::{Algorithm, ClusterConfig, FallbackPolicy, Mode, ThresholdUnit};

/// What takes the server's place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unserved {
    /// Nothing: everything passes.
    Open,
    /// Nothing passes.
    Shut,
    /// The rule as one of this engine's, so many a second; `None`: its own count. As Sentinel does.
    AsLocal(Option<f64>),
    /// The rule as a client enforces it that has lost its server, in the rule's windows and by its
    /// algorithm, which Sentinel has not: [`LocalFlow`](crate::LocalFlow) and
    /// [`LocalParam`](crate::LocalParam).
    AsClient,
}

impl Unserved {
    /// A rule that is not enforced refuses nothing, and a kill switch needs no server. One that is
    /// never `asked` of a server does not miss it. Nobody knows here how many clients there are, so
    /// who may use a share may use all.
    pub(super) fn of(config: &ClusterConfig, asked: bool) -> Self {
        match config.mode {
            Mode::Shadow | Mode::Pass => return Self::Open,
            Mode::Block => return Self::Shut,
            Mode::Enforce if !asked => return Self::AsLocal(None),
            Mode::Enforce => {}
        }
        match config.fallback {
            FallbackPolicy::Pass => Self::Open,
            FallbackPolicy::Block => Self::Shut,
            FallbackPolicy::Local | FallbackPolicy::Share => {
                let is_sentinel_s = config.unit == ThresholdUnit::Sentinel
                    && config.algorithm == Algorithm::SlidingWindow;
                match config.local_count() {
                    None if !is_sentinel_s => Self::AsClient,
                    count => Self::AsLocal(count),
                }
            }
        }
    }
}
