//! What a dependency that hangs for thirty seconds does to other calls of the same process: nothing
//! behind a bulkhead, everything without one.
//!
//! ```text
//! cargo run --release -p token-client --features tower --example bulkhead
//! ```

use std::{error::Error, time::Duration};

use token_client::bulkhead::Bulkhead;
use tokio::{
    runtime::Builder,
    task::{JoinSet, spawn_blocking},
    time::{Instant, interval, timeout},
};

const PHASE: Duration = Duration::from_secs(5);
const WORK: Duration = Duration::from_millis(20);
const HANG: Duration = Duration::from_secs(30);
/// Threads that all blocking calls of the process share.
const SHARED: usize = 64;

#[derive(Clone, Copy, PartialEq)]
enum Dependency {
    Well,
    Hangs,
    HangsInBulkhead,
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("100 calls a second of 20 ms, on {SHARED} threads; 50 a second of a dependency");
    let mut alone = None;
    for (dependency, what) in [
        (Dependency::Well, "the dependency is not called"),
        (Dependency::HangsInBulkhead, "it hangs, in a bulkhead of 4 workers and 8 waiting"),
        (Dependency::Hangs, "it hangs, on the threads of all"),
    ] {
        let p99 = phase(dependency)?;
        let times = p99.as_secs_f64() / alone.get_or_insert(p99).as_secs_f64();
        println!("{what}: p99 of the others {p99:.1?}, {times:.2} times");
    }
    Ok(())
}

/// The time that 99 of 100 of the other calls took at most. Those that did not end count as long as
/// they took until then.
fn phase(dependency: Dependency) -> Result<Duration, Box<dyn Error>> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(SHARED)
        .enable_all()
        .build()?;
    let bulkhead = Bulkhead::with_threads("slow", 1, 4, 8)?;
    let mut took = runtime.block_on(async {
        let (mut others, mut hanging) = (JoinSet::new(), JoinSet::new());
        let (mut steps, start) = (interval(Duration::from_millis(10)), now());
        while start.elapsed() < PHASE {
            for step in 0..2 {
                steps.tick().await;
                others.spawn(async {
                    let begin = now();
                    let _ = timeout(PHASE, spawn_blocking(|| block(WORK))).await;
                    begin.elapsed()
                });
                let bulkhead = bulkhead.clone();
                match dependency {
                    Dependency::Hangs if step == 0 => {
                        hanging.spawn_blocking(|| block(HANG));
                    }
                    Dependency::HangsInBulkhead if step == 0 => {
                        hanging.spawn(async move {
                            // Full, most of the time.
                            let _ = bulkhead.run_blocking(|| block(HANG)).await;
                        });
                    }
                    _ => {}
                }
            }
        }
        others.join_all().await
    });
    // Nobody waits for what hangs.
    runtime.shutdown_background();
    took.sort_unstable();
    Ok(took.get(took.len() * 99 / 100).copied().unwrap_or_default())
}

#[expect(clippy::disallowed_methods, reason = "a call that blocks its thread")]
fn block(time: Duration) {
    std::thread::sleep(time);
}

#[expect(clippy::disallowed_methods, reason = "an example measures real time")]
fn now() -> Instant {
    Instant::now()
}
