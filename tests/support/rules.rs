//! Rules as tests write them.

use limiter::rule::{Contents, NamespaceRules, merge, parse};

/// A global flow rule; `more` is further fields of its `clusterConfig`, each with a comma before.
#[must_use]
pub fn flow_rule(id: i64, count: f64, more: &str) -> String {
    format!(
        r#"{{"resource":"flow-{id}","count":{count},"clusterMode":true,
             "clusterConfig":{{"flowId":{id},"thresholdType":1{more}}}}}"#
    )
}

/// A global hot-parameter rule with these `paramFlowItemList` entries.
#[must_use]
pub fn param_rule(id: i64, count: f64, items: &str) -> String {
    format!(
        r#"{{"resource":"param-{id}","paramIdx":0,"count":{count},"clusterMode":true,
             "paramFlowItemList":[{items}],
             "clusterConfig":{{"flowId":{id},"thresholdType":1}}}}"#
    )
}

/// The rules of namespace `default`, ready for an engine.
#[must_use]
pub fn parsed(rules: &[String]) -> Vec<NamespaceRules> {
    let text = format!("[{}]", rules.join(",\n"));
    merge(vec![parse(&text, "test", "default", Contents::Mixed, true).unwrap()]).unwrap()
}
