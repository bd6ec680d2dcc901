//! Flow rules alone, without a call to guard.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use limiter::{
    Tick,
    local::{Block, Call, Checked, LocalEngine, Observer, Seen},
    rule::parse_degrade,
};

use crate::support::{at, block, engine, node, pass, passes, with_flow};

fn check(engine: &LocalEngine, ms: u64, n: u32) -> Checked {
    engine.check(at(ms), "r", n)
}

fn is_blocked(said: &Checked) -> bool {
    matches!(said, Checked::Blocked(_))
}

#[test]
fn checks_and_guarded_calls_take_from_one_window() {
    let engine = with_flow(r#"[{"resource": "r", "count": 5}]"#);
    assert_eq!(check(&engine, 0, 2), Checked::Pass);
    let entry = pass(engine.enter(at(0), Call::new("r").count(2)));
    assert!(is_blocked(&check(&engine, 0, 2)), "one is left");
    assert_eq!(check(&engine, 0, 1), Checked::Pass);
    block(engine.enter(at(0), Call::new("r")));
    entry.exit(at(10));
    assert!(is_blocked(&check(&engine, 999, 1)));
    assert_eq!(check(&engine, 1_000, 5), Checked::Pass);
}

#[test]
fn a_check_is_counted_and_leaves_nothing_in_progress() {
    let engine =
        with_flow(r#"[{"resource": "r", "count": 3}, {"resource": "r", "count": 1, "grade": 0}]"#);
    for _ in 0..3 {
        assert_eq!(check(&engine, 0, 1), Checked::Pass);
    }
    assert!(is_blocked(&check(&engine, 0, 1)));
    let counted = node(&engine, 0, "r");
    assert_eq!((counted.pass_qps, counted.block_qps), (3.0, 1.0));
    assert_eq!((counted.threads, counted.success_qps), (0, 0.0));
    let tree = engine.tree(at(0));
    assert_eq!(tree[1].reading, tree[2].reading, "in the default context: {tree:?}");
    // A call that is in progress leaves no room for another.
    let entry = pass(engine.enter(at(1_000), Call::new("r")));
    assert!(is_blocked(&check(&engine, 1_000, 1)));
    entry.exit(at(1_000));
    assert_eq!(check(&engine, 1_000, 1), Checked::Pass);
}

#[test]
fn tokens_wait_for_the_latest_of_their_turns_and_are_counted_at_once() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 300},
            {"resource": "r", "count": 5, "controlBehavior": 2, "maxQueueingTimeMs": 500},
            {"resource": "r", "count": 4}]"#,
    );
    assert_eq!(check(&engine, 0, 1), Checked::Pass);
    assert_eq!(check(&engine, 0, 1), Checked::Wait(Duration::from_millis(200)));
    assert_eq!(check(&engine, 0, 1), Checked::Wait(Duration::from_millis(400)));
    assert_eq!(node(&engine, 0, "r").pass_qps, 3.0);
    assert!(is_blocked(&check(&engine, 0, 1)), "600 ms are too long");
    assert_eq!(check(&engine, 400, 1), Checked::Wait(Duration::from_millis(200)));
    let Checked::Blocked(block) = check(&engine, 900, 1) else { panic!() };
    assert_eq!(block.to_string(), "flow rule of r: 4 calls per second");
}

#[test]
fn a_rule_on_another_resource_sees_its_checks() {
    let engine =
        with_flow(r#"[{"resource": "r", "count": 2, "strategy": 1, "refResource": "writes"}]"#);
    for _ in 0..2 {
        assert_eq!(check(&engine, 0, 1), Checked::Pass);
        assert_eq!(engine.check(at(0), "writes", 1), Checked::Pass);
    }
    assert!(is_blocked(&check(&engine, 0, 1)));
}

#[test]
fn no_other_slot_is_asked_and_a_switch_off_is_heeded() {
    let engine = with_flow(r#"[{"resource": "r", "count": 0}]"#);
    engine.set_enabled(false);
    assert_eq!(check(&engine, 0, 1), Checked::Pass);
    engine.set_enabled(true);
    assert!(is_blocked(&check(&engine, 0, 1)));

    let engine = self::engine();
    let rules = r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1,
                     "minRequestAmount": 1}]"#;
    engine.load_degrade(parse_degrade(rules, "test").unwrap().rules);
    pass(engine.enter(at(0), Call::new("r"))).fail();
    assert!(!passes(&engine, 1, "r"), "the breaker is open");
    assert_eq!(check(&engine, 1, 1), Checked::Pass);
}

#[derive(Debug, Default)]
struct Log(Mutex<Vec<String>>);

impl Observer for Log {
    fn blocked(&self, now: Tick, call: &Seen<'_>, block: &Block) {
        let line =
            format!("{} {} {}: {block}", now.since(at(0)).as_millis(), call.context, call.count);
        self.0.lock().unwrap().push(line);
    }
}

#[test]
fn observers_hear_of_what_a_check_refuses() {
    let (engine, log) = (with_flow(r#"[{"resource": "r", "count": 5}]"#), Arc::new(Log::default()));
    engine.observe(Arc::<Log>::clone(&log));
    assert!(is_blocked(&check(&engine, 7, 6)));
    let expected = "7 sentinel_default_context 6: flow rule of r: 5 calls per second";
    assert_eq!(*log.0.lock().unwrap(), [expected]);
}

#[test]
fn of_many_threads_exactly_as_many_checks_pass_as_the_rule_allows() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1000}]"#);
    let passed = thread::scope(|scope| {
        let count = || (0..500).filter(|_| check(&engine, 0, 1) == Checked::Pass).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(passed, 1_000);
}
