//! Slots of the user's, observers and traces.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter::{
    Clock, ManualClock, Param, Tick,
    local::{
        Arg, Block, BlockKind, BreakerState, Call, Done, Entry, EntryType, LocalEngine, Observer,
        Outcome, Said, Seen, Slot, SlotName, SystemKind, Trace,
    },
    rule::{Contents, DegradeRule, parse, parse_degrade, parse_system},
};

use crate::support::{at, block, engine, node, pass, wait, with_flow};

/// Writes down what happens to it, under its name, and refuses callers called `bad`.
#[derive(Debug)]
struct Scribe(&'static str, Arc<Mutex<Vec<String>>>);

impl Scribe {
    fn note(&self, what: &str) {
        self.1.lock().unwrap().push(format!("{} {what}", self.0));
    }
}

impl Slot for Scribe {
    fn enter(&self, _now: Tick, call: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        self.note("enter");
        if call.origin == self.0 { Err("a bad caller".into()) } else { Ok(()) }
    }

    fn exit(&self, _now: Tick, done: &Done<'_>) {
        self.note(&format!("{:?}", done.outcome));
    }
}

impl Observer for Scribe {
    fn blocked(&self, _now: Tick, call: &Seen<'_>, block: &Block) {
        self.note(&format!("{} in {}: {block}", call.resource, call.context));
    }

    fn turned(&self, _: Tick, _: &str, rule: &DegradeRule, from: BreakerState, to: BreakerState) {
        self.note(&format!("{} {from:?} {to:?}", rule.resource));
    }
}

/// An engine with slots called by these names at these orders, and what they write down.
fn with_slots(engine: &LocalEngine, slots: &[(i32, &'static str)]) -> Arc<Mutex<Vec<String>>> {
    let notes = Arc::new(Mutex::new(Vec::new()));
    for (order, name) in slots {
        engine.insert_slot(*order, Arc::new(Scribe(name, Arc::clone(&notes))));
    }
    notes
}

fn taken(notes: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *notes.lock().unwrap())
}

#[test]
fn slots_run_in_their_order_and_hear_of_the_end_once() {
    let engine = engine();
    let notes = with_slots(&engine, &[(0, "last"), (-2_500, "first"), (-2_500, "second")]);
    let entry = pass(engine.enter(at(0), Call::new("r")));
    assert_eq!(taken(&notes), ["first enter", "second enter", "last enter"]);
    entry.exit(at(0));
    assert_eq!(taken(&notes), ["first Success", "second Success", "last Success"]);
}

#[test]
fn a_refusal_stops_the_chain_and_those_before_hear_of_it() {
    let engine = with_flow(r#"[{"resource": "r", "count": 0}]"#);
    let notes = with_slots(&engine, &[(-2_500, "before"), (0, "behind")]);
    let refusal = block(engine.enter(at(0), Call::new("r")));
    assert_eq!(refusal.kind(), BlockKind::Flow);
    assert_eq!(taken(&notes), ["before enter", "before Refused"]);
    let refusal = block(engine.enter(at(0), Call::new("r").origin("before")));
    assert_eq!(refusal.kind(), BlockKind::Custom("a bad caller".into()));
    assert_eq!(taken(&notes), ["before enter"]);
}

#[test]
fn a_refusal_behind_flow_takes_back_what_passed() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1}]"#);
    with_slots(&engine, &[(0, "bad")]);
    for _ in 0..3 {
        block(engine.enter(at(0), Call::new("r").origin("bad")));
    }
    let reading = node(&engine, 0, "r");
    let counted = (reading.total_pass, reading.total_block, reading.threads);
    assert_eq!((counted, engine.open_entries(at(0)).len()), ((0, 3, 0), 0));
    pass(engine.enter(at(0), Call::new("r"))).exit(at(0));
}

#[test]
fn a_refusal_before_the_statistics_is_not_counted() {
    let engine = engine();
    with_slots(&engine, &[(-7_001, "bad"), (-7_000, "worse")]);
    block(engine.enter(at(0), Call::new("r").origin("bad")));
    assert_eq!(node(&engine, 0, "r").total_block, 0);
    block(engine.enter(at(0), Call::new("r").origin("worse")));
    assert_eq!(node(&engine, 0, "r").total_block, 1);
}

#[test]
fn slots_hear_of_a_call_that_is_given_up_while_it_waits() {
    let engine = with_flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2}]"#);
    let notes = with_slots(&engine, &[(-2_500, "slot")]);
    drop(pass(engine.enter(at(0), Call::new("r"))));
    taken(&notes);
    drop(wait(engine.enter(at(0), Call::new("r")), 100));
    assert_eq!(taken(&notes), ["slot enter", "slot GivenUp"]);
}

