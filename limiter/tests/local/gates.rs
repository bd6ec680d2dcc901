//! Hot parameters, gateway rules, breakers and origins in the chain.

use std::{borrow::Cow, sync::Arc};

use limiter::{
    Param, Tick,
    local::{
        Arg, BlockKind, BreakerState, Call, GatewayRequest, LocalEngine, LocalSettings, Seen, Slot,
        Step,
    },
    rule::{
        Contents, ParamRule, ResourceMode, parse, parse_authority, parse_degrade, parse_gateway,
    },
};

use crate::support::{at, block, engine, flow, node, pass, passes, wait, with_flow};

fn param(rules: &str) -> Vec<ParamRule> {
    parse(rules, "test", "", Contents::Param, false).unwrap().rules.param
}

fn with_param(rules: &str) -> Arc<LocalEngine> {
    let engine = engine();
    engine.load_param(param(rules));
    engine
}

fn text(value: &str) -> [Arg<'_>; 1] {
    [Arg::One(Param::Str(value.into()))]
}

#[test]
fn a_call_waits_for_its_value_and_then_for_its_flow_rule() {
    let engine = with_flow(r#"[{"resource": "r", "count": 5, "controlBehavior": 2}]"#);
    engine.load_param(param(
        r#"[{"resource": "r", "paramIdx": 0, "count": 10, "controlBehavior": 2,
             "maxQueueingTimeMs": 500}]"#,
    ));
    let args = text("v");
    drop(pass(engine.enter(at(0), Call::new("r").args(&args))));
    let waiting = wait(engine.enter(at(0), Call::new("r").args(&args)), 100);
    let waiting = wait(waiting.resume(at(100)), 100);
    assert_eq!(node(&engine, 100, "r").threads, 0);
    drop(pass(waiting.resume(at(200))));
    assert_eq!(node(&engine, 200, "r").total_pass, 2);
}

#[test]
fn a_value_is_in_progress_until_the_call_ends_wherever_it_does() {
    let engine = with_param(r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#);
    let (a, b) = (text("a"), text("b"));
    let entry = pass(engine.enter(at(0), Call::new("r").args(&a)));
    let refusal = block(engine.enter(at(0), Call::new("r").args(&a)));
    assert_eq!((refusal.kind(), refusal.exception()), (BlockKind::ParamFlow, "ParamFlowException"));
    drop(pass(engine.enter(at(0), Call::new("r").args(&b))));
    std::thread::spawn(move || drop(entry)).join().unwrap();
    drop(pass(engine.enter(at(0), Call::new("r").args(&a))));
}

#[test]
fn a_call_that_is_refused_behind_holds_no_value() {
    let engine = with_param(r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#);
    let rule = r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 9,
                    "minRequestAmount": 1}]"#;
    engine.load_degrade(parse_degrade(rule, "test").unwrap().rules);
    let args = text("v");
    let mut entry = pass(engine.enter(at(0), Call::new("r").args(&args)));
    entry.fail();
    entry.exit(at(0));
    for _ in 0..2 {
        let refusal = block(engine.enter(at(0), Call::new("r").args(&args)));
        assert_eq!(refusal.kind(), BlockKind::Degrade);
    }
    assert_eq!(node(&engine, 0, "r").threads, 0);
}

