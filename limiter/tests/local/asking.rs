//! Rules that a token server decides, in the chain.

use std::sync::Arc;

use limiter::{
    Param,
    local::{Arg, Asking, BlockKind, Call, LocalEngine, Question, Trace},
    rule::{Contents, parse},
};

use crate::support::{Step, at, block, engine, flow, node, pass, passes, wait, with_flow};

/// A cluster flow rule of `r`, with what else it says.
fn cluster(flow_id: i64, fields: &str, config: &str) -> String {
    format!(
        r#"{{"resource": "r", "count": 1, {fields} "clusterMode": true,
             "clusterConfig": {{"flowId": {flow_id}{config}}}}}"#
    )
}

fn asking_with(rules: &[String]) -> Arc<LocalEngine> {
    let engine = with_flow(&format!("[{}]", rules.join(",")));
    engine.ask_servers(true);
    engine
}

fn engine_that_asks() -> Arc<LocalEngine> {
    let engine = engine();
    engine.ask_servers(true);
    engine
}

/// A call that must be asked for, by its flow rule.
fn ask(step: Step<'_>, flow_id: i64) -> Asking<'_> {
    let Step::Ask(asking) = step else { panic!("{step:?}") };
    let Question::Flow { rule, .. } = asking.question() else { panic!("{asking:?}") };
    assert_eq!(rule.cluster.as_ref().unwrap().flow_id, flow_id);
    asking
}

#[test]
fn a_cluster_rule_is_asked_for_and_decided_as_the_server_says() {
    let engine = asking_with(&[cluster(7, "", "")]);
    for (told, passes) in [(true, true), (true, true), (false, false), (true, true)] {
        let asking = ask(engine.enter(at(0), Call::new("r").count(3).prioritized()), 7);
        let question = asking.question();
        assert!(matches!(question, Question::Flow { count: 3, prioritized: true, .. }));
        let step = asking.resume(at(5), Some(told));
        assert_eq!(matches!(step, Step::Passed(_)), passes, "{step:?}");
    }
    let refused = block(ask(engine.enter(at(9), Call::new("r")), 7).resume(at(9), Some(false)));
    assert_eq!(refused.kind(), BlockKind::Flow);
    assert_eq!(refused.to_string(), "cluster flow rule 7 of r: 1 calls per second");
    let node = node(&engine, 9, "r");
    assert_eq!((node.total_pass, node.total_block, node.threads), (9, 4, 0));
}

#[test]
fn a_rule_that_passes_or_refuses_without_a_server_is_asked_for_as_well() {
    for policy in ["pass", "block", "local", "share"] {
        let policy = format!(r#", "fallbackPolicy": "{policy}""#);
        let engine = asking_with(&[cluster(7, "", &policy)]);
        drop(pass(ask(engine.enter(at(0), Call::new("r")), 7).resume(at(0), Some(true))));
        block(ask(engine.enter(at(0), Call::new("r")), 7).resume(at(0), Some(false)));
    }
}

#[test]
fn switched_off_the_fallback_policy_decides_and_what_was_counted_stays() {
    let engine = asking_with(&[cluster(7, "", "")]);
    drop(pass(ask(engine.enter(at(0), Call::new("r")), 7).resume(at(0), Some(true))));
    engine.ask_servers(false);
    assert!(!passes(&engine, 0, "r"), "the server's pass is counted here");
    assert!(passes(&engine, 1_000, "r"));
    engine.ask_servers(true);
    drop(pass(ask(engine.enter(at(1_000), Call::new("r")), 7).resume(at(1_000), Some(true))));
    assert_eq!(node(&engine, 1_000, "r").total_pass, 3);
}

#[test]
fn a_call_whose_server_went_away_is_decided_here() {
    let engine = asking_with(&[cluster(7, "", r#", "fallbackPolicy": "pass""#)]);
    let asking = ask(engine.enter(at(0), Call::new("r")), 7);
    drop(pass(asking.resume(at(1), None)));
    let engine = asking_with(&[cluster(7, "", r#", "fallbackPolicy": "block""#)]);
    block(ask(engine.enter(at(0), Call::new("r")), 7).resume(at(1), None));
}

#[test]
fn an_answer_holds_though_rules_before_the_one_that_was_asked_for_are_gone() {
    let local = r#"{"resource": "r", "count": 1000}"#.to_owned();
    let engine = asking_with(&[local, cluster(7, "", "")]);
    let asking = ask(engine.enter(at(0), Call::new("r")), 7);
    engine.load_flow(flow(&format!("[{}]", cluster(7, "", ""))));
    block(asking.resume(at(5), Some(false)));

    let hot = r#"{"resource": "r", "paramIdx": 0, "count": 1, "clusterMode": true,
                  "clusterConfig": {"flowId": 9}}"#;
    let load = |engine: &LocalEngine, rules: &str| {
        engine.load_param(parse(rules, "test", "", Contents::Param, false).unwrap().rules.param);
    };
    let engine = engine_that_asks();
    load(&engine, &format!(r#"[{{"resource": "r", "paramIdx": 1, "count": 1000}}, {hot}]"#));
    let args = [Arg::One(Param::Int(1)), Arg::One(Param::Int(2))];
    let Step::Ask(asking) = engine.enter(at(0), Call::new("r").args(&args)) else { panic!() };
    load(&engine, &format!("[{hot}]"));
    block(asking.resume(at(5), Some(false)));
}

#[test]
fn each_rule_is_asked_for_once_and_local_ones_first() {
    let local = r#"{"resource": "r", "count": 1}"#.to_owned();
    let engine = asking_with(&[cluster(7, "", ""), cluster(8, "", ""), local]);
    let seven = ask(engine.enter(at(0), Call::new("r")), 7);
    let eight = ask(seven.resume(at(0), Some(true)), 8);
    // Meanwhile another call takes what the local rule has.
    let other = ask(engine.enter(at(0), Call::new("r")), 7).resume(at(0), Some(true));
    let other = pass(ask(other, 8).resume(at(0), Some(true)));
    let refused = block(eight.resume(at(0), Some(true)));
    assert_eq!(refused.to_string(), "flow rule of r: 1 calls per second");
    other.exit(at(0));
    assert_eq!(block(engine.enter(at(0), Call::new("r"))).to_string(), refused.to_string());
}

#[test]
fn a_call_is_in_a_queue_once_though_a_server_is_asked_behind_it() {
    let queue = r#"{"resource": "r", "count": 10, "controlBehavior": 2,
                    "maxQueueingTimeMs": 60000}"#;
    let engine = asking_with(&[queue.to_owned(), cluster(7, "", "")]);
    let first = ask(engine.enter(at(0), Call::new("r")), 7);
    drop(pass(first.resume(at(5), Some(true))));
    for (turn, came) in [(100, 5), (200, 100)] {
        let waits = wait(engine.enter(at(came), Call::new("r")), turn - came);
        let asking = ask(waits.resume(at(turn)), 7);
        drop(pass(asking.resume(at(turn), Some(true))));
    }
    drop(wait(engine.enter(at(200), Call::new("r")), 100));
}

#[test]
fn a_hot_value_is_in_a_queue_once_though_a_server_is_asked_behind_it() {
    let engine = engine();
    let rules = r#"[{"resource": "r", "paramIdx": 0, "count": 10, "controlBehavior": 2,
                     "maxQueueingTimeMs": 60000},
                    {"resource": "r", "paramIdx": 0, "count": 5, "clusterMode": true,
                     "clusterConfig": {"flowId": 7}}]"#;
    engine.load_param(parse(rules, "test", "", Contents::Param, false).unwrap().rules.param);
    engine.ask_servers(true);
    let args = [Arg::One(Param::Int(1))];
    let answered = |step: Step<'_>, ms| {
        let Step::Ask(asking) = step else { panic!("{step:?}") };
        drop(pass(asking.resume(at(ms), Some(true))));
    };
    answered(engine.enter(at(0), Call::new("r").args(&args)), 5);
    for (turn, came) in [(100, 5), (200, 100)] {
        let waits = wait(engine.enter(at(came), Call::new("r").args(&args)), turn - came);
        answered(waits.resume(at(turn)), turn);
    }
    drop(wait(engine.enter(at(200), Call::new("r").args(&args)), 100));
}

#[test]
fn a_local_warm_up_protects_a_new_instance_of_a_warm_cluster() {
    let warm_up = r#"{"resource": "r", "count": 30, "controlBehavior": 1}"#.to_owned();
    let engine = asking_with(&[cluster(7, "", ""), warm_up]);
    let mut passed = 0;
    for _ in 0..30 {
        match engine.enter(at(0), Call::new("r")) {
            Step::Ask(asking) => {
                drop(pass(asking.resume(at(0), Some(true))));
                passed += 1;
            }
            other => drop(block(other)),
        }
    }
    assert_eq!(passed, 10, "cold: a third of 30, whatever the server has");
}

#[test]
fn an_answer_is_for_the_rule_that_was_asked_for() {
    let engine = asking_with(&[cluster(7, "", "")]);
    let asking = ask(engine.enter(at(0), Call::new("r")), 7);
    engine.load_flow(flow(&format!("[{}]", cluster(8, "", ""))));
    let asking = ask(asking.resume(at(0), Some(false)), 8);
    engine.load_flow(Vec::new());
    drop(pass(asking.resume(at(0), Some(false))));
}

#[test]
fn hot_values_are_asked_for_together_and_not_without_the_argument() {
    let engine = engine_that_asks();
    let rules = r#"[{"resource": "r", "paramIdx": 0, "count": 5, "clusterMode": true,
                     "clusterConfig": {"flowId": 7}},
                    {"resource": "r", "paramIdx": 0, "count": 1}]"#;
    engine.load_param(parse(rules, "test", "", Contents::Param, false).unwrap().rules.param);
    let values = [Param::Int(1), Param::Int(2)];
    let args = [Arg::Many(&values)];
    for passes in [true, false] {
        let Step::Ask(asking) = engine.enter(at(0), Call::new("r").args(&args)) else { panic!() };
        let Question::Param { rule, count: 1, values: asked } = asking.question() else { panic!() };
        assert_eq!((rule.cluster.as_ref().unwrap().flow_id, asked), (7, &values[..]));
        let step = asking.resume(at(0), Some(true));
        assert_eq!(
            matches!(step, Step::Passed(_)),
            passes,
            "the local rule is asked once: {step:?}"
        );
    }
    let Step::Ask(asking) = engine.enter(at(0), Call::new("r").args(&args)) else { panic!() };
    let refused = block(asking.resume(at(0), Some(false)));
    let said = "cluster hot-parameter rule 7 of r: 5 calls for each value of argument 0 per 1 s";
    assert_eq!(refused.to_string(), said);
    drop(pass(engine.enter(at(0), Call::new("r"))));
    drop(pass(engine.enter(at(0), Call::new("r").args(&[Arg::Many(&[])]))));
}

#[test]
fn a_call_that_is_given_up_while_it_is_asked_for_leaves_nothing_behind() {
    let engine = asking_with(&[cluster(7, "", "")]);
    drop(ask(engine.enter(at(0), Call::new("r")), 7));
    let node = node(&engine, 0, "r");
    assert_eq!((node.total_pass, node.total_block, node.threads), (0, 0, 0));
}

#[test]
fn a_trace_shows_that_a_server_was_asked() {
    let engine = asking_with(&[cluster(7, "", "")]);
    let mut trace = Trace::new(Arc::new(limiter::ManualClock::new(at(0))));
    let asking = ask(engine.enter(at(0), Call::new("r").trace(&mut trace)), 7);
    drop(pass(asking.resume(at(0), Some(true))));
    let said = |said| trace.marks().iter().filter(|mark| mark.said == said).count();
    assert_eq!(said(limiter::local::Said::Ask), 1);
}
