//! The hot-parameter rule.

use super::{ClusterConfig, ParamItem};

/// A validated hot-parameter rule (Sentinel's `ParamFlowRule.java`, with its defaults).
#[derive(Clone, Debug, PartialEq)]
pub struct ParamRule {
    /// What is protected; not blank.
    pub resource: Box<str>,
    /// Whether `resource` is a pattern.
    pub regex: bool,
    /// Index of the argument; negative counts from the end.
    pub param_idx: i32,
    /// The threshold for each value; at least 0.
    pub count: f64,
    /// 0 counts calls in progress, 1 calls per second. Larger grades are kept as Sentinel does.
    pub grade: u32,
    /// What happens over the threshold, as in [`FlowRule`](super::FlowRule).
    pub behavior: super::ControlBehavior,
    /// Longest wait of a paced call in milliseconds.
    pub max_queueing_time_ms: u32,
    /// Tokens that a value may save up beyond the count (local checks).
    pub burst_count: u32,
    /// The local window in seconds.
    pub duration_sec: u64,
    /// Values with a threshold of their own.
    pub items: Vec<ParamItem>,
    /// Present when the rule is checked by a token server (`clusterMode: true`).
    pub cluster: Option<ClusterConfig>,
}
