//! Cluster rules in an engine that asks no token server: what stands in their own fields holds here
//! as for a client that has lost its server.

use std::sync::Arc;

use limiter::{
    Param,
    local::{Arg, Call, Checked, LocalEngine, LocalSettings, Step},
    rule::{Contents, ParamRule, parse},
};

use crate::support::{at, block, engine, flow, pass, passes, wait, with_flow};

fn cluster(rule: &str, config: &str) -> String {
    format!(
        r#"{{"resource": "r", {rule}, "clusterMode": true,
            "clusterConfig": {{"flowId": 7, "thresholdType": 1, "fallbackToLocalWhenFail": true
                               {config}}}}}"#
    )
}

fn flows(rule: &str, config: &str) -> Arc<LocalEngine> {
    with_flow(&format!("[{}]", cluster(rule, config)))
}

fn param(rule: &str, config: &str) -> Vec<ParamRule> {
    let rule = cluster(&format!(r#""paramIdx": 0, {rule}"#), config);
    parse(&format!("[{rule}]"), "test", "", Contents::Param, false).unwrap().rules.param
}

/// How many of so many calls pass at one time.
fn passed(engine: &Arc<LocalEngine>, ms: u64, calls: usize) -> usize {
    (0..calls).filter(|_| passes(engine, ms, "r")).count()
}

/// The same of calls with one value.
fn passed_with(engine: &Arc<LocalEngine>, ms: u64, value: i32, calls: usize) -> usize {
    let args = [Arg::One(Param::Int(value))];
    let goes =
        |_: &usize| matches!(engine.enter(at(ms), Call::new("r").args(&args)), Step::Passed(_));
    (0..calls).filter(goes).count()
}

const A_MINUTE: &str = r#", "thresholdUnit": "window", "windowIntervalMs": 60000"#;

#[test]
fn a_mode_needs_no_server_whatever_the_fallback_policy() {
    for (mode, right) in [("enforce", 2), ("shadow", 5), ("pass", 5), ("block", 0)] {
        for policy in ["local", "share"] {
            let config = format!(r#", "mode": "{mode}", "fallbackPolicy": "{policy}""#);
            for rule in [r#""count": 2"#, r#""count": 2, "grade": 0"#] {
                let engine = flows(rule, &config);
                let held: Vec<_> = (0..5).map(|_| engine.enter(at(0), Call::new("r"))).collect();
                let passed = held.iter().filter(|step| matches!(step, Step::Passed(_))).count();
                assert_eq!(passed, right, "{mode} {policy} {rule}");
            }
            let engine = flows(r#""count": 2"#, &config);
            let checked = (0..5).filter(|_| engine.check(at(0), "r", 1) == Checked::Pass).count();
            assert_eq!(checked, right, "{mode} {policy}");
            let engine = self::engine();
            engine.load_param(param(r#""count": 2"#, &config));
            assert_eq!(passed_with(&engine, 0, 1, 5), right, "{mode} {policy}");
        }
    }
    let blocked = flows(r#""count": 2"#, r#", "mode": "block", "fallbackPolicy": "pass""#);
    assert_eq!(passed(&blocked, 0, 1), 0);
}

#[test]
fn calls_in_progress_with_a_value_are_no_server_s_and_held_to_the_count_in_any_case() {
    for (config, right) in [
        (r#", "fallbackPolicy": "pass""#, 1),
        (r#", "fallbackPolicy": "block""#, 1),
        (r#", "mode": "pass""#, 3),
        (r#", "mode": "block""#, 0),
    ] {
        let engine = engine();
        engine.load_param(param(r#""count": 1, "grade": 0"#, config));
        let args = [Arg::One(Param::Int(1))];
        let held: Vec<_> =
            (0..3).map(|_| engine.enter(at(0), Call::new("r").args(&args))).collect();
        let passed = held.iter().filter(|step| matches!(step, Step::Passed(_))).count();
        assert_eq!(passed, right, "{config}");
    }
}

#[test]
fn a_count_per_window_is_one_here_and_outlives_loads_and_rest() {
    let engine = flows(r#""count": 5"#, A_MINUTE);
    assert_eq!(passed(&engine, 0, 3), 3);
    assert_eq!(engine.check(at(5_000), "r", 1), Checked::Pass);
    let more =
        |count: u32| flow(&format!("[{}]", cluster(&format!(r#""count": {count}"#), A_MINUTE)));
    engine.load_flow(more(6));
    assert_eq!(passed(&engine, 10_000, 5), 2);
    engine.load_flow(Vec::new());
    engine.load_flow(more(6));
    assert_eq!(passed(&engine, 20_000, 9), 6, "it begins anew");
}

#[test]
fn a_resource_that_a_pattern_limits_per_window_stays_until_the_window_is_over() {
    let hour = r#", "thresholdUnit": "window", "windowIntervalMs": 3600000"#;
    let mut rules = flow(&format!("[{}]", cluster(r#""count": 5"#, hour)));
    // From JSON a cluster rule is for one name.
    (rules[0].resource, rules[0].regex) = ("r.*".into(), true);
    let engine = engine();
    engine.load_flow(rules);
    assert_eq!(passed(&engine, 0, 9), 5);
    for minute in 2..57 {
        engine.tidy(at(minute * 60_000));
    }
    assert_eq!(passed(&engine, 3_420_000, 9), 0);
    engine.tidy(at(7_300_000));
    assert_eq!(engine.resources(at(7_300_000)).len(), 0);
}

#[test]
fn an_algorithm_of_its_own_decides_here() {
    let bucket = flows(r#""count": 10"#, r#", "algorithm": "tokenBucket", "burst": 3"#);
    assert_eq!(passed(&bucket, 0, 9), 3);
    assert_eq!(passed(&bucket, 100, 9), 1, "one in 100 ms");
    // 1 700 000 040 000 is at 22:14 of a day of UTC.
    let day = r#", "calendar": "day", "timeZone": "UTC""#;
    let day = flows(r#""count": 4"#, day);
    assert_eq!(passed(&day, 0, 9), 4);
    assert_eq!(passed(&day, 3_600_000, 9), 0);
    assert_eq!(passed(&day, 7_200_000, 9), 4, "tomorrow");
}

#[test]
fn a_call_that_waits_for_such_a_rule_is_not_sent_into_its_queue_again() {
    let paced = r#""count": 600, "controlBehavior": 2, "maxQueueingTimeMs": 500"#;
    let engine = flows(paced, A_MINUTE);
    drop(pass(engine.enter(at(0), Call::new("r"))));
    let first = wait(engine.enter(at(0), Call::new("r")), 100);
    let second = wait(engine.enter(at(0), Call::new("r")), 200);
    drop(pass(first.resume(at(100))));
    drop(pass(second.resume(at(200))));
    drop(wait(engine.enter(at(200), Call::new("r")), 100));
}

#[test]
fn it_is_for_the_calls_of_its_caller_alone() {
    let engine = flows(r#""count": 1, "limitApp": "a""#, A_MINUTE);
    assert_eq!(passed(&engine, 0, 5), 5);
    drop(pass(engine.enter(at(0), Call::new("r").origin("a"))));
    block(engine.enter(at(2_000), Call::new("r").origin("a")));
}

#[test]
fn values_are_held_to_a_count_per_window_each() {
    let items =
        r#""count": 2, "paramFlowItemList": [{"object": "7", "classType": "int", "count": 4}]"#;
    let engine = engine();
    engine.load_param(param(items, A_MINUTE));
    assert_eq!((passed_with(&engine, 0, 1, 9), passed_with(&engine, 0, 7, 9)), (2, 4));
    assert_eq!(passed_with(&engine, 30_000, 1, 9), 0);
    engine.load_param(param(&items.replace('4', "5"), A_MINUTE));
    assert_eq!(passed_with(&engine, 30_000, 1, 9), 0);
    assert_eq!(passed_with(&engine, 30_000, 7, 9), 1);
    for second in 60..125 {
        engine.tidy(at(second * 1_000));
    }
    assert_eq!(engine.params(at(125_000), "r").values, 0);
    assert_eq!(passed_with(&engine, 125_000, 1, 9), 2);
}

#[test]
fn their_values_are_in_the_room_of_all_others() {
    let settings = LocalSettings { values: 2, ..LocalSettings::default() };
    let engine = Arc::new(LocalEngine::new(settings));
    engine.load_param(param(r#""count": 1"#, A_MINUTE));
    assert_eq!((0..9).map(|value| passed_with(&engine, 0, value, 1)).sum::<usize>(), 3);
    let reading = engine.params(at(0), "r");
    assert_eq!((reading.values, reading.overflow_uses), (2, 7));
}
