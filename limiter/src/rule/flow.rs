//! The flow rule.

use super::ClusterConfig;

/// A validated flow rule (Sentinel's `FlowRule.java`, with its defaults). A server may hold a
/// million, so what few rules have is kept apart.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRule {
    /// What is protected; not blank.
    pub resource: Box<str>,
    /// `None` when there are none but `default`.
    pub(crate) names: Option<Box<Names>>,
    /// Whether `resource` is a pattern.
    pub regex: bool,
    /// What `count` counts.
    pub grade: Grade,
    /// The threshold; at least 0, where 0 lets nothing pass.
    pub count: f64,
    /// Whose statistics are compared.
    pub strategy: Strategy,
    /// What happens to a call over the threshold.
    pub behavior: ControlBehavior,
    /// Length of a warm-up in seconds.
    pub warm_up_period_sec: u32,
    /// Longest wait of a paced call in milliseconds.
    pub max_queueing_time_ms: u32,
    /// Present when the rule is checked by a token server (`clusterMode: true`).
    pub cluster: Option<ClusterConfig>,
}

const DEFAULT_APP: &str = "default";

/// Names that few rules have, and cluster rules do not use.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Names {
    limit_app: Option<Box<str>>,
    ref_resource: Option<Box<str>>,
}

impl Names {
    pub(super) fn kept(
        limit_app: Option<Box<str>>,
        ref_resource: Option<Box<str>>,
    ) -> Option<Box<Self>> {
        let limit_app = limit_app.filter(|name| &**name != DEFAULT_APP);
        let is_given = limit_app.is_some() || ref_resource.is_some();
        is_given.then(|| Box::new(Self { limit_app, ref_resource }))
    }
}

impl FlowRule {
    /// The caller it is for: an origin, `default` or `other`.
    #[must_use]
    pub fn limit_app(&self) -> &str {
        self.names.as_ref().and_then(|names| names.limit_app.as_deref()).unwrap_or(DEFAULT_APP)
    }

    /// The other resource of the strategies that need one.
    #[must_use]
    pub fn ref_resource(&self) -> Option<&str> {
        self.names.as_ref()?.ref_resource.as_deref()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Contents, parse};

    fn rule(fields: &str, config: &str) -> FlowRule {
        let text = format!(
            r#"[{{"resource": "r", "count": 7, "clusterMode": true, {fields}
                 "clusterConfig": {{"flowId": 1, {config} "thresholdType": 1}}}}]"#
        );
        parse(&text, "test", "ns", Contents::Flow, true).unwrap().rules.flow.remove(0)
    }

    #[test]
    fn a_rule_is_small_and_holds_nothing_but_its_name_elsewhere() {
        assert_eq!(size_of::<FlowRule>(), 104);
        let defaults = r#""warmUpPeriodSec": 10, "limitApp": "default", "refResource": " ","#;
        let config = r#""resourceTimeout": 2000, "localCount": null, "coldFactor": 3,"#;
        let rule = rule(defaults, config);
        assert!(rule.names.is_none() && rule.cluster.unwrap().rare.is_none());
    }
}
