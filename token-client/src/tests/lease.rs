//! Leases: asked for, spent, given back; and everything that must not be spent.

use std::{
    num::{NonZeroU32, NonZeroU64},
    sync::Arc,
    time::Duration,
};

use bytes::BytesMut;
use limiter::{ClusterEngine, ManualClock, Settings, Tick, rule::NamespaceRules};
use protocol::{ExtendedResponse, Request, Response, Status, feature, kind};
use tokio::{
    io::DuplexStream,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    fallback::rules,
    log::recorder,
    net::{Port, World, client},
    peer::{Asked, Peer, ok},
};
use crate::{
    Builder, Client, DecidedBy, NoAnswer, Outcome, Reason, Verdict, What, client::Backend,
    line::Call, time::now,
};

const A: &str = "10.0.0.1:18730";
const B: &str = "10.0.0.2:18730";
const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3_600);

/// One flow rule with id 1; leases have at most 100 tokens and live for 100 ms.
fn leased(more: &str) -> Vec<NamespaceRules> {
    let rule = r#"{"resource": "hot", "count": 1000, "clusterMode": true, "clusterConfig":
        {"flowId": 1, "thresholdType": 1, "fallbackPolicy": "block",
         "lease": {"maxTokens": 100, "ttlMs": 100}}}"#;
    rules(&format!("[{}]", rule.replace(r#""flowId""#, &format!(r#"{more}"flowId""#))))
}

async fn accept(world: &mut World, server: &str) -> Peer<DuplexStream> {
    let (address, mut peer) = world.accept().await;
    assert_eq!(address, server);
    peer.greet_as_ours(4, feature::LEASE).await;
    peer
}

/// A client of servers A and B with these rules, connected to A, which grants leases.
async fn with(builder: Builder, known: Vec<NamespaceRules>) -> (Client, Peer<DuplexStream>, World) {
    let (client, mut world) = client(builder.ping_interval(LONG), &[A, B]);
    client.set_rules(known).unwrap();
    let peer = accept(&mut world, A).await;
    client.ready(LONG).await.unwrap();
    (client, peer, world)
}

async fn connected() -> (Client, Peer<DuplexStream>, World) {
    with(Client::builder(), leased("")).await
}

/// A check that the server lets pass.
async fn plain(client: &Client, peer: &mut Peer<DuplexStream>) {
    let script = async {
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(xid, id)]).await;
    };
    let (outcome, ()) = tokio::join!(client.check(1, 1, false), script);
    assert_eq!(outcome.decided_by, DecidedBy::Server);
}