#[test]
fn a_call_without_the_argument_passes_and_is_counted() {
    let engine = with_param(r#"[{"resource": "r", "paramIdx": 1, "count": 0}]"#);
    let args = text("v");
    drop(pass(engine.enter(at(0), Call::new("r").args(&args))));
    assert!(passes(&engine, 0, "r"));
    let reading = engine.params(at(0), "r");
    assert_eq!((reading.param_missing, reading.values, reading.missing.len()), (2, 0, 1));
    assert_eq!(engine.params(at(0), "never called").param_missing, 0);
    assert!(passes(&engine, 0, "another"));
    let missing = engine.missing_args();
    assert!(matches!(&missing[..], [(name, rule)] if &**name == "r" && rule.param_idx == 1));
    engine.load_param(Vec::new());
    assert_eq!(engine.missing_args(), []);
}

#[test]
fn a_hot_parameter_rule_may_be_for_a_pattern() {
    let engine = with_param(r#"[{"resource": "/x/.*", "regex": true, "paramIdx": 0, "count": 1}]"#);
    let args = text("v");
    for resource in ["/x/1", "/x/2"] {
        drop(pass(engine.enter(at(0), Call::new(resource).args(&args))));
        block(engine.enter(at(0), Call::new(resource).args(&args)));
    }
    drop(pass(engine.enter(at(0), Call::new("/y").args(&args))));
}

#[test]
fn a_cluster_parameter_rule_without_a_server_does_what_its_fallback_policy_says() {
    for (policy, passed) in
        [(r#""fallbackPolicy": "local""#, 2), ("", 3), (r#""fallbackPolicy": "block""#, 0)]
    {
        let comma = if policy.is_empty() { "" } else { "," };
        let engine = with_param(&format!(
            r#"[{{"resource": "r", "paramIdx": 0, "count": 2, "clusterMode": true,
                 "clusterConfig": {{"flowId": 1{comma} {policy}}}}}]"#
        ));
        let args = text("v");
        let calls = (0..3).map(|_| engine.enter(at(0), Call::new("r").args(&args)));
        assert_eq!(calls.filter(|step| matches!(step, Step::Passed(_))).count(), passed);
    }
}

#[test]
fn idle_values_are_tidied() {
    let engine = with_param(r#"[{"resource": "r", "paramIdx": 0, "count": 5}]"#);
    for number in 0..50 {
        let value = format!("v{number}");
        drop(pass(engine.enter(at(0), Call::new("r").args(&text(&value)))));
    }
    assert_eq!(engine.params(at(0), "r").values, 50);
    for ms in 0..100 {
        engine.tidy(at(5_000 + ms));
    }
    assert_eq!(engine.params(at(6_000), "r").values, 0);
}

/// A request from an address.
struct From(&'static str);

impl GatewayRequest for From {
    fn client_ip(&self) -> Option<Cow<'_, str>> {
        Some(self.0.into())
    }
}

fn with_gateway(rules: &str) -> Arc<LocalEngine> {
    let engine = engine();
    engine.load_gateway(parse_gateway(rules, "test").unwrap().rules);
    engine
}

#[test]
fn a_gateway_rule_counts_each_value_of_its_part_of_the_request() {
    let engine =
        with_gateway(r#"[{"resource": "route", "count": 1, "paramItem": {"parseStrategy": 0}}]"#);
    let request = |from| engine.enter(at(0), Call::new("route").gateway(ResourceMode::Route, from));
    drop(pass(request(&From("1.1.1.1"))));
    let refusal = block(request(&From("1.1.1.1")));
    assert_eq!(refusal.kind(), BlockKind::Gateway);
    assert_eq!(refusal.to_string(), "gateway rule of route: 1 calls per 1 s");
    drop(pass(request(&From("2.2.2.2"))));
    assert!(passes(&engine, 0, "route"), "no request, no rule");
}

#[test]
fn a_gateway_rule_lets_requests_wait_and_counts_those_in_progress() {
    let engine = with_gateway(
        r#"[{"resource": "paced", "count": 10, "controlBehavior": 2},
            {"resource": "busy", "count": 1, "grade": 0}]"#,
    );
    let from = From("1.1.1.1");
    let request = |name| engine.enter(at(0), Call::new(name).gateway(ResourceMode::Route, &from));
    drop(pass(request("paced")));
    drop(pass(wait(request("paced"), 100).resume(at(100))));
    let entry = pass(request("busy"));
    block(request("busy"));
    drop(entry);
    drop(pass(request("busy")));
}

#[test]
fn a_gateway_rule_keeps_what_it_remembers_whatever_other_rules_come_and_go() {
    let by_ip = r#"{"resource": "route", "count": 100, "paramItem": {"parseStrategy": 0}}"#;
    let from = From("1.1.1.1");
    for (rule, limit) in [
        (r#"{"resource": "route", "count": 2}"#, 2),
        (r#"{"resource": "route", "count": 1, "grade": 0}"#, 1),
    ] {
        for (before, after) in [
            (format!("[{rule}]"), format!("[{by_ip}, {rule}]")),
            (format!("[{by_ip}, {rule}]"), format!("[{rule}]")),
        ] {
            let engine = with_gateway(&before);
            let request =
                || engine.enter(at(0), Call::new("route").gateway(ResourceMode::Route, &from));
            let entries: Vec<_> = (0..limit).map(|_| pass(request())).collect();
            block(request());
            engine.load_gateway(parse_gateway(&after, "test").unwrap().rules);
            block(request());
            drop(entries);
        }
    }
}

/// A request with a header.
struct Header(&'static str, &'static str);

impl GatewayRequest for Header {
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        (name == self.0).then(|| self.1.into())
    }
}

#[test]
fn a_gateway_rule_for_another_part_begins_anew_also_when_it_takes_the_place_of_one() {
    let rule = |header: &str| {
        let rule = format!(
            r#"[{{"resource": "route", "count": 1, "intervalSec": 3600,
                 "paramItem": {{"parseStrategy": 2, "fieldName": "{header}"}}}}]"#
        );
        parse_gateway(&rule, "test").unwrap().rules
    };
    let engine = engine();
    let (x, y) = (Header("X", "a"), Header("Y", "a"));
    let request = |from| engine.enter(at(0), Call::new("route").gateway(ResourceMode::Route, from));
    for from in [&x, &y, &x] {
        engine.load_gateway(rule(from.0));
        drop(pass(request(from)));
        block(request(from));
    }
}

