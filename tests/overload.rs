//! A namespace over its request limit: what clients do then must not add traffic.

use std::time::Duration;

use limiter::{Clock, MonotonicClock, Settings, Tick, rule::NamespaceRules};
use support::{InProcess, Realtime, flow_rule, parsed};
use token_client::{Client, Metrics, Reason, Status, What};

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
async fn ten_seconds() -> Seen {
    let settings = Settings { max_allowed_qps: Some(50.0), ..Settings::default() };
    let server = InProcess::start(settings);
    let rules = parsed(&[flow_rule(301, 100.0, r#","overloadPolicy":"reject""#)]);
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
    let seen = ten_seconds().await;
    assert_eq!(seen.by_second(), [50; 10]);
    assert_eq!(seen.most_in_900_ms(), 50);
    assert_eq!(seen.over, 4_000 - u64::from(seen.passed.iter().sum::<u32>()));
}

/// TC-06. What a namespace may not ask for call by call, its clients are lent: as much as the rule
/// allows, and not one more. The namespace may make a few requests all the same, so in each window
/// calls that the server served meet calls by leases, in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_shares_all_clients_together_stay_within_the_count() {
    const COUNT: u64 = 1_000;
    let settings = Settings { max_allowed_qps: Some(200.0), ..Settings::default() };
    let rule = flow_rule(1, 1_000.0, r#","overloadPolicy":"share""#);
    let server = Realtime::start(settings, vec![rule]);
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(server.client().await);
    }
    for client in &clients {
        assert_eq!(client.ping().await.unwrap().clients, Some(8));
    }
    let end = server.clock.now().plus(Duration::from_secs(4));
    let passed = server.hammer(&clients, 1, end).await;
    passed.keep_to(COUNT);
    // 10/11 of the count, but for the window that may not have been filled at the end.
    let count = passed.count();
    assert!(count * 11 >= 3 * COUNT * 10, "{count} in 4 s");

    let metrics: Vec<_> = clients.iter().map(Client::metrics).collect();
    for it in &metrics {
        let over = it.fallbacks(Reason::TooManyRequests);
        assert_eq!(it.fallbacks_by_reason.iter().sum::<u64>(), over, "no other reason");
        assert_eq!((it.fallback_passed, over > 0, it.leased > 0), (0, true, true), "{it:?}");
        // Few requests stand for many calls.
        assert!(it.calls < it.leased, "{it:?}");
    }
    for client in clients {
        client.close().await;
    }
}

/// TC-06. Each call needs more than a client is lent at a time for small ones, and more than half of
/// what the last ones leave. Another flow makes the
/// requests that the namespace may make.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_shares_calls_of_several_tokens_pass_as_often_as_they_fit_into_the_count() {
    const FIT: u64 = 10;
    let settings = Settings { max_allowed_qps: Some(200.0), ..Settings::default() };
    let rule = flow_rule(1, 1_000.0, r#","overloadPolicy":"share""#);
    let server = Realtime::start(settings, vec![rule, flow_rule(2, 1e6, "")]);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(server.client().await);
    }
    for client in &clients {
        assert_eq!(client.ping().await.unwrap().clients, Some(4));
    }
    let end = server.clock.now().plus(Duration::from_secs(4));
    let others = async {
        while server.clock.now() < end {
            // Counts as a request whatever the limit.
            clients[0].charge(What::flow(2, 1)).await.unwrap();
        }
    };
    let (passed, ()) = tokio::join!(server.hammer_with(&clients, 1, 100, end), others);
    passed.surely_keep_to(FIT);
    let count = passed.count();
    assert!(count * 11 >= 3 * FIT * 10, "{count} in 4 s");
    let leased: u64 = clients.iter().map(|client| client.metrics().leased).sum();
    assert!(leased * 2 > count, "{leased} of {count}");
    for client in clients {
        client.close().await;
    }
}

const START: u64 = 1_700_000_000_000;

/// Eight clients that share a flow of 100 a second, in a namespace that may make so many requests a
/// second, of another flow too. Nobody has asked for anything.
async fn eight_clients(requests: f64) -> (InProcess, Vec<Client>) {
    let settings = Settings { max_allowed_qps: Some(requests), ..Settings::default() };
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

#[tokio::test]
async fn a_client_that_was_served_the_whole_count_leaves_nothing_for_shares() {
    let (_server, clients) = eight_clients(110.0).await;
    let (greedy, others) = clients.split_first().unwrap();
    assert_eq!(passes(greedy, 150).await, 100);
    for client in others {
        assert_eq!(passes(client, 50).await, 0);
        let over = client.metrics().fallbacks(Reason::TooManyRequests);
        assert_eq!(over, 50, "it was not told that the flow is blocked");
    }
}

#[tokio::test]
async fn a_server_that_decides_again_counts_what_the_shares_have_let_pass() {
    let (server, clients) = eight_clients(100.0).await;
    for _ in 0..100 {
        assert_eq!(clients[0].acquire(302, 1, false).await.unwrap().status, Status::Ok);
    }
    server.clock.set(Tick::from_ms(START + 5_900));
    let mut passed = 0;
    for client in &clients {
        passed += passes(client, 50).await;
    }
    assert!((1..=100).contains(&passed), "{passed}: the namespace has made its requests");
    // As long as it takes clients to be lent more, and to ask call by call again. On the server's
    // clock that is one moment, in one window with what has passed before.
    server.clock.set(Tick::from_ms(START + 6_000));
    let real = MonotonicClock::start();
    let end = real.now().plus(Duration::from_secs(20));
    let sum = |of: fn(&Metrics) -> u64| clients.iter().map(|client| of(&client.metrics())).sum();
    loop {
        for client in &clients {
            passed += passes(client, 1).await;
        }
        let (by_server, by_shares): (u64, u64) = (sum(|it| it.passed), sum(|it| it.leased));
        assert!(passed <= 100, "{passed}");
        if by_server > 0 && by_shares > 8 && passed >= 50 {
            break;
        }
        assert!(real.now() < end, "{passed} {by_server} {by_shares}");
    }
    for client in &clients {
        passed += passes(client, 50).await;
    }
    assert!(passed <= 100, "{passed}");
}
