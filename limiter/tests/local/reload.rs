//! What rules remember over a load: all of it while they are in force, whatever their numbers, and
//! nothing once they are gone.

use std::sync::Arc;

use limiter::{
    Param,
    local::{Arg, BreakerState, Call, LocalEngine, Step},
    rule::{Contents, DegradeRule, ParamRule, parse, parse_degrade},
};

use crate::support::{at, block, engine, flow, pass, wait, with_flow};

fn degrade(rules: &str) -> Vec<DegradeRule> {
    parse_degrade(rules, "test").unwrap().rules
}

fn param(rules: &str) -> Vec<ParamRule> {
    parse(rules, "test", "", Contents::Param, false).unwrap().rules.param
}

fn paced(count: u32, longest: u32) -> String {
    format!(
        r#"[{{"resource": "r", "count": {count}, "controlBehavior": 2,
             "maxQueueingTimeMs": {longest}}}]"#
    )
}

fn enter(engine: &Arc<LocalEngine>, ms: u64) -> Step<'static> {
    engine.enter(at(ms), Call::new("r"))
}

#[test]
fn a_paced_rule_keeps_its_line_whatever_its_numbers() {
    let engine = with_flow(&paced(10, 500));
    drop(pass(enter(&engine, 0)));
    let waiting: Vec<_> = (1..=5).map(|turn| wait(enter(&engine, 0), turn * 100)).collect();
    engine.load_flow(flow(&paced(10, 501)));
    block(enter(&engine, 0));
    engine.load_flow(flow(&paced(10, 600)));
    let sixth = wait(enter(&engine, 0), 600);
    engine.load_flow(flow(&paced(5, 800)));
    let seventh = wait(enter(&engine, 0), 800);
    // The other behavior that has a line: three times slower while cold.
    let cold = paced(10, 9_000).replace("2,", "3, \"warmUpPeriodSec\": 10,");
    engine.load_flow(flow(&cold));
    let eighth = wait(enter(&engine, 0), 1_100);
    engine.load_flow(flow(&paced(10, 9_000)));
    let ninth = wait(enter(&engine, 0), 1_200);
    drop((waiting, sixth, seventh, eighth, ninth));
}

#[test]
fn a_paced_rule_keeps_its_line_through_a_count_of_zero() {
    let engine = with_flow(&paced(1, 60_000));
    drop(pass(enter(&engine, 0)));
    let waiting: Vec<_> = (1..=30).map(|turn| wait(enter(&engine, 0), turn * 1_000)).collect();
    engine.load_flow(flow(&paced(0, 60_000)));
    block(enter(&engine, 0));
    engine.tidy(at(0));
    engine.load_flow(flow(&paced(1, 60_000)));
    drop(wait(enter(&engine, 0), 31_000));
    drop(waiting);
}

#[test]
fn of_several_rules_each_goes_on_with_the_line_of_its_own_calls() {
    let rules = |of_a: u32, of_all: u32| {
        flow(&format!(
            r#"[{{"resource": "r", "count": {of_all}, "controlBehavior": 2,
                 "maxQueueingTimeMs": 9000}},
                {{"resource": "r", "count": {of_a}, "controlBehavior": 2, "limitApp": "a",
                 "maxQueueingTimeMs": 9000}}]"#
        ))
    };
    let engine = with_flow("[]");
    engine.load_flow(rules(1, 1_000));
    drop(pass(engine.enter(at(0), Call::new("r").origin("a"))));
    engine.load_flow(rules(2, 500));
    let of_a = wait(engine.enter(at(0), Call::new("r").origin("a")), 500);
    drop(pass(of_a.resume(at(500))));
}

#[test]
fn a_rule_that_stays_with_other_numbers_goes_on_from_itself_when_another_goes() {
    let queue = |count: u32, longest: u32| {
        format!(
            r#"{{"resource": "r", "count": {count}, "controlBehavior": 2,
                 "maxQueueingTimeMs": {longest}}}"#
        )
    };
    let engine = with_flow(&format!("[{}, {}]", queue(1_000, 500), queue(1, 60_000)));
    drop(pass(enter(&engine, 0)));
    let later = |turn: &u64| turn * 1_000 - turn * 2;
    let waiting: Vec<_> =
        (1..=30).map(|turn| wait(enter(&engine, turn * 2), later(&turn))).collect();
    engine.load_flow(flow(&format!("[{}]", queue(1, 90_000))));
    let next = wait(enter(&engine, 100), 30_900);
    // Of which of them it is meant to go on from nobody can tell: not from one that opens it.
    engine.load_flow(flow(&format!("[{}, {}]", queue(1_000, 500), queue(1, 90_000))));
    engine.load_flow(flow(&format!("[{}]", queue(2, 70_000))));
    drop(wait(enter(&engine, 100), 31_400));
    drop((waiting, next));
}

