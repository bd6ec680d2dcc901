//! What the engine promises, seen from outside: against slow and obvious models, whatever happens
//! to the rules, the clock and the process meanwhile.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers that the tests make themselves"
)]

mod calendars;
mod cases;
mod churn;
mod clients;
mod kinds;
mod lease_clients;
mod leases;
mod promises;
mod regression;
mod values;

use std::time::Duration;

use limiter::{
    Applied, ClusterEngine, Settings, Tick,
    rule::{Contents, NamespaceRules, merge, parse},
};

/// Where the tests begin: at a second, and in the middle of a minute.
const START: u64 = 1_800_000_012_000;

fn at(ms: u64) -> Tick {
    Tick::from_ms(START + ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// No bound on requests, so that only rules decide.
fn settings() -> Settings {
    Settings { max_allowed_qps: None, ..Settings::default() }
}

fn engine() -> ClusterEngine {
    ClusterEngine::new(settings())
}

/// A rule for all clients together, with id 1 unless `config` has another; `fields` makes a
/// hot-parameter rule of it with `"paramIdx":0,`.
fn rule(count: impl std::fmt::Display, fields: &str, config: &str) -> String {
    format!(
        r#"{{"resource":"r","count":{count},{fields}"clusterMode":true,
            "clusterConfig":{{"flowId":1,"thresholdType":1{config}}}}}"#
    )
}

fn rules_of(namespace: &str, rules: &[String]) -> NamespaceRules {
    let text = format!("[{}]", rules.join(","));
    let parsed = parse(&text, "test", namespace, Contents::Mixed, true).unwrap();
    merge(vec![parsed]).unwrap().remove(0)
}

/// Puts these rules of one namespace in force, and no others.
fn load(engine: &ClusterEngine, rules: &[String]) -> Applied {
    engine.replace(vec![rules_of("ns", rules)]).unwrap()
}