#[test]
fn requests_in_progress_are_counted_by_the_part_that_they_began_with() {
    let by_ip = r#"{"resource": "route", "count": 1, "grade": 0,
                    "paramItem": {"parseStrategy": 0}}"#;
    let all = r#"{"resource": "route", "count": 1, "grade": 0}"#;
    let engine = with_gateway(&format!("[{by_ip}]"));
    let load = |list: String| {
        engine.load_gateway(parse_gateway(&list, "test").unwrap().rules);
    };
    let request = |from| engine.enter(at(0), Call::new("route").gateway(ResourceMode::Route, from));
    let entry = pass(request(&From("1.1.1.1")));
    load(format!("[{all}]"));
    let other = pass(request(&From("2.2.2.2")));
    load(format!("[{by_ip}]"));
    block(request(&From("1.1.1.1")));
    drop(pass(request(&From("2.2.2.2"))));
    drop(entry);
    drop(pass(request(&From("1.1.1.1"))));
    load(format!("[{all}]"));
    block(request(&From("1.1.1.1")));
    drop(other);
    drop(pass(request(&From("1.1.1.1"))));
}

#[test]
fn what_gateway_rules_count_is_read_with_what_hot_parameter_rules_do() {
    let engine = Arc::new(LocalEngine::new(LocalSettings { values: 3, ..Default::default() }));
    let rules = r#"[{"resource": "route", "count": 9, "paramItem": {"parseStrategy": 0}},
                    {"resource": "route", "count": 9, "paramItem": {"parseStrategy": 1}},
                    {"resource": "route", "count": 9, "resourceMode": 1,
                     "paramItem": {"parseStrategy": 1}}]"#;
    engine.load_gateway(parse_gateway(rules, "test").unwrap().rules);
    engine.load_param(param(
        r#"[{"resource": "route", "paramIdx": 0, "count": 9},
            {"resource": "route", "paramIdx": 7, "count": 9}]"#,
    ));
    let args = text("v");
    for from in ["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"].map(From) {
        let call = Call::new("route").args(&args).gateway(ResourceMode::Route, &from);
        drop(pass(engine.enter(at(0), call)));
    }
    let reading = engine.params(at(0), "route");
    let missing: Vec<u64> = reading.missing.iter().map(|(_, times)| *times).collect();
    assert_eq!((reading.values, reading.overflow_uses), (4, 1), "v, and three of four addresses");
    assert_eq!((&missing[..], reading.param_missing), (&[0, 4, 0, 4, 0][..], 8));
    assert_eq!(engine.resources(at(0))[0].params, reading);
    assert_eq!(engine.missing_args().len(), 1, "that a request has no host is no mistake");
}

