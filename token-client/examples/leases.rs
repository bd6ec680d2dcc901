//! How many checks a second go through one client on one hot flow, with and without leases: a
//! client on a runtime for one thread, and a server as a process of its own.
//!
//! ```text
//! cargo build --release -p token-server
//! cargo run --release -p token-client --example leases -- target/release/token-server
//! ```

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use limiter::rule::{Contents, NamespaceRules, merge, parse};
use token_client::Client;
use tokio::task::JoinSet;

const SECONDS: u64 = 3;

/// More than can be asked for; leases of at most a million tokens, which live for a second.
const RULES: &str = r#"[{"resource": "hot", "count": 1000000000, "clusterMode": true,
    "clusterConfig": {"flowId": 1, "thresholdType": 1,
                      "lease": {"maxTokens": 1000000, "ttlMs": 1000}}}]"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let program = std::env::args().nth(1).ok_or("name the server's program")?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("rules.json");
    fs::write(&file, RULES)?;
    let rules = file.to_str().ok_or("no path of text")?;
    let mut server = Command::new(program);
    server.args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rules", rules]);
    server.args(["--max-allowed-qps", "off"]).stdout(Stdio::piped());
    let mut server = Server(server.spawn()?);
    let address = server.address()?;
    let rules = merge(vec![parse(RULES, "rules", "default", Contents::Flow, true)?])?;
    print(&["callers", "without/s", "with/s", "ratio"].map(str::to_owned));
    for callers in [1, 64] {
        let without = measure(address, Vec::new(), callers).await?;
        let with = measure(address, rules.clone(), callers).await?;
        let ratio = with.checked_div(without).unwrap_or(0);
        print(&[u64::from(callers), without, with, ratio].map(|it| it.to_string()));
    }
    Ok(())
}

/// The server; stopped when dropped.
struct Server(Child);

impl Server {
    fn address(&mut self) -> Result<SocketAddr, Box<dyn Error>> {
        let stdout = self.0.stdout.take().ok_or("no output")?;
        for line in BufReader::new(stdout).lines() {
            if let Some(address) = line?.strip_prefix("token ") {
                return Ok(address.parse()?);
            }
        }
        Err("the server did not come up".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Checks a second that passed.
async fn measure(
    address: SocketAddr,
    rules: Vec<NamespaceRules>,
    callers: u32,
) -> Result<u64, Box<dyn Error>> {
    let builder = Client::builder().server(&address.to_string());
    let client = builder.timeout(Duration::from_secs(1)).build()?;
    client.set_rules(rules)?;
    client.ready(Duration::from_secs(3)).await?;
    let started = now();
    let mut calls = JoinSet::new();
    for _ in 0..callers {
        calls.spawn(call(client.clone(), started + Duration::from_secs(SECONDS)));
    }
    let passed: u64 = calls.join_all().await.iter().sum();
    let rate = passed * 1_000 / u64::try_from(started.elapsed().as_millis())?;
    client.close().await;
    Ok(rate)
}

async fn call(client: Client, end: Instant) -> u64 {
    let mut passed = 0;
    loop {
        // A look at the clock costs as much as a check.
        for _ in 0..64 {
            let outcome = client.check(1, 1, false).await;
            passed += u64::from(outcome.is_pass() && outcome.fallback_reason().is_none());
        }
        if now() >= end {
            return passed;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the system's clock")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::print_stdout, reason = "the result")]
fn print(row: &[String; 4]) {
    let [callers, without, with, ratio] = row;
    println!("{callers:>8} {without:>12} {with:>12} {ratio:>8}");
}
