//! Prints what one take of each algorithm costs, in nanoseconds: once when it passes, once when it
//! is refused or has to wait, and once over a million keys that do not fit the cache.
//!
//! `cargo run --release -p limiter --example algorithm-cost`

#![expect(clippy::print_stdout, reason = "it is a report")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use limiter::{
    Tick,
    algorithm::{
        Algorithm, Calendar, CalendarWindow, FixedWindow, Gcra, Invalid, LeakyMeter, LeakyQueue,
        Rate, SlidingCounter, SlidingLog, SmoothBursty, SmoothWarmingUp, TokenBucket, Unit,
        Verdict, WarmUp, WarmUpPacing,
    },
};

const SECOND: Duration = Duration::from_secs(1);
const START: u64 = 1_700_000_000_000_000_000;
const TAKES: u32 = 4_000_000;
const RUNS: u32 = 5;
const KEYS: u32 = 1_000_000;
/// A multiplier that visits the keys in no order that a cache could guess.
const STRIDE: u64 = 514_229;

fn main() -> Result<(), Invalid> {
    println!(
        "{:30} {:>13} {:>15} {:>8} {:>6}",
        "ns per take, share admitted", "pass", "refuse", "keys", "bytes"
    );
    // A count of a million, so that a take each microsecond passes, and a hundredth refuses.
    for (count, burst, note) in [(1e6, 1_000_000, ""), (999_999.9, 1_000_000, ", fraction")] {
        let (rate, slow) = (Rate::new(count, SECOND)?, Rate::new(count / 100.0, SECOND)?);
        let name = |name: &str| format!("{name}{note}");
        let (pass, block) = (TokenBucket::new(rate, burst)?, TokenBucket::new(slow, 1)?);
        report(&name("token bucket"), &pass, &block);
        report(
            &name("leaky bucket, meter"),
            &LeakyMeter::new(rate, burst)?,
            &LeakyMeter::new(slow, 1)?,
        );
        report(&name("gcra"), &Gcra::new(rate, burst)?, &Gcra::new(slow, 1)?);
        let (pass, block) = (LeakyQueue::new(rate, SECOND), LeakyQueue::new(slow, SECOND));
        report(&name("leaky bucket, queue"), &pass, &block);
        let (pass, block) = (SmoothBursty::new(rate, SECOND), SmoothBursty::new(slow, SECOND));
        report(&name("guava, bursty"), &pass, &block);
        let pass = SmoothWarmingUp::new(rate, SECOND, 3)?;
        report(&name("guava, warming up"), &pass, &SmoothWarmingUp::new(slow, SECOND, 3)?);
    }
    report("fixed window", &FixedWindow::new(1e6, SECOND)?, &FixedWindow::new(1e4, SECOND)?);
    let day = Calendar::new(Unit::Day, "Europe/Berlin")?;
    let (pass, block) = (CalendarWindow::new(1e12, day.clone())?, CalendarWindow::new(1e4, day)?);
    report("calendar window", &pass, &block);
    let (pass, block) = (SlidingCounter::new(2e6, SECOND)?, SlidingCounter::new(1e4, SECOND)?);
    report("sliding counter", &pass, &block);
    let (pass, block) = (SlidingLog::new(1e4, 9 * SECOND / 1_000)?, SlidingLog::new(1e4, SECOND)?);
    report("sliding log", &pass, &block);
    report("warm-up", &WarmUp::new(3e6, SECOND, 3)?, &WarmUp::new(1e4, SECOND, 3)?);
    let pass = WarmUpPacing::new(3e6, SECOND, 3, SECOND)?;
    report("warm-up, pacing", &pass, &WarmUpPacing::new(1e4, SECOND, 3, SECOND)?);
    Ok(())
}

fn report<A: Algorithm>(name: &str, pass: &A, block: &A) {
    let (mut fresh, mut busy) = (A::State::default(), A::State::default());
    let (pass_ns, pass_share) = per_take(|i| pass.take(black_box(&mut fresh), tick(i), 1));
    let (block_ns, block_share) = per_take(|i| block.take(black_box(&mut busy), tick(i), 1));
    let mut states: Vec<A::State> = (0..KEYS).map(|_| A::State::default()).collect();
    let keys = u64::from(KEYS);
    let (keys_ns, _) = per_take(|i| {
        let key = usize::try_from(i * STRIDE % keys).unwrap_or(0);
        states.get_mut(key).map_or(NEVER, |state| pass.take(state, tick(i), 1))
    });
    let bytes = size_of::<A::State>();
    println!(
        "{name:30} {pass_ns:6.1} {pass_share:5.0}% {block_ns:8.1} {block_share:5.0}% {keys_ns:8.1} {bytes:6}"
    );
}

const NEVER: Verdict = Verdict::Block { retry: None };

fn tick(i: u64) -> Tick {
    Tick(START + i * 1_000)
}

/// The median of five runs, and how many percent of all takes passed or were booked.
fn per_take(mut take: impl FnMut(u64) -> Verdict) -> (f64, f64) {
    let mut base = 0;
    let mut admitted = 0;
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for i in base..base + u64::from(TAKES) {
                admitted += u32::from(black_box(take(i)).is_admitted());
            }
            base += u64::from(TAKES);
            start.elapsed().as_secs_f64() * 1e9 / f64::from(TAKES)
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    let share = 100.0 * f64::from(admitted) / f64::from(TAKES * RUNS);
    (runs.get(2).copied().unwrap_or_default(), share)
}
