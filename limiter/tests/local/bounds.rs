//! What is above a bound shares counters, and no rule is forgotten for it.

use std::{sync::Arc, time::Duration};

use limiter::{
    local::{BreakerState, Call, LocalEngine, LocalSettings, OVERFLOW},
    rule::parse_degrade,
};

use crate::support::{at, block, flow, pass, passes};

fn small(rules: &str) -> Arc<LocalEngine> {
    let settings =
        LocalSettings { resources: 2, contexts: 2, origins: 1, ..LocalSettings::default() };
    let engine = Arc::new(LocalEngine::new(settings));
    engine.load_flow(flow(rules));
    engine
}

#[test]
fn a_resource_above_the_bound_that_a_rule_names_has_its_own_counters() {
    let engine = small(r#"[{"resource": "named", "count": 1}]"#);
    for resource in ["a", "b", "c", "d"] {
        assert!(passes(&engine, 0, resource));
    }
    assert!(passes(&engine, 0, "named") && !passes(&engine, 0, "named"));
    assert_eq!(engine.node(at(0), "c"), None);
    let names: Vec<_> = engine.nodes(at(0)).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [OVERFLOW, "a", "b", "named"].map(Box::from));
    assert_eq!(engine.overflow().resources, 2);
}

#[test]
fn resources_above_the_bound_that_match_a_pattern_share_its_limit() {
    let engine = small(r#"[{"resource": "/x/.*", "regex": true, "count": 2}]"#);
    assert!(passes(&engine, 0, "a") && passes(&engine, 0, "b"));
    assert!(passes(&engine, 0, "/x/1") && passes(&engine, 0, "/x/2"));
    assert!(!passes(&engine, 0, "/x/3") && passes(&engine, 0, "/y"));
    assert!(!passes(&engine, 0, "/x/.*"), "its own text matches, too");
    let names: Vec<_> = engine.nodes(at(0)).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["/x/.*", OVERFLOW, "a", "b"].map(Box::from));
}

#[test]
fn what_resources_above_the_bound_share_is_read_with_all_others() {
    let engine = small("[]");
    let rules = r#"[{"resource": "/x/.*", "regex": true, "grade": 2, "count": 0, "timeWindow": 1,
                     "minRequestAmount": 1}]"#;
    engine.load_degrade(parse_degrade(rules, "test").unwrap().rules);
    assert!(passes(&engine, 0, "a") && passes(&engine, 0, "b"));
    let open = pass(engine.enter(at(0), Call::new("b")));
    pass(engine.enter(at(0), Call::new("/x/1"))).fail();
    let resources = engine.resources(at(30));
    let states = |at: usize| Vec::from_iter(resources[at].breakers.iter().map(|b| b.state));
    let names: Vec<&str> = resources.iter().map(|resource| &*resource.name).collect();
    assert_eq!(names, ["/x/.*", "a", "b"]);
    assert_eq!((states(0), states(1)), (vec![BreakerState::Open], vec![]));
    assert_eq!(resources[0].node.exception_qps, 1.0);
    let oldest: Vec<_> = resources.iter().map(|resource| resource.oldest).collect();
    assert_eq!(oldest, [None, None, Some(Duration::from_millis(30))]);
    drop(open);
}

#[test]
fn a_resource_above_the_bound_that_has_no_default_breakers_does_not_share_any() {
    let engine = small(r#"[{"resource": "/x/.*", "regex": true, "count": 9}]"#);
    let rules = r#"[{"resource": "*", "grade": 2, "count": 0, "timeWindow": 9,
                     "minRequestAmount": 1}]"#;
    let rules = parse_degrade(rules, "test").unwrap().rules;
    engine.load_default_degrade(rules, &["free", "/x/.*", OVERFLOW]);
    assert!(passes(&engine, 0, "a") && passes(&engine, 0, "b"));
    for (name, other) in [("c", "d"), ("/x/1", "/x/2")] {
        pass(engine.enter(at(0), Call::new(name))).fail();
        assert!(!passes(&engine, 0, other), "excluded is a name, not what is spelled like it");
    }
    for name in ["free", "/x/.*", OVERFLOW] {
        pass(engine.enter(at(0), Call::new(name))).fail();
        assert!(passes(&engine, 0, name), "{name}");
    }
}

