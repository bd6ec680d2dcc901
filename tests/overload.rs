//! A namespace over its request limit: what clients do then must not add traffic.

use std::time::Duration;

use limiter::{Settings, Tick, rule::NamespaceRules};
use support::{InProcess, flow_rule, parsed};
use token_client::{Client, Reason, Status};

/// What all clients together did.
struct Seen {
    /// Calls that passed in each step of 5 ms.
    passed: Vec<u32>,
    /// Calls that fell back because the namespace was over its limit.
    over: u64,
}

/// Steps of a second.
const SECOND: usize = 200;

impl Seen {
    fn by_second(&self) -> Vec<u32> {
        self.passed.chunks(SECOND).map(|steps| steps.iter().sum()).collect()
    }

    /// Most that passed in nine of a window's ten buckets, wherever they begin: what windows of any
    /// alignment must hold.
    fn most_in_900_ms(&self) -> u32 {
        self.passed.windows(SECOND / 10 * 9).map(|steps| steps.iter().sum()).max().unwrap()
    }
}

/// Ten seconds in which two clients make 200 calls a second each, of a flow of 100 a second, in a
/// namespace that may make 50 requests a second.
async fn ten_seconds(overload_policy: &str) -> Seen {
    let settings = Settings { max_allowed_qps: Some(50.0), ..Settings::default() };
    let server = InProcess::start(settings);
    let policy = format!(r#","overloadPolicy":"{overload_policy}""#);
    let rules = parsed(&[flow_rule(301, 100.0, &policy)]);
    server.engine.replace(rules.clone()).unwrap();
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(client(&server, &rules).await);
    }
    for client in &clients {
        assert_eq!(client.ping().await.unwrap().clients, Some(2));
    }

    let start = 1_700_000_000_000;
    let mut passed = Vec::with_capacity(10 * SECOND);
    for ms in (0..10_000_u64).step_by(5) {
        server.clock.set(Tick::from_ms(start + ms));
        let mut at_once = 0;
        for client in &clients {
            at_once += u32::from(client.check(301, 1, false).await.is_pass());
        }
        passed.push(at_once);
    }
    let on_the_wire = clients[0].acquire(301, 1, false).await.unwrap();
    assert_eq!(on_the_wire.status, Status::TooManyRequest);
    let metrics: Vec<_> = clients.iter().map(Client::metrics).collect();
    let over = metrics.iter().map(|m| m.fallbacks(Reason::TooManyRequests)).sum();
    let all: u64 = metrics.iter().flat_map(|m| m.fallbacks_by_reason).sum();
    assert_eq!(all, over, "no other reason");
    assert_eq!(metrics.iter().map(|m| m.blocked).sum::<u64>(), 0, "apart from BLOCKED");
    let by_server: u64 = metrics.iter().map(|m| m.passed).sum();
    assert_eq!(by_server + over, 4_000, "each call was answered one way or the other");
    for client in &clients {
        client.close().await;
    }
    Seen { passed, over }
}

/// A client of `server` that knows `rules`, with a budget that a busy machine keeps: no call may
/// fall back for another reason.
async fn client(server: &InProcess, rules: &[NamespaceRules]) -> Client {
    let builder = Client::builder().server(&server.addr.to_string()).namespace("default");
    let builder = builder.timeout(Duration::from_secs(20)).clock(server.clock.clone());
    let client = builder.build().unwrap();
    client.set_rules(rules.to_vec()).unwrap();
    client.ready(Duration::from_secs(20)).await.unwrap();
    client
}

/// TC-06.
#[tokio::test]
async fn calls_over_the_limit_of_a_namespace_are_refused_where_the_rule_rejects() {
    let seen = ten_seconds("reject").await;
    assert_eq!(seen.by_second(), [50; 10]);
    assert_eq!(seen.most_in_900_ms(), 50);
    assert_eq!(seen.over, 4_000 - u64::from(seen.passed.iter().sum::<u32>()));
}

/// TC-06.
#[tokio::test]
async fn with_shares_all_clients_together_stay_within_the_count() {
    let seen = ten_seconds("share").await;
    // Where a local count of 100 in each client would admit 200.
    assert_eq!(seen.by_second(), [100; 10]);
    assert_eq!(seen.most_in_900_ms(), 100);
}

const START: u64 = 1_700_000_000_000;

/// Eight clients that share a flow of 100 a second, in a namespace that may make 100 requests a
/// second, of another flow too. Nobody has asked for anything.
async fn eight_clients() -> (InProcess, Vec<Client>) {
    let settings = Settings { max_allowed_qps: Some(100.0), ..Settings::default() };
    let server = InProcess::start(settings);
    let policy = r#","overloadPolicy":"share""#;
    let rules = parsed(&[flow_rule(301, 100.0, policy), flow_rule(302, 1_000.0, "")]);
    server.engine.replace(rules.clone()).unwrap();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(client(&server, &rules).await);
    }
    for client in &clients {
        assert_eq!(client.ping().await.unwrap().clients, Some(8));
    }
    server.clock.set(Tick::from_ms(START + 5_000));
    (server, clients)
}

async fn passes(client: &Client, calls: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..calls {
        passed += u32::from(client.check(301, 1, false).await.is_pass());
    }
    passed
}

/// Count × (2 − 1/n), but for what is no whole token: a share of 12.5 is 12.
#[tokio::test]
async fn a_client_that_got_the_whole_count_leaves_the_others_their_shares_and_nothing_more() {
    let (server, clients) = eight_clients().await;
    let (greedy, others) = clients.split_first().unwrap();
    assert_eq!(passes(greedy, 150).await, 100, "its share is among them");
    for client in others {
        assert_eq!(passes(client, 50).await, 12);
    }
    server.clock.set(Tick::from_ms(START + 6_000));
    let mut evenly = 0;
    for _ in 0..30 {
        for client in &clients {
            evenly += passes(client, 1).await;
        }
    }
    assert_eq!(evenly, 100, "by the server alone");
}

#[tokio::test]
async fn shares_and_a_server_that_decides_again_pass_twice_the_count_in_a_window_at_most() {
    let (server, clients) = eight_clients().await;
    for _ in 0..100 {
        assert_eq!(clients[0].acquire(302, 1, false).await.unwrap().status, Status::Ok);
    }
    server.clock.set(Tick::from_ms(START + 5_900));
    for client in &clients {
        assert_eq!(passes(client, 50).await, 12, "the namespace has made its requests");
    }
    server.clock.set(Tick::from_ms(START + 6_000));
    assert_eq!(passes(&clients[0], 150).await, 100);
    for client in &clients {
        assert_eq!(passes(client, 50).await, 0, "100 and 96 are all there is");
    }
}
