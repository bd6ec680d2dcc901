//! The flow rule.

use super::ClusterConfig;

/// A validated flow rule (Sentinel's `FlowRule.java`, with its defaults).
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRule {
    /// What is protected; not blank.
    pub resource: Box<str>,
    /// The caller it is for: an origin, `default` or `other`.
    pub limit_app: Box<str>,
    /// Whether `resource` is a pattern.
    pub regex: bool,
    /// What `count` counts.
    pub grade: Grade,
    /// The threshold; at least 0, where 0 lets nothing pass.
    pub count: f64,
    /// Whose statistics are compared.
    pub strategy: Strategy,
    /// The other resource of the strategies that need one.
    pub ref_resource: Option<Box<str>>,
    /// What happens to a call over the threshold.
    pub behavior: ControlBehavior,
    /// Length of a warm-up in seconds.
    pub warm_up_period_sec: u32,
    /// Longest wait of a paced call in milliseconds.
    pub max_queueing_time_ms: u32,
    /// Present when the rule is checked by a token server (`clusterMode: true`).
    pub cluster: Option<ClusterConfig>,
}

/// `grade`: what a flow rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grade {
    /// 0: calls in progress.
    Thread,
    /// 1: calls per second.
    #[default]
    Qps,
}

/// `strategy`: whose statistics a local flow rule compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// 0: the resource's own.
    #[default]
    Direct,
    /// 1: another resource's.
    Relate,
    /// 2: the resource's, as called from one entrance.
    Chain,
}

/// `controlBehavior`: what happens to a call over the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ControlBehavior {
    /// 0, and every unknown value as in Sentinel: refused.
    #[default]
    Reject,
    /// 1: the threshold rises slowly from cold.
    WarmUp,
    /// 2: calls are spaced evenly.
    Pacing,
    /// 3: both.
    WarmUpPacing,
}