#[test]
fn a_call_in_progress_counts_for_the_names_that_share_it_though_there_is_room_again() {
    let engine = small(r#"[{"resource": "/x/.*", "regex": true, "count": 1, "grade": 0}]"#);
    assert!(passes(&engine, 0, "a") && passes(&engine, 0, "b"));
    let open = pass(engine.enter(at(0), Call::new("/x/1")));
    engine.tidy(at(60_000));
    assert!(!passes(&engine, 60_000, "/x/1") && !passes(&engine, 62_000, "/x/2"));
    drop(open);
    assert!(passes(&engine, 62_000, "/x/1"));
    assert_eq!(engine.node(at(62_000), "/x/1").unwrap().total_pass, 1, "its own");
}

#[test]
fn tokens_of_the_last_second_count_for_the_names_that_share_them_though_there_is_room_again() {
    let engine = small(r#"[{"resource": "/x/.*", "regex": true, "count": 1}]"#);
    assert!(passes(&engine, 0, "a") && passes(&engine, 0, "b"));
    assert!(passes(&engine, 60_900, "/x/1"));
    engine.tidy(at(60_900));
    assert!(!passes(&engine, 60_900, "/x/1") && !passes(&engine, 61_499, "/x/2"));
    assert!(passes(&engine, 61_500, "/x/1"));
    assert_eq!(engine.node(at(61_500), "/x/1").unwrap().total_pass, 1, "its own");
}

#[test]
fn names_that_never_pause_share_counters_for_a_minute_after_there_is_room_again() {
    let engine = small(r#"[{"resource": "/x/.*", "regex": true, "count": 2, "grade": 0}]"#);
    assert!(passes(&engine, 0, "a") && passes(&engine, 0, "b"));
    let open = ["/x/1", "/x/2"].map(|name| pass(engine.enter(at(0), Call::new(name))));
    engine.tidy(at(60_000));
    assert!(!passes(&engine, 60_000, "/x/3") && !passes(&engine, 119_999, "/x/3"));
    assert!(passes(&engine, 120_000, "/x/3"));
    assert_eq!(engine.overflow().resources, 4);
    drop(open);
}

#[test]
fn an_origin_that_shared_counters_is_held_to_them_while_they_count_though_there_is_room_again() {
    let settings = LocalSettings { origins: 2, ..LocalSettings::default() };
    let engine = Arc::new(LocalEngine::new(settings));
    engine.load_flow(flow(r#"[{"resource": "r", "count": 1, "limitApp": "other", "grade": 0}]"#));
    let call = |ms, origin| engine.enter(at(ms), Call::new("r").origin(origin));
    let [a, b] = ["a", "b"].map(|origin| pass(call(0, origin)));
    let open = pass(call(0, "c"));
    drop((a, b));
    engine.tidy(at(60_000));
    block(call(60_000, "c"));
    block(call(61_000, "d"));
    drop(open);
    drop([pass(call(62_000, "c")), pass(call(62_000, "d"))]);
    let origins = engine.origins(at(62_000), "r").into_iter().map(|(origin, _)| origin);
    assert_eq!(Vec::from_iter(origins), [OVERFLOW, "c"].map(Box::from));
}

#[test]
fn a_resource_that_matches_several_patterns_is_held_to_each() {
    let engine = small(
        r#"[{"resource": "/x/.*", "regex": true, "count": 9},
            {"resource": ".*/1", "regex": true, "count": 0}]"#,
    );
    assert!(passes(&engine, 0, "a") && passes(&engine, 0, "b"));
    assert!(passes(&engine, 0, "/x/2") && !passes(&engine, 0, "/x/1"));
}

#[test]
fn a_rule_that_comes_later_finds_the_resource_above_the_bound() {
    let engine = small("[]");
    for resource in ["a", "b", "late"] {
        assert!(passes(&engine, 0, resource));
    }
    engine.load_flow(flow(r#"[{"resource": "late", "count": 0}]"#));
    assert!(!passes(&engine, 0, "late"));
}

#[test]
fn contexts_above_the_bound_share_a_node_and_keep_their_names() {
    let engine = small("[]");
    let call = |name| {
        let context = engine.context(name);
        drop(pass(engine.enter(at(0), Call::new("r").context(&context))));
        context.name().to_owned()
    };
    for name in ["first", "second", "third", "fourth"] {
        assert_eq!(call(name), name);
    }
    // The node of "second" is that of all further contexts.
    let entrances = engine.tree(at(0)).into_iter().filter(|node| node.depth == 1);
    let passed: Vec<_> = entrances.map(|node| (node.name, node.reading.total_pass)).collect();
    let expected = [("sentinel_default_context", 0), ("first", 1), (OVERFLOW, 3)];
    assert_eq!(passed, expected.map(|(name, passed)| (name.into(), passed)));
    assert_eq!(engine.overflow().contexts, 3);
}

#[test]
fn a_context_above_the_bound_that_a_rule_names_has_its_own_counters() {
    let rule = r#"[{"resource": "r", "count": 1, "strategy": 2, "refResource": "web"}]"#;
    for is_loaded_first in [true, false] {
        let engine = small(if is_loaded_first { rule } else { "[]" });
        let [web, _, batch] = ["web", "other", "batch"].map(|name| {
            // So that there is no room for it.
            assert_eq!(engine.context("first").name(), "first");
            engine.context(name)
        });
        engine.load_flow(flow(rule));
        let call = |context| engine.enter(at(0), Call::new("r").context(context));
        drop((pass(call(&batch)), pass(call(&batch))));
        drop(pass(call(&web)));
        block(call(&web));
        drop(pass(call(&batch)));
        let inside = Call::new("outer").context(&web);
        let outer = pass(engine.enter(at(0), inside));
        block(engine.enter(at(0), Call::new("r").parent(&outer)));
        assert!(engine.tree(at(0)).iter().any(|node| &*node.name == "web"));
    }
}

#[test]
fn origins_above_the_bound_share_a_node_but_for_those_that_rules_name() {
    let engine = small(
        r#"[{"resource": "r", "count": 1, "limitApp": "named"},
            {"resource": "r", "count": 2, "limitApp": "other"}]"#,
    );
    let call = |origin| {
        let step = engine.enter(at(0), Call::new("r").origin(origin));
        matches!(step, limiter::local::Step::Passed(_))
    };
    assert!(call("a") && call("a") && !call("a"));
    assert!(call("b") && call("c") && !call("d"), "they share one limit");
    assert!(call("named") && !call("named"));
    assert_eq!(engine.overflow().origins, 3);
}

#[test]
fn a_resource_above_the_bound_that_a_rule_compares_with_has_its_own_counters() {
    let engine = small(r#"[{"resource": "r", "count": 1, "strategy": 1, "refResource": "busy"}]"#);
    assert!(passes(&engine, 0, "a") && passes(&engine, 0, "b") && passes(&engine, 0, "busy"));
    assert!(!passes(&engine, 0, "r"));
}
