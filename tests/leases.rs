//! Leases end to end, in real time: clients that spend by themselves, and still no window that
//! admits more than the rule.

use std::time::Duration;

use limiter::{Clock, Settings, Tick};
use support::{Realtime, eventually, flow_rule};
use token_client::{Client, DecidedBy, Metrics};

const COUNT: u64 = 2_000;
const WINDOW: Duration = Duration::from_secs(1);

/// A server of one flow, 1, of 2 000 a second.
fn start(max_tokens: u32, ttl: Duration) -> Realtime {
    // However fast the machine is, the rule decides, and no bound on requests.
    let settings = Settings { max_allowed_qps: None, ..Settings::default() };
    let ttl_ms = ttl.as_millis();
    let lease = format!(r#","lease":{{"maxTokens":{max_tokens},"ttlMs":{ttl_ms}}}"#);
    Realtime::start(settings, vec![flow_rule(1, 2_000.0, &lease)])
}

/// Tokens that count at `at`, which may be yet to come.
fn used(server: &Realtime, at: Tick) -> u64 {
    server.engine.rules().flow(1).unwrap().usage(at).0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clients_that_want_all_there_is_never_get_more_and_hardly_less() {
    let ttl = Duration::from_millis(100);
    let server = start(200, ttl);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(server.client().await);
    }
    let end = server.clock.now().plus(Duration::from_secs(5));
    let passed = server.hammer(&clients, 2, end).await;
    passed.keep_to(COUNT);

    // The bound on what is missing by leases is window ÷ (window + time to live). A window that is
    // filled at once comes in steps, of which one may fall behind the end.
    let count = passed.count();
    assert!(count * 11 >= 4 * COUNT * 10, "{count} in 5 s");

    let metrics: Vec<Metrics> = clients.iter().map(Client::metrics).collect();
    let fell_back: u64 = metrics.iter().flat_map(|it| it.fallbacks_by_reason).sum();
    assert_eq!(fell_back, 0, "{metrics:?}");
    let leased: u64 = metrics.iter().map(|it| it.leased).sum();
    assert!(leased > COUNT, "{metrics:?}");
    assert_eq!(leased, metrics.iter().map(|it| it.lease_tokens_spent).sum::<u64>());
    for client in clients {
        client.close().await;
    }
    // What is still out counts as spent at its end, at the latest.
    used(&server, server.clock.now().plus(ttl));
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
    let server = start(1_000, ttl);
    let client = server.client().await;
    spend(&client).await;
    drop(client);
    let namespace = || server.engine.rules().flow(1).unwrap().namespace().connected();
    eventually("the client is gone", || namespace() == 0);
    let gone = server.clock.now();
    assert!(used(&server, gone) > 0);
    assert_eq!(used(&server, gone.plus(ttl).plus(WINDOW)), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_closed_leaves_nothing_out() {
    let ttl = Duration::from_secs(60);
    let server = start(1_000, ttl);
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
    assert!(used(&server, now) <= passed);
    assert_eq!(server.engine.rules().flow(1).unwrap().totals().pass_tokens, passed);
    assert_eq!(used(&server, now.plus(WINDOW)), 0);
}
