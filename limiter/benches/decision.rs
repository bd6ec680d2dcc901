//! What one decision costs inside a process, lookup included, beside the keyed check of the
//! `governor` crate: one flow and many, one thread and two.
//!
//! Neither side reads a clock: ours is told the tick, governor's clock is a number in memory. Both
//! stand still during a batch and then move on by about the time that a batch takes. Every request
//! passes, which is checked.
//!
//! `cargo bench -p limiter --bench decision [-- --quick]` prints a line of JSON for each case:
//! nanoseconds that a thread takes for a decision, and how many times governor's that is, in the
//! median of alternating rounds, with the smallest and the largest.

use std::{
    error::Error,
    fmt::Write as _,
    io::Write as _,
    num::NonZeroU32,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use governor::{
    Quota, RateLimiter, clock::FakeRelativeClock, middleware::NoOpMiddleware, nanos::Nanos,
    state::keyed::DashMapStateStore,
};
use limiter::{Clock, ClusterEngine, Decision, MonotonicClock, RuleSet, Settings, Tick, rule};
use serde_json::json;

/// Decisions at one time.
const BATCH: usize = 1_000;
/// How far time moves from batch to batch: 20 ns a decision.
const BATCH_TIME: Duration = Duration::from_micros(20);
/// One flow, and as many as do not fit into a cache.
const FLOWS: [i64; 2] = [1, 100_000];
const THREADS: [usize; 2] = [1, 2];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Something that decides, with a limit that is never reached.
trait Subject: Sync {
    fn name(&self) -> &'static str;

    /// Decides once for each of `ids`, and gives how many passed.
    fn decide(&self, ids: &[i64]) -> usize;

    /// Moves time on.
    fn advance(&self);
}

struct Governor {
    limiter: RateLimiter<i64, DashMapStateStore<i64>, FakeRelativeClock, NoOpMiddleware<Nanos>>,
    clock: FakeRelativeClock,
}

impl Governor {
    fn new() -> Outcome<Self> {
        // One token a nanosecond, and four seconds' worth of them to start with.
        let quota = Quota::with_period(Duration::from_nanos(1)).ok_or("quota")?;
        let clock = FakeRelativeClock::default();
        let store = DashMapStateStore::default();
        let limiter = RateLimiter::new(quota.allow_burst(NonZeroU32::MAX), store, clock.clone());
        Ok(Self { limiter, clock })
    }
}

impl Subject for Governor {
    fn name(&self) -> &'static str {
        "governor, keyed"
    }

    fn decide(&self, ids: &[i64]) -> usize {
        ids.iter().filter(|id| self.limiter.check_key(id).is_ok()).count()
    }

    fn advance(&self) {
        self.clock.advance(BATCH_TIME);
    }
}

struct Tollgate {
    name: &'static str,
    rules: Arc<RuleSet>,
    now: AtomicU64,
}

impl Tollgate {
    fn new(name: &'static str, flows: i64, max_allowed_qps: Option<f64>) -> Outcome<Self> {
        let mut text = String::from("[");
        for id in 1..=flows {
            let comma = if id == 1 { "" } else { "," };
            write!(
                text,
                r#"{comma}{{"resource":"r{id}","count":1e12,"clusterMode":true,
                "clusterConfig":{{"flowId":{id},"thresholdType":1}}}}"#
            )?;
        }
        text.push(']');
        let engine = ClusterEngine::new(Settings { max_allowed_qps, ..Settings::default() });
        let parsed = rule::parse(&text, "bench", "default", rule::Contents::Flow, true)?;
        engine.replace(rule::merge(vec![parsed])?)?;
        let now = AtomicU64::new(Tick::from_ms(1_800_000_000_000).0);
        Ok(Self { name, rules: engine.rules(), now })
    }
}

impl Subject for Tollgate {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&self, ids: &[i64]) -> usize {
        // Relaxed, here and below: the number is the whole state.
        let now = Tick(self.now.load(Ordering::Relaxed));
        let passes = |id: &&i64| {
            matches!(self.rules.acquire_flow(now, **id, 1, false), Ok(Decision::Pass { .. }))
        };
        ids.iter().filter(passes).count()
    }

    fn advance(&self) {
        let ns = u64::try_from(BATCH_TIME.as_nanos()).unwrap_or(u64::MAX);
        self.now.fetch_add(ns, Ordering::Relaxed);
    }
}

/// Nanoseconds that each of `threads` threads takes for one of `decisions` decisions.
fn measure(
    subject: &dyn Subject,
    orders: &[Vec<i64>],
    threads: usize,
    decisions: usize,
) -> Outcome<f64> {
    let clock = MonotonicClock::start();
    let start = Barrier::new(threads);
    let work = |number: usize| {
        let ids = orders.get(number).map_or(&[][..], Vec::as_slice);
        start.wait();
        let began = clock.now();
        let mut passed = 0;
        for batch in ids.chunks(BATCH).cycle().take(decisions / BATCH) {
            passed += subject.decide(batch);
            if number == 0 {
                subject.advance();
            }
        }
        (clock.now().since(began), passed)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        handles.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut slowest = Duration::ZERO;
    for result in results {
        let (took, passed) = result.map_err(|_| "a thread panicked")?;
        if passed != decisions {
            return Err(format!("{}: {passed} of {decisions} passed", subject.name()).into());
        }
        slowest = slowest.max(took);
    }
    #[expect(clippy::cast_precision_loss, reason = "millions")]
    let decisions = decisions as f64;
    Ok(slowest.as_secs_f64() * 1e9 / decisions)
}

/// Every subject in turn, `rounds` times; a first round only warms up.
fn compare(flows: i64, threads: usize, rounds: usize, decisions: usize) -> Outcome<()> {
    let subjects: [Box<dyn Subject>; 3] = [
        Box::new(Governor::new()?),
        Box::new(Tollgate::new("tollgate", flows, None)?),
        Box::new(Tollgate::new("tollgate, with the namespace's guard", flows, Some(1e15))?),
    ];
    let orders: Vec<_> = (0..threads).map(|seed| order(flows, seed)).collect();
    let mut times = vec![Vec::new(); subjects.len()];
    for round in 0..=rounds {
        for (subject, times) in subjects.iter().zip(&mut times) {
            let ns = measure(&**subject, &orders, threads, decisions)?;
            if round > 0 {
                times.push(ns);
            }
        }
    }
    let reference = times.first().cloned().unwrap_or_default();
    for (subject, ns) in subjects.iter().zip(times) {
        let ratios = ns.iter().zip(&reference).map(|(ns, of)| ns / of).collect();
        let line = json!({
            "subject": subject.name(), "flows": flows, "threads": threads,
            "ns": spread(ns), "times_governor": spread(ratios),
        });
        writeln!(std::io::stdout(), "{line}")?;
    }
    Ok(())
}

/// Which flows a thread asks for, again and again: each once, shuffled, in whole batches.
fn order(flows: i64, seed: usize) -> Vec<i64> {
    let mut ids: Vec<i64> = (1..=flows).collect();
    fastrand::Rng::with_seed(seed as u64).shuffle(&mut ids);
    let len = ids.len().next_multiple_of(BATCH);
    ids.into_iter().cycle().take(len).collect()
}

/// Median, smallest, largest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    [at(values.len() / 2), at(0), at(values.len().saturating_sub(1))]
}

fn main() -> Outcome<()> {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let (rounds, decisions) = if quick { (3, 200_000) } else { (9, 2_000_000) };
    for threads in THREADS {
        for flows in FLOWS {
            compare(flows, threads, rounds, decisions)?;
        }
    }
    Ok(())
}
