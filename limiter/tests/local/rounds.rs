//! Threads that call while rules are loaded, and the same calls made one after the other with no
//! load between: in each round what is passed, refused and let wait must be the same, and after
//! it every counter.
//!
//! All calls of a round are alike, or alike by their value, so that it does not matter who comes
//! first. The rules of the case are in every load; what comes and goes beside them limits nothing.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use limiter::{
    Param,
    local::{Arg, BreakerState, Call, ContextHandle, Entry, EntryType, LocalEngine, Step, Waiting},
    rule::{Contents, parse, parse_degrade, parse_system},
};

use crate::support::{at, engine, flow};

const THREADS: usize = 3;
/// Calls of a round.
const CALLS: usize = 96;
/// Milliseconds from the calls of a round until those that wait go on, and until they end.
const RESUMED: u64 = 500;
const ENDED: u64 = 520;
/// Milliseconds from the end of a round to the next: within a half second, at its border, over a
/// second, over a breaker's time window, over a minute.
const PAUSES: [u64; 8] = [0, 480, 30, 1_470, 980, 2_000, 500, 61_000];
/// Rounds whose calls fail.
const FAILING: [usize; 4] = [3, 4, 9, 17];
const ROUNDS: usize = 24;

/// Rules, each a list without its brackets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) flow: &'static str,
    pub(crate) param: &'static str,
    pub(crate) degrade: &'static str,
    /// How many values the calls have.
    pub(crate) values: usize,
}

/// What comes and goes beside the rules of a case: breakers before, the others behind, since what
/// waits in a queue goes on at its place in the list.
pub(crate) const BESIDE: [Rules; 3] = [
    NONE,
    Rules {
        flow: r#"{"resource": "r", "count": 1000000, "grade": 0}, {"resource": "r2", "count": 1}"#,
        param: r#"{"resource": "r", "paramIdx": 0, "count": 1000000, "grade": 0}"#,
        degrade: r#"{"resource": "r", "grade": 2, "count": 1000000, "timeWindow": 1}"#,
        ..NONE
    },
    Rules {
        flow: r#"{"resource": ".*", "regex": true, "count": 1000000}"#,
        param: r#"{"resource": "r", "paramIdx": 0, "count": 1000000}"#,
        degrade: r#"{"resource": "r", "grade": 0, "count": 60000, "timeWindow": 1,
                     "slowRatioThreshold": 1.0}"#,
        ..NONE
    },
];
pub(crate) const NONE: Rules = Rules { flow: "", param: "", degrade: "", values: 1 };

fn list(parts: [&str; 2]) -> String {
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("[{}]", parts.join(","))
}

