//! Flow rules beyond the scenarios: which one concerns whom, and what stays when they change.

use limiter::local::{BlockKind, Call};

use crate::support::{at, block, flow, pass, passes, wait, with_flow};

#[test]
fn other_is_who_no_rule_of_the_resource_names_not_even_one_by_pattern() {
    let engine = with_flow(
        r#"[{"resource": "/x/.*", "regex": true, "count": 0, "limitApp": "named"},
            {"resource": "/x/.*", "regex": true, "count": 1, "limitApp": "other"}]"#,
    );
    let call = |origin| engine.enter(at(0), Call::new("/x/1").origin(origin));
    drop(pass(call("a")));
    assert_eq!(block(call("a")).limit_app(), "other");
    drop(pass(call("b")));
    assert_eq!(block(call("named")).limit_app(), "named");
    drop(pass(call("")));
}

#[test]
fn a_rule_about_the_resource_itself_is_one_about_all_its_calls() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 1, "strategy": 1, "refResource": "r", "limitApp": "a"}]"#,
    );
    drop(pass(engine.enter(at(0), Call::new("r").origin("b"))));
    block(engine.enter(at(0), Call::new("r").origin("a")));
}

#[test]
fn a_rule_about_another_resource_counts_calls_in_progress_too() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 1, "grade": 0, "strategy": 1, "refResource": "x"}]"#,
    );
    let busy = pass(engine.enter(at(0), Call::new("x")));
    assert!(!passes(&engine, 0, "r"));
    drop(busy);
    assert!(passes(&engine, 0, "r"));
}

#[test]
fn a_warm_up_is_that_of_the_resource_that_the_rule_looks_at() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 100, "controlBehavior": 1, "strategy": 1,
             "refResource": "x"}]"#,
    );
    for _ in 0..33 {
        assert!(passes(&engine, 0, "x"));
    }
    assert!(!passes(&engine, 0, "r"), "x is cold, and used up");
    assert!(passes(&engine, 1_000, "r"));
}

#[test]
fn a_cluster_rule_without_a_server_does_what_its_fallback_policy_says() {
    let rule = |fields: &str| {
        format!(
            r#"[{{"resource": "r", "count": 2, "clusterMode": true,
                 "clusterConfig": {{"flowId": 1, {fields}}}}}]"#
        )
    };
    for (fields, passed) in [
        (r#""fallbackPolicy": "local""#, 2),
        (r#""fallbackPolicy": "share""#, 2),
        (r#""fallbackPolicy": "local", "localCount": 1"#, 1),
        (r#""fallbackPolicy": "pass""#, 5),
        (r#""fallbackPolicy": "block""#, 0),
    ] {
        let engine = with_flow(&rule(fields));
        let calls = (0..5).filter(|_| passes(&engine, 0, "r")).count();
        assert_eq!(calls, passed, "{fields}");
    }
}

#[test]
fn what_a_rule_remembers_stays_while_it_is_loaded() {
    let paced = r#"{"resource": "r", "count": 10, "controlBehavior": 2}"#;
    let engine = with_flow(&format!("[{paced}]"));
    assert!(passes(&engine, 0, "r"));
    engine.load_flow(flow(&format!(r#"[{{"resource": "x", "count": 1}}, {paced}, {paced}]"#)));
    drop(wait(engine.enter(at(0), Call::new("r")), 100));
    engine.load_flow(Vec::new());
    assert!(passes(&engine, 0, "r"));
    engine.load_flow(flow(&format!("[{paced}]")));
    assert!(passes(&engine, 0, "r"), "it begins anew");
}

#[test]
fn no_two_half_seconds_hold_more_than_the_count_with_what_was_borrowed() {
    // Sentinel looks back only: of this rule 9 would pass between 500 and 1 500.
    let engine = with_flow(r#"[{"resource": "r", "count": 5}]"#);
    assert!(passes(&engine, 100, "r"));
    drop(wait(engine.enter(at(600), Call::new("r").count(5).prioritized()), 400));
    assert!(!passes(&engine, 600, "r"));
    assert!(!passes(&engine, 1_000, "r"));
}

#[test]
fn a_refusal_says_what_refused() {
    let engine = with_flow(r#"[{"resource": "r", "count": 0.5, "grade": 0, "limitApp": "app"}]"#);
    let refusal = block(engine.enter(at(0), Call::new("r").origin("app")));
    assert_eq!((refusal.kind(), refusal.exception()), (BlockKind::Flow, "FlowException"));
    assert_eq!(refusal.to_string(), "flow rule of r: 0.5 calls in progress for origin app");
}
