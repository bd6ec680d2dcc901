//! Two threads, few tokens, every interleaving: never more than a rule allows, and nothing lost.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p limiter --release --test loom` and a target
//! folder of its own.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "what the helpers read is what the tests wrote")]

use std::time::Duration;

use limiter::{
    All, ClusterEngine, Decision, Param, Settings, Tick, What,
    adaptive::{AdaptiveLimiter, Aimd, AimdSettings, Bounds},
    rule::{Contents, NamespaceRules, merge, parse},
};
use loom::{sync::Arc, thread};

fn rules(count: u32) -> Vec<NamespaceRules> {
    let config = r#""clusterMode":true,"clusterConfig":{"flowId":1,"thresholdType":1,
                    "windowIntervalMs":1000,"sampleCount":2}"#;
    let text = format!(
        r#"[{{"resource":"f","count":{count},{config}}},
            {{"resource":"p","paramIdx":0,"count":{count},{config}}}]"#
    );
    merge(vec![parse(&text, "model", "ns", Contents::Mixed, true).unwrap()]).unwrap()
}

fn engine(count: u32, max_allowed_qps: Option<f64>) -> Arc<ClusterEngine> {
    let engine = ClusterEngine::new(Settings { max_allowed_qps, ..Settings::default() });
    engine.replace(rules(count)).unwrap();
    Arc::new(engine)
}

fn take(engine: &ClusterEngine, ms: u64, prioritized: bool) -> Option<Decision> {
    engine.snapshot().acquire_flow(Tick::from_ms(ms), 1, 1, prioritized).ok()
}

fn passes(decisions: &[Option<Decision>]) -> usize {
    decisions.iter().filter(|d| matches!(d, Some(Decision::Pass { .. }))).count()
}

/// Runs `a` and `b` side by side on the engine and gives what both decided.
fn race(
    engine: &Arc<ClusterEngine>,
    a: fn(&ClusterEngine) -> Option<Decision>,
    b: fn(&ClusterEngine) -> Option<Decision>,
) -> [Option<Decision>; 2] {
    let other = {
        let engine = engine.clone();
        thread::spawn(move || a(&engine))
    };
    let mine = b(engine);
    [other.join().unwrap(), mine]
}

#[test]
fn two_threads_and_one_token_make_one_pass() {
    loom::model(|| {
        let engine = engine(1, None);
        let decisions = race(&engine, |e| take(e, 1_000, false), |e| take(e, 1_000, false));
        assert_eq!(passes(&decisions), 1);
    });
}

#[test]
fn a_bucket_that_turns_over_while_it_is_counted_forgets_nothing() {
    loom::model(|| {
        let engine = engine(2, None);
        assert_eq!(passes(&[take(&engine, 1_000, false)]), 1);
        // One thread still reads the old bucket, the other is in the next; the window holds both.
        let decisions = race(&engine, |e| take(e, 1_400, false), |e| take(e, 1_500, false));
        assert_eq!(passes(&decisions), 1);
        assert_eq!(take(&engine, 1_500, false), Some(Decision::Block));
    });
}

#[test]
fn two_threads_and_one_bookable_token_make_one_booking() {
    loom::model(|| {
        let engine = engine(1, None);
        assert_eq!(passes(&[take(&engine, 1_000, false)]), 1);
        let decisions = race(&engine, |e| take(e, 1_900, true), |e| take(e, 1_900, true));
        let waits = decisions.iter().filter(|d| matches!(d, Some(Decision::Wait { .. }))).count();
        assert_eq!(waits, 1);
        assert_eq!(take(&engine, 2_000, false), Some(Decision::Block), "the booking is charged");
    });
}

