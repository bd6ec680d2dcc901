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

#[path = "common/governor.rs"]
mod governor;
#[path = "common/order.rs"]
mod order;
#[path = "common/spread.rs"]
mod spread;
#[path = "common/threads.rs"]
mod threads;

use std::{
    error::Error,
    fmt::Write as _,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use limiter::{ClusterEngine, Decision, RuleSet, Settings, Tick, rule};
use serde_json::json;

use self::{governor::Governor, order::order, spread::spread, threads::slowest};

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

impl Subject for Governor<i64> {
    fn name(&self) -> &'static str {
        "governor, keyed"
    }

    fn decide(&self, ids: &[i64]) -> usize {
        ids.iter().filter(|id| self.passes(id)).count()
    }

    fn advance(&self) {
        self.move_on(BATCH_TIME);
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
    let work = |number: usize| {
        let ids = orders.get(number).map_or(&[][..], Vec::as_slice);
        let mut passed = 0;
        for batch in ids.chunks(BATCH).cycle().take(decisions / BATCH) {
            passed += subject.decide(batch);
            if number == 0 {
                subject.advance();
            }
        }
        passed
    };
    let slowest = slowest(threads, decisions, work)
        .map_err(|wrong| format!("{}: {wrong}", subject.name()))?;
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
    let orders: Vec<_> = (0..).take(threads).map(|seed| order(flows, seed, BATCH)).collect();
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