/// Two checks that ask the server, after which it grants lease 7 with 10 tokens. When it was asked
/// for at the latest.
async fn granted(client: &Client, peer: &mut Peer<DuplexStream>) -> Instant {
    plain(client, peer).await;
    plain(client, peer).await;
    let asked = now();
    assert_eq!(peer.lease(Some((7, 10, 100))).await, (2, 0, 0));
    until(|| client.metrics().leases_granted == 1).await;
    asked
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

/// Checks that pass by the lease, without a server.
async fn spend(client: &Client, times: u32) {
    for _ in 0..times {
        let outcome = client.check(1, 1, false).await;
        let by_lease = Outcome { verdict: Verdict::Pass, decided_by: DecidedBy::Lease };
        assert_eq!(outcome, by_lease);
        assert!(outcome.is_pass() && outcome.fallback_reason().is_none());
    }
}

pub(super) async fn hears_nothing(peer: &mut Peer<DuplexStream>) {
    let heard = timeout(Duration::from_secs(600), peer.asked()).await;
    assert!(heard.is_err(), "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hot_flow_is_spent_from_a_lease_and_the_next_comes_before_it_is_empty() {
    let (client, mut peer, _world) = connected().await;
    granted(&client, &mut peer).await;
    let calls = client.metrics().calls;
    spend(&client, 5).await;
    assert_eq!(client.metrics().calls, calls, "half is left");
    spend(&client, 1).await;
    // 2 asked plainly, 6 spent.
    assert_eq!(peer.lease(Some((8, 20, 100))).await, (8, 0, 0));
    until(|| client.metrics().leases_granted == 2).await;
    spend(&client, 4 + 11).await;
    assert_eq!(
        peer.lease(None).await,
        (23, 7, 10),
        "what is spent goes back with the next request"
    );
    until(|| client.metrics().leases_refused == 1).await;
    spend(&client, 9).await;
    let metrics = client.metrics();
    assert_eq!((metrics.leased, metrics.lease_tokens_spent), (30, 30));
    assert_eq!((metrics.lease_tokens_granted, metrics.leases_returned), (30, 1));
    assert_eq!((metrics.passed, metrics.fallback_passed, metrics.stray_answers), (2, 0, 0));
    plain(&client, &mut peer).await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_spends_goes_back_by_itself_and_is_not_spent_after_that() {
    let (client, mut peer, _world) = connected().await;
    granted(&client, &mut peer).await;
    spend(&client, 3).await;
    let spent = now();
    assert_eq!(peer.lease(None).await, (0, 7, 3));
    let idle = spent.elapsed();
    assert!((50 * MS..=52 * MS).contains(&idle), "{idle:?}");
    plain(&client, &mut peer).await;
    assert_eq!(peer.lease(None).await, (5, 0, 0), "another");
    hears_nothing(&mut peer).await;
    let metrics = client.metrics();
    assert_eq!((metrics.lease_tokens_returned, metrics.lease_tokens_lost), (7, 0));
    assert_eq!((metrics.leases_returned, metrics.stray_answers), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_a_client_that_keeps_asking_goes_back_before_its_end() {
    let (client, mut peer, _world) = connected().await;
    let asked = granted(&client, &mut peer).await;
    for _ in 0..2 {
        sleep(40 * MS).await;
        spend(&client, 1).await;
    }
    assert_eq!(peer.lease(None).await, (3, 0, 0), "half of its time is over");
    assert_eq!(peer.lease(None).await, (0, 7, 2));
    let old = asked.elapsed();
    assert!((87 * MS..=90 * MS).contains(&old), "{old:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_in_time_though_its_answer_was_late_and_its_server_is_gone() {
    let (client, mut peer, world) =
        with(Client::builder().timeout(Duration::from_secs(1)), leased("")).await;
    plain(&client, &mut peer).await;
    plain(&client, &mut peer).await;
    let Some(Asked::Lease { xid, .. }) = peer.asked().await else { panic!("a lease") };
    let asked = now();
    sleep(70 * MS).await;
    plain(&client, &mut peer).await;
    let (status, lease_id, granted, ttl_ms) = (Status::Ok, 7, 10, 100);
    peer.send_extended(ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms }).await;
    until(|| client.metrics().leases_granted == 1).await;
    [A, B].iter().for_each(|server| world.set(server, Port::Refuses));
    drop(peer);
    while client.acquire(1, 1, false).await.is_ok() {}
    sleep_until(asked + 99 * MS).await;
    spend(&client, 1).await;
    sleep_until(asked + 100 * MS).await;
    let outcome = client.check(1, 1, false).await;
    assert!(outcome.is_block());
    assert_eq!(outcome.fallback_reason(), Some(Reason::Unreachable));
    sleep(10 * MS).await;
    let metrics = client.metrics();
    assert_eq!((metrics.lease_tokens_lost, metrics.lease_tokens_returned), (9, 0));
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_the_time_out_is_not_spent() {
    let (client, mut peer, _world) = connected().await;
    plain(&client, &mut peer).await;
    plain(&client, &mut peer).await;
    let Some(Asked::Lease { xid, .. }) = peer.asked().await else { panic!("a lease") };
    until(|| client.metrics().waiting == 1).await;
    sleep(21 * MS).await;
    let (status, lease_id, granted, ttl_ms) = (Status::Ok, 7, 10, 1_000);
    peer.send_extended(ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms }).await;
    until(|| client.metrics().stray_answers == 1).await;
    assert_eq!((client.metrics().leases_granted, client.metrics().timed_out), (0, 1));
    plain(&client, &mut peer).await;
}

#[tokio::test(start_paused = true)]
async fn another_connection_never_hears_of_a_lease_that_it_has_not_granted() {
    let (client, peer, mut world) = {
        let (client, mut peer, world) = connected().await;
        granted(&client, &mut peer).await;
        (client, peer, world)
    };
    spend(&client, 2).await;
    world.set(A, Port::Refuses);
    drop(peer);
    let mut peer = accept(&mut world, B).await;
    client.ready(LONG).await.unwrap();
    spend(&client, 3).await;
    hears_nothing(&mut peer).await;
    assert_eq!(client.metrics().lease_tokens_lost, 5);

    // Nor if the connection changes while something is about to be sent.
    let Backend::Remote(remote) = &client.inner.backend else { panic!("servers") };
    let line = &remote.lines[0];
    let [first, second] = [1, 2].map(|number| NonZeroU64::new(number).unwrap());
    let ask = |session| {
        let encode = |xid, out: &mut BytesMut| {
            Request::Lease { xid, flow_id: 1, want: 1, returned: 7, used: 3 }.encode(out)
        };
        Call::new(kind::LEASE, encode, &remote.lines, 0).over(session)
    };
    assert!(!line.give_back(first, 1, 7, 3));
    assert_eq!(ask(first).await, Err(NoAnswer::Unreachable));
    assert!(line.give_back(second, 1, 8, 3));
    assert_eq!(peer.lease(None).await, (0, 8, 3));
    let (answer, asked) = tokio::join!(ask(second), peer.lease(None));
    assert_eq!((answer.is_ok(), asked), (true, (1, 7, 3)));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_leases_is_asked_plainly_and_each_call_once() {
    for features in [None, Some(feature::ASK)] {
        let (client, mut world) = client(Client::builder(), &[A]);
        client.set_rules(leased("")).unwrap();
        let (_, mut peer) = world.accept().await;
        match features {
            Some(features) => peer.greet_as_ours(4, features).await,
            None => peer.greet(4).await,
        }
        client.ready(LONG).await.unwrap();
        for _ in 0..100 {
            plain(&client, &mut peer).await;
        }
        assert_eq!(client.metrics().leases_refused, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_grants_none_is_left_alone_for_some_seconds() {
    for (status, pause) in [
        (Status::AlreadyRelease, 5_000),
        (Status::NoRuleExists, 5_000),
        (Status::Blocked, 25),
        (Status::TooManyRequest, 25),
    ] {
        let (client, mut peer, _world) = connected().await;
        plain(&client, &mut peer).await;
        plain(&client, &mut peer).await;
        let Some(Asked::Lease { xid, .. }) = peer.asked().await else { panic!("a lease") };
        peer.send(&[Response::Head { xid, kind: kind::LEASE, status }]).await;
        until(|| client.metrics().leases_refused == 1).await;
        let refused = now();
        let asked = loop {
            plain(&client, &mut peer).await;
            if let Ok(asked) = timeout(MS / 2, peer.asked()).await {
                break asked;
            }
        };
        assert!(matches!(asked, Some(Asked::Lease { returned: 0, .. })), "{status:?}");
        let spread = pause * MS * 4 / 5..=pause * MS * 6 / 5 + MS;
        assert!(spread.contains(&refused.elapsed()), "{status:?} {:?}", refused.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn only_plain_calls_that_a_lease_has_room_for_are_spent_from_it() {
    let (client, mut peer, _world) = connected().await;
    granted(&client, &mut peer).await;
    for (count, priority) in [(1, true), (11, false), (0, false)] {
        let script = async {
            // A count of none is not sent.
            if count > 0 {
                let (xid, id) = peer.flow().await;
                peer.send(&[ok(xid, id)]).await;
            }
        };
        let (outcome, ()) = tokio::join!(client.check(1, count, priority), script);
        assert_ne!(outcome.decided_by, DecidedBy::Lease, "{count} {priority}");
    }
    let why = client.check_explained(What::flow(1, 10), false).await;
    assert_eq!(why.outcome.decided_by, DecidedBy::Lease);
    let text = "flow rule 1 (hot): pass; tokens that the token server granted in advance";
    assert_eq!(why.to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn a_lease_has_as_many_tokens_as_are_configured() {
    let five = NonZeroU32::new(5).unwrap();
    let (client, mut peer, _world) = with(Client::builder().lease_tokens(five), leased("")).await;
    for _ in 0..2 {
        plain(&client, &mut peer).await;
    }
    assert_eq!(peer.lease(Some((7, 5, 100))).await, (5, 0, 0));
    until(|| client.metrics().leases_granted == 1).await;
    spend(&client, 3).await;
    assert_eq!(peer.lease(Some((8, 5, 100))).await, (5, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn rules_without_leases_take_none_and_what_they_had_goes_back() {
    for gone in [
        Vec::new(),
        leased(r#""mode": "block", "#),
        rules(
            r#"[{"resource": "hot", "count": 1000, "clusterMode": true,
                   "clusterConfig": {"flowId": 1, "thresholdType": 1}}]"#,
        ),
    ] {
        let (client, mut peer, _world) = connected().await;
        granted(&client, &mut peer).await;
        spend(&client, 4).await;
        client.set_rules(leased(r#""localCount": 5, "#)).unwrap();
        spend(&client, 1).await;
        let changed = now();
        client.set_rules(gone).unwrap();
        assert_eq!(peer.lease(None).await, (0, 7, 5));
        assert_eq!(changed.elapsed(), Duration::ZERO, "at once");
        for _ in 0..10 {
            plain(&client, &mut peer).await;
        }
        hears_nothing(&mut peer).await;
        assert_eq!(client.metrics().lease_tokens_returned, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_granted_for_a_rule_that_is_gone_goes_back() {
    let (client, mut peer, _world) = connected().await;
    plain(&client, &mut peer).await;
    plain(&client, &mut peer).await;
    let Some(Asked::Lease { xid, .. }) = peer.asked().await else { panic!("a lease") };
    client.set_rules(Vec::new()).unwrap();
    let (status, lease_id, granted, ttl_ms) = (Status::Ok, 7, 10, 100);
    peer.send_extended(ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms }).await;
    assert_eq!(peer.lease(None).await, (0, 7, 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_has_given_everything_back() {
    let (client, mut peer, _world) = connected().await;
    granted(&client, &mut peer).await;
    spend(&client, 4).await;
    let script = async {
        assert_eq!(peer.lease(None).await, (0, 7, 4));
        let Some(Asked::Ping { xid, .. }) = peer.asked().await else { panic!("a ping") };
        peer.send(&[Response::Ping { xid, connected: 1 }]).await;
        assert_eq!(peer.asked().await, None);
    };
    tokio::join!(client.close(), script);
    let outcome = client.check(1, 1, false).await;
    assert_eq!(outcome.fallback_reason(), Some(Reason::Unreachable));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_client_whose_last_clone_is_gone() {
    let (recorder, mut heard) = recorder();
    let (client, mut peer, _world) = with(Client::builder().listener(recorder), leased("")).await;
    granted(&client, &mut peer).await;
    spend(&client, 6).await;
    let Some(Asked::Lease { .. }) = peer.asked().await else { panic!("a lease") };
    drop(client);
    assert_eq!(peer.asked().await, None);
    assert!(heard.silence().await);
}

#[tokio::test(start_paused = true)]
async fn a_share_counts_what_was_spent_from_leases() {
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
    let builder = Client::builder().clock(Arc::<ManualClock>::clone(&clock));
    let share = rules(
        r#"[{"resource": "hot", "count": 48, "clusterMode": true, "clusterConfig":
        {"flowId": 1, "thresholdType": 1, "fallbackPolicy": "share",
         "lease": {"maxTokens": 100, "ttlMs": 100}}}]"#,
    );
    let (client, mut peer, world) = with(builder, share).await;
    granted(&client, &mut peer).await;
    spend(&client, 4).await;
    [A, B].iter().for_each(|server| world.set(server, Port::Refuses));
    drop(peer);
    while client.acquire(1, 1, false).await.is_ok() {}
    spend(&client, 6).await;
    // A share of 12 for each of 4 clients, and 12 were granted.
    assert!(client.check(1, 1, false).await.is_block());
    clock.advance(Duration::from_secs(1));
    assert!(client.check(1, 1, false).await.is_pass());
}

#[tokio::test(start_paused = true)]
async fn a_registry_shows_leases() {
    let (client, mut peer, _world) = connected().await;
    granted(&client, &mut peer).await;
    spend(&client, 4).await;
    peer.lease(None).await;
    let mut registry = prometheus_client::registry::Registry::default();
    client.register_metrics(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "tollgate_client_checks_total{decision=\"pass\"} 2",
        "tollgate_client_checks_total{decision=\"lease\"} 4",
        "tollgate_client_leases_total{event=\"granted\"} 1",
        "tollgate_client_leases_total{event=\"refused\"} 0",
        "tollgate_client_leases_total{event=\"returned\"} 1",
        "tollgate_client_lease_tokens_total{event=\"granted\"} 10",
        "tollgate_client_lease_tokens_total{event=\"spent\"} 4",
        "tollgate_client_lease_tokens_total{event=\"returned\"} 6",
        "tollgate_client_lease_tokens_total{event=\"lost\"} 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_in_the_process_is_asked_for_each_call() {
    let engine = Arc::new(ClusterEngine::new(Settings::default()));
    engine.replace(leased("")).unwrap();
    let client = Client::builder().embedded(Arc::clone(&engine)).unwrap();
    client.set_rules(leased("")).unwrap();
    for _ in 0..10 {
        assert_eq!(client.check(1, 1, false).await.decided_by, DecidedBy::Server);
    }
    assert_eq!(engine.rules().flow(1).unwrap().totals().pass_tokens, 10);
}