#[test]
fn a_slot_that_is_added_meanwhile_is_for_later_calls() {
    let engine = engine();
    let notes = with_slots(&engine, &[(0, "old")]);
    let entry = pass(engine.enter(at(0), Call::new("r")));
    engine.insert_slot(-1, Arc::new(Scribe("new", Arc::clone(&notes))));
    drop(entry);
    assert_eq!(taken(&notes), ["old enter", "old Success"]);
    drop(pass(engine.enter(at(0), Call::new("r"))));
    assert_eq!(taken(&notes), ["new enter", "old enter", "new Success", "old Success"]);
}

/// A slot that makes a call of its own, and one that panics.
#[derive(Debug)]
struct Nested(std::sync::Weak<LocalEngine>);

impl Slot for Nested {
    fn enter(&self, now: Tick, call: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        assert_ne!(call.origin, "panic", "expected");
        if let Some(engine) = self.0.upgrade().filter(|_| call.origin.is_empty()) {
            drop(engine.enter(now, Call::new(call.resource).origin("slot")));
        }
        Ok(())
    }
}

#[test]
fn no_lock_is_held_while_a_slot_runs_and_a_panic_in_one_counts_nothing() {
    let engine = engine();
    engine.insert_slot(0, Arc::new(Nested(Arc::downgrade(&engine))));
    drop(pass(engine.enter(at(0), Call::new("r"))));
    assert_eq!(node(&engine, 0, "r").total_pass, 2);
    let of_thread = Arc::clone(&engine);
    let panicked =
        std::thread::spawn(move || drop(of_thread.enter(at(0), Call::new("r").origin("panic"))));
    assert!(panicked.join().is_err());
    let reading = node(&engine, 0, "r");
    assert_eq!((reading.total_pass, reading.threads), (2, 0));
}

#[test]
fn observers_hear_of_refusals_and_of_breakers() {
    let engine = engine();
    let rule = r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1,
                    "minRequestAmount": 1}]"#;
    engine.load_degrade(parse_degrade(rule, "test").unwrap().rules);
    let notes = Arc::new(Mutex::new(Vec::new()));
    engine.observe(Arc::new(Scribe("o", Arc::clone(&notes))));
    let mut entry = pass(engine.enter(at(0), Call::new("r")));
    entry.fail();
    entry.exit(at(0));
    assert_eq!(taken(&notes), ["o r Closed Open"]);
    let refusal = block(engine.enter(at(0), Call::new("r")));
    assert_eq!(refusal.kind(), BlockKind::Degrade);
    let words = "circuit breaker of r: open for its number of failed calls";
    assert_eq!(taken(&notes), [format!("o r in sentinel_default_context: {words}")]);
    pass(engine.enter(at(1_000), Call::new("r"))).exit(at(1_000));
    assert_eq!(taken(&notes), ["o r Open HalfOpen", "o r HalfOpen Closed"]);
}

/// Sentinel would let the next call probe at once.
#[test]
fn a_probe_that_a_later_slot_refuses_opens_the_breaker_for_another_time_window() {
    let engine = engine();
    let rule = r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1,
                    "minRequestAmount": 1}]"#;
    engine.load_degrade(parse_degrade(rule, "test").unwrap().rules);
    let notes = with_slots(&engine, &[(0, "bad")]);
    let mut entry = pass(engine.enter(at(0), Call::new("r")));
    entry.fail();
    entry.exit(at(0));
    block(engine.enter(at(1_000), Call::new("r").origin("bad")));
    let reading = engine.breakers(at(1_000), "r").remove(0);
    assert_eq!((reading.state, reading.retry_at), (BreakerState::Open, Some(at(2_000))));
    taken(&notes);
    assert_eq!(block(engine.enter(at(1_999), Call::new("r"))).kind(), BlockKind::Degrade);
    drop(pass(engine.enter(at(2_000), Call::new("r"))));
    assert_eq!(taken(&notes), ["bad enter", "bad Success"]);
}

/// A clock on which a microsecond passes at each look.
#[derive(Debug)]
struct Ticking(ManualClock);

impl Clock for Ticking {
    fn now(&self) -> Tick {
        self.0.advance(Duration::from_micros(1));
        self.0.now()
    }

    fn wall(&self) -> std::time::SystemTime {
        self.0.wall()
    }
}

fn ticking() -> Trace {
    Trace::new(Arc::new(Ticking(ManualClock::new(at(0)))))
}

/// The slots that took this many looks at the clock.
fn slots_that_took(trace: &Trace, micros: u64) -> Vec<SlotName> {
    let marks = trace.marks().iter();
    let took = marks.filter(|mark| mark.took == Duration::from_micros(micros));
    took.map(|mark| mark.slot).collect()
}

