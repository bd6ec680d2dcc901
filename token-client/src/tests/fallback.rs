//! What is decided when no server decides.

use std::{sync::Arc, time::Duration};

use limiter::{
    ManualClock, Tick,
    rule::{self, Contents, FallbackPolicy, NamespaceRules},
};
use protocol::{Response, Status};
use tokio::io::DuplexStream;

use super::{
    log::{lines, recorder},
    net::{World, client},
    peer::{Asked, Peer, ok, status},
};
use crate::{Client, DecidedBy, Outcome, Param, Reason, RuleId, Verdict, time::now};

const A: &str = "10.0.0.1:18730";
const START: u64 = 1_700_000_000_000;

pub(super) fn rules(text: &str) -> Vec<NamespaceRules> {
    let parsed = rule::parse(text, "test", "ns", Contents::Mixed, true).unwrap();
    rule::merge(vec![parsed]).unwrap()
}

/// One flow rule with id 1.
fn flow_rule(count: u32, cluster: &str) -> Vec<NamespaceRules> {
    rules(&format!(
        r#"[{{"resource": "GET:/orders", "count": {count}, "clusterMode": true,
             "clusterConfig": {{"flowId": 1, {cluster}}}}}]"#
    ))
}

/// A client that was connected to a server with `clients` clients.
async fn connected(
    rules: Vec<NamespaceRules>,
    clients: i32,
) -> (Client, Peer<DuplexStream>, World, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Tick::from_ms(START)));
    let builder = Client::builder().clock(Arc::<ManualClock>::clone(&clock));
    let (client, mut world) = client(builder, &[A]);
    client.set_rules(rules).unwrap();
    let (_, mut peer) = world.accept().await;
    peer.greet(clients).await;
    client.ready(Duration::from_secs(1)).await.unwrap();
    (client, peer, world, clock)
}

/// As [`connected`], after the server has gone for good.
async fn orphaned(rules: Vec<NamespaceRules>, clients: i32) -> (Client, Arc<ManualClock>) {
    let (client, peer, world, clock) = connected(rules, clients).await;
    world.set(A, super::net::Port::Refuses);
    drop(peer);
    while client.acquire(1, 1, false).await.is_ok() {}
    (client, clock)
}

async fn passes(client: &Client, calls: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..calls {
        passed += u32::from(client.check(1, 1, false).await.is_pass());
    }
    passed
}

/// The verdict and how long the caller was kept, in milliseconds.
async fn kept(check: impl Future<Output = Outcome>) -> (Verdict, u128) {
    let started = now();
    let outcome = check.await;
    assert_eq!(outcome.fallback_reason(), Some(Reason::Unreachable));
    (outcome.verdict, started.elapsed().as_millis())
}

const MS: Duration = Duration::from_millis(1);

