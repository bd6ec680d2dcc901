//! One client process: asks for flow 101 at the rate that the last line on stdin gave, and
//! prints what each aligned second came to: `SECOND OFFERED BY_SERVER BY_FALLBACK BLOCKED`.

use std::{
    fs,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use limiter::{
    Clock, MonotonicClock,
    rule::{Contents, merge, parse},
};
use token_client::{Client, DecidedBy, Outcome};
use tokio_util::task::TaskTracker;

const FLOW_ID: i64 = 101;

/// How long a second stays open for answers that are still under way.
const GRACE: u64 = 1;

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    second: u64,
    offered: u64,
    by_server: u64,
    by_fallback: u64,
    blocked: u64,
}

/// The seconds that are not printed yet.
#[derive(Debug, Default)]
struct Series(Mutex<Vec<Second>>);

impl Series {
    fn count(&self, second: u64, add: impl FnOnce(&mut Second)) {
        let mut open = self.0.lock().unwrap();
        let at = open.iter().position(|s| s.second == second).unwrap_or_else(|| {
            open.push(Second { second, ..Second::default() });
            open.len() - 1
        });
        add(&mut open[at]);
    }

    fn print_before(&self, second: u64) {
        let mut open = self.0.lock().unwrap();
        for s in open.iter().filter(|s| s.second < second) {
            println!("{} {} {} {} {}", s.second, s.offered, s.by_server, s.by_fallback, s.blocked);
        }
        open.retain(|s| s.second >= second);
    }
}

pub(crate) fn run(server: &str, rules: &str) -> ExitCode {
    let text = fs::read_to_string(rules).unwrap();
    let rules = merge(vec![parse(&text, rules, "default", Contents::Mixed, true).unwrap()]);
    let rate = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&rate);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            // Relaxed: the rate is the whole message.
            told.store(line.parse().unwrap_or(0), Ordering::Relaxed);
        }
        std::process::exit(0)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // A second, not half a minute, between two looks at how many share the limit, since the
        // demo's clients have all just come.
        let builder = Client::builder().server(server).namespace("default");
        let client = builder.ping_interval(Duration::from_secs(1)).build().unwrap();
        client.set_rules(rules.unwrap()).unwrap();
        client.ready(Duration::from_secs(10)).await.unwrap();
        println!("ready");
        ask_for_ever(&client, &rate).await;
    });
    ExitCode::SUCCESS
}

/// An open loop: calls leave at their rate, however long their answers take.
async fn ask_for_ever(client: &Client, rate: &AtomicU64) {
    let (clock, series, calls) =
        (MonotonicClock::start(), Arc::new(Series::default()), TaskTracker::new());
    let mut tick = tokio::time::interval(Duration::from_millis(2));
    let mut owed = 0.0;
    let mut before = clock.now();
    loop {
        tick.tick().await;
        let now = clock.now();
        // Relaxed: as above.
        let per_second = rate.load(Ordering::Relaxed) as f64;
        owed += now.since(before).as_secs_f64() * per_second;
        before = now;
        let second = now.ms() / 1_000;
        while owed >= 1.0 {
            owed -= 1.0;
            let (client, series) = (client.clone(), Arc::clone(&series));
            calls.spawn(async move {
                let outcome = client.check(FLOW_ID, 1, false).await;
                series.count(second, |s| count(s, outcome));
            });
        }
        series.print_before(second.saturating_sub(GRACE));
    }
}

fn count(second: &mut Second, outcome: Outcome) {
    second.offered += 1;
    match outcome.decided_by {
        _ if outcome.is_block() => second.blocked += 1,
        DecidedBy::Fallback { .. } => second.by_fallback += 1,
        _ => second.by_server += 1,
    }
}