#[test]
fn a_booking_and_a_plain_request_never_overfill_the_window_they_share() {
    loom::model(|| {
        let engine = engine(2, None);
        // One token leaves with the bucket of 1 000, one stays.
        assert_eq!(passes(&[take(&engine, 1_000, false), take(&engine, 1_500, false)]), 2);
        let decisions = race(&engine, |e| take(e, 1_900, true), |e| take(e, 2_000, false));
        // Booked first, the token is in the window of 2 000 and fills it; taken first, the plain
        // one pushes the booking to 2 500, where there is room again.
        let booked_first = Decision::Wait { wait: Duration::from_millis(100) };
        let booked_later = Decision::Wait { wait: Duration::from_millis(600) };
        assert!(
            decisions == [Some(booked_first), Some(Decision::Block)]
                || decisions == [Some(booked_later), Some(Decision::Pass { remaining: 0 })],
            "{decisions:?}"
        );
    });
}

#[test]
fn rules_replaced_while_a_token_is_taken_keep_what_was_used() {
    loom::model(|| {
        let engine = engine(1, None);
        let decisions = race(
            &engine,
            |e| take(e, 1_000, false),
            |e| {
                e.replace(rules(1)).unwrap();
                take(e, 1_000, false)
            },
        );
        assert_eq!(passes(&decisions), 1);
    });
}

#[test]
fn a_rule_that_goes_and_comes_back_while_a_token_is_taken_keeps_it() {
    loom::model(|| {
        let engine = engine(1, None);
        let decisions = race(
            &engine,
            |e| take(e, 1_000, false),
            |e| {
                e.replace(Vec::new()).unwrap();
                e.tidy(Tick::from_ms(1_000), std::time::UNIX_EPOCH);
                e.replace(rules(1)).unwrap();
                take(e, 1_000, false)
            },
        );
        // The first may find no rule.
        assert_eq!(passes(&decisions), 1, "{decisions:?}");
    });
}

#[test]
fn a_snapshot_that_is_held_while_the_count_shrinks_takes_from_the_same_counter() {
    loom::model(|| {
        let engine = engine(2, None);
        let decisions = race(
            &engine,
            |e| {
                let old = e.snapshot();
                let first = old.acquire_flow(Tick::from_ms(1_000), 1, 1, false).ok();
                assert!(matches!(first, Some(Decision::Pass { .. } | Decision::Block)));
                first
            },
            |e| {
                e.replace(rules(1)).unwrap();
                take(e, 1_000, false)
            },
        );
        // Two under the old rule or one under the new, however they meet; never one each from
        // counters of their own and a third later.
        assert!(passes(&decisions) >= 1, "{decisions:?}");
        let used = engine.rules().flow(1).unwrap().usage(Tick::from_ms(1_000)).0;
        assert_eq!(used as usize, passes(&decisions));
        assert_eq!(take(&engine, 1_000, false), Some(Decision::Block));
    });
}

#[test]
fn a_booking_made_while_rules_are_replaced_is_charged_under_the_new_ones() {
    loom::model(|| {
        let engine = engine(1, None);
        assert_eq!(passes(&[take(&engine, 1_000, false)]), 1);
        let decisions = race(
            &engine,
            |e| take(e, 1_900, true),
            |e| {
                e.replace(rules(1)).unwrap();
                None
            },
        );
        assert!(matches!(decisions, [Some(Decision::Wait { .. }), None]));
        assert_eq!(take(&engine, 2_000, false), Some(Decision::Block));
    });
}

#[test]
fn a_client_that_leaves_takes_its_part_of_the_threshold_with_it() {
    loom::model(|| {
        let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
        let text =
            r#"[{"resource":"f","count":1,"clusterMode":true,"clusterConfig":{"flowId":1}}]"#;
        let parsed = parse(text, "model", "ns", Contents::Flow, true).unwrap();
        engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        let engine = Arc::new(engine);
        let (stays, goes) = (engine.join("ns").unwrap(), engine.join("ns").unwrap());
        let other = thread::spawn(move || drop(goes));
        let decisions = [take(&engine, 1_000, false), take(&engine, 1_000, false)];
        other.join().unwrap();
        assert!((1..=2).contains(&passes(&decisions)));
        assert_eq!(take(&engine, 1_000, false), Some(Decision::Block));
        drop(stays);
    });
}

