//! The engine against the slow model: any sequence of requests, rule changes, connections and
//! clock readings gives the model's answers, and no window ever admits more than its rule allows.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "small generated numbers"
)]

#[path = "../examples/replay-vectors/model.rs"]
mod model;

use std::{collections::BTreeMap, sync::Arc};

use limiter::{
    ClusterEngine, Decision, Membership, Param, Settings, Tick,
    rule::{Contents, NamespaceRules, merge, parse},
};
use model::{Answer, BLOCKED, OK, SHOULD_WAIT};
use proptest::prelude::*;

/// Window length in ms and number of buckets.
const SHAPES: [(u64, u64); 6] =
    [(1_000, 10), (1_000, 1), (500, 5), (2_000, 20), (3_000, 2), (60_000, 60)];

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        count: i32,
        prioritized: bool,
    },
    /// Forward by so many ms, or back.
    Clock(i64),
    Connect,
    Disconnect,
    Count(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1_i32..6, any::<bool>()).prop_map(|(count, prioritized)| Step::Acquire { count, prioritized }),
        8 => (0_i64..400).prop_map(Step::Clock),
        1 => (400_i64..200_000).prop_map(Step::Clock),
        1 => (-3_000_i64..0).prop_map(Step::Clock),
        1 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        1 => (0_u32..20).prop_map(Step::Count),
    ]
}

/// One flow rule and one hot-parameter rule, both with id 1.
fn rules(count: f64, kind: u8, unit: &str, (interval, buckets): (u64, u64)) -> Vec<NamespaceRules> {
    let config = format!(
        r#""clusterMode":true,"clusterConfig":{{"flowId":1,"thresholdType":{kind},
           "thresholdUnit":"{unit}","windowIntervalMs":{interval},"sampleCount":{buckets}}}"#
    );
    let text = format!(
        r#"[{{"resource":"f","count":{count},{config}}},
            {{"resource":"p","paramIdx":0,"count":{count},{config},
              "paramFlowItemList":[{{"object":"0","count":2,"classType":"long"}}]}}]"#
    );
    merge(vec![parse(&text, "test", "ns", Contents::Mixed, true).unwrap()]).unwrap()
}

fn said(decision: Decision) -> Answer {
    match decision {
        Decision::Pass { remaining } => {
            Answer { status: OK, remaining: remaining as i64, wait_ms: 0 }
        }
        Decision::Wait { wait } => {
            Answer { status: SHOULD_WAIT, remaining: 0, wait_ms: wait.as_millis() as i64 }
        }
        Decision::Block => Answer::of(BLOCKED),
    }
}

