//! Prints what one take of each algorithm costs, in nanoseconds: once when it passes, once when it
//! is refused or has to wait, and once over a million keys that do not fit the cache. Behind each
//! stands how many times the sliding window's that is.
//!
//! `cargo run --release -p limiter --example algorithm-cost`

#![expect(clippy::print_stdout, reason = "it is a report")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use limiter::{
    Tick, WindowShape,
    algorithm::{
        Algorithm, Calendar, CalendarWindow, FixedWindow, Gcra, Invalid, LeakyMeter, LeakyQueue,
        Per, Rate, SlidingCounter, SlidingLog, SlidingWarmUp, SlidingWindow, SmoothBursty,
        SmoothWarmingUp, TokenBucket, Unit, Verdict, WarmUp, WarmUpPacing,
    },
};

const SECOND: Duration = Duration::from_secs(1);
const START: u64 = 1_700_000_000_000_000_000;
/// Takes of a run: fewer than a scheduler lets run in one go, more than a window's buckets.
const TAKES: u32 = 250_000;
const RUNS: u32 = 40;
const KEYS: u32 = 1_000_000;
/// A multiplier that visits the keys in no order that a cache could guess.
const STRIDE: u64 = 514_229;

fn main() -> Result<(), Invalid> {
    let base = Base {
        pass: SlidingWindow::new(1e6, Per::Second, WindowShape::SECOND)?,
        block: SlidingWindow::new(1e4, Per::Second, WindowShape::SECOND)?,
    };
    println!(
        "{:30} {:>19} {:>21} {:>14} {:>6}",
        "ns per take, share admitted", "pass", "refuse", "keys", "bytes"
    );
    base.report("sliding window", &base.pass, &base.block);
    // A count of a million, so that a take each microsecond passes, and a hundredth refuses.
    for (count, burst, note) in [(1e6, 1_000_000, ""), (999_999.9, 1_000_000, ", fraction")] {
        let (rate, slow) = (Rate::new(count, SECOND)?, Rate::new(count / 100.0, SECOND)?);
        let name = |name: &str| format!("{name}{note}");
        let (pass, block) = (TokenBucket::new(rate, burst)?, TokenBucket::new(slow, 1)?);
        base.report(&name("token bucket"), &pass, &block);
        let (pass, block) = (LeakyMeter::new(rate, burst)?, LeakyMeter::new(slow, 1)?);
        base.report(&name("leaky bucket, meter"), &pass, &block);
        base.report(&name("gcra"), &Gcra::new(rate, burst)?, &Gcra::new(slow, 1)?);
        let (pass, block) = (LeakyQueue::new(rate, SECOND), LeakyQueue::new(slow, SECOND));
        base.report(&name("leaky bucket, queue"), &pass, &block);
        let (pass, block) = (SmoothBursty::new(rate, SECOND), SmoothBursty::new(slow, SECOND));
        base.report(&name("guava, bursty"), &pass, &block);
        let pass = SmoothWarmingUp::new(rate, SECOND, 3)?;
        base.report(&name("guava, warming up"), &pass, &SmoothWarmingUp::new(slow, SECOND, 3)?);
    }
    base.report("fixed window", &FixedWindow::new(1e6, SECOND)?, &FixedWindow::new(1e4, SECOND)?);
    let day = Calendar::new(Unit::Day, "Europe/Berlin")?;
    let (pass, block) = (CalendarWindow::new(1e12, day.clone())?, CalendarWindow::new(1e4, day)?);
    base.report("calendar window", &pass, &block);
    let (pass, block) = (SlidingCounter::new(2e6, SECOND)?, SlidingCounter::new(1e4, SECOND)?);
    base.report("sliding counter", &pass, &block);
    let (pass, block) = (SlidingLog::new(1e4, 9 * SECOND / 1_000)?, SlidingLog::new(1e4, SECOND)?);
    base.report("sliding log", &pass, &block);
    base.report("warm-up", &WarmUp::new(3e6, SECOND, 3)?, &WarmUp::new(1e4, SECOND, 3)?);
    let pass = WarmUpPacing::new(3e6, SECOND, 3, SECOND)?;
    base.report("warm-up, pacing", &pass, &WarmUpPacing::new(1e4, SECOND, 3, SECOND)?);
    let warm_up = |count| SlidingWarmUp::new(count, Per::Second, WindowShape::SECOND, SECOND, 3);
    base.report("warm-up, sliding", &warm_up(3e6)?, &warm_up(1e4)?);
    Ok(())
}

/// What all others are compared with.
struct Base {
    pass: SlidingWindow,
    block: SlidingWindow,
}

impl Base {
    fn report<A: Algorithm>(&self, name: &str, pass: &A, block: &A) {
        let passes = compare(one_key(&self.pass), one_key(pass));
        let blocks = compare(one_key(&self.block), one_key(block));
        let keys = compare(many_keys(&self.pass), many_keys(pass));
        println!(
            "{name:30} {:6.1} {:5.2} x {:3.0}% {:8.1} {:5.2} x {:3.0}% {:6.1} {:5.2} x {:6}",
            passes.ns,
            passes.ratio,
            passes.share,
            blocks.ns,
            blocks.ratio,
            blocks.share,
            keys.ns,
            keys.ratio,
            size_of::<A::State>()
        );
    }
}

fn one_key<A: Algorithm>(algorithm: &A) -> impl FnMut(u64) -> Verdict {
    let mut state = A::State::default();
    move |i| algorithm.take(black_box(&mut state), tick(i), 1)
}

fn many_keys<A: Algorithm>(algorithm: &A) -> impl FnMut(u64) -> Verdict {
    let mut states: Vec<A::State> = (0..KEYS).map(|_| A::State::default()).collect();
    move |i| {
        let key = usize::try_from(i * STRIDE % u64::from(KEYS)).unwrap_or(0);
        states.get_mut(key).map_or(NEVER, |state| algorithm.take(state, tick(i), 1))
    }
}

const NEVER: Verdict = Verdict::Block { retry: None };

fn tick(i: u64) -> Tick {
    Tick(START + i * 1_000)
}

/// Nanoseconds a take, how many times the base's that is, and how many percent of all takes passed
/// or were booked.
struct Cost {
    ns: f64,
    ratio: f64,
    share: f64,
}

/// The least of many short runs, by turns: whatever else the machine does only adds to them.
fn compare(mut base: impl FnMut(u64) -> Verdict, mut take: impl FnMut(u64) -> Verdict) -> Cost {
    let (mut base_ns, mut ns, mut admitted) = (f64::MAX, f64::MAX, 0);
    for run in 0..RUNS {
        let calls = u64::from(run * TAKES)..u64::from((run + 1) * TAKES);
        base_ns = base_ns.min(time(&mut base, calls.clone()).0);
        let (run_ns, passed) = time(&mut take, calls);
        ns = ns.min(run_ns);
        admitted += passed;
    }
    let share = 100.0 * f64::from(admitted) / f64::from(TAKES * RUNS);
    Cost { ns, ratio: ns / base_ns, share }
}

/// Nanoseconds a take, and how many passed.
fn time(take: &mut impl FnMut(u64) -> Verdict, calls: std::ops::Range<u64>) -> (f64, u32) {
    let start = Instant::now();
    let passed = calls.map(|i| u32::from(black_box(take(i)).is_admitted())).sum();
    (start.elapsed().as_secs_f64() * 1e9 / f64::from(TAKES), passed)
}
