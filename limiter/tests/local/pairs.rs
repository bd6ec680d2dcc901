//! Two threads that ask at the very same moment, thousands of times, for what only one may have.
//! The clock turns over with each time.

use std::borrow::Cow;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use limiter::{
    Param, Tick,
    local::{Arg, Call, EntryType, LocalEngine, Seen, Slot, Step},
    rule::{Contents, parse, parse_degrade, parse_system},
};

use crate::support::{at, engine, node, with_flow};

const TIMES: usize = 2_000;
/// Milliseconds from one time to the next: over all windows of a second.
const APART: u64 = 2_000;

/// Where two threads wait for each other without going to sleep.
#[derive(Debug, Default)]
struct Meeting(AtomicUsize);

impl Meeting {
    /// Comes for the `number`th time, from 1 on.
    fn come(&self, number: usize) {
        self.0.fetch_add(1, Ordering::AcqRel);
        let mut tries = 0_u32;
        while self.0.load(Ordering::Acquire) < 2 * number {
            tries += 1;
            assert!(tries < 1 << 30, "the other is gone");
            if tries.is_multiple_of(64) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Lets two threads call at once, `TIMES` times, and end their calls when both have asked; a call
/// fails if it `fails`. Each time one of them must pass.
fn one_of_two<'a>(engine: &Arc<LocalEngine>, call: impl Fn(usize) -> Call<'a> + Sync, fails: bool) {
    let (meeting, passed) = (Meeting::default(), AtomicUsize::new(0));
    let run = |thread: usize| {
        let mut wrong = Vec::new();
        for time in 0..TIMES {
            let now = at(time as u64 * APART);
            meeting.come(3 * time + 1);
            let step = engine.enter(now, call(thread));
            // Relaxed: the meetings order it.
            passed.fetch_add(usize::from(matches!(step, Step::Passed(_))), Ordering::Relaxed);
            meeting.come(3 * time + 2);
            if thread == 0 {
                let passed = passed.swap(0, Ordering::Relaxed);
                wrong.extend((passed != 1).then_some((time, passed)));
            }
            if let Step::Passed(mut entry) = step {
                if fails {
                    entry.fail();
                }
                entry.exit(now);
            }
            meeting.come(3 * time + 3);
        }
        wrong
    };
    let wrong = std::thread::scope(|scope| {
        scope.spawn(|| run(1));
        run(0)
    });
    assert_eq!(wrong, [], "times, and how many passed");
}

fn end(engine: &LocalEngine, resource: &str) {
    let reading = node(engine, (TIMES as u64 - 1) * APART, resource);
    let counted = (reading.total_pass, reading.total_success, reading.threads);
    assert_eq!(counted, (30, 30, 0), "of the last minute");
}

#[test]
fn the_only_token_of_a_second() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1}]"#);
    one_of_two(&engine, |_| Call::new("r"), false);
    end(&engine, "r");
}

#[test]
fn the_only_call_in_progress() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1, "grade": 0}]"#);
    one_of_two(&engine, |_| Call::new("r"), false);
    end(&engine, "r");
}

/// A slot that lets everything pass; while it is asked nothing is locked.
#[derive(Debug)]
struct Through;

impl Slot for Through {
    fn enter(&self, _: Tick, _: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        Ok(())
    }
}

#[test]
fn the_only_call_in_progress_of_a_value_also_around_a_slot_that_is_asked_unlocked() {
    let rules = r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#;
    let args = [Arg::One(Param::Str("a".into()))];
    for slot in [None, Some(Through)] {
        let engine = engine();
        engine.load_param(parse(rules, "test", "", Contents::Param, false).unwrap().rules.param);
        if let Some(slot) = slot {
            engine.insert_slot(-2_500, Arc::new(slot));
        }
        one_of_two(&engine, |_| Call::new("r").args(&args), false);
        end(&engine, "r");
    }
}

#[test]
fn the_only_call_that_may_come_in_whatever_its_resource() {
    let engine = engine();
    engine.load_system(&parse_system(r#"[{"qps": 1, "maxThread": 0}]"#, "test").unwrap().rules);
    let call = |thread| Call::new(["a", "b"][thread]).entry_type(EntryType::In);
    one_of_two(&engine, call, false);
    assert_eq!(engine.inbound(at(TIMES as u64 * APART)).threads, 0);
}

#[test]
fn the_only_probe_of_a_breaker() {
    let engine = engine();
    let rules = r#"[{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1,
                     "minRequestAmount": 1}]"#;
    engine.load_degrade(parse_degrade(rules, "test").unwrap().rules);
    // It opens so long before the first time that it probes then.
    let before = Tick(at(0).0 - 1_000_000_000);
    let Step::Passed(mut entry) = engine.enter(before, Call::new("r")) else { panic!("closed") };
    entry.fail();
    entry.exit(before);
    one_of_two(&engine, |_| Call::new("r"), true);
}
