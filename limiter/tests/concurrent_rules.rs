//! Thread-grade rules across the cluster: levels through the life of a rule.
#![expect(clippy::unwrap_used, reason = "what the helpers read is what the tests wrote")]

use std::time::{Duration, UNIX_EPOCH};

use limiter::{
    ClusterEngine, OwnerId, Released, Settings, Tick, TokenId, Undecided,
    rule::{Contents, NamespaceRules, merge, parse},
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
    engine.rules().acquire_concurrent(NOW, 1, 1, owner)
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
fn a_level_that_becomes_a_rate_serves_no_tokens_and_is_kept_for_those_that_are_held() {
    let engine = ClusterEngine::new(Settings::default());
    let owner = engine.owner();
    load(&engine, &rule(2.0, 0, ""));
    let [first, _second] = [(), ()].map(|()| take(&engine, owner).unwrap().unwrap());
    load(&engine, &rule(2.0, 1, ""));
    assert_eq!(take(&engine, owner), Err(Undecided::BadRequest));
    assert_eq!(engine.rules().flow(1).unwrap().in_use(), None);
    assert_eq!(engine.concurrency().release(NOW, first), Released::Ok);

    load(&engine, &rule(2.0, 0, ""));
    assert_eq!(engine.rules().flow(1).unwrap().in_use(), Some(1));
    assert!(take(&engine, owner).unwrap().is_some());
    assert_eq!(take(&engine, owner), Ok(None), "the second is held on");

    load(&engine, &rule(2.0, 1, ""));
    engine.tidy(NOW.plus(Duration::from_secs(1)), UNIX_EPOCH);
    load(&engine, &rule(2.0, 0, ""));
    assert_eq!(engine.rules().flow(1).unwrap().in_use(), Some(0), "and they end in time");
}

#[test]
fn per_client_levels_follow_the_connected_clients_and_the_bound_on_tokens_is_said() {
    let engine = ClusterEngine::new(Settings { tokens_max: 4, ..Settings::default() });
    let owner = engine.owner();
    load(&engine, &rule(1.0, 0, "").replace(r#""thresholdType":1"#, r#""thresholdType":0"#));
    assert_eq!(take(&engine, owner), Ok(None), "nobody is connected");
    let members =
        [engine.join("ns").unwrap(), engine.join("ns").unwrap(), engine.join("ns").unwrap()];
    assert!(take(&engine, owner).unwrap().is_some());
    assert!(take(&engine, owner).unwrap().is_some());
    assert_eq!(
        take(&engine, owner),
        Err(Undecided::TooManyRequests),
        "it holds two, and two are free"
    );
    drop(members);
    assert_eq!(take(&engine, owner), Ok(None));
}

/// The whole of `count` tokens that a namespace's greedy clients can get of the rule `id`.
fn greedy(engine: &ClusterEngine, id: i64) -> u64 {
    let rules = engine.rules();
    let take = || rules.acquire_concurrent(NOW, id, 1, engine.owner());
    while take().is_ok_and(|token| token.is_some()) {}
    rules.flow(id).unwrap().namespace().tenant().held()
}

/// One rule in a namespace of its own.
fn in_namespace(name: &str, id: i64, more: &str) -> NamespaceRules {
    let rule = rule(1e9, 0, more).replace(r#""flowId":1"#, &format!(r#""flowId":{id}"#));
    let parsed = parse(&format!("[{rule}]"), "test", name, Contents::Flow, true).unwrap();
    merge(vec![parsed]).unwrap().remove(0)
}

#[test]
fn a_namespace_that_takes_all_it_can_leaves_as_much_for_another_also_in_shadow() {
    let settings = Settings { tokens_max: 900, ..Settings::default() };
    for more in ["", r#","mode":"shadow""#] {
        let engine = ClusterEngine::new(settings);
        let sets = [("one", 1), ("two", 2), ("late", 3)];
        let sets = sets.map(|(name, id)| in_namespace(name, id, more));
        engine.replace(sets.to_vec()).unwrap();
        assert_eq!((greedy(&engine, 1), greedy(&engine, 2)), (450, 225));
        assert_eq!(engine.concurrency().live(), 675);
        let take = |id| {
            let rules = engine.rules();
            rules.acquire_concurrent(NOW, id, 1, engine.owner())
        };
        for _ in 0..112 {
            assert!(take(3).unwrap().is_some());
            assert_eq!(take(1), Err(Undecided::TooManyRequests));
        }
        let refused = |id| engine.rules().flow(id).unwrap().namespace().tenant().refused();
        assert_eq!((refused(1), refused(2), refused(3)), (113, 1, 0));
    }
}

#[test]
fn a_rule_that_moves_takes_its_tokens_along_to_its_namespace() {
    let engine = ClusterEngine::new(Settings { tokens_max: 10, ..Settings::default() });
    engine.replace(vec![in_namespace("old", 1, "")]).unwrap();
    assert_eq!(greedy(&engine, 1), 5);
    engine.replace(vec![in_namespace("new", 1, ""), in_namespace("old", 2, "")]).unwrap();
    let held = |id| engine.rules().flow(id).unwrap().namespace().tenant().held();
    assert_eq!((held(1), held(2)), (5, 0));
    assert_eq!(greedy(&engine, 2), 3);
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
