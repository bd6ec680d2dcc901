//! `mode` of a rule, of a namespace and of everything.

use limiter::{
    Ask, ClusterEngine, Decision, NamespaceSwitches, Settings, Switches, Undecided, What,
    rule::Mode,
};

use crate::{at, engine, flow, param, passes, rules, take};

fn everything(mode: Mode) -> Switches {
    Switches { mode, ..Switches::default() }
}

fn of_namespace(name: &str, mode: Mode, max_allowed_qps: Option<f64>) -> Switches {
    let own = NamespaceSwitches { mode, max_allowed_qps };
    Switches { namespaces: [(name.into(), own)].into(), ..Switches::default() }
}

#[test]
fn a_shadowed_rule_passes_all_and_counts_what_it_would_have_refused() {
    let engine = engine(&[flow(1, 2.0, r#","mode":"shadow""#)]);
    assert_eq!(passes(&engine, 0, 1, 5), 5);
    let rules = engine.rules();
    let totals = rules.flow(1).unwrap().totals();
    assert_eq!((totals.pass_requests, totals.shadow_requests, totals.block_requests), (2, 3, 0));
    assert_eq!(rules.flow(1).unwrap().usage(at(0)), (2, 0), "what passed only so was not taken");
}

#[test]
fn nobody_waits_under_a_shadowed_rule_though_the_booking_counts() {
    let engine = engine(&[flow(1, 2.0, r#","mode":"shadow""#)]);
    assert_eq!(passes(&engine, 0, 1, 2), 2);
    let booked = engine.snapshot().acquire_flow(at(900), 1, 2, true).unwrap();
    assert_eq!(booked, Decision::Pass { remaining: 0 });
    assert_eq!(engine.rules().flow(1).unwrap().usage(at(900)), (2, 2));
}

#[test]
fn the_kill_switches_pass_all_or_none() {
    let engine = engine(&[flow(1, 0.0, r#","mode":"pass""#), flow(2, 1e6, r#","mode":"block""#)]);
    assert_eq!((passes(&engine, 0, 1, 5), passes(&engine, 0, 2, 5)), (5, 0));
}

#[test]
fn the_widest_switch_that_is_not_at_enforce_decides() {
    let engine = engine(&[flow(1, 0.0, r#","mode":"pass""#), flow(2, 0.0, "")]);
    let both = |engine: &ClusterEngine| (passes(engine, 0, 1, 1), passes(engine, 0, 2, 1));
    assert_eq!(both(&engine), (1, 0));
    engine.switch(of_namespace("ns", Mode::Block, None));
    assert_eq!(both(&engine), (0, 0), "the namespace over the rule");
    engine.switch(Switches { mode: Mode::Shadow, ..of_namespace("ns", Mode::Block, None) });
    assert_eq!(both(&engine), (1, 1), "everything over the namespace");
    assert_eq!(engine.rules().flow(2).unwrap().mode(), Mode::Shadow);
    engine.switch(Switches::default());
    assert_eq!(both(&engine), (1, 0), "back");
}

#[test]
fn a_switch_is_in_force_for_namespaces_to_come() {
    let engine = engine(&[]);
    engine.switch(of_namespace("later", Mode::Block, Some(3.0)));
    engine.replace(rules("later", &[flow(1, 9.0, "")])).unwrap();
    let asked: Vec<_> =
        (0..5).map(|_| engine.snapshot().acquire_flow(at(0), 1, 1, false)).collect();
    assert_eq!(asked[..3], [Ok(Decision::Block); 3]);
    assert_eq!(asked[3..], [Err(Undecided::TooManyRequests); 2]);
}

#[test]
fn no_mode_lifts_the_request_limit() {
    for mode in [Mode::Enforce, Mode::Shadow, Mode::Pass, Mode::Block] {
        let engine = engine(&[flow(1, 1e6, "")]);
        engine.switch(Switches { mode, ..of_namespace("ns", mode, Some(2.0)) });
        let ask = || engine.snapshot().acquire_flow(at(0), 1, 1, false);
        let decided = (0..2).filter(|_| ask().is_ok()).count();
        assert_eq!((decided, ask()), (2, Err(Undecided::TooManyRequests)), "{mode:?}");
    }
}

#[test]
fn each_namespace_has_its_own_request_limit() {
    let settings = Settings { max_allowed_qps: Some(10.0), ..Settings::default() };
    let engine = ClusterEngine::new(settings);
    let mut both = rules("a", &[flow(1, 1e6, "")]);
    both.extend(rules("b", &[flow(2, 1e6, "")]));
    engine.replace(both).unwrap();
    engine.switch(of_namespace("b", Mode::Enforce, Some(50.0)));
    let passed = |id| {
        let rules = engine.snapshot();
        (0..100).filter(|_| rules.acquire_flow(at(0), id, 1, false).is_ok()).count()
    };
    assert_eq!((passed(1), passed(2)), (10, 50));
    engine.switch(of_namespace("b", Mode::Enforce, Some(f64::INFINITY)));
    assert_eq!(passed(2), 100);
}

#[test]
fn calls_in_progress_are_held_above_the_level_when_nobody_may_be_refused() {
    let rule = flow(1, 1.0, "").replace("\"count\"", "\"grade\":0,\"count\"");
    let engine = engine(&[rule]);
    let hold = || {
        let rules = engine.rules();
        rules.acquire_concurrent(at(0), 1, 1, engine.owner()).unwrap()
    };
    assert!(hold().is_some() && hold().is_none());
    engine.switch(everything(Mode::Shadow));
    assert!(hold().is_some());
    let rules = engine.rules();
    assert_eq!(rules.flow(1).unwrap().in_use(), Some(2));
    assert_eq!(rules.flow(1).unwrap().totals().shadow_requests, 1);
    engine.switch(everything(Mode::Block));
    assert!(hold().is_none());
}

#[test]
fn a_call_in_shadow_is_not_over_a_level_that_only_calls_fill_whose_time_is_over() {
    let rule = flow(1, 1.0, r#","resourceTimeout":100"#);
    let engine = engine(&[rule.replace("\"count\"", "\"grade\":0,\"count\"")]);
    engine.switch(everything(Mode::Shadow));
    let hold = |ms| engine.rules().acquire_concurrent(at(ms), 1, 1, engine.owner()).unwrap();
    let shadowed = || engine.rules().flow(1).unwrap().totals().shadow_requests;
    assert!(hold(0).is_some() && hold(100).is_some());
    assert_eq!(shadowed(), 0, "the first ended as the second came");
    assert!(hold(199).is_some());
    assert_eq!((shadowed(), engine.concurrency().live()), (1, 2));
}

#[test]
fn under_pass_a_value_has_all_left_that_it_may_have_and_of_several_the_least_is_told() {
    let items = r#","paramFlowItemList":[{"object":"7","count":200,"classType":"int"}]"#;
    let engine = engine(&[param(1, 20.0, items, r#","mode":"pass""#)]);
    let left = |values: &[i32]| {
        let values: Vec<_> = values.iter().copied().map(limiter::Param::Int).collect();
        let what = What::Param { id: 1, count: 1, values: &values };
        let said = engine.rules().ask(at(0), &what, Ask::default()).unwrap();
        let taken = engine.snapshot().acquire_param(at(0), 1, 1, values.iter().cloned());
        assert_eq!(taken, Ok(said.decision));
        (said.threshold, said.decision)
    };
    let all_of = |threshold, remaining| (threshold, Decision::Pass { remaining });
    assert_eq!(left(&[7]), all_of(200.0, 200));
    assert_eq!(left(&[8]), all_of(20.0, 20));
    assert_eq!(left(&[7, 8]), all_of(20.0, 20));
}

#[test]
fn values_are_switched_like_flows() {
    let engine = engine(&[param(1, 1.0, "", "")]);
    let passed = || {
        let value = || [limiter::Param::Int(7)];
        let ask = || engine.snapshot().acquire_param(at(0), 1, 1, value()).unwrap();
        (0..4).filter(|_| ask() != Decision::Block).count()
    };
    assert_eq!(passed(), 1);
    for (mode, right) in [(Mode::Shadow, 4), (Mode::Pass, 4), (Mode::Block, 0)] {
        engine.switch(everything(mode));
        assert_eq!(passed(), right, "{mode:?}");
    }
    assert_eq!(engine.rules().param(1).unwrap().totals().shadow_requests, 4);
    let none = engine.snapshot().acquire_param(at(0), 1, 1, []);
    assert_eq!(none, Err(Undecided::BadRequest), "no value is a mistake under any switch");
    assert_eq!(take(&crate::engine(&[flow(1, 1.0, "")]), 0, 1, 1), Decision::Pass { remaining: 0 });
}
