//! What a call costs that the local engine guards, from enter to exit, beside the keyed check of the
//! `governor` crate, which is told of no end: one thread and two, each with a resource of its own.
//! And, as the like of that check, what flow rules alone cost that guard no call: the resource looked
//! up by its name, the rule compared and the tokens counted.
//!
//! Neither side reads a clock: ours is told the tick, governor's clock is a number in memory. Both
//! stand still during a batch and then move on by about the time that a batch takes. Every call
//! passes, which is checked.
//!
//! `cargo bench -p limiter --bench entry [-- --quick]` prints a line of JSON for each case:
//! nanoseconds that a thread takes for a call, and how many times governor's that is, in the median
//! of alternating rounds, with the smallest and the largest; and, for two threads, how many times
//! as many calls they make together as one thread alone.

#[path = "common/governor.rs"]
mod governor;
#[path = "common/spread.rs"]
mod spread;
#[path = "common/threads.rs"]
mod threads;

use std::{
    error::Error,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use limiter::{
    Tick,
    local::{Call, Checked, EntryType, LocalEngine, LocalSettings, Step},
    rule,
};
use serde_json::json;

use self::{governor::Governor, spread::spread, threads::slowest};

/// Calls at one time.
const BATCH: usize = 1_000;
/// How far time moves from batch to batch: 100 ns a call.
const BATCH_TIME: Duration = Duration::from_micros(100);
const RESOURCES: [&str; 2] = ["GET:/api/v1/orders/{id}", "GET:/api/v1/customers/{id}"];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Something that guards calls, with a limit that is never reached.
trait Subject: Sync {
    fn name(&self) -> &'static str;

    /// Guards a batch of calls, and gives how many passed.
    fn calls(&self, resource: &'static str) -> usize;

    /// Moves time on.
    fn advance(&self);
}

impl Subject for Governor<&'static str> {
    fn name(&self) -> &'static str {
        "governor, keyed"
    }

    fn calls(&self, resource: &'static str) -> usize {
        (0..BATCH).filter(|_| self.passes(&resource)).count()
    }

    fn advance(&self) {
        self.move_on(BATCH_TIME);
    }
}

struct Tollgate {
    name: &'static str,
    engine: Arc<LocalEngine>,
    entry_type: EntryType,
    now: AtomicU64,
}

impl Tollgate {
    fn new(name: &'static str, has_rule: bool, entry_type: EntryType) -> Outcome<Self> {
        let engine = Arc::new(LocalEngine::new(LocalSettings::default()));
        if has_rule {
            let rules = RESOURCES.map(|name| json!({"resource": name, "count": 1e12}));
            let text = json!(rules).to_string();
            let parsed = rule::parse(&text, "bench", "", rule::Contents::Flow, false)?;
            engine.load_flow(parsed.rules.flow);
        }
        let now = AtomicU64::new(Tick::from_ms(1_800_000_000_000).0);
        Ok(Self { name, engine, entry_type, now })
    }

    fn now(&self) -> Tick {
        // Relaxed, here and below: the number is the whole state.
        Tick(self.now.load(Ordering::Relaxed))
    }
}

impl Subject for Tollgate {
    fn name(&self) -> &'static str {
        self.name
    }

    fn calls(&self, resource: &'static str) -> usize {
        let now = self.now();
        let passes = |_: &usize| {
            let call = Call::new(resource).entry_type(self.entry_type);
            let Step::Passed(entry) = self.engine.enter(now, call) else { return false };
            entry.exit(now);
            true
        };
        (0..BATCH).filter(passes).count()
    }

    fn advance(&self) {
        let ns = u64::try_from(BATCH_TIME.as_nanos()).unwrap_or(u64::MAX);
        self.now.fetch_add(ns, Ordering::Relaxed);
    }
}

/// The flow rule of each resource, and no more.
struct Check(Tollgate);

impl Subject for Check {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn calls(&self, resource: &'static str) -> usize {
        let now = self.0.now();
        let passes = |_: &usize| self.0.engine.check(now, resource, 1) == Checked::Pass;
        (0..BATCH).filter(passes).count()
    }

    fn advance(&self) {
        self.0.advance();
    }
}

/// Nanoseconds that each of `threads` threads takes for one of its calls.
fn measure(subject: &dyn Subject, threads: usize, batches: usize) -> Outcome<f64> {
    let work = |number: usize| {
        let Some(resource) = RESOURCES.get(number) else { return 0 };
        let mut passed = 0;
        for _ in 0..batches {
            passed += subject.calls(resource);
            if number == 0 {
                subject.advance();
            }
        }
        passed
    };
    let slowest = slowest(threads, batches * BATCH, work)
        .map_err(|wrong| format!("{}: {wrong}", subject.name()))?;
    #[expect(clippy::cast_precision_loss, reason = "millions")]
    let calls = (batches * BATCH) as f64;
    Ok(slowest.as_secs_f64() * 1e9 / calls)
}

fn main() -> Outcome<()> {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let (rounds, batches) = if quick { (3, 500) } else { (9, 3_000) };
    let subjects: [Box<dyn Subject>; 5] = [
        Box::new(Governor::new()?),
        Box::new(Check(Tollgate::new("tollgate, the flow rule alone", true, EntryType::Out)?)),
        Box::new(Tollgate::new("tollgate, no rule", false, EntryType::Out)?),
        Box::new(Tollgate::new("tollgate, one flow rule", true, EntryType::Out)?),
        Box::new(Tollgate::new("tollgate, one flow rule, inbound", true, EntryType::In)?),
    ];
    // By subject: nanoseconds of one thread and of two, round by round; the first only warms up.
    let mut times = vec![[Vec::new(), Vec::new()]; subjects.len()];
    for round in 0..=rounds {
        for (subject, times) in subjects.iter().zip(&mut times) {
            for (threads, times) in (1..).zip(times) {
                let ns = measure(&**subject, threads, batches)?;
                if round > 0 {
                    times.push(ns);
                }
            }
        }
    }
    let reference = times.first().cloned().unwrap_or_default();
    for (subject, times) in subjects.iter().zip(&times) {
        let [alone, _] = times;
        for ((threads, ns), of) in (1_u32..).zip(times).zip(&reference) {
            let ratios = ns.iter().zip(of).map(|(ns, of)| ns / of).collect();
            let gains = alone.iter().zip(ns).map(|(one, ns)| f64::from(threads) * one / ns);
            let line = json!({
                "subject": subject.name(), "threads": threads, "ns": spread(ns.clone()),
                "times_governor": spread(ratios), "times_one_thread": spread(gains.collect()),
            });
            writeln!(std::io::stdout(), "{line}")?;
        }
    }
    Ok(())
}
