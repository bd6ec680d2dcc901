//! Threads that call and move the clock as they like, over half seconds and seconds, while rules
//! are loaded.

use std::borrow::Cow;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use limiter::{
    Tick,
    local::{Call, Done, Entry, EntryType, LocalEngine, Outcome, Seen, Slot, Step},
    rule::parse_degrade,
};

use crate::support::{at, engine, flow, node};

const THREADS: u64 = 3;
/// Calls of a thread: all of them take less than a minute of the clock.
const CALLS: usize = 1_500;

/// What callers share.
#[derive(Debug)]
struct Scene {
    engine: Arc<LocalEngine>,
    clock_ms: AtomicU64,
    /// Calls in progress, and how many there may be.
    open: AtomicUsize,
    most: usize,
    told: [AtomicUsize; 4],
}

/// What a caller may be told, or does.
#[derive(Clone, Copy)]
enum Told {
    Passed,
    Failed,
    Blocked,
    GivenUp,
}

// Relaxed throughout: each number is a whole state, and the scope joins the threads.
impl Scene {
    fn new(most: usize) -> Self {
        Self {
            engine: engine(),
            clock_ms: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            most,
            told: Default::default(),
        }
    }

    fn now(&self) -> Tick {
        at(self.clock_ms.load(Ordering::Relaxed))
    }

    fn note(&self, told: Told) {
        self.told[told as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn told(&self) -> [usize; 4] {
        self.told.each_ref().map(|times| times.load(Ordering::Relaxed))
    }

    /// Asks for a call and waits for half of the turns.
    fn ask(&self, waits: bool) -> Option<Entry> {
        let step = self.engine.enter(self.now(), Call::new("r").entry_type(EntryType::In));
        let step = match step {
            Step::Wait(waiting) if waits => {
                let wait = u64::try_from(waiting.wait().as_millis()).unwrap();
                let turn = self.clock_ms.load(Ordering::Relaxed) + wait;
                self.clock_ms.fetch_max(turn, Ordering::Relaxed);
                waiting.resume(at(turn))
            }
            other => other,
        };
        match step {
            Step::Passed(entry) => {
                let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
                assert!(open <= self.most, "{open} at once");
                self.note(Told::Passed);
                return Some(entry);
            }
            Step::Wait(_) | Step::Ask(_) => self.note(Told::GivenUp),
            Step::Blocked(_) => self.note(Told::Blocked),
        }
        None
    }

    fn end(&self, mut entry: Entry, fails: bool) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if fails {
            self.note(Told::Failed);
            entry.fail();
        }
        entry.exit(self.now());
    }

    fn call(&self, seed: u64) {
        let (mut random, mut open) = (fastrand::Rng::with_seed(seed), Vec::new());
        for _ in 0..CALLS {
            open.extend(self.ask(random.bool()));
            self.clock_ms.fetch_add(random.u64(..9), Ordering::Relaxed);
            if open.len() > 2 || random.bool() && !open.is_empty() {
                self.end(open.swap_remove(random.usize(..open.len())), random.u8(..4) == 0);
            }
            if random.u8(..4) == 0 {
                std::thread::yield_now();
            }
        }
        for entry in open {
            self.end(entry, false);
        }
    }

    /// Calls while `rules` are loaded with others behind them, again and again.
    fn run(&self, rules: &str) {
        let is_over = AtomicBool::new(false);
        self.engine.load_flow(flow(&format!("[{rules}]")));
        std::thread::scope(|scope| {
            let is_over = &is_over;
            scope.spawn(move || {
                let others = [
                    r#"{"resource": "r", "count": 1000000}"#,
                    r#"{"resource": ".*", "regex": true, "count": 1000000, "grade": 0}"#,
                ];
                let breaker =
                    r#"[{"resource": "r", "grade": 2, "count": 1000000, "timeWindow": 1}]"#;
                for other in others.into_iter().cycle() {
                    self.engine.load_flow(flow(&format!("[{rules}, {other}]")));
                    self.engine.load_degrade(parse_degrade(breaker, "test").unwrap().rules);
                    self.engine.load_degrade(Vec::new());
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let callers: Vec<_> =
                (0..THREADS).map(|seed| scope.spawn(move || self.call(seed))).collect();
            let ended: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok), "a caller saw something wrong");
        });
    }

    /// Compares the counters with what the callers were told; gives the milliseconds that it took.
    fn ended(&self) -> u64 {
        let ms = self.clock_ms.load(Ordering::Relaxed);
        assert!(ms < 59_000, "the minute holds all of it");
        let [passed, failed, blocked, _] = self.told().map(|times| times as u64);
        for reading in [node(&self.engine, ms + 500, "r"), self.engine.inbound(at(ms + 500))] {
            assert_eq!(
                (reading.threads, reading.total_pass, reading.total_block),
                (0, passed, blocked)
            );
            assert_eq!((reading.total_success, reading.total_exception), (passed, failed));
        }
        assert_eq!(self.engine.open_entries(at(ms)), []);
        ms
    }
}

/// Notes when calls were counted, which is not what their callers have read from the clock: others
/// may have been later already.
#[derive(Debug, Default)]
struct Noted {
    passed: Mutex<Vec<Tick>>,
    ended: Mutex<Vec<Outcome>>,
}

impl Slot for Noted {
    fn enter(&self, now: Tick, _: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        self.passed.lock().unwrap().push(now);
        Ok(())
    }

    fn exit(&self, _: Tick, done: &Done<'_>) {
        self.ended.lock().unwrap().push(done.outcome);
    }
}

#[test]
fn no_second_holds_more_than_the_count_and_each_call_ends_once() {
    let (scene, noted) = (Scene::new(usize::MAX), Arc::new(Noted::default()));
    scene.engine.insert_slot(0, Arc::<Noted>::clone(&noted));
    scene.run(r#"{"resource": "r", "count": 40}"#);
    let ms = scene.ended();
    let [passed, failed, ..] = scene.told();
    let mut buckets = std::collections::BTreeMap::<u64, usize>::new();
    let ticks = noted.passed.lock().unwrap();
    for tick in ticks.iter() {
        *buckets.entry(tick.0 / 500_000_000).or_default() += 1;
    }
    for (bucket, tokens) in &buckets {
        let next = buckets.get(&(bucket + 1)).unwrap_or(&0);
        assert!(tokens + next <= 40, "{bucket}: {buckets:?}");
    }
    assert!(passed >= usize::try_from(ms / 2_000).unwrap() * 40, "half of what the rule allows");
    let ended = noted.ended.lock().unwrap();
    let errors = ended.iter().filter(|outcome| **outcome == Outcome::Error).count();
    assert_eq!((ticks.len(), ended.len(), errors), (passed, passed, failed));
}

#[test]
fn as_many_calls_are_in_progress_as_may_be_and_as_many_turns_given_as_there_are() {
    let scene = Scene::new(4);
    scene.run(
        r#"{"resource": "r", "count": 4, "grade": 0},
           {"resource": "r", "count": 100, "controlBehavior": 2, "maxQueueingTimeMs": 50}"#,
    );
    let ms = scene.ended();
    let [passed, _, blocked, given_up] = scene.told();
    // One at once, one each 10 ms, and those that are in the queue at the end.
    let turns = usize::try_from(ms / 10).unwrap() + 1 + 5;
    assert!(passed + given_up <= turns, "{passed} + {given_up} of {turns}");
    let least = passed.min(given_up).min(blocked);
    assert!(least > 100, "{passed} {given_up} {blocked}");
}