#[test]
fn what_values_have_used_stays_with_the_rule_for_the_same_time() {
    let rules = |short: &str, count: u32| {
        param(&format!(
            r#"[{short} {{"resource": "r", "paramIdx": 0, "count": {count},
                 "durationInSec": 3600}}]"#
        ))
    };
    let short = r#"{"resource": "r", "paramIdx": 0, "count": 10, "durationInSec": 1},"#;
    let engine = engine();
    let args = [Arg::One(Param::Int(1))];
    let take = |ms, n| {
        let step = engine.enter(at(ms), Call::new("r").args(&args).count(n));
        matches!(step, Step::Passed(_))
    };
    engine.load_param(rules(short, 100));
    for second in 0..10 {
        assert!(take(second * 1_001, 10));
    }
    assert!(!take(20_000, 1), "100 in the hour are used");
    engine.load_param(rules("", 101));
    assert!(take(20_000, 1));
    assert!(!take(20_000, 1));
}

#[test]
fn a_rule_that_warms_up_is_as_warm_with_other_numbers() {
    let rules = |count: u32, behavior: u32| {
        flow(&format!(
            r#"[{{"resource": "r", "count": {count}, "controlBehavior": {behavior},
                 "warmUpPeriodSec": 10, "maxQueueingTimeMs": 9000}}]"#
        ))
    };
    let engine = with_flow("[]");
    engine.load_flow(rules(100, 1));
    let stored = |ms| engine.warm_ups(at(ms), "r")[0].stored;
    let mut passed = 0;
    for ms in (0..30_000).step_by(8) {
        passed += u32::from(matches!(enter(&engine, ms), Step::Passed(_)));
    }
    let warm = stored(30_000);
    assert!(warm < 500 && passed > 1_500, "{warm} {passed}");
    engine.load_flow(rules(200, 1));
    assert_eq!(stored(30_000), warm * 2, "of twice as many");
    engine.load_flow(rules(200, 3));
    assert_eq!(stored(30_000), warm * 2);
    engine.load_flow(rules(100, 1));
    assert_eq!(stored(30_000), warm);
    engine.load_flow(Vec::new());
    engine.load_flow(rules(100, 1));
    assert_eq!(stored(30_000), 0, "not known before the first call");
    drop(enter(&engine, 40_000));
    assert_eq!(stored(40_000), 1_000, "cold");
}

#[test]
fn a_service_that_was_shut_by_a_count_of_zero_is_cold() {
    let rules = |count: u32, behavior: u32| {
        flow(&format!(
            r#"[{{"resource": "r", "count": {count}, "controlBehavior": {behavior},
                 "warmUpPeriodSec": 10, "maxQueueingTimeMs": 1}}]"#
        ))
    };
    let second = |engine: &Arc<LocalEngine>, from: u64| {
        let goes = |ms: &u64| !matches!(enter(engine, from + ms), Step::Blocked(_));
        (0..1_000).filter(goes).count()
    };
    for behavior in [1, 3] {
        let engine = engine();
        engine.load_flow(rules(100, behavior));
        let cold = second(&engine, 0);
        assert!((30..=34).contains(&cold), "{cold} of 100");
        engine.load_flow(rules(0, behavior));
        for s in 1..600 {
            block(enter(&engine, s * 1_000));
        }
        engine.load_flow(rules(100, behavior));
        assert_eq!(second(&engine, 600_000), cold);
    }
}

/// Takes a rule away and brings it back, with and without a call meanwhile; `used` makes it remember
/// something, and what `fresh` says must hold then.
fn comes_back(
    load: impl Fn(&LocalEngine, bool),
    used: impl Fn(&Arc<LocalEngine>),
    fresh: impl Fn(&Arc<LocalEngine>) -> bool,
) {
    for is_called in [false, true] {
        let engine = engine();
        load(&engine, true);
        used(&engine);
        assert!(!fresh(&engine));
        load(&engine, false);
        if is_called {
            drop(pass(enter(&engine, 0)));
        }
        load(&engine, true);
        assert!(fresh(&engine), "with a call meanwhile: {is_called}");
    }
}

