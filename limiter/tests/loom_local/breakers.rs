//! Circuit breakers that two threads come to at once.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use limiter::{
    Tick,
    local::{BreakerState, Call, Done, Entry, Seen, Slot, Step},
};

use crate::support::*;

const ONE_ERROR: &str = r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1,
                             "minRequestAmount": 1}]"#;

fn r() -> Call<'static> {
    Call::new("r")
}

/// An engine whose breaker opened at 0.
fn opened(rules: &[limiter::rule::DegradeRule]) -> Engine {
    let engine = engine();
    engine.load_degrade(rules.to_vec());
    fail(&engine, 0);
    assert_eq!(state(&engine, 0), BreakerState::Open);
    engine
}

fn enter(engine: &Engine, ms: u64) -> Option<Entry> {
    match engine.enter(at(ms), r()) {
        Step::Passed(entry) => Some(entry),
        _ => None,
    }
}

/// Whether a call passes, which then fails.
fn fail(engine: &Engine, ms: u64) -> bool {
    let entry = enter(engine, ms).map(|mut entry| {
        entry.fail();
        entry.exit(at(ms));
    });
    entry.is_some()
}

fn state(engine: &Engine, ms: u64) -> BreakerState {
    engine.breakers(at(ms), "r")[0].state
}

#[test]
fn of_two_calls_at_once_one_probes() {
    let rules = degrade(ONE_ERROR);
    model(move || {
        let engine = opened(&rules);
        let (a, b) = race(&engine, |e| enter(e, 1_000), |e| enter(e, 1_000));
        assert!(a.is_some() != b.is_some());
        assert_eq!(state(&engine, 1_000), BreakerState::HalfOpen);
        drop((a, b));
        assert_eq!(state(&engine, 1_000), BreakerState::Closed);
        ended(&engine, 1_000, "r");
    });
}

#[test]
fn a_probe_that_fails_opens_the_breaker_for_everybody() {
    let rules = degrade(ONE_ERROR);
    model(move || {
        let engine = opened(&rules);
        let passed = race(&engine, |e| fail(e, 1_000), |e| fail(e, 1_000));
        assert_eq!(count(passed), 1);
        assert_eq!(state(&engine, 1_000), BreakerState::Open);
        assert_eq!(ended(&engine, 1_000, "r").total_exception, 2);
        assert!(!passes(&engine, 1_999, r()) && passes(&engine, 2_000, r()));
    });
}

/// Refuses every call from the second on, and counts how often it is asked and told of an end.
#[derive(Debug, Default)]
struct Refusing {
    asked: AtomicUsize,
}

impl Slot for Refusing {
    fn enter(&self, now: Tick, _: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        if now < at(1_000) {
            return Ok(());
        }
        // Relaxed: loom runs one thread at a time.
        self.asked.fetch_add(1, Ordering::Relaxed);
        Err("no".into())
    }
}

#[test]
fn a_probe_that_is_refused_behind_is_one_for_the_next_time_window() {
    let rules = degrade(ONE_ERROR);
    model(move || {
        let (engine, slot) = (opened(&rules), Arc::new(Refusing::default()));
        engine.insert_slot(0, Arc::<Refusing>::clone(&slot));
        let passed = race(&engine, |e| passes(e, 1_000, r()), |e| passes(e, 1_000, r()));
        assert_eq!(count(passed), 0);
        // Relaxed: as above.
        assert_eq!(slot.asked.load(Ordering::Relaxed), 1, "the other was no probe");
        assert_eq!(state(&engine, 1_000), BreakerState::Open);
        let reading = ended(&engine, 1_000, "r");
        assert_eq!((reading.total_pass, reading.total_block), (1, 2));
    });
}

#[test]
fn an_open_breaker_stays_open_while_other_rules_are_loaded() {
    let rules = degrade(ONE_ERROR);
    let other = degrade(
        r#"[{"resource": "r", "grade": 2, "count": 9, "timeWindow": 1, "minRequestAmount": 9},
            {"resource": "r", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}]"#,
    );
    model(move || {
        let engine = opened(&rules);
        let of_other = other.clone();
        let loading = move |e: &Engine| {
            e.load_degrade(of_other);
            fail(e, 1_000)
        };
        let passed = race(&engine, loading, |e| fail(e, 1_000));
        assert_eq!(count(passed), 1);
        assert_eq!(engine.breakers(at(1_000), "r")[1].state, BreakerState::Open);
        ended(&engine, 1_000, "r");
    });
}

#[test]
fn bad_calls_that_end_at_once_are_each_counted() {
    let rules = degrade(
        r#"[{"resource": "r", "grade": 2, "count": 1, "timeWindow": 1, "minRequestAmount": 1}]"#,
    );
    model(move || {
        let engine = engine();
        engine.load_degrade(rules.clone());
        race(&engine, |e| fail(e, 0), |e| fail(e, 0));
        assert_eq!(state(&engine, 0), BreakerState::Open);
    });
}

/// Counts the calls that it let through and those of them that have ended.
#[derive(Debug, Default)]
struct Counting {
    through: AtomicUsize,
    over: AtomicUsize,
}

impl Slot for Counting {
    fn enter(&self, _: Tick, _: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        // Relaxed: loom runs one thread at a time.
        self.through.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn exit(&self, _: Tick, _: &Done<'_>) {
        // Relaxed: as above.
        self.over.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_slot_that_comes_in_the_middle_of_a_call_hears_of_the_end_of_what_it_let_through() {
    let rules = flow(r#"[{"resource": "r", "count": 1}]"#);
    model(move || {
        let (engine, slot) = (with_flow(&rules), Arc::new(Counting::default()));
        // While this one is asked, another may come behind it.
        engine.insert_slot(-2_500, Arc::new(Counting::default()));
        let added: Arc<dyn Slot> = Arc::<Counting>::clone(&slot);
        let inserting = move |e: &Engine| {
            e.insert_slot(-2_400, added);
            passes(e, 0, r())
        };
        let passed = race(&engine, inserting, |e| passes(e, 0, r()));
        assert_eq!(count(passed), 1);
        // Relaxed: as above.
        let [through, over] = [&slot.through, &slot.over].map(|n| n.load(Ordering::Relaxed));
        assert!(through > 0 && through == over, "{through} {over}");
        ended(&engine, 0, "r");
    });
}
