//! A service that is the token server for its siblings, and decides its own calls in-process.
//!
//! ```sh
//! cargo run -p integration-tests --example embedded -- docs/examples/rules.json
//! cargo run -p token-client --bin token-cli -- acquire --server 127.0.0.1:18730 --flow-id 101
//! ```
//!
//! The first process serves the port and makes a call every 100 ms itself; the second is one of
//! its siblings. Both take from the same window. The address is a second argument, by default
//! 127.0.0.1:18730; how many calls it makes a third, by default without end.
#![expect(clippy::print_stdout, reason = "an example for people")]

use std::{fs, sync::Arc, time::Duration};

use limiter::{
    ClusterEngine, MonotonicClock, Settings,
    rule::{Contents, merge, parse},
};
use token_client::Client;
use token_server::{Options, Server};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rules = arguments.next().unwrap_or_else(|| "docs/examples/rules.json".into());
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:18730".into());
    let calls: u64 = arguments.next().map_or(Ok(u64::MAX), |calls| calls.parse())?;

    let engine = Arc::new(ClusterEngine::new(Settings::default()));
    let parsed = parse(&fs::read_to_string(&rules)?, &rules, "default", Contents::Mixed, true)?;
    engine.replace(merge(vec![parsed])?)?;

    let options = Options { listen: listen.parse()?, http: None, ..Options::default() };
    // One clock for both: a window must not see two.
    let clock = Arc::new(MonotonicClock::start());
    let server = Server::new(options, Arc::clone(&engine)).with_clock(clock.clone()).bind()?;
    println!("token {}", server.token_addr());
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    tasks.spawn(server.serve(stop.clone().cancelled_owned()));

    // No connection, no bytes: the client asks the engine that the port serves.
    let client = Client::builder().namespace("default").clock(clock).embedded(engine)?;
    for call in 1..=calls {
        let outcome = client.check(101, 1, false).await;
        println!("call {call}: {}", if outcome.is_pass() { "go on" } else { "too many requests" });
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(())
}