#[test]
fn a_breaker_whose_rule_went_begins_closed_whoever_called_meanwhile() {
    let rule = r#"{"grade": 2, "count": 0, "timeWindow": 500, "minRequestAmount": 1, "resource":"#;
    let used = |engine: &Arc<LocalEngine>| pass(enter(engine, 0)).fail();
    let is_closed =
        |engine: &Arc<LocalEngine>| engine.breakers(at(0), "r")[0].state == BreakerState::Closed;
    let own = |engine: &LocalEngine, loaded| {
        let name = if loaded { "r" } else { "another" };
        engine.load_degrade(degrade(&format!(r#"[{rule} "{name}"}}]"#)));
    };
    comes_back(own, used, is_closed);
    let default = |engine: &LocalEngine, loaded| {
        let excluded: &[&str] = if loaded { &[] } else { &["r"] };
        engine.load_default_degrade(degrade(&format!(r#"[{rule} "*"}}]"#)), excluded);
    };
    comes_back(default, used, is_closed);
}

#[test]
fn a_line_and_what_values_have_used_go_with_their_rule_whoever_called_meanwhile() {
    let paced = |engine: &LocalEngine, loaded| {
        engine.load_flow(if loaded { flow(&paced(1, 500)) } else { Vec::new() });
    };
    let is_free = |engine: &Arc<LocalEngine>| matches!(enter(engine, 0), Step::Passed(_));
    comes_back(paced, |engine| drop(enter(engine, 0)), is_free);
    let hot = r#"[{"resource": "r", "paramIdx": 0, "count": 1}]"#;
    let hot = |engine: &LocalEngine, loaded| {
        engine.load_param(if loaded { param(hot) } else { Vec::new() });
    };
    let passes = |engine: &Arc<LocalEngine>| {
        let args = [Arg::One(Param::Int(1))];
        matches!(engine.enter(at(0), Call::new("r").args(&args)), Step::Passed(_))
    };
    comes_back(hot, |engine| assert!(passes(engine)), passes);
}

#[test]
fn a_call_that_waits_is_not_sent_into_its_queue_again_by_a_load() {
    let paced = r#"{"resource": "r", "count": 10, "controlBehavior": 2}"#;
    let engine = with_flow(&format!("[{paced}]"));
    drop(pass(engine.enter(at(0), Call::new("r"))));
    let waiting = wait(engine.enter(at(0), Call::new("r")), 100);
    // Others come to stand before it, and then it stands alone again with other numbers.
    let others = r#"{"resource": "r", "count": 5, "limitApp": "a"}, {"resource": "r", "count": 9}"#;
    engine.load_flow(flow(&format!("[{others}, {paced}]")));
    drop(pass(waiting.resume(at(100))));
    let waiting = wait(engine.enter(at(100), Call::new("r")), 100);
    engine.load_flow(flow(r#"[{"resource": "r", "count": 20, "controlBehavior": 2}]"#));
    drop(pass(waiting.resume(at(200))));
    drop(wait(engine.enter(at(200), Call::new("r")), 50));
}

#[test]
fn calls_in_one_queue_pass_no_other_when_theirs_is_gone() {
    let rule = |app: &str, count: u32| {
        format!(
            r#"{{"resource": "r", "limitApp": "{app}", "count": {count}, "controlBehavior": 2,
                 "maxQueueingTimeMs": 60000}}"#
        )
    };
    let all = rule("default", 1);
    let engine = with_flow(&format!("[{}, {all}]", rule("a", 1_000)));
    let call = || engine.enter(at(0), Call::new("r").origin("a"));
    drop(pass(call()));
    let waiting: Vec<_> = (1..=100).map(|ms| wait(call(), ms)).collect();
    engine.load_flow(flow(&format!("[{all}]")));
    let passed = waiting.into_iter().map(|waiting| waiting.resume(at(100)));
    assert_eq!(passed.filter(|step| matches!(step, Step::Passed(_))).count(), 0);
}
