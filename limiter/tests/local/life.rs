//! From a call to its end, however it ends.

use std::{sync::Arc, time::Duration};

use limiter::local::{Call, Entry, EntryType, LocalEngine, Waiting};

use crate::support::{at, block, engine, node, pass, passes, wait, with_flow};

#[test]
fn an_entry_ends_when_it_is_dropped_at_the_latest_tick_of_its_resource() {
    let engine = engine();
    let entry = pass(engine.enter(at(0), Call::new("r")));
    assert!(passes(&engine, 70, "r"));
    drop(entry);
    let reading = node(&engine, 70, "r");
    assert_eq!((reading.threads, reading.success_qps, reading.avg_rt), (0, 2.0, 35.0));
}

#[test]
fn entries_end_in_any_order_and_on_any_thread() {
    let engine = engine();
    let first = pass(engine.enter(at(0), Call::new("r")));
    let second = pass(engine.enter(at(10), Call::new("r").parent(&first)));
    assert_eq!(node(&engine, 10, "r").threads, 2, "nested it counts twice");
    first.exit(at(20));
    std::thread::spawn(move || second.exit(at(30))).join().unwrap();
    let reading = node(&engine, 30, "r");
    assert_eq!((reading.threads, reading.success_qps, reading.avg_rt), (0, 2.0, 20.0));
}

#[test]
fn an_exit_may_have_another_count() {
    let engine = engine();
    pass(engine.enter(at(0), Call::new("r").count(3))).exit_with(1, at(0));
    let reading = node(&engine, 0, "r");
    assert_eq!((reading.pass_qps, reading.success_qps), (3.0, 1.0));
}

#[test]
fn a_failed_call_counts_as_an_error_and_as_one_that_ended() {
    let engine = engine();
    let mut entry = pass(engine.enter(at(0), Call::new("r").count(2)));
    entry.fail();
    drop(entry);
    let reading = node(&engine, 0, "r");
    assert_eq!((reading.exception_qps, reading.success_qps), (2.0, 2.0));
}

#[test]
fn a_panic_leaves_no_call_in_progress() {
    let engine = engine();
    let of_thread = Arc::clone(&engine);
    let panicked = std::thread::spawn(move || {
        let _entry = pass(of_thread.enter(at(0), Call::new("r")));
        panic!("expected");
    });
    assert!(panicked.join().is_err());
    assert_eq!(node(&engine, 0, "r").threads, 0);
}

#[test]
fn a_wait_that_is_given_up_keeps_its_turn_and_counts_nothing() {
    let engine = with_flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2}]"#);
    assert!(passes(&engine, 0, "r"));
    drop(wait(engine.enter(at(0), Call::new("r")), 100));
    let reading = node(&engine, 0, "r");
    assert_eq!((reading.threads, reading.total_pass, reading.total_block), (0, 1, 0));
    drop(wait(engine.enter(at(0), Call::new("r")), 200));
    assert_eq!(engine.open_entries(at(0)), []);
}

#[test]
fn a_borrowed_turn_that_is_given_up_stays_used() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1}]"#);
    assert!(passes(&engine, 100, "r"));
    drop(wait(engine.enter(at(600), Call::new("r").prioritized()), 400));
    let reading = node(&engine, 600, "r");
    assert_eq!((reading.threads, reading.waiting, reading.total_pass), (0, 1, 2));
    assert!(!passes(&engine, 1_000, "r"));
    assert!(passes(&engine, 2_000, "r"));
}

#[test]
fn the_wait_is_part_of_the_response_time() {
    let engine = with_flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2}]"#);
    assert!(passes(&engine, 0, "r"));
    let waiting = wait(engine.enter(at(0), Call::new("r")), 100);
    pass(waiting.resume(at(100))).exit(at(130));
    assert_eq!(node(&engine, 130, "r").avg_rt, 65.0);
}

#[test]
fn the_age_of_the_oldest_open_entry_shows_a_forgotten_one() {
    let engine = engine();
    let forgotten = pass(engine.enter(at(0), Call::new("r")));
    let second = pass(engine.enter(at(500), Call::new("r")));
    let ages = |ms| {
        let open = engine.open_entries(at(ms));
        open.into_iter().map(|open| (open.resource, open.oldest)).collect::<Vec<_>>()
    };
    assert_eq!(ages(2_000), [("r".into(), Duration::from_secs(2))]);
    drop(forgotten);
    assert_eq!(ages(2_000), [("r".into(), Duration::from_millis(1_500))]);
    drop(second);
    assert_eq!(ages(2_000), []);
}

#[test]
fn only_inbound_calls_count_as_inbound() {
    let engine = with_flow(r#"[{"resource": "in", "count": 1}]"#);
    let inbound = |ms| engine.enter(at(ms), Call::new("in").entry_type(EntryType::In));
    let entry = pass(inbound(0));
    block(inbound(0));
    assert!(passes(&engine, 0, "out"));
    let reading = engine.inbound(at(0));
    assert_eq!((reading.pass_qps, reading.block_qps, reading.threads), (1.0, 1.0, 1));
    entry.exit(at(20));
    let reading = engine.inbound(at(20));
    assert_eq!((reading.success_qps, reading.avg_rt, reading.threads), (1.0, 20.0, 0));
}

#[test]
fn an_entry_of_an_engine_that_is_off_changes_nothing_whatever_it_does_later() {
    let engine = engine();
    engine.set_enabled(false);
    let mut entry = pass(engine.enter(at(0), Call::new("r")));
    engine.set_enabled(true);
    entry.fail();
    entry.exit(at(0));
    assert_eq!(engine.node(at(0), "r"), None);
}

#[test]
fn a_call_and_its_entry_may_go_to_another_thread() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Entry>();
    is_sync::<Entry>();
    is_send::<Call<'_>>();
    is_send::<Waiting<'_>>();
    is_send::<LocalEngine>();
    is_sync::<LocalEngine>();
}

#[test]
fn a_call_of_no_tokens_is_in_progress_all_the_same() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1}]"#);
    assert!(passes(&engine, 0, "r"));
    let entry = pass(engine.enter(at(0), Call::new("r").count(0)));
    let reading = node(&engine, 0, "r");
    assert_eq!((reading.pass_qps, reading.threads), (1.0, 1));
    drop(entry);
}

#[test]
fn an_entry_that_waited_is_as_old_as_its_call() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 1, "controlBehavior": 2, "maxQueueingTimeMs": 9000,
             "limitApp": "slow"}]"#,
    );
    let slow = || Call::new("r").origin("slow");
    drop(pass(engine.enter(at(0), slow())));
    let waiting = wait(engine.enter(at(0), slow()), 1_000);
    let younger = pass(engine.enter(at(900), Call::new("r")));
    let entry = pass(waiting.resume(at(1_000)));
    let oldest = || engine.open_entries(at(1_000))[0].oldest;
    assert_eq!(oldest(), Duration::from_secs(1));
    drop(entry);
    assert_eq!(oldest(), Duration::from_millis(100));
    drop(younger);
    assert_eq!(engine.open_entries(at(1_000)), []);
}
