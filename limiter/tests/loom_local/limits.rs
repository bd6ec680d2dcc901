//! Two threads and room for one.

use std::{borrow::Cow, sync::Arc};

use limiter::local::{Call, EntryType, Seen, Slot, Step};
use limiter::{Tick, rule::parse_system};

use crate::support::*;

/// A slot that lets everything pass, and is asked while nothing is locked.
#[derive(Debug)]
struct Through;

impl Slot for Through {
    fn enter(&self, _: Tick, _: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        Ok(())
    }
}

fn r() -> Call<'static> {
    Call::new("r")
}

#[test]
fn of_two_calls_at_once_one_gets_the_only_token() {
    let rules = flow(r#"[{"resource": "r", "count": 1}]"#);
    model(move || {
        let engine = with_flow(&rules);
        let passed = race(&engine, |e| passes(e, 0, r()), |e| passes(e, 0, r()));
        assert_eq!(count(passed), 1);
        let reading = ended(&engine, 0, "r");
        let counted = (reading.total_pass, reading.total_block, reading.total_success);
        assert_eq!(counted, (1, 1, 1));
    });
}

#[test]
fn a_half_second_that_ends_while_calls_are_counted_forgets_none() {
    let rules = flow(r#"[{"resource": "r", "count": 2}]"#);
    model(move || {
        let engine = with_flow(&rules);
        assert!(passes(&engine, 0, r()));
        let passed = race(&engine, |e| passes(e, 499, r()), |e| passes(e, 500, r()));
        assert_eq!(count(passed), 1);
        assert!(!passes(&engine, 500, r()));
        assert_eq!(ended(&engine, 500, "r").total_pass, 2);
    });
}

#[test]
fn of_two_calls_at_once_one_borrows_the_only_token_of_the_next_half_second() {
    fn borrows(engine: &Engine) -> bool {
        matches!(engine.enter(at(600), r().prioritized()), Step::Wait(_))
    }
    let rules = flow(r#"[{"resource": "r", "count": 1}]"#);
    model(move || {
        let engine = with_flow(&rules);
        assert!(passes(&engine, 100, r()));
        let borrowed = race(&engine, borrows, borrows);
        assert_eq!(count(borrowed), 1);
        assert!(!passes(&engine, 1_000, r()), "it was given up, and stays used");
        assert_eq!(ended(&engine, 1_000, "r").total_pass, 2);
    });
}

#[test]
fn two_calls_are_never_in_progress_where_one_may_be() {
    let rules = flow(r#"[{"resource": "r", "count": 1, "grade": 0}]"#);
    model(move || {
        let (engine, open) = (with_flow(&rules), Open::new());
        let of_other = open.clone();
        let passed = race(&engine, move |e| of_other.alone(e, r()), |e| open.alone(e, r()));
        let reading = ended(&engine, 0, "r");
        assert_eq!(reading.total_pass, count(passed) as u64);
        assert_eq!(reading.total_pass + reading.total_block, 2);
        assert!(open.alone(&engine, r()));
    });
}

#[test]
fn two_calls_with_the_same_value_are_never_in_progress_where_one_may_be() {
    let rules = param(r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#);
    model(move || {
        let (engine, open) = (engine(), Open::new());
        engine.load_param(rules.clone());
        let of_other = open.clone();
        let other = move |e: &Engine| of_other.alone(e, r().args(&text("a")));
        let passed = race(&engine, other, |e| open.alone(e, r().args(&text("a"))));
        assert!(count(passed) > 0);
        ended(&engine, 0, "r");
        let args = text("a");
        let entry = engine.enter(at(0), r().args(&args));
        assert!(is_passed(&entry) && !passes(&engine, 0, r().args(&text("a"))));
    });
}

/// The slot stands between the hot parameters, which only look at calls in progress, and flow,
/// where the call is counted.
#[test]
fn a_slot_that_is_asked_unlocked_lets_nobody_in_between() {
    let rules = param(r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#);
    model(move || {
        let (engine, open) = (engine(), Open::new());
        engine.load_param(rules.clone());
        engine.insert_slot(-2_500, Arc::new(Through));
        let of_other = open.clone();
        let other = move |e: &Engine| of_other.alone(e, r().args(&text("a")));
        let passed = race(&engine, other, |e| open.alone(e, r().args(&text("a"))));
        assert_eq!(ended(&engine, 0, "r").total_pass, count(passed) as u64);
    });
}

#[test]
fn of_two_calls_that_waited_one_gets_the_token_that_both_saw_before() {
    let rules = flow(
        r#"[{"resource": "r", "count": 1, "limitApp": "slow"},
            {"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 500}]"#,
    );
    model(move || {
        let engine = with_flow(&rules);
        assert!(passes(&engine, 0, r()));
        let resumed = |e: &Engine| {
            let Step::Wait(waiting) = e.enter(at(0), r().origin("slow")) else { return false };
            is_passed(&waiting.resume(at(200)))
        };
        let passed = race(&engine, resumed, resumed);
        assert_eq!(count(passed), 1);
        assert_eq!(ended(&engine, 200, "r").total_pass, 2);
    });
}

#[test]
fn a_system_rule_lets_one_of_two_calls_in_whatever_their_resources() {
    fn inbound(resource: &str) -> Call<'_> {
        Call::new(resource).entry_type(EntryType::In)
    }
    for rule in [r#"[{"qps": 1}]"#, r#"[{"maxThread": 0}]"#] {
        let rules = parse_system(rule, "model").unwrap().rules;
        model(move || {
            let (engine, open) = (engine(), Open::new());
            engine.load_system(&rules);
            let of_other = open.clone();
            let other = move |e: &Engine| of_other.alone(e, inbound("a"));
            let passed = race(&engine, other, |e| open.alone(e, inbound("b")));
            let (reading, passed) = (engine.inbound(at(0)), count(passed));
            assert_eq!((reading.threads, reading.total_pass), (0, passed as u64));
            assert_eq!((reading.total_pass + reading.total_block, passed > 0), (2, true));
            assert!(rules[0].qps.is_none() || passed == 1);
        });
    }
}
