//! Guards: granted, refused, renewed, lost, regained, released; and what is held without a server.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use limiter::{
    ManualClock, Tick,
    rule::{FallbackPolicy, NamespaceRules},
};
use protocol::{Response, Status, feature, kind};
use tokio::{
    io::DuplexStream,
    time::{sleep, timeout},
};

use super::{
    fallback::rules,
    log::{Heard, lines, recorder},
    net::{Port, World, client, network},
    peer::{Asked, Peer, granted},
};
use crate::{
    BadCall, Client, ConnectionState, DecidedBy, Held, Listener, NoAnswer, Reason, Refused, RuleId,
    sync::lock, time::now,
};

const A: &str = "10.0.0.1:18730";
const B: &str = "10.0.0.2:18730";
const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3_600);

/// One thread-grade rule with id 1.
fn thread_rule(count: u32, cluster: &str) -> Vec<NamespaceRules> {
    rules(&format!(
        r#"[{{"resource": "db", "grade": 0, "count": {count}, "clusterMode": true,
             "clusterConfig": {{"flowId": 1, "thresholdType": 1, {cluster}}}}}]"#
    ))
}

/// Tokens last three seconds.
fn three_seconds() -> Vec<NamespaceRules> {
    thread_rule(10, r#""resourceTimeout": 3000"#)
}

/// A client of servers A and B, connected to A, which holds concurrency tokens.
async fn connected(rules: Vec<NamespaceRules>) -> (Client, Peer<DuplexStream>, World, Heard) {
    let (recorder, mut heard) = recorder();
    let (client, mut world) = client(Client::builder().listener(recorder), &[A, B]);
    client.set_rules(rules).unwrap();
    let peer = accept(&mut world, A).await;
    client.ready(LONG).await.unwrap();
    heard.connection().await;
    lines();
    (client, peer, world, heard)
}

async fn accept(world: &mut World, server: &str) -> Peer<DuplexStream> {
    let (address, mut peer) = world.accept().await;
    assert_eq!(address, server);
    peer.greet_as_ours(4, feature::CONCURRENCY).await;
    peer
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_renewed_at_a_third_of_its_time_and_released_on_drop() {
    let (client, mut peer, _world, heard) = connected(three_seconds()).await;
    let (held, asked) = tokio::join!(client.hold(1, 2), peer.hold(Some(77)));
    let (held, started) = (held.unwrap(), now());
    assert_eq!(asked, (1, 2));
    assert!(held.is_held());
    assert_eq!(held.decided_by(), DecidedBy::Server);
    for third in 1..=9 {
        assert_eq!(peer.renew(Status::Ok).await, 77);
        let due = third * Duration::from_secs(1);
        assert!((due..=due + third * MS).contains(&started.elapsed()), "{:?}", started.elapsed());
    }
    assert!(held.is_held());
    assert_eq!(client.metrics().holding, 1);
    let dropped = now();
    drop(held);
    assert_eq!(peer.release().await, 77);
    assert_eq!(dropped.elapsed(), Duration::ZERO, "at once");
    let more = timeout(LONG, peer.asked()).await;
    assert!(matches!(more, Ok(Some(Asked::Ping { .. }))), "no renewal: {more:?}");
    assert_eq!(heard.holds(), []);
    let metrics = client.metrics();
    assert_eq!((metrics.holds, metrics.holding, metrics.holds_lost), (1, 0, 0));
    assert_eq!((metrics.stray_answers, metrics.fallbacks_by_reason.iter().sum()), (0, 0_u64));
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_the_client_does_not_know_has_sentinels_two_seconds() {
    let (client, mut peer, _world, _heard) = connected(Vec::new()).await;
    let (held, _) = tokio::join!(client.hold(9, 1), peer.hold(Some(5)));
    let started = now();
    assert_eq!(peer.renew(Status::Ok).await, 5);
    assert!((666..=668).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn each_guard_is_renewed_in_its_own_time() {
    let slow = r#"{"resource": "slow", "grade": 0, "count": 9, "clusterMode": true,
        "clusterConfig": {"flowId": 1, "thresholdType": 1, "resourceTimeout": 60000}}"#;
    let fast = slow.replace("60000", "3000").replace("\"flowId\": 1", "\"flowId\": 2");
    let both = rules(&format!("[{slow}, {fast}]"));
    let (client, mut peer, _world, _heard) = connected(both).await;
    let (slow, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(1)));
    // The keeper has gone to sleep for twenty seconds.
    sleep(MS).await;
    let (fast, _) = tokio::join!(client.hold(2, 1), peer.hold(Some(2)));
    let started = now();
    assert_eq!(peer.renew(Status::Ok).await, 2);
    assert!((1_000..=1_001).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    drop((slow, fast));
}

#[tokio::test(start_paused = true)]
async fn a_full_level_refuses_and_says_so() {
    let (client, mut peer, _world, heard) = connected(three_seconds()).await;
    let (refused, _) = tokio::join!(client.hold(1, 1), peer.hold(None));
    let refused = refused.unwrap_err();
    assert_eq!(refused, Refused { flow_id: 1, decided_by: DecidedBy::Server });
    assert_eq!(refused.to_string(), "flow rule 1: as many calls are in progress as may be");
    assert_eq!(heard.blocked().len(), 1);
    assert_eq!((client.metrics().holds, client.metrics().holds_refused), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_released_comes_before_what_is_asked_after_it() {
    let three = NonZeroUsize::new(3).unwrap();
    let (client, mut world) = client(Client::builder().connections(three), &[A]);
    let mut peer = accept(&mut world, A).await;
    let mut followers = Vec::new();
    for _ in 0..2 {
        followers.push(world.accept().await.1);
    }
    client.ready(LONG).await.unwrap();
    let (mut held, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(1)));
    // Each time over the same connection, whatever the turn of other calls.
    for token in 2..10 {
        drop(held);
        let script = async {
            assert_eq!(peer.release().await, token - 1);
            peer.hold(Some(token)).await
        };
        (held, _) = tokio::join!(client.hold(1, 1), script);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_renews_everything_at_once() {
    let (client, mut peer, mut world, heard) = connected(three_seconds()).await;
    let mut held = Vec::new();
    for token in [7, 8, 9] {
        held.push(tokio::join!(client.hold(1, 1), peer.hold(Some(token))).0.unwrap());
    }
    drop(peer);
    let mut peer = accept(&mut world, A).await;
    let (renewed, started) = (now(), now());
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(peer.renew(Status::Ok).await);
    }
    tokens.sort_unstable();
    assert_eq!((tokens, renewed.elapsed()), (vec![7, 8, 9], Duration::ZERO));
    for _ in 0..3 {
        peer.renew(Status::Ok).await;
    }
    assert!((1_000..=1_001).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert!(held.iter().all(Held::is_held));
    assert_eq!((heard.holds(), client.metrics().holds_lost), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgot_is_asked_again_and_the_guard_says_so_meanwhile() {
    let (client, mut peer, mut world, heard) = connected(three_seconds()).await;
    let (held, _) = tokio::join!(client.hold(1, 3), peer.hold(Some(7)));
    let held = held.unwrap();
    world.set(A, Port::Refuses);
    drop(peer);
    // Another server, which never knew the token.
    let mut peer = accept(&mut world, B).await;
    let (renewed, ()) = tokio::join!(peer.renew(Status::AlreadyRelease), held.lost());
    assert_eq!((renewed, held.is_held()), (7, false));
    assert_eq!(heard.holds(), [(false, RuleId::Flow(1), 3)]);
    // Its level is full at first.
    let (started, asked) = (now(), peer.hold(None).await);
    assert_eq!((asked, started.elapsed(), held.is_held()), ((1, 3), Duration::ZERO, false));
    assert_eq!(peer.hold(Some(8)).await, (1, 3));
    assert!((1_000..=1_001).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    sleep(MS).await;
    assert!(held.is_held());
    assert_eq!(heard.holds(), [(false, RuleId::Flow(1), 3), (true, RuleId::Flow(1), 3)]);
    assert_eq!(
        lines().split_off(2),
        [
            "WARN the token server no longer holds what it granted holds=1",
            "INFO the token server holds again what was lost holds=1"
        ]
    );
    let metrics = client.metrics();
    assert_eq!((metrics.holds_lost, metrics.holds_regained, metrics.holding), (1, 1, 1));
    assert_eq!((metrics.holds, metrics.holds_refused), (1, 0), "what the caller asked");
    drop(held);
    assert_eq!(peer.release().await, 8, "what it has, not what it had");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_concurrency_tokens_is_told_of_none_and_cannot_renew_them() {
    let (client, mut peer, mut world, heard) = connected(three_seconds()).await;
    let (held, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(7)));
    let (dropped, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(8)));
    world.set(A, Port::Refuses);
    drop(peer);
    let (address, mut java) = world.accept().await;
    assert_eq!(address, B);
    java.greet(1).await;
    client.ready(LONG).await.unwrap();
    drop(dropped);
    held.unwrap().lost().await;
    assert_eq!(heard.holds(), [(false, RuleId::Flow(1), 1)]);
    let asked = timeout(Duration::from_secs(20), java.asked()).await;
    assert!(asked.is_err(), "{asked:?}");
}

/// Asks its client what the server can do as soon as it hears of a connection.
#[derive(Debug, Default)]
struct Curious {
    client: OnceLock<Client>,
    features: Mutex<Vec<Option<u32>>>,
}

impl Listener for Arc<Curious> {
    fn connection(&self, _: &ConnectionState) {
        let extension = self.client.get().and_then(Client::extension);
        lock(&self.features).push(extension.map(|extension| extension.features));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_can_do_is_known_with_the_connection() {
    let curious = Arc::new(Curious::default());
    let (client, mut world) = client(Client::builder().listener(Arc::clone(&curious)), &[A]);
    curious.client.set(client.clone()).unwrap();
    let _peer = accept(&mut world, A).await;
    client.ready(LONG).await.unwrap();
    assert_eq!(*lock(&curious.features), [Some(feature::CONCURRENCY)]);
}

#[tokio::test(start_paused = true)]
async fn a_server_holds_tokens_from_the_moment_that_it_answers_hello() {
    let (client, mut peer, mut world, _heard) = connected(three_seconds()).await;
    let (held, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(7)));
    drop(peer);
    let (_, mut peer) = world.accept().await;
    let Some(Asked::Ping { .. }) = peer.asked().await else { panic!("a ping") };
    peer.send(&[Response::Ping { xid: 0, connected: 1 }]).await;
    client.ready(LONG).await.unwrap();
    let early = client.hold(1, 1).await.unwrap().decided_by();
    assert_eq!(early.fallback_reason(), Some(Reason::Unsupported));
    let Some(Asked::Hello { xid }) = peer.asked().await else { panic!("HELLO") };
    sleep(100 * MS).await;
    let greeted = now();
    let (version, features) = (1, feature::CONCURRENCY);
    peer.send(&[Response::Hello { xid, version, features, revision: 1 }]).await;
    assert_eq!(peer.renew(Status::Ok).await, 7);
    assert_eq!(greeted.elapsed(), Duration::ZERO);
    assert!(tokio::join!(client.hold(1, 1), peer.hold(Some(8))).0.unwrap().is_held());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_nobody_can_renew_is_lost_when_its_time_is_over() {
    let (client, mut peer, mut world, heard) = connected(three_seconds()).await;
    let started = now();
    let (held, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(7)));
    let held = held.unwrap();
    [A, B].iter().for_each(|server| world.set(server, Port::Refuses));
    drop(peer);
    held.lost().await;
    assert!((3_000..=3_001).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert_eq!(heard.holds(), [(false, RuleId::Flow(1), 1)]);
    world.open(A);
    let mut peer = accept(&mut world, A).await;
    peer.hold(Some(8)).await;
    sleep(MS).await;
    assert!(held.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_tried_again_until_the_time_is_over() {
    let (client, mut peer, _world, _heard) = connected(three_seconds()).await;
    let started = now();
    let (held, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(7)));
    let held = held.unwrap();
    let mut attempts = 0;
    let unanswered = async {
        while let Some(asked) = peer.asked().await {
            // Other calls are answered, so the connection is a good one.
            match asked {
                Asked::Renew { .. } => attempts += 1,
                Asked::Flow { xid, flow_id, .. } => {
                    peer.send(&[super::peer::ok(xid, flow_id)]).await;
                }
                other => panic!("{other:?}"),
            }
        }
    };
    let lost = async {
        while held.is_held() {
            client.acquire(2, 1, false).await.unwrap();
            sleep(100 * MS).await;
        }
    };
    tokio::select! { () = unanswered => panic!("closed"), () = lost => {} }
    assert!((3_000..=3_100).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert!((5..10).contains(&attempts), "{attempts}, from the first to the third second");
}

#[tokio::test(start_paused = true)]
async fn a_guard_dropped_without_a_connection_is_released_over_the_next_one() {
    let (client, mut peer, mut world, _heard) = connected(three_seconds()).await;
    let (first, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(7)));
    let (second, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(8)));
    [A, B].iter().for_each(|server| world.set(server, Port::Refuses));
    drop(peer);
    while client.acquire(1, 1, false).await != Err(NoAnswer::Unreachable) {}
    drop(first);
    world.open(A);
    let mut peer = accept(&mut world, A).await;
    let release = |asked: &Asked| matches!(asked, Asked::Release { token: 7, .. });
    let asked = [peer.asked().await.unwrap(), peer.asked().await.unwrap()];
    assert_eq!(asked.iter().filter(|asked| release(asked)).count(), 1, "{asked:?}");
    let Some(Asked::Renew { token: 8, .. }) = asked.iter().find(|asked| !release(asked)) else {
        panic!("{asked:?}");
    };
    // One that has ended by itself is not worth a word.
    world.set(A, Port::Refuses);
    drop(peer);
    while client.acquire(1, 1, false).await != Err(NoAnswer::Unreachable) {}
    drop(second);
    assert_eq!(client.metrics().holding, 1, "kept until it would have ended");
    sleep(Duration::from_secs(4)).await;
    assert_eq!(client.metrics().holding, 0);
    world.open(A);
    let mut peer = accept(&mut world, A).await;
    assert!(timeout(Duration::from_secs(20), peer.asked()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_too_busy_to_ask_still_releases() {
    let (net, mut world) = network();
    world.set(A, Port::Open(64));
    let builder = Client::builder().server(A).silence(LONG).pending_max(NonZeroUsize::MAX);
    let client = builder.start(net).unwrap();
    let mut peer = accept(&mut world, A).await;
    client.ready(LONG).await.unwrap();
    let (held, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(7)));
    // The server stops reading, and the queue fills.
    let mut asked = 0;
    while client.metrics().busy == 0 {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..20_000 {
            let client = client.clone();
            calls.spawn(async move { client.acquire(1, 1, false).await });
        }
        asked += calls.join_all().await.len();
    }
    let unasked = client.hold(1, 1).await.unwrap();
    assert_eq!(unasked.decided_by().fallback_reason(), Some(Reason::Busy));
    drop(held);
    let mut read = 0;
    loop {
        match peer.asked().await {
            Some(Asked::Flow { .. }) => read += 1,
            Some(Asked::Release { token: 7, .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(read > 50_000 && read < asked, "{read} of {asked}");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_guards_are_renewed_together_by_one_task() {
    let (client, mut peer, _world, _heard) = connected(three_seconds()).await;
    let serve = async {
        let (mut held, mut renewed, mut reads) = (0_i64, 0, 0);
        while renewed < 30_000 {
            if peer.read().await == 0 {
                panic!("closed");
            }
            reads += 1;
            let mut answers = Vec::new();
            while let Some(asked) = peer.buffered() {
                answers.push(match asked {
                    Asked::Hold { xid, .. } => {
                        held += 1;
                        granted(xid, Some(held))
                    }
                    Asked::Renew { xid, .. } => {
                        renewed += 1;
                        let (kind, status) = (kind::RENEW, Status::Ok);
                        Response::Head { xid, kind, status }
                    }
                    other => panic!("{other:?}"),
                });
            }
            peer.send(&answers).await;
        }
        reads
    };
    let calls = async {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..10_000 {
            let client = client.clone();
            calls.spawn(async move { client.hold(1, 1).await.unwrap() });
        }
        let held = calls.join_all().await;
        std::future::pending::<()>().await;
        drop(held);
    };
    let reads = tokio::select! { reads = serve => reads, () = calls => panic!("never") };
    assert!(reads < 200, "{reads} reads for 40 000 requests");
    assert_eq!(client.metrics().holds_lost, 0);
}

#[tokio::test(start_paused = true)]
async fn a_guard_may_outlive_its_client() {
    let (client, mut peer, _world, mut heard) = connected(three_seconds()).await;
    let (held, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(7)));
    let held = held.unwrap();
    drop(client);
    held.lost().await;
    assert!(!held.is_held());
    assert_eq!(peer.asked().await, None, "the server ends it with the connection");
    drop(held);
    assert!(heard.silence().await);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_has_released_what_was_dropped_before() {
    let (client, mut peer, _world, _heard) = connected(three_seconds()).await;
    let (held, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(7)));
    drop(held);
    let script = async {
        assert_eq!(peer.release().await, 7);
        let Some(Asked::Ping { xid, .. }) = peer.asked().await else { panic!("a ping") };
        peer.send(&[Response::Ping { xid, connected: 1 }]).await;
        assert_eq!(peer.asked().await, None);
    };
    tokio::join!(client.close(), script);
    let held = client.hold(1, 1).await.unwrap();
    assert!(matches!(held.decided_by(), DecidedBy::Fallback { reason: Reason::Unreachable, .. }));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_concurrency_tokens_is_not_asked_and_each_policy_has_its_level() {
    for (count, cluster, policy, expected) in [
        (100, r#""localCount": 10"#, FallbackPolicy::Local, 10),
        (15, r#""localCount": null"#, FallbackPolicy::Local, 15),
        (100, r#""fallbackPolicy": "share""#, FallbackPolicy::Share, 25),
        (100, r#""fallbackPolicy": "share", "thresholdType": 0"#, FallbackPolicy::Share, 100),
        (5, r#""fallbackPolicy": "pass""#, FallbackPolicy::Pass, 200),
        (100, r#""fallbackPolicy": "block""#, FallbackPolicy::Block, 0),
    ] {
        let (recorder, heard) = recorder();
        let (client, mut world) = client(Client::builder().listener(recorder), &[A]);
        let cluster = cluster.replace(r#""localCount": null"#, r#""resourceTimeout": 2000"#);
        let rule = if cluster.contains("thresholdType") {
            rules(
                r#"[{"resource": "db", "grade": 0, "count": 100, "clusterMode": true, "clusterConfig":
                    {"flowId": 1, "thresholdType": 0, "fallbackPolicy": "share"}}]"#,
            )
        } else {
            thread_rule(count, &cluster)
        };
        client.set_rules(rule.clone()).unwrap();
        let (_, mut peer) = world.accept().await;
        peer.greet(4).await;
        client.ready(LONG).await.unwrap();
        let decided_by = DecidedBy::Fallback { reason: Reason::Unsupported, policy };
        for _ in 0..2 {
            let mut held = Vec::new();
            for nth in 0..200 {
                // Rules that are replaced forget nobody who is in progress.
                if nth == 7 {
                    client.set_rules(Vec::new()).unwrap();
                    client.set_rules(rule.clone()).unwrap();
                }
                match client.hold(1, 1).await {
                    Ok(guard) => {
                        assert!(guard.is_held());
                        assert_eq!(guard.decided_by(), decided_by);
                        held.push(guard);
                    }
                    Err(refused) => assert_eq!(refused, Refused { flow_id: 1, decided_by }),
                }
            }
            assert_eq!(held.len(), expected, "{cluster}");
        }
        let metrics = client.metrics();
        assert_eq!(metrics.fallbacks(Reason::Unsupported), 400);
        assert_eq!(metrics.fallback_passed, 2 * expected as u64);
        assert_eq!((metrics.holds, metrics.holding), (0, 0));
        assert_eq!(heard.fell_back().len(), 400);
        let asked = timeout(Duration::from_secs(20), peer.asked()).await;
        assert!(asked.is_err(), "nothing that it does not know: {asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_let_in_counts_when_it_is_gone() {
    let rule = thread_rule(100, r#""localCount": 5, "resourceTimeout": 60000"#);
    let (client, mut peer, world, _heard) = connected(rule).await;
    let mut held = Vec::new();
    for token in 1..=7 {
        held.push(tokio::join!(client.hold(1, 1), peer.hold(Some(token))).0.unwrap());
    }
    [A, B].iter().for_each(|server| world.set(server, Port::Refuses));
    drop(peer);
    while client.acquire(1, 1, false).await != Err(NoAnswer::Unreachable) {}
    assert!(client.hold(1, 1).await.is_err(), "seven are in progress, and five may be");
    held.truncate(4);
    held.push(client.hold(1, 1).await.unwrap());
    assert!(client.hold(1, 1).await.is_err());
    assert!(held.iter().all(Held::is_held));
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_or_unsure_server_is_no_decision() {
    let reject = thread_rule(10, r#""overloadPolicy": "reject", "fallbackPolicy": "pass""#);
    let (client, mut peer, _world, _heard) = connected(reject).await;
    for (status, reason, passes) in [
        (Status::TooManyRequest, Reason::TooManyRequests, false),
        (Status::NoRuleExists, Reason::NoRule, true),
        (Status::BadRequest, Reason::BadRequest, true),
        (Status::Fail, Reason::Fail, true),
        (Status::ReleaseOk, Reason::UnknownStatus, true),
    ] {
        let script = async {
            let Some(Asked::Hold { xid, .. }) = peer.asked().await else { panic!("a hold") };
            let answer = Response::ConcurrentAcquire { xid, status, token_id: 9 };
            peer.send(&[answer]).await;
        };
        let (held, ()) = tokio::join!(client.hold(1, 1), script);
        assert_eq!(held.is_ok(), passes, "{status:?}");
        let decided_by = held.map_or_else(|refused| refused.decided_by, |held| held.decided_by());
        assert_eq!(decided_by.fallback_reason(), Some(reason));
    }
    // A grant without a token could never be given back.
    let script = async {
        let Some(Asked::Hold { xid, .. }) = peer.asked().await else { panic!("a hold") };
        peer.send(&[granted(xid, Some(0))]).await;
    };
    let (held, ()) = tokio::join!(client.hold(1, 1), script);
    let decided_by = held.unwrap().decided_by();
    assert_eq!(decided_by.fallback_reason(), Some(Reason::Fail));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_makes_no_sense_is_not_sent() {
    let (client, mut peer, _world, _heard) = connected(Vec::new()).await;
    for (flow_id, count) in [(0, 1), (1, 0), (1, u32::MAX)] {
        let held = client.hold(flow_id, count).await.unwrap();
        let decided_by = held.decided_by();
        assert_eq!(decided_by.fallback_reason(), Some(Reason::BadRequest));
    }
    let (held, asked) = tokio::join!(client.hold(3, 1), peer.hold(Some(1)));
    assert_eq!((held.is_ok(), asked), (true, (3, 1)), "the first that was sent");
    assert_eq!(BadCall::Count.to_string(), "a count is from 1 to 2147483647");
}

#[tokio::test(start_paused = true)]
async fn an_engine_in_the_process_holds_as_a_server_does() {
    use limiter::{ClusterEngine, Settings};
    let engine = Arc::new(ClusterEngine::new(Settings::default()));
    engine.replace(thread_rule(3, r#""resourceTimeout": 3000"#)).unwrap();
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
    let embedded = |listener| {
        let builder = Client::builder().clock(Arc::<ManualClock>::clone(&clock));
        builder.listener(listener).embedded(Arc::clone(&engine)).unwrap()
    };
    let (recorder_, heard) = recorder();
    let client = embedded(recorder_);
    client.set_rules(thread_rule(3, r#""resourceTimeout": 3000"#)).unwrap();
    let held = client.hold(1, 2).await.unwrap();
    let other = embedded(recorder().0);
    let theirs = other.hold(1, 1).await.unwrap();
    let refused = client.hold(1, 1).await.unwrap_err();
    assert_eq!(refused.decided_by, DecidedBy::Server);
    drop(theirs);
    let again = client.hold(1, 1).await.unwrap();
    // Renewed for an hour, a millisecond at a time.
    for _ in 0..3_600 {
        clock.advance(Duration::from_secs(1));
        sleep(Duration::from_millis(1_001)).await;
    }
    assert!(held.is_held() && again.is_held());
    assert!(other.hold(1, 1).await.is_err(), "three are in use");
    // The engine's time runs away, as it does when the process was stopped.
    clock.advance(Duration::from_secs(4));
    timeout(LONG, held.lost()).await.expect("it was lost, if only for a moment");
    sleep(MS).await;
    assert!(held.is_held(), "and it has asked again");
    assert_eq!(heard.holds().len(), 4, "both of them: {:?}", heard.holds());
    // The process's client goes; what its guards hold ends as with a connection.
    drop(client);
    assert!(!again.is_held());
    clock.advance(Duration::from_secs(2));
    engine.tidy(limiter::Clock::now(&*clock), limiter::Clock::wall(&*clock));
    assert_eq!(engine.concurrency().live(), 0);
    drop((held, again));
    assert_eq!(other.hold(1, 3).await.unwrap().decided_by(), DecidedBy::Server);
}
