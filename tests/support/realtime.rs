//! A token server in this process, in real time, on a clock that the test reads, too.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use limiter::{Clock, ClusterEngine, MonotonicClock, Settings, Tick};
use token_client::Client;
use token_server::{Options, Served, Server};
use tokio::task::JoinSet;

use crate::parsed;

/// A time-out that a busy machine keeps.
const LONG: Duration = Duration::from_secs(20);
const BUCKET_MS: u64 = 100;

/// A running server on the test's own runtime.
#[derive(Debug)]
pub struct Realtime {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its engine, to look at counters.
    pub engine: Arc<ClusterEngine>,
    /// Its clock: there is no other.
    pub clock: Arc<MonotonicClock>,
    rules: Vec<String>,
    _serves: JoinSet<Served>,
}

impl Realtime {
    /// Starts one with these rules.
    #[must_use]
    pub fn start(settings: Settings, rules: Vec<String>) -> Self {
        let engine = Arc::new(ClusterEngine::new(settings));
        engine.replace(parsed(&rules)).unwrap();
        let clock = Arc::new(MonotonicClock::start());
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options { listen, http: None, ..Options::default() };
        let server = Server::new(options, Arc::clone(&engine)).with_clock(clock.clone());
        let bound = server.bind().unwrap();
        let addr = bound.token_addr();
        let mut serves = JoinSet::new();
        serves.spawn(bound.serve(std::future::pending::<()>()));
        Self { addr, engine, clock, rules, _serves: serves }
    }

    /// A client that knows the rules, and whose time-out is one that a busy machine keeps.
    pub async fn client(&self) -> Client {
        let builder = Client::builder().server(&self.addr.to_string()).timeout(LONG);
        let client = builder.build().unwrap();
        client.set_rules(parsed(&self.rules)).unwrap();
        client.ready(LONG).await.unwrap();
        client
    }

    /// Calls of flow 1 until `end` without a pause, by each of `clients` in so many tasks.
    pub async fn hammer(&self, clients: &[Client], tasks: usize, end: Tick) -> Passed {
        self.hammer_with(clients, tasks, 1, end).await
    }

    /// The same with calls for so many tokens each.
    pub async fn hammer_with(
        &self,
        clients: &[Client],
        tasks: usize,
        tokens: u32,
        end: Tick,
    ) -> Passed {
        let mut calls = JoinSet::new();
        for client in clients {
            for _ in 0..tasks {
                calls.spawn(hammer(client.clone(), tokens, self.clock.clone(), end));
            }
        }
        Passed(calls.join_all().await.concat())
    }
}

/// Calls that passed: each was decided at some time from the first to the second.
#[derive(Clone, Debug, Default)]
pub struct Passed(Vec<(Tick, Tick)>);

impl Passed {
    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Asserts that no more than `count` were surely decided in ten buckets of 100 ms in a row,
    /// wherever those begin, aligned seconds among them; and that hardly any is unsure.
    ///
    /// # Panics
    ///
    /// If not.
    pub fn keep_to(&self, count: u64) {
        self.surely_keep_to(count);
        let ends = self.buckets();
        let unsure = ends.iter().filter(|(before, after)| before != after).count();
        assert!(unsure * 20 < ends.len(), "{unsure} of {} around a border", ends.len());
    }

    /// The same where calls are too few to say how many are unsure: those wait at borders for what
    /// comes there.
    ///
    /// # Panics
    ///
    /// If more were surely decided.
    pub fn surely_keep_to(&self, count: u64) {
        let ends = self.buckets();
        for first in ends.iter().map(|(before, _)| before).collect::<BTreeSet<_>>() {
            let window = first..&(first + 10);
            let inside = ends
                .iter()
                .filter(|(before, after)| window.contains(&before) && window.contains(&after));
            let inside = inside.count() as u64;
            assert!(inside <= count, "{inside} from bucket {first}");
        }
    }

    /// The buckets of their first and last times.
    fn buckets(&self) -> Vec<(u64, u64)> {
        let bucket = |tick: &Tick| tick.ms() / BUCKET_MS;
        self.0.iter().map(|(before, after)| (bucket(before), bucket(after))).collect()
    }
}

async fn hammer(
    client: Client,
    tokens: u32,
    clock: Arc<MonotonicClock>,
    end: Tick,
) -> Vec<(Tick, Tick)> {
    let mut passed = Vec::new();
    let mut before = clock.now();
    while before < end {
        let outcome = client.check(1, tokens, false).await;
        let after = clock.now();
        if outcome.is_pass() {
            passed.push((before, after));
        }
        before = after;
    }
    passed
}
