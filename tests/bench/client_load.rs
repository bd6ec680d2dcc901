//! As many checks of flow 1 as go through one client on one thread, by tasks that call one after
//! the other. Prints one line of JSON.

use std::{fs, io::Write, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use clap::Parser;
use limiter::{
    Clock, MonotonicClock, Tick,
    rule::{Contents, merge, parse},
};
use serde_json::json;
use token_client::{Client, DecidedBy};
use tokio::task::{JoinSet, yield_now};

/// Checks between two looks at the clock, which costs as much as a check by a lease.
const BATCH: u64 = 64;

/// Calls through one client for a while.
#[derive(Debug, Parser)]
struct Args {
    /// Where the server listens
    #[arg(long)]
    addr: SocketAddr,
    /// Tasks, each with a call at a time
    #[arg(long, default_value_t = 1)]
    callers: u16,
    /// How long to measure
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How long to call before that
    #[arg(long, default_value_t = 0.2)]
    warmup: f64,
    /// Rules for the client to know; without them it asks the server at each call
    #[arg(long)]
    rules: Option<PathBuf>,
}

/// Checks that passed.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    all: u64,
    by_lease: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let builder = Client::builder().server(&args.addr.to_string());
    let client = builder.timeout(Duration::from_secs(1)).build()?;
    if let Some(path) = &args.rules {
        let text = fs::read_to_string(path)?;
        client.set_rules(merge(vec![parse(&text, "rules", "default", Contents::Flow, true)?])?)?;
    }
    client.ready(Duration::from_secs(3)).await?;
    let clock = MonotonicClock::start();
    calls(&client, args.callers, clock, args.warmup).await?;
    let began = clock.now();
    let passed = calls(&client, args.callers, clock, args.seconds).await?;
    let seconds = clock.now().since(began).as_secs_f64();
    client.close().await;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let (all, by_lease) = (passed.all as f64, passed.by_lease as f64);
    let report = json!({"per_second": all / seconds, "by_lease": by_lease / all});
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

/// All callers' calls of so many seconds.
async fn calls(
    client: &Client,
    callers: u16,
    clock: MonotonicClock,
    seconds: f64,
) -> Result<Passed> {
    let end = clock.now().plus(Duration::from_secs_f64(seconds));
    let mut running = JoinSet::new();
    for _ in 0..callers {
        running.spawn(call(client.clone(), clock, end));
    }
    let mut sum = Passed::default();
    for passed in running.join_all().await {
        let passed = passed?;
        sum.all += passed.all;
        sum.by_lease += passed.by_lease;
    }
    Ok(sum)
}

async fn call(client: Client, clock: MonotonicClock, end: Tick) -> Result<Passed> {
    let mut passed = Passed::default();
    while clock.now() < end {
        for _ in 0..BATCH {
            let outcome = client.check(1, 1, false).await;
            let by_lease = outcome.decided_by == DecidedBy::Lease;
            let by_server = outcome.decided_by == DecidedBy::Server;
            ensure!(outcome.is_pass() && (by_lease || by_server), "not as expected: {outcome:?}");
            passed.by_lease += u64::from(by_lease);
        }
        passed.all += BATCH;
        // A service does something else at times, too.
        yield_now().await;
    }
    Ok(passed)
}