#[test]
fn default_breakers_are_for_resources_without_one_but_for_the_excluded() {
    let engine = engine();
    let default = r#"[{"resource": "*", "grade": 2, "count": 0, "timeWindow": 5,
                       "minRequestAmount": 1}]"#;
    let default = parse_degrade(default, "test").unwrap().rules;
    let loaded = engine.load_default_degrade(default.clone(), &["free"]);
    assert_eq!((loaded.rules, loaded.refused.len()), (1, 0));
    let fail = |resource| {
        let mut entry = pass(engine.enter(at(0), Call::new(resource)));
        entry.fail();
        entry.exit(at(0));
    };
    fail("r");
    fail("free");
    assert!(!passes(&engine, 0, "r") && passes(&engine, 0, "free"));
    // The same rules again: the breaker stays open.
    engine.load_default_degrade(default, &[]);
    assert_eq!(engine.breakers(at(0), "r")[0].state, BreakerState::Open);
    assert_eq!(engine.breakers(at(0), "free")[0].state, BreakerState::Closed);
    let other = r#"[{"resource": "r", "grade": 2, "count": 9, "timeWindow": 5}]"#;
    let other = parse_degrade(other, "test").unwrap().rules;
    assert_eq!(&*engine.load_default_degrade(other.clone(), &[]).refused[0], "r");
    engine.load_degrade(other);
    assert!(passes(&engine, 0, "r"), "its own rule is in force");
}

#[test]
fn who_may_call_is_asked_first_and_by_name_before_by_pattern() {
    let engine = with_flow(r#"[{"resource": "/x/1", "count": 0}]"#);
    let rules = r#"[{"resource": "/x/.*", "regex": true, "limitApp": "a", "strategy": 1},
                    {"resource": "/x/1", "limitApp": "a"}]"#;
    let rules = parse_authority(rules, "test").unwrap().rules;
    assert_eq!(engine.load_authority(rules).rules, 2);
    let call = |resource, origin| block(engine.enter(at(0), Call::new(resource).origin(origin)));
    let refusal = call("/x/1", "b");
    assert_eq!((refusal.kind(), refusal.limit_app()), (BlockKind::Authority, "b"));
    assert_eq!(refusal.to_string(), "authority rule of /x/1: b is not on the white list");
    assert_eq!(call("/x/1", "a").kind(), BlockKind::Flow);
    assert_eq!(call("/x/2", "a").kind(), BlockKind::Authority);
}

#[test]
fn a_name_and_a_pattern_spelled_alike_are_two_for_who_may_call_and_a_second_one_is_refused() {
    let engine = engine();
    let rules = r#"[{"resource": "a.b", "regex": true, "limitApp": "x", "strategy": 1},
                    {"resource": "a.b", "limitApp": "x"}]"#;
    let mut rules = parse_authority(rules, "test").unwrap().rules;
    let loaded = engine.load_authority(rules.clone());
    assert_eq!((loaded.rules, &loaded.refused[..]), (2, &[][..]));
    let passes = |resource, origin| {
        let step = engine.enter(at(0), Call::new(resource).origin(origin));
        matches!(step, Step::Passed(_))
    };
    assert!(passes("a.b", "x") && !passes("a.b", "y"), "the name's");
    assert!(!passes("a/b", "x") && passes("a/b", "y"), "the pattern's");
    let other = r#"[{"resource": "a.b", "limitApp": "y"}]"#;
    rules.extend(parse_authority(other, "test").unwrap().rules);
    rules.push(rules[0].clone());
    let loaded = engine.load_authority(rules);
    assert_eq!((loaded.rules, &loaded.refused[..]), (2, &["a.b".into()][..]));
    assert!(passes("a.b", "x") && !passes("a.b", "y"), "the first still counts");
}

