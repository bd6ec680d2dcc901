//! Leases end to end, in real time: clients that spend by themselves, and still no window that
//! admits more than the rule.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use limiter::{Clock, ClusterEngine, MonotonicClock, Settings, Tick};
use support::{eventually, flow_rule, parsed};
use token_client::{Client, DecidedBy, Metrics};
use token_server::{Options, Served, Server};
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(20);
const COUNT: u64 = 2_000;
const BUCKET_MS: u64 = 100;
const WINDOW: Duration = Duration::from_secs(1);

/// A server whose clock the test reads, too: there is no other.
struct Realtime {
    addr: SocketAddr,
    engine: Arc<ClusterEngine>,
    clock: Arc<MonotonicClock>,
    rule: String,
    _serves: JoinSet<Served>,
}

impl Realtime {
    /// One flow, 1, of 2 000 a second.
    fn start(max_tokens: u32, ttl: Duration) -> Self {
        // However fast the machine is, the rule decides, and no bound on requests.
        let settings = Settings { max_allowed_qps: None, ..Settings::default() };
        let engine = Arc::new(ClusterEngine::new(settings));
        let ttl_ms = ttl.as_millis();
        let lease = format!(r#","lease":{{"maxTokens":{max_tokens},"ttlMs":{ttl_ms}}}"#);
        let rule = flow_rule(1, 2_000.0, &lease);
        engine.replace(parsed(std::slice::from_ref(&rule))).unwrap();
        let clock = Arc::new(MonotonicClock::start());
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options { listen, http: None, ..Options::default() };
        let server = Server::new(options, Arc::clone(&engine)).with_clock(clock.clone());
        let bound = server.bind().unwrap();
        let addr = bound.token_addr();
        let mut serves = JoinSet::new();
        serves.spawn(bound.serve(std::future::pending::<()>()));
        Self { addr, engine, clock, rule, _serves: serves }
    }

    /// A client that knows the rule. Its time-out is one that a busy machine keeps.
    async fn client(&self) -> Client {
        let builder = Client::builder().server(&self.addr.to_string()).timeout(LONG);
        let client = builder.build().unwrap();
        client.set_rules(parsed(std::slice::from_ref(&self.rule))).unwrap();
        client.ready(LONG).await.unwrap();
        client
    }

    /// Tokens that count at `at`, which may be yet to come.
    fn used(&self, at: Tick) -> u64 {
        self.engine.rules().flow(1).unwrap().usage(at).0
    }
}

/// A call that passed: it was decided at some time from the first to the second.
type Passed = (Tick, Tick);

/// Calls until `end` without a pause.
async fn hammer(client: Client, clock: Arc<MonotonicClock>, end: Tick) -> Vec<Passed> {
    let mut passed = Vec::new();
    let mut before = clock.now();
    while before < end {
        let outcome = client.check(1, 1, false).await;
        assert_eq!(outcome.fallback_reason(), None);
        let after = clock.now();
        if outcome.is_pass() {
            passed.push((before, after));
        }
        before = after;
    }
    passed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clients_that_want_all_there_is_never_get_more_and_hardly_less() {
    let ttl = Duration::from_millis(100);
    let server = Realtime::start(200, ttl);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(server.client().await);
    }
    let start = server.clock.now();
    let end = start.plus(Duration::from_secs(5));
    let mut calls = JoinSet::new();
    for client in &clients {
        for _ in 0..2 {
            calls.spawn(hammer(client.clone(), server.clock.clone(), end));
        }
    }
    let passed: Vec<Passed> = calls.join_all().await.concat();

    // Every run of ten buckets, aligned seconds among them: what was surely decided in it.
    let buckets = start.ms() / BUCKET_MS - 9..=end.ms() / BUCKET_MS;
    for first in buckets {
        let from = Tick::from_ms(first * BUCKET_MS);
        let to = from.plus(WINDOW);
        let inside = passed.iter().filter(|(before, after)| from <= *before && *after < to);
        let inside = inside.count() as u64;
        assert!(inside <= COUNT, "{inside} from bucket {first}");
    }
    let split = |(before, after): &&Passed| before.ms() / BUCKET_MS != after.ms() / BUCKET_MS;
    let unsure = passed.iter().filter(split).count();
    assert!(unsure * 20 < passed.len(), "{unsure} of {} around a border", passed.len());

    // The bound on what is missing by leases is window ÷ (window + time to live). A window that is
    // filled at once comes in steps, of which one may fall behind the end.
    let count = passed.len() as u64;
    assert!(count * 11 >= 4 * COUNT * 10, "{count} in 5 s");

    let metrics: Vec<Metrics> = clients.iter().map(Client::metrics).collect();
    let leased: u64 = metrics.iter().map(|it| it.leased).sum();
    assert!(leased > COUNT, "{metrics:?}");
    assert_eq!(leased, metrics.iter().map(|it| it.lease_tokens_spent).sum::<u64>());
    for client in clients {
        client.close().await;
    }
    // What is still out counts as spent at its end, at the latest.
    server.used(server.clock.now().plus(ttl));
    let counted = server.engine.rules().flow(1).unwrap().totals().pass_tokens;
    let lost: u64 = metrics.iter().map(|it| it.lease_tokens_granted - it.lease_tokens_spent).sum();
    assert!((count..=count + lost).contains(&counted), "{counted}, of {count} and {lost}");
}

/// Asks until a lease is spent, and for a few tokens of it.
async fn spend(client: &Client) {
    let mut leased = 0;
    while leased < 3 {
        let outcome = client.check(1, 1, false).await;
        leased += u32::from(outcome.decided_by == DecidedBy::Lease);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_vanished_client_held_is_missing_for_a_lease_and_a_window_at_most() {
    let ttl = Duration::from_secs(10);
    let server = Realtime::start(1_000, ttl);
    let client = server.client().await;
    spend(&client).await;
    drop(client);
    let namespace = || server.engine.rules().flow(1).unwrap().namespace().connected();
    eventually("the client is gone", || namespace() == 0);
    let gone = server.clock.now();
    assert!(server.used(gone) > 0);
    assert_eq!(server.used(gone.plus(ttl).plus(WINDOW)), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_closed_leaves_nothing_out() {
    let ttl = Duration::from_secs(60);
    let server = Realtime::start(1_000, ttl);
    let client = server.client().await;
    spend(&client).await;
    // One that is on its way when the client is closed would be out.
    let settled = || {
        let metrics = client.metrics();
        metrics.waiting == 0 && metrics.leases_granted + metrics.leases_refused > 0
    };
    eventually("no request is on its way", settled);
    client.close().await;
    let passed = client.metrics().passed + client.metrics().leased;
    let now = server.clock.now();
    assert!(server.used(now) <= passed);
    assert_eq!(server.engine.rules().flow(1).unwrap().totals().pass_tokens, passed);
    assert_eq!(server.used(now.plus(WINDOW)), 0);
}
