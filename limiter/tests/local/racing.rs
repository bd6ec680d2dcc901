//! Threads that ask at once: limits hold exactly.

use std::sync::{
    Arc, Barrier,
    atomic::{AtomicUsize, Ordering},
};

use limiter::{
    Param,
    local::{Arg, BlockKind, Call, EntryType, LocalEngine, Step, SystemKind},
    rule::{Contents, parse, parse_system},
};

use crate::support::{at, block, engine, flow, node, pass, wait, with_flow};

const THREADS: usize = 4;

/// How many of the calls that `THREADS` threads make at once pass; entries are kept until all have
/// asked.
fn passed(
    engine: &Arc<LocalEngine>,
    calls: usize,
    call: impl Fn() -> Call<'static> + Sync,
) -> usize {
    let (start, passed) = (Barrier::new(THREADS), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                let entries: Vec<_> = (0..calls)
                    .filter_map(|_| match engine.enter(at(0), call()) {
                        Step::Passed(entry) => Some(entry),
                        _ => None,
                    })
                    .collect();
                // Relaxed: the scope joins the threads.
                passed.fetch_add(entries.len(), Ordering::Relaxed);
                start.wait();
            });
        }
    });
    passed.into_inner()
}

#[test]
fn of_many_threads_exactly_as_many_calls_pass_as_the_rule_allows() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1000}]"#);
    assert_eq!(passed(&engine, 1_000, || Call::new("r")), 1_000);
    let reading = node(&engine, 0, "r");
    assert_eq!((reading.total_pass, reading.total_block, reading.threads), (1_000, 3_000, 0));
}

#[test]
fn of_many_threads_exactly_as_many_calls_are_in_progress_as_the_rule_allows() {
    let engine = with_flow(r#"[{"resource": "r", "count": 100, "grade": 0}]"#);
    assert_eq!(passed(&engine, 1_000, || Call::new("r")), 100);
}

#[test]
fn of_many_threads_exactly_as_many_calls_come_in_as_the_system_rule_allows() {
    let engine = engine();
    let rules = parse_system(r#"[{"qps": 500}]"#, "test").unwrap().rules;
    assert_eq!(engine.load_system(&rules).rules, 1);
    let inbound = || Call::new("r").entry_type(EntryType::In);
    assert_eq!(passed(&engine, 1_000, inbound), 500);
    assert_eq!(engine.inbound(at(0)).threads, 0);
}

#[test]
fn rules_that_look_at_each_other_s_resources_wait_for_nobody() {
    let engine = with_flow(
        r#"[{"resource": "a", "count": 500, "strategy": 1, "refResource": "b"},
            {"resource": "b", "count": 500, "strategy": 1, "refResource": "a"}]"#,
    );
    let toggle = AtomicUsize::new(0);
    let call = || {
        Call::new(if toggle.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { "a" } else { "b" })
    };
    assert!(passed(&engine, 1_000, call) >= 1_000);
}

#[test]
fn a_rule_that_is_loaded_while_calls_pass_loses_none_of_them() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1000}]"#);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| passed(&engine, 2_000, || Call::new("r")));
        for number in 0..200 {
            let other = format!(
                r#"[{{"resource": "r", "count": 1000}}, {{"resource": "x{number}", "count": 1}}]"#
            );
            engine.load_flow(flow(&other));
        }
        assert_eq!(asking.join().unwrap(), 1_000);
    });
}

/// Sentinel checks the rule of 2 at once for all six, which then pass one after the other.
#[test]
fn calls_that_waited_are_held_to_the_rules_before_their_queue_once_more() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 2},
            {"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 500}]"#,
    );
    let first = pass(engine.enter(at(0), Call::new("r")));
    let waiting: Vec<_> =
        (1..6).map(|turn| wait(engine.enter(at(0), Call::new("r")), turn * 100)).collect();
    let steps = (1..6).zip(waiting).map(|(turn, waiting)| waiting.resume(at(turn * 100)));
    assert_eq!(steps.filter(|step| matches!(step, Step::Passed(_))).count(), 1);
    drop(first);
    assert_eq!(node(&engine, 500, "r").pass_qps, 2.0);
}

#[test]
fn calls_that_waited_are_held_to_the_limits_on_calls_in_progress_once_more() {
    let engine = with_flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2}]"#);
    let rules = r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#;
    let rules = parse(rules, "test", "", Contents::Param, false).unwrap().rules.param;
    engine.load_param(rules);
    engine.load_system(&parse_system(r#"[{"maxThread": 1}]"#, "test").unwrap().rules);
    let args = ["a", "a", "b", "c", "d"].map(|value| [Arg::One(Param::Str(value.into()))]);
    let call = |turn: usize| Call::new("r").entry_type(EntryType::In).args(&args[turn]);
    drop(pass(engine.enter(at(0), call(0))));
    let waiting: Vec<_> =
        (1..5).zip(1..).map(|(turn, ms)| wait(engine.enter(at(0), call(turn)), ms * 100)).collect();
    let mut waiting = waiting.into_iter();
    let mut resume = |turn: u64| waiting.next().unwrap().resume(at(turn * 100));
    let also_a = engine.enter(at(0), Call::new("r").args(&args[0]));
    let first = pass(resume(1));
    let second = pass(resume(2));
    assert_eq!(block(resume(3)).kind(), BlockKind::System(SystemKind::Thread));
    drop(second);
    let Step::Wait(also_a) = also_a else { panic!("no wait") };
    assert_eq!(block(also_a.resume(at(500))).kind(), BlockKind::ParamFlow, "the first is one of a");
    drop(first);
    drop(pass(resume(4)));
}