pub(crate) fn load(engine: &LocalEngine, rules: Rules, beside: Rules) {
    engine.load_flow(flow(&list([rules.flow, beside.flow])));
    let param = list([rules.param, beside.param]);
    engine.load_param(parse(&param, "test", "", Contents::Param, false).unwrap().rules.param);
    let degrade = list([beside.degrade, rules.degrade]);
    engine.load_degrade(parse_degrade(&degrade, "test").unwrap().rules);
    let system = if beside.flow.is_empty() { "[]" } else { r#"[{"qps": 1000000}]"# };
    engine.load_system(&parse_system(system, "test").unwrap().rules);
}

/// What a call was told, by its value: when it goes on, or that it does not.
type Said = (usize, Option<Duration>);

/// An engine and how many threads call it.
pub(crate) struct Side {
    pub(crate) engine: Arc<LocalEngine>,
    threads: usize,
    contexts: [ContextHandle; 2],
    /// Calls that are in progress from one round to the next.
    held: Vec<Entry>,
}

impl Side {
    pub(crate) fn new(threads: usize, rules: Rules) -> Self {
        let engine = engine();
        load(&engine, rules, NONE);
        let contexts = ["one", "two"].map(|name| engine.context(name));
        Self { engine, threads, contexts, held: Vec::new() }
    }

    /// Gives each thread its part, and collects what they make of it.
    fn share<T: Send, R: Send>(&self, work: Vec<T>, act: impl Fn(T) -> R + Sync) -> Vec<R> {
        let mut parts: Vec<Vec<T>> = std::iter::repeat_with(Vec::new).take(self.threads).collect();
        for (at, item) in work.into_iter().enumerate() {
            parts[at % self.threads].push(item);
        }
        let start = Barrier::new(self.threads);
        std::thread::scope(|scope| {
            let (act, start) = (&act, &start);
            let run = |part: Vec<T>| {
                scope.spawn(move || {
                    start.wait();
                    part.into_iter().map(act).collect::<Vec<R>>()
                })
            };
            let running: Vec<_> = parts.into_iter().map(run).collect();
            running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// A round that begins at `ms`; what its calls were told at first, and those that waited then.
    fn round(&mut self, ms: u64, values: usize, fails: bool) -> [Vec<Said>; 2] {
        let args = ["a", "b"].map(|value| [Arg::One(Param::Str(value.into()))]);
        let call = |value: usize| {
            let call = Call::new("r").args(&args[value]).origin(["left", "right"][value]);
            call.context(&self.contexts[value]).entry_type(EntryType::In)
        };
        let work: Vec<usize> = (0..CALLS).map(|number| number % values).collect();
        let asked = self.share(work, |value| (value, self.engine.enter(at(ms), call(value))));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut entries: Vec<(usize, Entry)> = Vec::new();
        let mut waiting: Vec<(usize, Waiting<'_>)> = Vec::new();
        for (value, step) in asked {
            first.push((value, said(&step)));
            match step {
                Step::Passed(entry) => entries.push((value, entry)),
                // Every fourth turn is given up.
                Step::Wait(turn) if turn.wait().as_millis() % 4 < 3 => waiting.push((value, turn)),
                Step::Wait(_) | Step::Ask(_) | Step::Blocked(_) => {}
            }
        }
        let resumed = self.share(waiting, |(value, turn)| (value, turn.resume(at(ms + RESUMED))));
        for (value, step) in resumed {
            second.push((value, said(&step)));
            if let Step::Passed(entry) = step {
                entries.push((value, entry));
            }
        }
        entries.sort_by_key(|(value, _)| *value);
        let mut entries: Vec<Entry> = entries.into_iter().map(|(_, entry)| entry).collect();
        let kept = entries.split_off(entries.len().min(1)).into_iter();
        let ending: Vec<Entry> = kept.chain(self.held.drain(..)).collect();
        self.held = entries;
        self.share(ending, |mut entry| {
            if fails {
                entry.fail();
            }
            entry.exit(at(ms + ENDED));
        });
        first.sort();
        second.sort();
        [first, second]
    }

    /// Everything that is counted, as one text. Origins stand in the order in which they came.
    pub(crate) fn counted(&self, ms: u64) -> String {
        let (engine, now) = (&self.engine, at(ms));
        let mut origins = engine.origins(now, "r");
        origins.sort_by(|(a, _), (b, _)| a.cmp(b));
        let readings = (engine.inbound(now), origins, engine.tree(now), engine.warm_ups(now, "r"));
        let oldest: Vec<_> = engine.open_entries(now).into_iter().map(|open| open.oldest).collect();
        format!("{readings:#?} {oldest:?}")
    }

    /// The states of the breakers of these rules.
    pub(crate) fn breakers(&self, ms: u64, of: &Self) -> Vec<BreakerState> {
        let all = self.engine.breakers(at(ms), "r");
        let of = of.engine.breakers(at(ms), "r");
        let state = |rule| all.iter().find(|breaker| breaker.rule == rule).unwrap().state;
        of.into_iter().map(|breaker| state(breaker.rule)).collect()
    }
}

pub(crate) fn said(step: &Step<'_>) -> Option<Duration> {
    match step {
        Step::Passed(_) => Some(Duration::ZERO),
        Step::Wait(waiting) => Some(waiting.wait()),
        Step::Ask(_) | Step::Blocked(_) => None,
    }
}

/// Plays all rounds, and gives how many calls were told to pass, to wait, and no.
fn play(rules: Rules) -> [usize; 3] {
    let (mut raced, mut alone) = (Side::new(THREADS, rules), Side::new(1, rules));
    let is_over = AtomicBool::new(false);
    let engine = Arc::clone(&raced.engine);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: nothing else is published.
            for beside in BESIDE.into_iter().cycle() {
                load(&engine, rules, beside);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let over = Over(&is_over);
        let (mut ms, mut told) = (0, [0; 3]);
        for round in 0..ROUNDS {
            let fails = FAILING.contains(&round);
            let expected = alone.round(ms, rules.values, fails);
            assert_eq!(raced.round(ms, rules.values, fails), expected, "round {round}");
            for (_, said) in expected.iter().flatten() {
                let kind = said.map_or(2, |wait| usize::from(!wait.is_zero()));
                told[kind] += 1;
            }
            ms += ENDED;
            assert_eq!(raced.counted(ms), alone.counted(ms), "round {round}");
            assert_eq!(raced.breakers(ms, &alone), alone.breakers(ms, &alone), "round {round}");
            ms += PAUSES[round % PAUSES.len()];
        }
        drop(over);
        told
    })
}

/// Ends the loading, also when an assertion fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // Relaxed: nothing else is published.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Plays rules by which some calls pass and some do not.
fn limits(rules: Rules) {
    let [passed, waited, refused] = play(rules);
    assert!(passed > ROUNDS && refused > ROUNDS, "{passed} {waited} {refused}");
}

#[test]
fn tokens_of_a_second() {
    limits(Rules { flow: r#"{"resource": "r", "count": 100}"#, ..NONE });
}

#[test]
fn calls_in_progress() {
    limits(Rules { flow: r#"{"resource": "r", "count": 20, "grade": 0}"#, ..NONE });
}

#[test]
fn a_warm_up() {
    let rule = r#"{"resource": "r", "count": 60, "controlBehavior": 1, "warmUpPeriodSec": 4}"#;
    limits(Rules { flow: rule, ..NONE });
}

#[test]
fn a_queue() {
    let rule = r#"{"resource": "r", "count": 100, "controlBehavior": 2, "maxQueueingTimeMs": 400}"#;
    let [passed, waited, refused] = play(Rules { flow: rule, ..NONE });
    assert!(passed > ROUNDS && waited > ROUNDS && refused > ROUNDS);
}

#[test]
fn a_queue_that_warms_up() {
    let rule = r#"{"resource": "r", "count": 100, "controlBehavior": 3, "warmUpPeriodSec": 4,
                   "maxQueueingTimeMs": 400}"#;
    let [_, waited, refused] = play(Rules { flow: rule, ..NONE });
    assert!(waited > ROUNDS && refused > ROUNDS);
}

#[test]
fn tokens_of_a_value() {
    let rule = r#"{"resource": "r", "paramIdx": 0, "count": 20, "burstCount": 5}"#;
    limits(Rules { param: rule, values: 2, ..NONE });
}

#[test]
fn calls_in_progress_of_a_value() {
    let rule = r#"{"resource": "r", "paramIdx": 0, "count": 9, "grade": 0}"#;
    limits(Rules { param: rule, values: 2, ..NONE });
}

#[test]
fn a_queue_of_a_value() {
    let rule = r#"{"resource": "r", "paramIdx": 0, "count": 100, "controlBehavior": 2,
                   "maxQueueingTimeMs": 400}"#;
    let [passed, waited, refused] = play(Rules { param: rule, values: 2, ..NONE });
    assert!(passed > ROUNDS && waited > ROUNDS && refused > ROUNDS);
}

#[test]
fn tokens_of_an_origin_and_of_a_context() {
    let rules = r#"{"resource": "r", "count": 30, "limitApp": "left"},
                   {"resource": "r", "count": 10, "strategy": 2, "refResource": "two"}"#;
    limits(Rules { flow: rules, values: 2, ..NONE });
}

#[test]
fn breakers_of_errors() {
    let rules = r#"{"resource": "r", "grade": 2, "count": 5, "timeWindow": 2,
                    "minRequestAmount": 5, "statIntervalMs": 1000},
                   {"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 3,
                    "minRequestAmount": 5, "statIntervalMs": 20000}"#;
    limits(Rules { degrade: rules, ..NONE });
}

#[test]
fn a_breaker_of_slow_calls_behind_a_limit() {
    // The call that is held from one round to the next is the slow one.
    limits(Rules {
        flow: r#"{"resource": "r", "count": 10, "grade": 0}"#,
        degrade: r#"{"resource": "r", "grade": 0, "count": 900, "timeWindow": 1,
                     "slowRatioThreshold": 0.05, "minRequestAmount": 5, "statIntervalMs": 1000}"#,
        ..NONE
    });
}
