//! Prints what an adaptive limit costs a call, in nanoseconds: of its sample alone, and of the whole
//! way through a limiter, from the permit to its release. Least of many short runs.
//!
//! `cargo run --release -p limiter --example adaptive-cost`

#![expect(clippy::print_stdout, reason = "it is a report")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use limiter::{
    Tick,
    adaptive::{
        AdaptiveLimiter, Aimd, Gradient2, Invalid, Limit, Outcome, Sample, Shares, Tracked, Vegas,
        Windowed, WindowedSettings,
    },
};

const CALLS: u32 = 100_000;
const RUNS: u32 = 50;

fn main() -> Result<(), Invalid> {
    println!("{:30} {:>10} {:>10}", "ns per call", "sample", "limiter");
    report("aimd", || Ok(Aimd::default()))?;
    report("vegas", || Ok(Vegas::default()))?;
    report("gradient2", || Ok(Gradient2::default()))?;
    report("vegas, windows, average", || Ok(Windowed::averages(Vegas::default())))?;
    let tracked = Tracked::Percentile { part: 0.9, kept: 1_000 };
    let settings = WindowedSettings { tracked, ..WindowedSettings::default() };
    report("vegas, windows, percentile", || Windowed::new(Vegas::default(), settings))
}

fn report<L: Limit>(name: &str, make: impl Fn() -> Result<L, Invalid>) -> Result<(), Invalid> {
    let mut limit = make()?;
    let sample = least(|i| {
        limit.learn(Sample { at: tick(i), rtt: rtt(i), in_flight: 15, dropped: false });
        limit.limit()
    });
    let limiter =
        AdaptiveLimiter::with_shares(make()?, Shares::new([("live", 70), ("batch", 30)])?);
    let whole = least(|i| {
        let Some(permit) = limiter.acquire_for("batch") else { return 0 };
        permit.release(tick(i), Outcome::Success { rtt: rtt(i) });
        1
    });
    println!("{name:30} {sample:10.1} {whole:10.1}");
    Ok(())
}

/// A thousand calls a millisecond.
fn tick(i: u32) -> Tick {
    Tick(u64::from(i) * 1_000)
}

/// From 1 to 2 ms, in no order.
fn rtt(i: u32) -> Duration {
    Duration::from_nanos(1_000_000 + u64::from(i.wrapping_mul(2_654_435_761) >> 12))
}

/// Nanoseconds a call, in the fastest run: whatever else the machine does only adds to them.
fn least(mut call: impl FnMut(u32) -> u32) -> f64 {
    let mut least = f64::MAX;
    for run in 0..RUNS {
        let start = Instant::now();
        for i in run * CALLS..(run + 1) * CALLS {
            black_box(call(black_box(i)));
        }
        least = least.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    least
}