/// A flow rule and a hot-parameter rule, one call in a tenth of a second each, for 250 ms at most.
fn paced() -> Vec<NamespaceRules> {
    let rule = |more: &str| {
        format!(
            r#"{{"resource": "r", "count": 10, "clusterMode": true, "controlBehavior": 2,
                 "maxQueueingTimeMs": 250, {more}
                 "clusterConfig": {{"flowId": 1, "thresholdType": 1,
                                    "fallbackToLocalWhenFail": true}}}}"#
        )
    };
    rules(&format!("[{}, {}]", rule(""), rule(r#""paramIdx": 0,"#)))
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_paces_makes_calls_wait_for_their_turn_without_a_server_too() {
    let (client, clock) = orphaned(paced(), 1).await;
    let values = [Param::Int(7)];
    for expected in [
        (Verdict::Pass, 0),
        (Verdict::Waited(100 * MS), 100),
        (Verdict::Waited(200 * MS), 200),
        (Verdict::Block, 0),
    ] {
        assert_eq!(kept(client.check(1, 1, false)).await, expected);
        assert_eq!(kept(client.check_param(1, 1, &values)).await, expected);
    }
    clock.set(Tick::from_ms(START + 300));
    assert_eq!(kept(client.check(1, 1, false)).await, (Verdict::Pass, 0));
    let metrics = client.metrics();
    assert_eq!((metrics.fallback_passed, metrics.fallback_blocked), (7, 2));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_further_away_than_max_wait_is_not_taken_without_a_server() {
    let clock = Arc::new(ManualClock::new(Tick::from_ms(START)));
    let builder = Client::builder().clock(Arc::<ManualClock>::clone(&clock)).max_wait(100 * MS);
    let (client, world) = client(builder, &[A]);
    world.set(A, super::net::Port::Refuses);
    client.set_rules(paced()).unwrap();
    assert_eq!(kept(client.check(1, 1, false)).await, (Verdict::Pass, 0));
    assert_eq!(kept(client.check(1, 1, false)).await, (Verdict::Waited(100 * MS), 100));
    for _ in 0..9 {
        assert_eq!(kept(client.check(1, 1, false)).await, (Verdict::Block, 0));
    }
    clock.set(Tick::from_ms(START + 100));
    assert_eq!(kept(client.check(1, 1, false)).await, (Verdict::Waited(100 * MS), 100));
}

#[tokio::test(start_paused = true)]
async fn without_a_server_each_policy_has_its_bound_and_every_call_is_counted() {
    for (count, cluster, expected) in [
        (100, r#""thresholdType": 1, "localCount": 10"#, 10),
        (15, r#""thresholdType": 0"#, 15),
        (100, r#""thresholdType": 1, "fallbackPolicy": "share""#, 25),
        (100, r#""thresholdType": 1, "fallbackToLocalWhenFail": false"#, 40),
        (100, r#""thresholdType": 1, "fallbackPolicy": "block""#, 0),
    ] {
        let (client, clock) = orphaned(flow_rule(count, cluster), 4).await;
        for second in [1, 2] {
            clock.set(Tick::from_ms(START + second * 1_000));
            assert_eq!(passes(&client, 40).await, expected, "{cluster}");
            let metrics = client.metrics();
            assert_eq!(metrics.fallbacks(Reason::Unreachable), 40 * second);
            let all: u64 = metrics.fallbacks_by_reason.iter().sum();
            assert_eq!(all, 40 * second, "under no other reason");
            assert_eq!(metrics.fallback_passed, u64::from(expected) * second);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_the_client_does_not_know_passes() {
    let (client, _) = orphaned(Vec::new(), 1).await;
    let outcome = client.check(1, 1, false).await;
    let decided_by =
        DecidedBy::Fallback { reason: Reason::Unreachable, policy: FallbackPolicy::Pass };
    assert_eq!(outcome, Outcome { verdict: Verdict::Pass, decided_by });
}

#[tokio::test(start_paused = true)]
async fn every_answer_that_is_no_decision_falls_back_for_its_own_reason() {
    let blocks = r#""thresholdType": 1, "fallbackPolicy": "block""#;
    let (client, mut peer, _world, _) = connected(flow_rule(5, blocks), 1).await;
    let cases = [
        (Status::Fail, Reason::Fail),
        (Status::BadRequest, Reason::BadRequest),
        (Status::NoRuleExists, Reason::NoRule),
        (Status::TooManyRequest, Reason::TooManyRequests),
        (Status::NoRefRuleExists, Reason::UnknownStatus),
        (Status::Unknown(-3), Reason::UnknownStatus),
        (Status::Unknown(100), Reason::UnknownStatus),
    ];
    let serve = async {
        for (answer, _) in cases {
            let (xid, _) = peer.flow().await;
            peer.send(&[status(xid, answer)]).await;
        }
    };
    let calls = async {
        for (_, reason) in cases {
            let outcome = client.check(1, 1, false).await;
            let decided_by = DecidedBy::Fallback { reason, policy: FallbackPolicy::Block };
            assert_eq!(outcome, Outcome { verdict: Verdict::Block, decided_by });
        }
        let silent = client.check(1, 1, false).await;
        assert_eq!(silent.fallback_reason(), Some(Reason::TimedOut));
        let senseless = client.check(1, 0, false).await;
        assert_eq!(senseless.fallback_reason(), Some(Reason::BadRequest));
    };
    tokio::join!(serve, calls);
    let metrics = client.metrics();
    assert_eq!((metrics.fallbacks(Reason::UnknownStatus), metrics.fallback_blocked), (3, 9));
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_obeyed_or_replaced_as_the_rule_says() {
    for (cluster, policy, expected) in [
        (r#""overloadPolicy": "reject""#, FallbackPolicy::Block, 0),
        (r#""overloadPolicy": "share""#, FallbackPolicy::Share, 10),
        (r#""localCount": 7"#, FallbackPolicy::Local, 7),
        (r#""fallbackPolicy": "pass""#, FallbackPolicy::Pass, 30),
        // Sentinel's check after TOO_MANY_REQUEST is the rule's fallback, whatever that is.
        (r#""fallbackPolicy": "share""#, FallbackPolicy::Share, 10),
    ] {
        let rule = flow_rule(20, &format!(r#""thresholdType": 1, {cluster}"#));
        let (client, mut peer, _world, _) = connected(rule, 2).await;
        let serve = async {
            loop {
                let (xid, _) = peer.flow().await;
                peer.send(&[status(xid, Status::TooManyRequest)]).await;
            }
        };
        let calls = async {
            let mut passed = 0;
            for _ in 0..30 {
                let outcome = client.check(1, 1, false).await;
                let reason = Reason::TooManyRequests;
                assert_eq!(outcome.decided_by, DecidedBy::Fallback { reason, policy });
                passed += u32::from(outcome.is_pass());
            }
            assert_eq!(passed, expected, "{cluster}");
        };
        tokio::select! { () = serve => {}, () = calls => {} }
        assert_eq!(client.metrics().fallbacks(Reason::TooManyRequests), 30);
        assert_eq!(client.metrics().blocked, 0, "told apart from BLOCKED");
    }
}

#[tokio::test(start_paused = true)]
async fn a_share_counts_what_the_server_granted_in_the_same_window() {
    let share = flow_rule(100, r#""thresholdType": 1, "fallbackPolicy": "share""#);
    let (client, mut peer, world, clock) = connected(share, 4).await;
    let serve = async {
        for remaining in [80, 60, 20] {
            let Some(Asked::Flow { xid, .. }) = peer.asked().await else { panic!("a flow") };
            let status = if remaining == 20 { Status::Blocked } else { Status::Ok };
            peer.send(&[Response::Flow { xid, status, remaining, wait_ms: 0 }]).await;
        }
    };
    let calls = async {
        assert!(client.check(1, 20, false).await.is_pass());
        clock.advance(Duration::from_millis(500));
        assert!(client.check(1, 20, false).await.is_pass());
        assert!(client.check(1, 20, false).await.is_block());
    };
    tokio::join!(serve, calls);
    world.set(A, super::net::Port::Refuses);
    drop(peer);
    while client.acquire(1, 1, false).await.is_ok() {}
    assert_eq!(passes(&client, 40).await, 0, "40 granted, and a share of 25");
    clock.advance(Duration::from_millis(500));
    assert_eq!(passes(&client, 40).await, 5, "20 of them in the window");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_client_refuses_is_not_in_its_share() {
    let share = flow_rule(100, r#""thresholdType": 1, "fallbackPolicy": "share""#);
    let clock = Arc::new(ManualClock::new(Tick::from_ms(START)));
    let builder = Client::builder().clock(Arc::<ManualClock>::clone(&clock)).max_wait(100 * MS);
    let (client, mut world) = client(builder, &[A]);
    client.set_rules(share).unwrap();
    let (_, mut peer) = world.accept().await;
    peer.greet(4).await;
    client.ready(Duration::from_secs(1)).await.unwrap();
    let serve = async {
        for wait_ms in [101, 100] {
            let Some(Asked::Flow { xid, .. }) = peer.asked().await else { panic!("a flow") };
            peer.send(&[Response::Flow { xid, status: Status::ShouldWait, remaining: 0, wait_ms }])
                .await;
        }
    };
    let calls = async {
        assert!(client.check(1, 20, false).await.is_block());
        assert!(client.check(1, 20, false).await.is_pass());
    };
    tokio::join!(serve, calls);
    world.set(A, super::net::Port::Refuses);
    drop(peer);
    while client.acquire(1, 1, false).await.is_ok() {}
    assert_eq!(passes(&client, 40).await, 5, "20 of the 25");
}

#[tokio::test(start_paused = true)]
async fn another_number_of_clients_is_another_share_and_counters_go_on() {
    let share = flow_rule(100, r#""thresholdType": 1, "fallbackPolicy": "share""#);
    let (client, clock) = orphaned(share.clone(), 4).await;
    clock.advance(Duration::from_secs(5));
    assert_eq!(passes(&client, 20).await, 20);
    client.set_rules(share).unwrap();
    assert_eq!(passes(&client, 20).await, 5, "the same rules again forget nothing");
    client.set_rules(flow_rule(200, r#""thresholdType": 1, "fallbackPolicy": "share""#)).unwrap();
    assert_eq!(passes(&client, 60).await, 25);
}

#[tokio::test(start_paused = true)]
async fn rules_that_cannot_be_in_force_together_change_nothing() {
    let (client, clock) = orphaned(flow_rule(3, r#""thresholdType": 1"#), 1).await;
    let mut twice = flow_rule(9, r#""thresholdType": 1"#);
    twice.extend(flow_rule(9, r#""thresholdType": 1"#));
    let error = client.set_rules(twice).unwrap_err().to_string();
    assert!(error.contains("ids are unique"), "{error}");
    clock.advance(Duration::from_secs(5));
    assert_eq!(passes(&client, 9).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_param_rule_falls_back_value_by_value() {
    let rule = rules(
        r#"[{"resource": "user", "count": 3, "paramIdx": 0, "clusterMode": true,
             "paramFlowItemList": [{"object": "vip", "count": 5, "classType": "String"}],
             "clusterConfig": {"flowId": 1, "thresholdType": 1, "fallbackToLocalWhenFail": true}}]"#,
    );
    let (client, clock) = orphaned(rule, 1).await;
    clock.advance(Duration::from_secs(5));
    let value = |text: &'static str| [Param::Str(text.into())];
    let mut passed = [0, 0, 0];
    for _ in 0..10 {
        for (passed, text) in passed.iter_mut().zip(["vip", "a", "b"]) {
            let outcome = client.check_param(1, 1, &value(text)).await;
            assert_eq!(outcome.fallback_reason(), Some(Reason::Unreachable));
            *passed += u32::from(outcome.is_pass());
        }
    }
    assert_eq!(passed, [5, 3, 3]);
    // A value that no frame can carry is still checked locally.
    let long = [Param::Str("x".repeat(2_000).into())];
    let reasons = client.check_param(1, 1, &long).await;
    assert!(reasons.is_pass());
}

#[tokio::test(start_paused = true)]
async fn a_parameter_that_fits_no_frame_is_a_bad_request_of_the_rule_and_is_never_sent() {
    let rule = rules(
        r#"[{"resource": "user", "count": 1, "paramIdx": 0, "clusterMode": true,
             "clusterConfig": {"flowId": 1, "thresholdType": 1, "fallbackToLocalWhenFail": true}}]"#,
    );
    let (client, mut peer, _world, _) = connected(rule, 1).await;
    let long = [Param::Str("x".repeat(1_000).into())];
    for verdict in [Verdict::Pass, Verdict::Block] {
        let outcome = client.check_param(1, 1, &long).await;
        let decided_by =
            DecidedBy::Fallback { reason: Reason::BadRequest, policy: FallbackPolicy::Local };
        assert_eq!(outcome, Outcome { verdict, decided_by });
    }
    let (answer, (_, id)) = tokio::join!(client.acquire(6, 1, false), peer.flow());
    assert_eq!((answer.is_err(), id), (true, 6), "the first that was sent");
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_no_decision_about_a_param_rule() {
    let (client, mut peer, _world, _) = connected(Vec::new(), 1).await;
    let serve = async {
        let Some(Asked::Param { xid, .. }) = peer.asked().await else { panic!("a param") };
        let status = Status::ShouldWait;
        peer.send(&[Response::Param { xid, status, remaining: 0, wait_ms: 50 }]).await;
    };
    let value = [Param::Int(7)];
    let (outcome, ()) = tokio::join!(client.check_param(1, 1, &value), serve);
    assert_eq!(outcome.fallback_reason(), Some(Reason::UnknownStatus));
}

#[tokio::test(start_paused = true)]
async fn entering_and_leaving_fallback_is_one_line_each_however_many_calls() {
    let rule = flow_rule(10, r#""thresholdType": 1, "localCount": 5"#);
    let (client, peer, mut world, clock) = connected(rule, 1).await;
    assert_eq!(lines().len(), 1, "connected");
    drop(peer);
    let (_, mut peer) = world.accept().await;
    assert_eq!(passes(&client, 1_000).await, 5);
    let said = lines();
    assert_eq!(
        said[1..],
        ["WARN rule fell back rule=flow rule 1 resource=\"GET:/orders\" reason=unreachable \
          policy=Local"]
    );
    peer.greet(1).await;
    client.ready(Duration::from_secs(1)).await.unwrap();
    lines();
    let serve = async {
        loop {
            let (xid, id) = peer.flow().await;
            // One call in ten is still not decided.
            let fails = xid % 10 == 0;
            peer.send(&[if fails { status(xid, Status::Fail) } else { ok(xid, id) }]).await;
        }
    };
    let calls = async {
        for _ in 0..1_000 {
            clock.advance(Duration::from_millis(100));
            client.check(1, 1, false).await;
        }
    };
    tokio::select! { () = serve => {}, () = calls => {} }
    assert_eq!(lines(), [""; 0], "still in fallback, and silent about it");
    let serve = async {
        loop {
            let (xid, id) = peer.flow().await;
            peer.send(&[ok(xid, id)]).await;
        }
    };
    let calls = async {
        for _ in 0..100 {
            clock.advance(Duration::from_millis(100));
            assert!(client.check(1, 1, false).await.is_pass());
        }
    };
    tokio::select! { () = serve => {}, () = calls => {} }
    assert_eq!(
        lines(),
        ["INFO rule left fallback; the token server decides again rule=flow rule 1 \
          resource=\"GET:/orders\""]
    );
}

#[tokio::test(start_paused = true)]
async fn listeners_hear_every_fallback_and_every_block() {
    let (recorder, heard) = recorder();
    let (client, mut world) = client(Client::builder().listener(recorder), &[A]);
    client.set_rules(flow_rule(1, r#""thresholdType": 1"#)).unwrap();
    assert_eq!(passes(&client, 3).await, 1);
    let reasons = |heard: Vec<(RuleId, Outcome)>| {
        heard.into_iter().map(|(id, outcome)| (id, outcome.is_pass())).collect::<Vec<_>>()
    };
    let id = RuleId::Flow(1);
    assert_eq!(reasons(heard.fell_back()), [(id, true), (id, false), (id, false)]);
    assert_eq!(reasons(heard.blocked()), [(id, false), (id, false)]);
    let (_, mut peer) = world.accept().await;
    peer.greet(1).await;
    client.ready(Duration::from_secs(1)).await.unwrap();
    let serve = async {
        let (xid, _) = peer.flow().await;
        peer.send(&[status(xid, Status::Blocked)]).await;
    };
    let (outcome, ()) = tokio::join!(client.check(1, 1, false), serve);
    assert_eq!(outcome, Outcome { verdict: Verdict::Block, decided_by: DecidedBy::Server });
    assert_eq!((heard.fell_back().len(), heard.blocked().len()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_prometheus_registry_shows_what_the_metrics_say() {
    let (client, _) = orphaned(flow_rule(4, r#""thresholdType": 1"#), 3).await;
    passes(&client, 10).await;
    let mut registry = prometheus_client::registry::Registry::default();
    client.register_metrics(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "tollgate_client_fallbacks_total{reason=\"unreachable\"} 10",
        "tollgate_client_fallback_checks_total{decision=\"pass\"} 4",
        "tollgate_client_fallback_checks_total{decision=\"block\"} 6",
        "tollgate_client_connections_opened_total 1",
        "tollgate_client_clients 3",
        "tollgate_client_waiting 0",
        "tollgate_client_holding 0",
        "tollgate_client_holds_total{decision=\"block\"} 0",
        "tollgate_client_holds_lost_total 0",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in\n{text}");
    }
}
