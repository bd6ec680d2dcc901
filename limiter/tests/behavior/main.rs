//! What the engine does beyond deciding: switches, counters as objects, several requests in one,
//! rules that come and go, restarts.
#![expect(
    clippy::unwrap_used,
    reason = "the rules are what the tests wrote, and tests say what they expect"
)]

mod all;
mod counters;
mod ignored_behavior;
mod life;
mod modes;
mod restarts;
mod values;

use limiter::{
    ClusterEngine, Decision, Settings, Tick,
    rule::{Contents, NamespaceRules, merge, parse},
};

/// A whole second of 2023.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

pub(crate) fn at(ms: u64) -> Tick {
    Tick::from_ms(START_MS + ms)
}

/// A flow rule; `cluster` is further fields of its `clusterConfig`, each with a comma before.
pub(crate) fn flow(id: i64, count: f64, cluster: &str) -> String {
    format!(
        r#"{{"resource":"flow-{id}","count":{count},"clusterMode":true,
            "clusterConfig":{{"flowId":{id},"thresholdType":1{cluster}}}}}"#
    )
}

/// A hot-parameter rule, with further fields of its own and of its `clusterConfig`.
pub(crate) fn param(id: i64, count: f64, fields: &str, cluster: &str) -> String {
    format!(
        r#"{{"resource":"param-{id}","paramIdx":0,"count":{count},"clusterMode":true{fields},
            "clusterConfig":{{"flowId":{id},"thresholdType":1{cluster}}}}}"#
    )
}

pub(crate) fn rules(namespace: &str, rules: &[String]) -> Vec<NamespaceRules> {
    let text = format!("[{}]", rules.join(","));
    merge(vec![parse(&text, "test", namespace, Contents::Mixed, true).unwrap()]).unwrap()
}

pub(crate) fn engine(list: &[String]) -> ClusterEngine {
    let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
    engine.replace(rules("ns", list)).unwrap();
    engine
}

pub(crate) fn take(engine: &ClusterEngine, ms: u64, id: i64, count: i32) -> Decision {
    engine.snapshot().acquire_flow(at(ms), id, count, false).unwrap()
}

/// How many of `calls` single tokens pass.
pub(crate) fn passes(engine: &ClusterEngine, ms: u64, id: i64, calls: usize) -> usize {
    (0..calls).filter(|_| take(engine, ms, id, 1) != Decision::Block).count()
}