#[test]
fn two_replacements_at_once_both_come_into_force_one_after_the_other() {
    loom::model(|| {
        let engine = engine(1, None);
        race(
            &engine,
            |e| e.replace(rules(2)).map(|_| None).unwrap(),
            |e| e.replace(rules(3)).map(|_| None).unwrap(),
        );
        assert_eq!(engine.rules().applied().revision, 3);
    });
}

#[test]
fn the_namespace_guard_admits_one_of_two() {
    loom::model(|| {
        let engine = engine(5, Some(1.0));
        let decisions = race(&engine, |e| take(e, 1_000, false), |e| take(e, 1_000, false));
        assert_eq!(passes(&decisions), 1);
    });
}

#[test]
fn a_hot_value_with_one_token_passes_once() {
    fn ask(engine: &ClusterEngine) -> Option<Decision> {
        let params = [Param::Long(1), Param::Long(2)].into_iter();
        engine.snapshot().acquire_param(Tick::from_ms(1_000), 1, 1, params).ok()
    }
    loom::model(|| {
        let engine = engine(1, None);
        assert_eq!(passes(&race(&engine, ask, ask)), 1);
    });
}

#[test]
fn members_that_come_and_go_are_counted_exactly() {
    loom::model(|| {
        let engine = engine(1, None);
        let stays = engine.join("ns").unwrap();
        let come_and_go = |e: &ClusterEngine| {
            drop(e.join("ns").unwrap());
            None
        };
        race(&engine, come_and_go, come_and_go);
        assert_eq!(stays.namespace().connected(), 1);
    });
}

#[test]
fn two_threads_that_want_both_of_two_rules_in_opposite_orders_both_go_on_and_one_gets_them() {
    fn both(engine: &ClusterEngine, flow_first: bool) -> Option<Decision> {
        let values = [Param::Int(7)];
        let flow = (What::Flow { id: 1, count: 1 }, false);
        let value = (What::Param { id: 1, count: 1, values: &values }, false);
        let requests = if flow_first { [flow, value] } else { [value, flow] };
        let asked = engine.snapshot().acquire_all(Tick::from_ms(1_000), &requests).unwrap();
        matches!(asked, All::Taken { .. }).then_some(Decision::Pass { remaining: 0 })
    }
    loom::model(|| {
        let engine = engine(1, None);
        let decisions = race(&engine, |e| both(e, true), |e| both(e, false));
        assert_eq!(passes(&decisions), 1);
    });
}

#[test]
fn a_lease_and_a_plain_request_share_one_token() {
    let text = r#"[{"resource":"f","count":1,"clusterMode":true,"clusterConfig":{"flowId":1,
        "thresholdType":1,"sampleCount":2,"lease":{"maxTokens":1,"ttlMs":10}}}]"#;
    loom::model(move || {
        let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
        let parsed = parse(text, "model", "ns", Contents::Mixed, true).unwrap();
        engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        let engine = Arc::new(engine);
        let decisions = race(
            &engine,
            |e| {
                let leased = e.snapshot().lease(Tick::from_ms(1_000), 1, 1, None).unwrap().unwrap();
                (leased.granted == 1).then_some(Decision::Pass { remaining: 0 })
            },
            |e| take(e, 1_000, false),
        );
        assert_eq!(passes(&decisions), 1);
    });
}

#[test]
fn two_threads_and_a_limit_of_two_hold_two_calls_and_leave_none() {
    loom::model(|| {
        let bounds = Bounds { min: 2, initial: 2, max: 2 };
        let limit = Aimd::new(AimdSettings { bounds, ..AimdSettings::default() }).unwrap();
        let limiter = AdaptiveLimiter::new(limit);
        let call = |limiter: &AdaptiveLimiter<Aimd>| {
            let calls = [limiter.acquire(), limiter.acquire()];
            assert!(limiter.in_flight() <= 2);
            calls.into_iter().flatten().count()
        };
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || call(&limiter))
        };
        let passed = call(&limiter) + other.join().unwrap();
        assert!((2..=4).contains(&passed));
        assert_eq!(limiter.in_flight(), 0);
    });
}
