//! `overloadPolicy: share`: what a client does when the namespace is over its request limit and the
//! server lends.

use std::{sync::Arc, time::Duration};

use limiter::{
    Ask, Clock, ClusterEngine, Decision, ManualClock, Settings, Tick,
    rule::{FallbackPolicy, NamespaceRules},
};
use protocol::{Response, Status, feature, kind};
use tokio::{
    io::DuplexStream,
    task::JoinSet,
    time::{sleep, sleep_until},
};

use super::{
    fallback::rules,
    lease::hears_nothing,
    net::{Port, World, client},
    peer::{Asked, Peer, ok, status},
};
use crate::{Client, DecidedBy, Outcome, Param, Reason, Verdict, What, time::now};

const A: &str = "10.0.0.1:18730";
const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3_600);

/// Flow rule 1 of 100 a second, of which each of 4 clients takes 3 in 100 ms.
fn shared(rule: &str, config: &str) -> Vec<NamespaceRules> {
    rules(&format!(
        r#"[{{"resource": "hot", "count": 100, "clusterMode": true, {rule} "clusterConfig":
            {{{config} "flowId": 1, "thresholdType": 1, "fallbackPolicy": "pass",
              "overloadPolicy": "share"}}}}]"#
    ))
}

/// A client of a server that lends, and of which it is one of 4. It has made a call, which passed.
async fn connected(known: Vec<NamespaceRules>) -> (Client, Peer<DuplexStream>, World) {
    let (client, mut world) = client(Client::builder().ping_interval(LONG), &[A]);
    client.set_rules(known).unwrap();
    let (_, mut peer) = world.accept().await;
    peer.greet_as_ours(4, feature::LEASE | feature::CONCURRENCY).await;
    client.ready(LONG).await.unwrap();
    let script = async {
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(xid, id)]).await;
    };
    let (outcome, ()) = tokio::join!(client.check(1, 1, false), script);
    assert_eq!(outcome.decided_by, DecidedBy::Server);
    (client, peer, world)
}

/// Refuses the next request, which is one of flow rule 1.
async fn refuse(peer: &mut Peer<DuplexStream>) {
    let (xid, _) = peer.flow().await;
    peer.send(&[status(xid, Status::TooManyRequest)]).await;
}

const LENT: Outcome = Outcome { verdict: Verdict::Pass, decided_by: DecidedBy::Lease };
const REFUSED: Outcome = Outcome {
    verdict: Verdict::Block,
    decided_by: DecidedBy::Fallback {
        reason: Reason::TooManyRequests,
        policy: FallbackPolicy::Block,
    },
};