/// Most tokens in a window under the highest threshold in force meanwhile.
fn allowed(threshold: f64, unit: &str, window: &model::Window) -> f64 {
    let seconds = window.seconds();
    if unit == "window" { threshold } else { threshold * seconds.max(1.0) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_flow_answers_as_the_model_and_no_window_admits_more_than_the_rule_allows(
        shape in prop::sample::select(SHAPES.to_vec()),
        per_client in any::<bool>(),
        per_window in any::<bool>(),
        ratio in prop::sample::select(vec![0.0, 0.5, 1.0]),
        start in 1_000_000_u64..1_010_000,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let unit = if per_window { "window" } else { "sentinel" };
        let settings = Settings { max_occupy_ratio: ratio, max_allowed_qps: None, ..Settings::default() };
        let engine = ClusterEngine::new(settings);
        let divisor = if per_window { 1.0 } else { shape.0 as f64 / 1_000.0 };
        let mut window = model::Window::new(shape.0, shape.1, divisor);
        let mut members: Vec<Membership> = Vec::new();
        let (mut now, mut count, mut most) = (start, 10.0_f64, 0.0_f64);
        engine.replace(rules(count, u8::from(!per_client), unit, shape)).unwrap();
        for step in steps {
            match step {
                Step::Clock(by) => now = now.saturating_add_signed(by),
                Step::Connect => members.push(engine.join("ns").unwrap()),
                Step::Disconnect => drop(members.pop()),
                Step::Count(to) => {
                    count = f64::from(to);
                    engine.replace(rules(count, u8::from(!per_client), unit, shape)).unwrap();
                }
                Step::Acquire { count: tokens, prioritized } => {
                    let threshold = if per_client { count * members.len() as f64 } else { count };
                    most = most.max(threshold);
                    let ours = engine.snapshot().acquire_flow(Tick::from_ms(now), 1, tokens, prioritized);
                    let slow = model::flow(&mut window, now, tokens as u64, prioritized, threshold, ratio);
                    prop_assert_eq!(said(ours.unwrap()), slow);
                    prop_assert!(window.fullest() as f64 <= allowed(most, unit, &window));
                }
            }
        }
    }

    #[test]
    fn hot_values_answer_as_the_model_all_or_nothing(
        shape in prop::sample::select(SHAPES.to_vec()),
        start in 1_000_000_u64..1_010_000,
        steps in prop::collection::vec(
            (0_i64..300, 1_i32..4, prop::collection::vec(0_i64..5, 1..5)), 1..150),
    ) {
        let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
        engine.replace(rules(7.0, 1, "sentinel", shape)).unwrap();
        let fresh = model::Window::new(shape.0, shape.1, shape.0 as f64 / 1_000.0);
        let mut windows: BTreeMap<i64, model::Window> = BTreeMap::new();
        let mut now = start;
        let rules = engine.rules();
        for (by, count, values) in steps {
            now = now.saturating_add_signed(by);
            let params = values.iter().map(|&v| Param::Long(v));
            let ours = rules.acquire_param(Tick::from_ms(now), 1, count, params);
            let own = |v: &i64| if *v == 0 { 2.0 } else { 7.0 };
            let slow = model::param(&mut windows, &fresh, now, count as u64, &values, own);
            let mut ours = said(ours.unwrap());
            if values.len() > 1 && ours.status == OK {
                ours.remaining = -1;
            }
            prop_assert_eq!(ours, slow);
        }
    }

    /// Values that share a counter may be refused early; none is ever admitted more than it may.
    #[test]
    fn at_the_cap_no_value_is_admitted_more_than_its_rule_allows(
        cap in 0_usize..4,
        steps in prop::collection::vec(
            (0_u64..300, 1_i32..4, prop::collection::vec(0_i64..7, 1..4)), 1..200),
    ) {
        let settings =
            Settings { max_allowed_qps: None, values_max: cap, ..Settings::default() };
        let engine = ClusterEngine::new(settings);
        engine.replace(rules(7.0, 1, "sentinel", (1_000, 10))).unwrap();
        // Value, bucket, tokens.
        let mut admitted: Vec<(i64, u64, i32)> = Vec::new();
        let mut now = 1_000_000_u64;
        for (by, count, values) in steps {
            now += by;
            let params = values.iter().map(|&v| Param::Long(v));
            let ours = engine.snapshot().acquire_param(Tick::from_ms(now), 1, count, params);
            let bucket = now / 100;
            if matches!(ours.unwrap(), Decision::Pass { .. }) {
                admitted.extend(values.iter().map(|&value| (value, bucket, count)));
            }
            for value in values {
                let in_window = admitted.iter().filter(|a| a.0 == value && a.1 + 10 > bucket);
                let tokens: i32 = in_window.map(|a| a.2).sum();
                let allowed = if value == 0 { 2 } else { 7 };
                prop_assert!(tokens <= allowed, "{} tokens of value {}", tokens, value);
            }
            if by % 7 == 0 {
                engine.tidy(Tick::from_ms(now), std::time::UNIX_EPOCH + std::time::Duration::from_millis(now));
            }
        }
    }

    #[test]
    fn the_namespace_guard_admits_its_limit_of_requests_whatever_they_ask(
        max in 0_u32..20,
        steps in prop::collection::vec((0_u64..200, 1_i32..100), 1..150),
    ) {
        let max = f64::from(max) / 2.0;
        let engine = ClusterEngine::new(Settings { max_allowed_qps: Some(max), ..Settings::default() });
        engine.replace(rules(5.0, 1, "sentinel", (1_000, 10))).unwrap();
        let mut window = model::Window::new(1_000, 10, 1.0);
        let mut now = 1_000_000;
        for (by, count) in steps {
            now += by;
            let ours = engine.rules().acquire_flow(Tick::from_ms(now), 1, count, false);
            prop_assert_eq!(ours.is_ok(), model::guard(&mut window, now, max));
        }
    }
}

/// The model itself, on cases worked out by hand.
#[test]
fn the_model_answers_the_cases_worked_out_by_hand() {
    // 10 per second in 10 buckets: ten at 930, four booked at 930 for 1 000.
    let mut w = model::Window::new(1_000, 10, 1.0);
    assert_eq!(model::flow(&mut w, 0, 10, false, 10.0, 1.0), Answer::of(OK));
    let booked = model::flow(&mut w, 930, 4, true, 10.0, 1.0);
    assert_eq!(booked, Answer { status: SHOULD_WAIT, remaining: 0, wait_ms: 70 });
    // The window that ends with the bucket at 1 000 holds the four: six are left.
    let six = model::flow(&mut w, 1_000, 6, false, 10.0, 1.0);
    assert_eq!(six, Answer::of(OK));
    assert_eq!(model::flow(&mut w, 1_050, 1, false, 10.0, 1.0), Answer::of(BLOCKED));
    // Nothing leaves before 2 000, so no booking fits at 1 060 …
    assert_eq!(model::flow(&mut w, 1_060, 1, true, 10.0, 1.0), Answer::of(BLOCKED));
    // … and at 1 950 the whole bucket of 1 000 is about to leave.
    let next = model::flow(&mut w, 1_950, 10, true, 10.0, 1.0);
    assert_eq!(next, Answer { status: SHOULD_WAIT, remaining: 0, wait_ms: 50 });
    assert_eq!(w.fullest(), 10);
}

#[test]
fn a_plain_request_that_would_overfill_a_booked_bucket_is_blocked() {
    let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
    engine.replace(rules(10.0, 1, "sentinel", (1_000, 10))).unwrap();
    let rules = engine.rules();
    let ask = |ms, count, prioritized| {
        rules.acquire_flow(Tick::from_ms(ms), 1, count, prioritized).unwrap()
    };
    assert_eq!(ask(1_000_000, 2, false), Decision::Pass { remaining: 8 });
    assert_eq!(ask(1_000_150, 8, false), Decision::Pass { remaining: 0 });
    // At 1 000 900 the bucket of 1 000 000 leaves next: two tokens may be booked for it.
    assert!(matches!(ask(1_000_950, 2, true), Decision::Wait { .. }));
    assert_eq!(ask(1_000_960, 1, true), Decision::Block, "the next bucket is booked full");
    assert_eq!(ask(1_001_010, 1, false), Decision::Block, "the booking counts from its bucket on");
}

#[test]
fn a_changed_count_keeps_what_was_used_and_a_changed_window_starts_again() {
    let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
    let now = Tick::from_ms(1_000_000);
    let ask = || engine.rules().acquire_flow(now, 1, 1, false).unwrap();
    engine.replace(rules(1.0, 1, "sentinel", (1_000, 10))).unwrap();
    assert_eq!(ask(), Decision::Pass { remaining: 0 });
    assert_eq!(engine.replace(rules(1.0, 1, "sentinel", (1_000, 10))).unwrap().revision, 1);
    assert_eq!(ask(), Decision::Block, "the same rule again");
    assert_eq!(engine.replace(rules(3.0, 1, "sentinel", (1_000, 10))).unwrap().revision, 2);
    assert_eq!(ask(), Decision::Pass { remaining: 1 });
    engine.replace(rules(1.0, 1, "sentinel", (1_000, 5))).unwrap();
    assert_eq!(ask(), Decision::Pass { remaining: 0 });
}

#[test]
fn a_set_with_an_error_changes_nothing() {
    let engine = ClusterEngine::new(Settings { rules_max: 2, ..Settings::default() });
    let applied = engine.replace(rules(1.0, 1, "sentinel", (1_000, 10))).unwrap();
    let mut twice = rules(5.0, 1, "sentinel", (1_000, 10));
    twice.extend(rules(6.0, 1, "sentinel", (1_000, 10)));
    let errors = engine.replace(twice).unwrap_err();
    assert_eq!(errors.0.len(), 3, "two ids twice and too many rules: {errors}");
    assert_eq!(engine.rules().applied(), applied);
    assert_eq!(engine.rules().flow(1).unwrap().rule().count, 1.0);
}

#[test]
fn namespaces_are_bounded_for_peers_and_idle_ones_make_room() {
    let engine = ClusterEngine::new(Settings { namespaces_max: 2, ..Settings::default() });
    engine.replace(rules(1.0, 1, "sentinel", (1_000, 10))).unwrap();
    let a = engine.join("a").unwrap();
    assert_eq!(engine.join("b").unwrap_err().max, 2);
    let connected = |m: &Membership| m.namespace().connected();
    assert_eq!((connected(&a), connected(&engine.join("a").unwrap())), (1, 2));
    drop(a);
    let b = engine.join("b").unwrap();
    assert_eq!(connected(&b), 1);
    let names = || engine.namespaces().iter().map(|n| n.name().into()).collect::<Vec<String>>();
    assert_eq!(names(), ["b", "ns"]);
    // Rules are not bounded by what peers have named.
    let more = |name: &str| NamespaceRules { namespace: name.into(), ..NamespaceRules::default() };
    let held = engine.rules();
    engine.replace(vec![more("x"), more("y")]).unwrap();
    assert_eq!(names(), ["b", "ns", "x", "y"]);
    assert!(engine.join("z").is_err(), "a batch may still decide under the old rules");
    drop(held);
    engine.replace(Vec::new()).unwrap();
    engine.tidy(Tick::from_ms(1), std::time::UNIX_EPOCH);
    engine.join("z").unwrap();
    assert_eq!(names(), ["b", "z"]);
}

#[test]
fn a_replaced_rule_set_is_freed_once_no_batch_looks_at_it() {
    let engine = ClusterEngine::new(Settings::default());
    engine.replace(rules(1.0, 1, "sentinel", (1_000, 10))).unwrap();
    let (old, kept) = (Arc::downgrade(&engine.rules()), engine.rules());
    engine.replace(Vec::new()).unwrap();
    engine.tidy(Tick::from_ms(1), std::time::UNIX_EPOCH);
    assert!(old.upgrade().is_some(), "somebody holds it");
    drop(kept);
    assert!(old.upgrade().is_some(), "freed by tidy, not by whoever held it last");
    engine.tidy(Tick::from_ms(1), std::time::UNIX_EPOCH);
    assert!(old.upgrade().is_none());
}

#[test]
fn param_requests_without_values_and_impossible_requests_are_bad() {
    use limiter::Undecided::{BadRequest, NoRule};
    let engine = ClusterEngine::new(Settings::default());
    engine.replace(rules(1.0, 1, "sentinel", (1_000, 10))).unwrap();
    let rules = engine.rules();
    let now = Tick::from_ms(1_000_000);
    for (id, count) in [(0, 1), (-1, 1), (1, 0), (1, -1), (0, 0)] {
        assert_eq!(rules.acquire_flow(now, id, count, false), Err(BadRequest));
        assert_eq!(
            rules.acquire_param(now, id, count, [Param::Int(1)].into_iter()),
            Err(BadRequest)
        );
    }
    assert_eq!(rules.acquire_param(now, 1, 1, std::iter::empty()), Err(BadRequest));
    assert_eq!(rules.acquire_flow(now, 2, 1, false), Err(NoRule));
    assert_eq!(rules.acquire_param(now, 2, 1, [Param::Int(1)].into_iter()), Err(NoRule));
}
