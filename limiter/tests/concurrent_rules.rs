//! Thread-grade rules across the cluster: levels through the life of a rule.
#![expect(clippy::unwrap_used, reason = "what the helpers read is what the tests wrote")]

use limiter::{
    ClusterEngine, OwnerId, Released, Settings, Tick, TokenId, Undecided,
    rule::{Contents, merge, parse},
};

fn load(engine: &ClusterEngine, rules: &str) {
    let parsed = parse(&format!("[{rules}]"), "test", "ns", Contents::Flow, true).unwrap();
    engine.replace(merge(vec![parsed]).unwrap()).unwrap();
}

fn rule(count: f64, grade: u8, more: &str) -> String {
    format!(
        r#"{{"resource":"r","count":{count},"grade":{grade},"clusterMode":true,
             "clusterConfig":{{"flowId":1,"thresholdType":1,"resourceTimeout":1000{more}}}}}"#
    )
}

const NOW: Tick = Tick::from_ms(1_700_000_000_000);

fn take(engine: &ClusterEngine, owner: OwnerId) -> Result<Option<TokenId>, Undecided> {
    engine.rules().acquire_concurrent(NOW, 1, 1, owner, engine.concurrency())
}

#[test]
fn a_level_is_kept_when_its_rule_changes_goes_and_comes_back() {
    let engine = ClusterEngine::new(Settings::default());
    let owner = engine.owner();
    load(&engine, &rule(2.0, 0, ""));
    let first = take(&engine, owner).unwrap().unwrap();
    assert!(take(&engine, owner).unwrap().is_some());
    assert_eq!(take(&engine, owner), Ok(None));

    load(&engine, &rule(3.0, 0, r#","windowIntervalMs":5000"#));
    assert!(take(&engine, owner).unwrap().is_some(), "one more, whatever the window");
    assert_eq!(take(&engine, owner), Ok(None));

    load(&engine, "");
    assert_eq!(take(&engine, owner), Err(Undecided::NoRule));
    assert_eq!(engine.concurrency().release(NOW, first), Released::Ok, "without its rule");
    load(&engine, "");

    load(&engine, &rule(3.0, 0, ""));
    assert_eq!(engine.rules().flow(1).unwrap().in_use(), Some(2));
    assert!(take(&engine, owner).unwrap().is_some());
    assert_eq!(take(&engine, owner), Ok(None));
}

#[test]
fn a_rate_rule_holds_no_tokens_and_a_level_that_nobody_uses_is_forgotten() {
    let engine = ClusterEngine::new(Settings::default());
    let owner = engine.owner();
    load(&engine, &rule(2.0, 1, ""));
    assert_eq!(take(&engine, owner), Err(Undecided::BadRequest));
    assert_eq!(engine.rules().flow(1).unwrap().in_use(), None);
    load(&engine, &rule(1.0, 0, ""));
    let token = take(&engine, owner).unwrap().unwrap();
    load(&engine, &rule(2.0, 1, ""));
    assert_eq!(engine.concurrency().release(NOW, token), Released::Ok);
    load(&engine, "");
    load(&engine, &rule(1.0, 0, ""));
    assert_eq!(engine.rules().flow(1).unwrap().in_use(), Some(0));
}

#[test]
fn per_client_levels_follow_the_connected_clients_and_the_bound_on_tokens_is_said() {
    let engine = ClusterEngine::new(Settings { tokens_max: 2, ..Settings::default() });
    let owner = engine.owner();
    load(&engine, &rule(1.0, 0, "").replace(r#""thresholdType":1"#, r#""thresholdType":0"#));
    assert_eq!(take(&engine, owner), Ok(None), "nobody is connected");
    let members =
        [engine.join("ns").unwrap(), engine.join("ns").unwrap(), engine.join("ns").unwrap()];
    assert!(take(&engine, owner).unwrap().is_some());
    assert!(take(&engine, owner).unwrap().is_some());
    assert_eq!(take(&engine, owner), Err(Undecided::TooManyRequests), "two live of two");
    drop(members);
    assert_eq!(take(&engine, owner), Ok(None));
}

#[test]
fn owners_are_told_apart() {
    let engine = ClusterEngine::new(Settings::default());
    load(&engine, &rule(2.0, 0, r#","clientOfflineTime":10"#));
    let (a, b) = (engine.owner(), engine.owner());
    assert_ne!(a, b);
    take(&engine, a).unwrap().unwrap();
    let kept = take(&engine, b).unwrap().unwrap();
    let tokens = engine.concurrency();
    assert_eq!(tokens.owner_gone(NOW, a), 1);
    assert_eq!(tokens.expire(Tick::from_ms(NOW.ms() + 10)), 1);
    assert_eq!(tokens.release(Tick::from_ms(NOW.ms() + 10), kept), Released::Ok);
}