#[tokio::test(start_paused = true)]
async fn a_call_that_was_refused_passes_by_what_it_is_lent_and_those_after_it_are_not_sent() {
    let (client, mut peer, _world) = connected(shared("", "")).await;
    let script = async {
        refuse(&mut peer).await;
        peer.lease(Some((7, 3, 100))).await
    };
    let (outcome, asked) = tokio::join!(client.check(1, 1, false), script);
    assert_eq!((outcome, asked), (LENT, (2, 0, 0)));
    let start = now();
    for _ in 0..2 {
        assert_eq!(client.check(1, 1, false).await, LENT);
    }
    for _ in 0..9 {
        assert_eq!(client.check(1, 1, false).await, REFUSED);
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "at once");

    sleep_until(start + 60 * MS).await;
    let (outcome, asked) = tokio::join!(client.check(1, 1, false), peer.lease(Some((8, 3, 100))));
    assert_eq!((outcome, asked), (LENT, (3, 7, 3)), "no more than its part, though it needs 12");
    sleep_until(start + 90 * MS).await;
    assert_eq!(client.check(1, 1, false).await, LENT);
    sleep_until(start + 101 * MS).await;
    assert_eq!(client.check(1, 1, false).await, LENT, "also when it may ask again");
    let script = async {
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(xid, id)]).await;
    };
    let (outcome, ()) = tokio::join!(client.check(1, 1, false), script);
    assert_eq!(outcome.decided_by, DecidedBy::Server);
    let metrics = client.metrics();
    assert_eq!((metrics.leased, metrics.lease_tokens_spent), (6, 6));
    assert_eq!((metrics.passed, metrics.fallbacks(Reason::TooManyRequests)), (2, 9));
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_refused_together_wait_for_one_lease() {
    let (client, mut peer, _world) = connected(shared("", "")).await;
    let script = async {
        for _ in 0..5 {
            refuse(&mut peer).await;
        }
        assert_eq!(peer.lease(Some((7, 2, 100))).await, (3, 0, 0));
    };
    let check = || client.check(1, 1, false);
    let (a, b, c, d, e, ()) = tokio::join!(check(), check(), check(), check(), check(), script);
    let passed = [a, b, c, d, e].into_iter().filter(|outcome| *outcome == LENT);
    assert_eq!(passed.count(), 2);
    hears_nothing(&mut peer).await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_refused_at_once_what_is_not_lent() {
    let (client, mut peer, _world) = connected(shared("", "")).await;
    assert_eq!(client.check_now(1, 1, false), None, "before, the server has to be asked");
    let script = async {
        refuse(&mut peer).await;
        peer.lease(Some((7, 2, 100))).await
    };
    assert_eq!(tokio::join!(client.check(1, 1, false), script).0, LENT);
    assert_eq!(client.check_now(1, 1, false), Some(LENT));
    for _ in 0..3 {
        assert_eq!(client.check_now(1, 1, false), Some(REFUSED));
    }
    assert_eq!(client.check_now(1, 1, true), None, "one with priority is asked for");
    assert_eq!(client.metrics().fallbacks(Reason::TooManyRequests), 3);
}

#[tokio::test(start_paused = true)]
async fn a_part_follows_the_number_of_clients() {
    let (client, mut peer, _world) = connected(shared("", "")).await;
    let script = async {
        let Some(Asked::Ping { xid, .. }) = peer.asked().await else { panic!("a ping") };
        peer.send(&[Response::Ping { xid, connected: 2 }]).await;
    };
    let (pong, ()) = tokio::join!(client.ping(), script);
    assert_eq!(pong.unwrap().clients, Some(2));
    let script = async {
        for _ in 0..6 {
            refuse(&mut peer).await;
        }
        peer.lease(Some((7, 5, 100))).await
    };
    let checks = crate::sync::join_all((0..6).map(|_| client.check(1, 1, false)));
    let (outcomes, asked) = tokio::join!(checks, script);
    assert_eq!(asked, (5, 0, 0), "a tenth of 50");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == LENT).count(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_lent_is_refused_and_no_policy_for_a_lost_server_stands_in() {
    for answer in [Status::Blocked, Status::AlreadyRelease, Status::TooManyRequest] {
        let (client, mut peer, _world) = connected(shared("", "")).await;
        let script = async {
            refuse(&mut peer).await;
            let Some(Asked::Lease { xid, .. }) = peer.asked().await else { panic!("a lease") };
            peer.send(&[Response::Head { xid, kind: kind::LEASE, status: answer }]).await;
        };
        let (outcome, ()) = tokio::join!(client.check(1, 1, false), script);
        assert_eq!(outcome, REFUSED, "{answer:?}");
        assert_eq!(client.check(1, 1, false).await, REFUSED, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_does_not_come_is_waited_for_no_longer_than_any_answer() {
    let (client, mut peer, _world) = connected(shared("", "")).await;
    let start = now();
    let (outcome, ()) = tokio::join!(client.check(1, 1, false), refuse(&mut peer));
    assert_eq!(outcome, REFUSED);
    let waited = start.elapsed();
    assert!((20 * MS..=22 * MS).contains(&waited), "{waited:?}");
    assert!(matches!(peer.asked().await, Some(Asked::Lease { want: 2, .. })));
    sleep(5 * MS).await;
    let script = async {
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(xid, id)]).await;
    };
    let (outcome, ()) = tokio::join!(client.check(1, 1, false), script);
    assert_eq!(outcome.decided_by, DecidedBy::Server, "the server is asked again");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_meanwhile_leaves_the_calls_to_the_rule_s_fallback() {
    let (client, mut peer, world) = connected(shared("", "")).await;
    let script = async {
        refuse(&mut peer).await;
        peer.lease(Some((7, 1, 100))).await
    };
    let (outcome, _) = tokio::join!(client.check(1, 1, false), script);
    assert_eq!((outcome, client.check(1, 1, false).await), (LENT, REFUSED));
    world.set(A, Port::Refuses);
    drop(peer);
    while client.acquire(1, 1, false).await.is_ok() {}
    let (reason, policy) = (Reason::Unreachable, FallbackPolicy::Pass);
    let outcome = client.check(1, 1, false).await;
    assert_eq!(outcome.decided_by, DecidedBy::Fallback { reason, policy });
}

/// The server's last word was that the namespace is over its limit: a share that the client counts
/// by itself would come on top of what the server has given to others.
#[tokio::test(start_paused = true)]
async fn what_a_server_refused_before_it_went_away_is_refused() {
    let (client, mut peer, world) = connected(shared("", "")).await;
    let script = async {
        refuse(&mut peer).await;
        assert!(matches!(peer.asked().await, Some(Asked::Lease { .. })));
        world.set(A, Port::Refuses);
        drop(peer);
    };
    let (outcome, ()) = tokio::join!(client.check(1, 1, false), script);
    assert_eq!(outcome, REFUSED);
}

#[tokio::test(start_paused = true)]
async fn a_prioritized_call_is_asked_for_and_lent_to_as_any_other() {
    let (client, mut peer, _world) = connected(shared("", "")).await;
    for lease in [7, 8] {
        let script = async {
            refuse(&mut peer).await;
            peer.lease(Some((lease, 2, 100))).await
        };
        let (outcome, (want, ..)) = tokio::join!(client.check(1, 2, true), script);
        assert_eq!((outcome, want), (LENT, 3));
        sleep(60 * MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_with_reasons_is_lent_to_as_well() {
    let (client, mut peer, _world) = connected(shared("", "")).await;
    let script = async {
        refuse(&mut peer).await;
        peer.lease(Some((7, 1, 100))).await;
    };
    let (why, ()) = tokio::join!(client.check_explained(What::flow(1, 1), false), script);
    assert_eq!(why.outcome, LENT);
    assert_eq!(client.check_explained(What::flow(1, 1), false).await.outcome, REFUSED);
}

#[tokio::test(start_paused = true)]
async fn leases_of_the_rule_s_own_are_taken_on_its_terms() {
    let own = r#""lease": {"maxTokens": 50, "ttlMs": 100},"#;
    let (client, mut peer, _world) = connected(shared("", own)).await;
    let script = async {
        refuse(&mut peer).await;
        peer.lease(Some((7, 20, 100))).await
    };
    let (outcome, asked) = tokio::join!(client.check(1, 20, false), script);
    assert_eq!((outcome, asked), (LENT, (21, 0, 0)));
    assert_eq!(client.check(1, 1, false).await, REFUSED);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_lent_is_refused() {
    for rule in [
        r#""controlBehavior": 1, "warmUpPeriodSec": 2,"#,
        r#""controlBehavior": 2, "maxQueueingTimeMs": 500,"#,
        r#""grade": 0,"#,
    ] {
        let (client, mut peer, _world) = connected(shared(rule, "")).await;
        let (outcome, ()) = tokio::join!(client.check(1, 1, false), refuse(&mut peer));
        assert_eq!(outcome, REFUSED, "{rule}");
    }
    let buckets = shared("", r#""algorithm": "tokenBucket","#);
    let (client, mut peer, _world) = connected(buckets).await;
    let (outcome, ()) = tokio::join!(client.check(1, 1, false), refuse(&mut peer));
    assert_eq!(outcome, REFUSED);

    let (client, mut peer, _world) = connected(shared(r#""grade": 0,"#, "")).await;
    let script = async {
        let Some(Asked::Hold { xid, .. }) = peer.asked().await else { panic!("a hold") };
        let over = Response::ConcurrentAcquire { xid, status: Status::TooManyRequest, token_id: 0 };
        peer.send(&[over]).await;
    };
    let (held, ()) = tokio::join!(client.hold(1, 1), script);
    assert_eq!(held.unwrap_err().decided_by, REFUSED.decided_by);

    let (client, mut peer, _world) = connected(shared(r#""paramIdx": 0,"#, "")).await;
    let script = async {
        let Some(Asked::Param { xid, .. }) = peer.asked().await else { panic!("a value") };
        let status = Status::TooManyRequest;
        peer.send(&[Response::Param { xid, status, remaining: 0, wait_ms: 0 }]).await;
    };
    let value = [Param::Int(7)];
    let (outcome, ()) = tokio::join!(client.check_param(1, 1, &value), script);
    assert_eq!(outcome, REFUSED);
}

/// A rule of 100 a second, counted by an engine that clients ask over servers which cannot lend.
const ALONE: &str = r#"[{"resource": "hot", "count": 100, "clusterMode": true, "clusterConfig":
    {"flowId": 1, "thresholdType": 1, "overloadPolicy": "share"}}]"#;

/// Eight clients, each of a server that answers as Sentinel's does, out of one engine; they go on
/// as long as the tasks do.
async fn without_leases(
    engine: &Arc<ClusterEngine>,
    clock: &Arc<ManualClock>,
) -> (Vec<Client>, JoinSet<()>) {
    let (mut clients, mut servers) = (Vec::new(), JoinSet::new());
    for _ in 0..8 {
        let builder = Client::builder().clock(Arc::<ManualClock>::clone(clock));
        let (client, mut world) = client(builder, &[A]);
        client.set_rules(rules(ALONE)).unwrap();
        let (_, mut peer) = world.accept().await;
        peer.greet(8).await;
        client.ready(LONG).await.unwrap();
        clients.push(client);
        let (engine, clock) = (Arc::clone(engine), Arc::clone(clock));
        servers.spawn(async move {
            while let Some(Asked::Flow { xid, flow_id, count, .. }) = peer.asked().await {
                let decided = engine.rules().acquire_flow(clock.now(), flow_id, count, false);
                let answer = match decided {
                    Ok(Decision::Pass { .. }) => Status::Ok,
                    Ok(_) => Status::Blocked,
                    Err(_) => Status::TooManyRequest,
                };
                peer.send(&[status(xid, answer)]).await;
            }
        });
    }
    (clients, servers)
}

async fn passes(client: &Client, calls: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..calls {
        passed += u32::from(client.check(1, 1, false).await.is_pass());
    }
    passed
}

fn limited(requests: f64) -> Arc<ClusterEngine> {
    let settings = Settings { max_allowed_qps: Some(requests), ..Settings::default() };
    let engine = Arc::new(ClusterEngine::new(settings));
    engine.replace(rules(ALONE)).unwrap();
    engine
}

/// Count × (2 − 1/n), but for what is no whole token: a share of 12.5 is 12.
#[tokio::test(start_paused = true)]
async fn where_none_is_lent_a_client_that_got_the_whole_count_leaves_the_others_their_shares() {
    let (engine, clock) = (limited(100.0), Arc::new(ManualClock::new(Tick::from_ms(5_000))));
    let (clients, _servers) = without_leases(&engine, &clock).await;
    let (greedy, others) = clients.split_first().unwrap();
    assert_eq!(passes(greedy, 150).await, 100, "its share is among them");
    for client in others {
        assert_eq!(passes(client, 50).await, 12);
    }
}

#[tokio::test(start_paused = true)]
async fn where_none_is_lent_a_server_that_decides_again_passes_twice_the_count_at_most() {
    let (engine, clock) = (limited(100.0), Arc::new(ManualClock::new(Tick::from_ms(5_000))));
    let (clients, _servers) = without_leases(&engine, &clock).await;
    let what = limiter::What::Flow { id: 1, count: 1 };
    for _ in 0..100 {
        // Counts as a request, and takes nothing.
        let peek = Ask { peek: true, ..Ask::default() };
        assert!(engine.rules().ask(clock.now(), &what, peek).is_ok());
    }
    clock.set(Tick::from_ms(5_900));
    for client in &clients {
        assert_eq!(passes(client, 50).await, 12, "the namespace has made its requests");
    }
    clock.set(Tick::from_ms(6_000));
    assert_eq!(passes(&clients[0], 150).await, 100);
    for client in &clients {
        assert_eq!(passes(client, 50).await, 0, "100 and 96 are all there is");
    }
}
