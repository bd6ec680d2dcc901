//! Calls next to a tidying, which finds their resource idle.

use std::{
    borrow::Cow,
    sync::{Arc, Weak},
};

use limiter::{
    Tick,
    local::{Call, Entry, LocalEngine, Seen, Slot, Step},
};

use crate::support::*;

const MINUTE: u64 = 60_000;

/// An engine whose resource `a` was called a minute before.
fn idle() -> Engine {
    let engine = engine();
    assert!(passes(&engine, 0, Call::new("a")));
    engine
}

fn enter(engine: &Engine, name: &str) -> Entry {
    match engine.enter(at(MINUTE), Call::new(name)) {
        Step::Passed(entry) => entry,
        other => panic!("{other:?}"),
    }
}

fn tidy(engine: &Engine) {
    engine.tidy(at(MINUTE));
}

/// Tokens that passed and calls in progress.
fn counted(engine: &Engine, name: &str) -> (u64, i64) {
    let reading = engine.node(at(MINUTE), name).unwrap();
    (reading.total_pass, reading.threads)
}

#[test]
fn a_call_that_is_still_open_is_counted() {
    model(|| {
        let engine = idle();
        let (entry, ()) = race(&engine, |e| enter(e, "a"), tidy);
        assert_eq!(counted(&engine, "a"), (1, 1));
        drop(entry);
        ended(&engine, MINUTE, "a");
    });
}

#[test]
fn a_call_that_has_ended_is_counted() {
    model(|| {
        let engine = idle();
        race(&engine, |e| drop(enter(e, "a")), tidy);
        assert_eq!(counted(&engine, "a"), (1, 0));
    });
}

#[test]
fn a_resource_that_is_new_stays_when_another_goes() {
    model(|| {
        let engine = idle();
        // Of three one shard holds two.
        race(&engine, |e| ["b", "c"].map(|name| drop(enter(e, name))), tidy);
        let names = engine.nodes(at(MINUTE)).into_iter().map(|(name, _)| name);
        assert_eq!(Vec::from_iter(names), ["b", "c"].map(Box::from));
    });
}

/// Makes a call of its own in each call of two tokens.
#[derive(Debug)]
struct Nesting(Weak<LocalEngine>);

impl Slot for Nesting {
    fn enter(&self, _: Tick, call: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        if call.count == 2 {
            drop(enter(&self.0.upgrade().unwrap(), call.resource));
        }
        Ok(())
    }
}

/// The first has found the resource and is not counted yet while the second looks for it.
#[test]
fn two_calls_are_counted_in_the_same_resource() {
    model(|| {
        let engine = idle();
        engine.insert_slot(-2_500, Arc::new(Nesting(Arc::downgrade(&engine))));
        let both = |e: &Engine| assert!(passes(e, MINUTE, Call::new("a").count(2)));
        race(&engine, both, tidy);
        assert_eq!(counted(&engine, "a"), (3, 0));
    });
}