#[test]
fn a_trace_lists_what_each_slot_said_and_how_long_it_took() {
    let engine = with_flow(r#"[{"resource": "r", "count": 10, "controlBehavior": 2}]"#);
    with_slots(&engine, &[(-10_001, "first"), (-8_500, "unlogged"), (-2_500, "slot")]);
    drop(pass(engine.enter(at(0), Call::new("r"))));
    let mut trace = ticking();
    let waiting = wait(engine.enter(at(0), Call::new("r").trace(&mut trace)), 100);
    drop(pass(waiting.resume(at(100))));
    let marks: Vec<_> = trace.marks().iter().map(|mark| (mark.slot, mark.said)).collect();
    let said = Said::Wait(Duration::from_millis(100));
    let expected = [
        (SlotName::User(-10_001), Said::Pass),
        (SlotName::NodeSelection, Said::Pass),
        (SlotName::ClusterNode, Said::Pass),
        (SlotName::User(-8_500), Said::Pass),
        (SlotName::Log, Said::Pass),
        (SlotName::Statistics, Said::Pass),
        (SlotName::Authority, Said::Pass),
        (SlotName::System, Said::Pass),
        (SlotName::Gateway, Said::Pass),
        (SlotName::Param, Said::Pass),
        (SlotName::User(-2_500), Said::Pass),
        (SlotName::Flow, said),
        (SlotName::Flow, Said::Pass),
        (SlotName::DefaultBreaker, Said::Pass),
        (SlotName::Breaker, Said::Pass),
    ];
    assert_eq!(marks, expected);
    assert_eq!(slots_that_took(&trace, 2), [SlotName::Statistics], "which counted what passed");
    assert_eq!(slots_that_took(&trace, 1).len(), marks.len() - 1);
    let node = engine.node(at(100), "r").unwrap();
    assert_eq!((node.pass_qps, node.threads, node.avg_rt), (2.0, 0, 50.0));
}

#[test]
fn a_trace_ends_with_the_slot_that_refused() {
    let engine = engine();
    with_slots(&engine, &[(-7_500, "early"), (-5_500, "late")]);
    let mut trace = ticking();
    let call = Call::new("r").origin("late").trace(&mut trace);
    assert_eq!(block(engine.enter(at(0), call)).to_string(), "a bad caller");
    let last = trace.marks().last().map(|mark| (mark.slot, mark.said));
    assert_eq!(last, Some((SlotName::User(-5_500), Said::Block)));
    let counted_and_logged = [SlotName::Log, SlotName::Statistics];
    assert_eq!(slots_that_took(&trace, 2), counted_and_logged);

    let mut trace = ticking();
    let call = Call::new("r").origin("early").trace(&mut trace);
    block(engine.enter(at(0), call));
    let last = trace.marks().last().map(|mark| (mark.slot, mark.said));
    assert_eq!(last, Some((SlotName::User(-7_500), Said::Block)));
    assert_eq!(slots_that_took(&trace, 2), [SlotName::Log]);
    assert_eq!(node(&engine, 0, "r").block_qps, 1.0, "the late one");
}

#[test]
fn outcomes_are_told_apart() {
    let engine = engine();
    let notes = with_slots(&engine, &[(0, "slot")]);
    let mut entry = pass(engine.enter(at(0), Call::new("r")));
    entry.fail();
    drop(entry);
    assert_eq!(taken(&notes), ["slot enter", &format!("slot {:?}", Outcome::Error)]);
}

/// Makes the same call once more while it is asked, and keeps what passes.
#[derive(Debug)]
struct Twice(std::sync::Weak<LocalEngine>, Mutex<Vec<Entry>>);

impl Slot for Twice {
    fn enter(&self, now: Tick, call: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        if let Some(engine) = self.0.upgrade().filter(|_| call.origin.is_empty()) {
            let again = Call::new(call.resource).origin("slot").entry_type(call.entry_type);
            self.1.lock().unwrap().push(pass(engine.enter(now, again.args(call.args))));
        }
        Ok(())
    }
}

#[test]
fn what_passes_while_a_slot_is_asked_counts_against_the_limits_before_it() {
    let args = [Arg::One(Param::Int(1))];
    let call = || Call::new("r").entry_type(EntryType::In).args(&args);
    for (order, rule, kind) in [
        (-3_500, r#"{"qps": 1}"#, BlockKind::System(SystemKind::Qps)),
        // As in Sentinel, one more than the limit.
        (-4_500, r#"{"maxThread": 0}"#, BlockKind::System(SystemKind::Thread)),
        (-2_500, "{}", BlockKind::ParamFlow),
    ] {
        let engine = engine();
        engine.load_system(&parse_system(&format!("[{rule}]"), "test").unwrap().rules);
        if kind == BlockKind::ParamFlow {
            let rules = r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#;
            let rules = parse(rules, "test", "", Contents::Param, false).unwrap().rules.param;
            engine.load_param(rules);
        }
        let slot = Arc::new(Twice(Arc::downgrade(&engine), Mutex::default()));
        engine.insert_slot(order, Arc::clone(&slot) as Arc<dyn Slot>);
        assert_eq!(block(engine.enter(at(0), call())).kind(), kind);
        assert_eq!(node(&engine, 0, "r").threads, 1);
        slot.1.lock().unwrap().clear();
    }
}

/// Panics when a breaker turns, when a call is refused, and when one ends.
#[derive(Debug)]
struct Panicking;

impl Observer for Panicking {
    fn blocked(&self, _: Tick, _: &Seen<'_>, block: &Block) {
        panic!("expected: {block}");
    }

    fn turned(&self, _: Tick, _: &str, _: &DegradeRule, _: BreakerState, to: BreakerState) {
        panic!("expected: {to:?}");
    }
}

impl Slot for Panicking {
    fn enter(&self, _: Tick, _: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        Ok(())
    }

    fn exit(&self, _: Tick, done: &Done<'_>) {
        panic!("expected: {:?}", done.outcome);
    }
}

/// An engine with a breaker that opens at the first error, and an observer that panics then.
fn with_panicking() -> Arc<LocalEngine> {
    let engine = engine();
    let rule = r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1,
                    "minRequestAmount": 1}]"#;
    engine.load_degrade(parse_degrade(rule, "test").unwrap().rules);
    engine.observe(Arc::new(Panicking));
    engine
}

#[test]
fn slots_hear_of_the_end_though_an_observer_panics() {
    let engine = with_panicking();
    let notes = with_slots(&engine, &[(-2_500, "slot")]);
    let mut entry = pass(engine.enter(at(0), Call::new("r")));
    entry.fail();
    assert!(std::thread::spawn(move || entry.exit(at(0))).join().is_err());
    assert_eq!(taken(&notes), ["slot enter", "slot Error"]);
}

#[test]
fn everybody_hears_of_the_end_though_one_panics_and_the_first_panic_goes_on() {
    let engine = with_panicking();
    engine.insert_slot(-2_600, Arc::new(Panicking));
    let notes = with_slots(&engine, &[(-2_500, "slot")]);
    engine.observe(Arc::new(Scribe("log", Arc::clone(&notes))));
    let first = |call: Box<dyn FnOnce() + Send>| {
        let panic = std::thread::spawn(call).join().unwrap_err();
        panic.downcast_ref::<String>().cloned().unwrap()
    };
    let mut entry = pass(engine.enter(at(0), Call::new("r")));
    entry.fail();
    assert_eq!(first(Box::new(move || entry.exit(at(0)))), "expected: Error");
    assert_eq!(taken(&notes), ["slot enter", "slot Error", "log r Closed Open"]);
    let of_thread = Arc::clone(&engine);
    let refused = move || drop(of_thread.enter(at(0), Call::new("r")));
    assert_eq!(first(Box::new(refused)), "expected: Refused");
    let refusal = "log r in sentinel_default_context: circuit breaker of r: open for its number of \
                   failed calls";
    assert_eq!(taken(&notes), ["slot enter", "slot Refused", refusal]);
    let probe = move || drop(engine.enter(at(1_000), Call::new("r")));
    assert_eq!(first(Box::new(probe)), "expected: HalfOpen");
    let given_up = ["slot enter", "log r Open HalfOpen", "slot GivenUp", "log r HalfOpen Open"];
    assert_eq!(taken(&notes), given_up);
}

#[test]
fn a_panic_of_slots_and_observers_ends_where_another_unwinds() {
    /// Makes a call that is refused while it is dropped.
    struct Refused(Arc<LocalEngine>);
    impl Drop for Refused {
        fn drop(&mut self) {
            block(self.0.enter(at(0), Call::new("r")));
        }
    }
    let engine = with_panicking();
    engine.insert_slot(-2_500, Arc::new(Panicking));
    let notes = with_slots(&engine, &[(-2_500, "slot")]);
    engine.observe(Arc::new(Scribe("log", Arc::clone(&notes))));
    let of_thread = Arc::clone(&engine);
    let thread = std::thread::spawn(move || {
        let _refused = Refused(Arc::clone(&of_thread));
        let mut entry = pass(of_thread.enter(at(0), Call::new("r")));
        entry.fail();
        panic!("expected: the first");
    });
    let first = thread.join().unwrap_err();
    assert_eq!(first.downcast_ref(), Some(&"expected: the first"));
    let refusal = "log r in sentinel_default_context: circuit breaker of r: open for its number of \
                   failed calls";
    let ends = ["slot enter", "slot Error", "log r Closed Open", "slot enter", "slot Refused"];
    assert_eq!(taken(&notes), [&ends[..], &[refusal]].concat());
    let counted = node(&engine, 0, "r");
    assert_eq!((counted.exception_qps, counted.block_qps, counted.threads), (1.0, 1.0, 0));
}
