//! What a decision of each algorithm costs through the engine, beside the sliding window's: of flow
//! rules and of hot values, of one and of many, when it passes and when it is refused.
//!
//! `cargo bench -p limiter --bench algorithms [-- --quick]` prints a line of JSON for each case:
//! nanoseconds a decision, and how many times the sliding window's that is, in the median of rounds
//! in which all algorithms take turns, with the smallest and the largest. No clock is read while it
//! decides: time stands still during a batch, and then moves on.

#[path = "common/order.rs"]
mod order;
#[path = "common/spread.rs"]
mod spread;

use std::{error::Error, fmt::Write as _, io::Write as _, sync::Arc, time::Duration};

use limiter::{
    Clock, ClusterEngine, Decision, MonotonicClock, Param, RuleSet, Settings, Tick, rule,
};
use serde_json::json;

use self::{order::order, spread::spread};

/// Decisions at one time, and how far time moves from one batch to the next: as fast as decisions
/// are made, the windows of a log would hold more than a log may.
const BATCH: usize = 1_000;
const BATCH_TIME: Duration = Duration::from_micros(200);
/// One key, and as many as do not fit into a cache.
const KEYS: [i64; 2] = [1, 100_000];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// An algorithm as a rule names it.
#[derive(Clone, Copy)]
struct Algorithm {
    name: &'static str,
    fields: &'static str,
    config: &'static str,
    /// The count under which everything passes, and what else that needs: a key must not fall idle
    /// between two calls, and a log not be asked for more than it holds.
    passes: (f64, &'static str),
    /// Whether hot values can have it.
    of_values: bool,
}

const fn named(name: &'static str, config: &'static str) -> Algorithm {
    Algorithm { name, fields: "", config, passes: (1e12, ""), of_values: true }
}

const fn bucket(name: &'static str, config: &'static str) -> Algorithm {
    Algorithm { passes: (10.0, r#","burst":1000000000000"#), ..named(name, config) }
}

const fn behaves(name: &'static str, fields: &'static str, of_values: bool) -> Algorithm {
    Algorithm { fields, of_values, ..named(name, "") }
}

/// The first is what the others are compared with.
const ALGORITHMS: [Algorithm; 10] = [
    named("sliding window", ""),
    named("fixed window", r#","algorithm":"fixedWindow""#),
    named("calendar", r#","calendar":"day","timeZone":"Europe/Berlin""#),
    Algorithm {
        passes: (1e4, r#","windowIntervalMs":1"#),
        ..named("sliding log", r#","algorithm":"slidingLog""#)
    },
    bucket("token bucket", r#","algorithm":"tokenBucket""#),
    bucket("leaky bucket", r#","algorithm":"leakyBucket""#),
    bucket("gcra", r#","algorithm":"gcra""#),
    behaves("pacing", r#""controlBehavior":2,"maxQueueingTimeMs":500,"#, true),
    behaves("warm-up", r#""controlBehavior":1,"warmUpPeriodSec":1,"#, false),
    behaves("warm-up and pacing", r#""controlBehavior":3,"warmUpPeriodSec":1,"#, false),
];

/// One algorithm, in one rule for each key or in one rule for all.
struct Subject {
    name: &'static str,
    rules: Arc<RuleSet>,
    of_values: bool,
    now: Tick,
}

impl Subject {
    fn new(
        Algorithm { name, fields, config, passes, .. }: Algorithm,
        (keys, of_values, passing): (i64, bool, bool),
    ) -> Outcome<Self> {
        let (count, more) = match (passing, name, keys) {
            // One alone asks for more in a second than a log holds; of many each has room for all
            // that its log may hold.
            (true, "sliding log", 2..) => (100.0, ""),
            (true, ..) => passes,
            // One passes, and next to none after it.
            (false, ..) => (1.0, ""),
        };
        let (rules, kind) = if of_values { (1, r#""paramIdx":0,"#) } else { (keys, "") };
        let mut text = String::from("[");
        for id in 1..=rules {
            let comma = if id == 1 { "" } else { "," };
            write!(
                text,
                r#"{comma}{{"resource":"r","count":{count},{kind}{fields}"clusterMode":true,
                "clusterConfig":{{"flowId":{id},"thresholdType":1{config}{more}}}}}"#
            )?;
        }
        text.push(']');
        let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
        let parsed = rule::parse(&text, "bench", "default", rule::Contents::Mixed, true)?;
        engine.replace(rule::merge(vec![parsed])?)?;
        let now = Tick::from_ms(1_800_000_000_000);
        Ok(Self { name, rules: engine.rules(), of_values, now })
    }

    /// Decides once for each of `keys`, and gives how many were let through.
    fn decide(&self, keys: &[i64]) -> usize {
        let admitted = |key: &&i64| {
            let decided = if self.of_values {
                self.rules.acquire_param(self.now, 1, 1, [Param::Long(**key)])
            } else {
                self.rules.acquire_flow(self.now, **key, 1, false)
            };
            matches!(decided, Ok(Decision::Pass { .. } | Decision::Wait { .. }))
        };
        keys.iter().filter(admitted).count()
    }

    /// Nanoseconds that one of `decisions` takes, and how many were let through.
    fn measure(&mut self, keys: &[i64], decisions: usize) -> (f64, usize) {
        let clock = MonotonicClock::start();
        let (began, mut admitted) = (clock.now(), 0);
        for batch in keys.chunks(BATCH).cycle().take(decisions / BATCH) {
            admitted += self.decide(batch);
            self.now = self.now.plus(BATCH_TIME);
        }
        #[expect(clippy::cast_precision_loss, reason = "millions")]
        let ns = clock.now().since(began).as_secs_f64() * 1e9 / decisions as f64;
        (ns, admitted)
    }
}

/// Every algorithm in turn, `rounds` times; a first round only warms up.
fn compare(case: (i64, bool, bool), rounds: usize, decisions: usize) -> Outcome<()> {
    let (amount, of_values, passes) = case;
    let able = ALGORITHMS.into_iter().filter(|algorithm| algorithm.of_values || !of_values);
    let subjects: Outcome<Vec<Subject>> = able.map(|it| Subject::new(it, case)).collect();
    let (mut subjects, keys) = (subjects?, order(amount, 7, BATCH));
    let mut times = vec![Vec::new(); subjects.len()];
    for round in 0..=rounds {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            let (ns, admitted) = subject.measure(&keys, decisions);
            if round > 0 {
                times.push(ns);
                let right = if passes { decisions } else { 0 };
                if admitted.abs_diff(right) > decisions / 5 {
                    return Err(
                        format!("{}: {admitted} of {decisions} passed", subject.name).into()
                    );
                }
            }
        }
    }
    let reference = times.first().cloned().unwrap_or_default();
    for (subject, ns) in subjects.iter().zip(times) {
        let ratios = ns.iter().zip(&reference).map(|(ns, of)| ns / of).collect();
        let line = json!({
            "subject": subject.name, "of": if of_values { "hot values" } else { "flows" },
            "keys": amount, "passes": passes, "ns": spread(ns), "times_sliding": spread(ratios),
        });
        writeln!(std::io::stdout(), "{line}")?;
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let (rounds, decisions) = if quick { (3, 100_000) } else { (9, 1_000_000) };
    for of_values in [false, true] {
        for keys in KEYS {
            for passes in [true, false] {
                compare((keys, of_values, passes), rounds, decisions)?;
            }
        }
    }
    Ok(())
}