const TRIPS_AT_ONCE: &str =
    r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}]"#;

/// An engine whose resource `r` has failed once, so that its breaker probes from 1 000 on.
fn tripped() -> Arc<LocalEngine> {
    let engine = engine();
    engine.load_degrade(parse_degrade(TRIPS_AT_ONCE, "test").unwrap().rules);
    let mut entry = pass(engine.enter(at(0), Call::new("r")));
    entry.fail();
    entry.exit(at(0));
    engine
}

fn breaker(engine: &LocalEngine, ms: u64) -> (BreakerState, Option<Tick>) {
    let reading = engine.breakers(at(ms), "r").remove(0);
    (reading.state, reading.retry_at)
}

#[test]
fn a_breaker_whose_probe_hangs_for_ever_heals() {
    let engine = tripped();
    let enter = |ms| engine.enter(at(ms), Call::new("r"));
    let hangs = pass(enter(1_000));
    block(enter(1_999));
    std::mem::forget(pass(enter(2_000)));
    assert_eq!(breaker(&engine, 2_999), (BreakerState::HalfOpen, Some(at(3_000))));
    block(enter(2_999));
    pass(enter(3_600_000)).exit(at(3_600_000));
    assert_eq!(breaker(&engine, 3_600_000), (BreakerState::Closed, None));
    drop(hangs);
    assert_eq!(node(&engine, 3_600_000, "r").threads, 1, "the one that was leaked");
}

#[test]
fn a_probe_that_is_refused_behind_or_given_up_in_a_queue_opens_the_breaker_again() {
    #[derive(Debug)]
    struct Refuses;
    impl Slot for Refuses {
        fn enter(&self, _: Tick, call: &Seen<'_>) -> Result<(), Cow<'static, str>> {
            if call.origin == "bad" { Err("bad".into()) } else { Ok(()) }
        }
    }
    let opens = |ms| (BreakerState::Open, Some(at(ms)));
    let engine = tripped();
    engine.insert_slot(0, Arc::new(Refuses));
    block(engine.enter(at(1_000), Call::new("r").origin("bad")));
    assert_eq!(breaker(&engine, 1_000), opens(2_000));
    // One that hangs is overtaken by one that is refused: whose end is whose stays known.
    let hangs = pass(engine.enter(at(2_000), Call::new("r")));
    block(engine.enter(at(3_000), Call::new("r").origin("bad")));
    assert_eq!(breaker(&engine, 3_000), opens(4_000));
    drop(hangs);
    assert_eq!(breaker(&engine, 3_000), opens(4_000));
    // A queue stands before the breakers, so who waits there is no probe yet.
    engine.load_flow(flow(
        r#"[{"resource": "r", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 9000}]"#,
    ));
    drop(pass(engine.enter(at(4_000), Call::new("r"))));
    assert_eq!(breaker(&engine, 4_000), (BreakerState::Closed, None));
    let mut entry = pass(wait(engine.enter(at(4_000), Call::new("r")), 1_000).resume(at(5_000)));
    entry.fail();
    entry.exit(at(5_000));
    drop(wait(engine.enter(at(6_000 - 1), Call::new("r")), 1));
    assert_eq!(breaker(&engine, 6_000), opens(6_000));
    drop(pass(wait(engine.enter(at(6_000), Call::new("r")), 1_000).resume(at(7_000))));
    assert_eq!(breaker(&engine, 7_000), (BreakerState::Closed, None));
}
