//! Decisions with their reasons, waits that the server bounds, corrections, and several rules at
//! once.

use std::time::Duration;

use limiter::rule::FallbackPolicy;
use protocol::{
    ANY_WAIT, Adjustment, Explained, ExtendedResponse, Response, Status, feature, kind,
};
use tokio::io::DuplexStream;

use super::{
    fallback::rules,
    net::{World, client},
    peer::{Asked, Peer, ok, status},
};
use crate::{
    AllAnswer, BadCall, Builder, Client, DecidedBy, Mode, NoAnswer, Outcome, Param, Reason, RuleId,
    Unadjusted, Unexplained, Unit, Usage, Verdict, What, time::now,
};

const A: &str = "10.0.0.1:18730";
const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3_600);

/// Flow rules: 1 rejects, 2 paces; hot-parameter rules: 1 rejects, 2 paces.
const RULES: &str = r#"[
    {"resource": "GET:/orders", "count": 100, "clusterMode": true,
     "clusterConfig": {"flowId": 1, "thresholdType": 1}},
    {"resource": "partner", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 60000,
     "clusterMode": true, "clusterConfig": {"flowId": 2, "thresholdType": 1}},
    {"resource": "user", "count": 5, "paramIdx": 0, "clusterMode": true,
     "clusterConfig": {"flowId": 1, "thresholdType": 1, "fallbackPolicy": "block"}},
    {"resource": "slow user", "count": 5, "paramIdx": 0, "controlBehavior": 2,
     "maxQueueingTimeMs": 60000, "clusterMode": true,
     "clusterConfig": {"flowId": 2, "thresholdType": 1}}]"#;

async fn connected(builder: Builder, features: u32) -> (Client, Peer<DuplexStream>, World) {
    let (client, mut world) = client(builder, &[A]);
    client.set_rules(rules(RULES)).unwrap();
    let (_, mut peer) = world.accept().await;
    peer.greet_as_ours(3, features).await;
    client.ready(LONG).await.unwrap();
    (client, peer, world)
}

/// Of a rule with 100 a second.
fn explained(used: u64, remaining: u64, wait_ns: u64) -> Explained<'static> {
    Explained {
        remaining,
        wait_ns,
        used,
        threshold: 100.0,
        window_ms: 1_000,
        unit: Unit::PerSecond,
        mode: Mode::Enforce,
        connected: 3,
        resource: "GET:/orders".into(),
    }
}

fn value(text: &'static str) -> [Param<'static>; 1] {
    [Param::Str(text.into())]
}

const BY_SERVER: fn(Verdict) -> Outcome =
    |verdict| Outcome { verdict, decided_by: DecidedBy::Server };

#[tokio::test(start_paused = true)]
async fn an_explanation_takes_nothing_and_says_why_in_one_line() {
    let (client, mut peer, _world) = connected(Client::builder(), feature::ASK).await;
    let what = What::flow(1, 5);
    let cases = [
        (Status::Ok, explained(95, 0, 0), Verdict::Pass, "pass, 95 used of 100 per second, 0 left"),
        (
            Status::Blocked,
            explained(98, 2, 230_000_000),
            Verdict::Block,
            "blocked, 98 used of 100 per second, again in 230ms",
        ),
        (
            Status::Blocked,
            explained(0, 100, Explained::NEVER),
            Verdict::Block,
            "blocked, 0 used of 100 per second, and no waiting helps",
        ),
        (
            Status::ShouldWait,
            explained(100, 0, 1_500),
            Verdict::Waited(Duration::from_nanos(1_500)),
            "pass after 2µs, 100 used of 100 per second, 0 left",
        ),
    ];
    for (status, explained, verdict, text) in cases {
        let script = async {
            let Some(Asked::Ask { xid, priority: true, peek: true, max_wait_ms, what }) =
                peer.asked().await
            else {
                panic!("a look")
            };
            assert_eq!((max_wait_ms, what), (ANY_WAIT, (1, 5, vec![])));
            peer.send_extended(ExtendedResponse::Ask { xid, status, explained }).await;
        };
        let started = now();
        let (why, ()) = tokio::join!(client.explain(what, true), script);
        let why = why.unwrap();
        assert_eq!((why.outcome, started.elapsed()), (BY_SERVER(verdict), Duration::ZERO));
        let text = format!("flow rule 1 (GET:/orders): {text}; decided by the token server");
        assert_eq!(why.to_string(), text);
    }
    let metrics = client.metrics();
    assert_eq!((metrics.passed, metrics.blocked, metrics.waited), (0, 0, 0), "nothing was checked");
}

#[tokio::test(start_paused = true)]
async fn without_a_servers_word_there_is_a_reason_and_a_policy() {
    let user = value("u");
    let (client, mut peer, world) = connected(Client::builder(), feature::CONCURRENCY).await;
    let unexplained = |rule, resource: &str, reason, policy| {
        Err(Unexplained { rule, resource: resource.into(), reason, policy })
    };
    let (flow, local) = (RuleId::Flow(1), FallbackPolicy::Local);
    assert_eq!(
        client.explain(What::flow(1, 1), false).await,
        unexplained(flow, "GET:/orders", Reason::Unsupported, local)
    );
    let orders = client.explain(What::param(1, 1, &user), false).await.unwrap_err();
    assert_eq!(
        orders.to_string(),
        "param rule 1 (user): no token server decides (unsupported); a check falls back to policy \
         Block"
    );
    // Nothing of it was sent.
    let (answer, ()) = tokio::join!(client.acquire(7, 1, false), async {
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(xid, id)]).await;
    });
    assert!(answer.is_ok());
    world.set(A, super::net::Port::Refuses);
    drop(peer);
    while client.acquire(1, 1, false).await.is_ok() {}
    let unreachable = client.explain(What::flow(9, 1), false).await;
    let reason = Reason::Unreachable;
    assert_eq!(unreachable, unexplained(RuleId::Flow(9), "", reason, FallbackPolicy::Pass));
}

#[tokio::test(start_paused = true)]
async fn a_head_alone_is_no_explanation() {
    let (client, mut peer, _world) = connected(Client::builder(), feature::ASK).await;
    for (status, reason) in [
        (Status::NoRuleExists, Reason::NoRule),
        (Status::TooManyRequest, Reason::TooManyRequests),
        (Status::BadRequest, Reason::BadRequest),
        // A server that cut its answer short: what it decided is not known to be whole.
        (Status::Ok, Reason::Fail),
        (Status::ShouldWait, Reason::Fail),
    ] {
        let script = async {
            let Some(Asked::Ask { xid, .. }) = peer.asked().await else { panic!("a look") };
            peer.send(&[Response::Head { xid, kind: kind::ASK, status }]).await;
        };
        let (why, ()) = tokio::join!(client.explain(What::flow(1, 1), false), script);
        assert_eq!(why.unwrap_err().reason, reason);
    }
}

#[tokio::test(start_paused = true)]
async fn an_explained_check_takes_waits_and_says_why() {
    let (client, mut peer, _world) = connected(Client::builder(), feature::ASK).await;
    let user = value("u");
    let what = What::param(1, 2, &user);
    let script = async {
        let Some(Asked::Ask { xid, priority: false, peek: false, what, .. }) = peer.asked().await
        else {
            panic!("an ask")
        };
        assert_eq!(what, (1, 2, user.to_vec()));
        let explained =
            Explained { unit: Unit::InProgress, mode: Mode::Shadow, ..explained(4, 1, 40_000_000) };
        peer.send_extended(ExtendedResponse::Ask { xid, status: Status::ShouldWait, explained })
            .await;
    };
    let started = now();
    let (why, ()) = tokio::join!(client.check_explained(what, false), script);
    assert_eq!(started.elapsed(), 40 * MS);
    let usage = Usage {
        used: 4,
        remaining: 1,
        threshold: 100.0,
        unit: Unit::InProgress,
        window: Duration::from_secs(1),
        retry: None,
        mode: Mode::Shadow,
        connected: 3,
    };
    assert_eq!(why.usage, Some(usage));
    assert_eq!(
        why.to_string(),
        "param rule 1 (GET:/orders): pass after 40ms, 4 used of 100 concurrent, 1 left, shadow: \
         nothing is refused; decided by the token server"
    );
    assert_eq!(client.metrics().waited, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_say_why_is_asked_without() {
    let (client, mut peer, world) = connected(Client::builder(), 0).await;
    let script = async {
        let (xid, _) = peer.flow().await;
        peer.send(&[status(xid, Status::Blocked)]).await;
    };
    let what = What::flow(1, 1);
    let (why, ()) = tokio::join!(client.check_explained(what, false), script);
    assert_eq!(why.usage, None);
    let text = "flow rule 1 (GET:/orders): blocked; decided by the token server";
    assert_eq!(why.to_string(), text);
    world.set(A, super::net::Port::Refuses);
    drop(peer);
    while client.acquire(1, 1, false).await.is_ok() {}
    let user = value("u");
    let why = client.check_explained(What::param(1, 1, &user), false).await;
    assert_eq!(
        why.to_string(),
        "param rule 1 (user): blocked; no token server decided (unreachable), so fallback policy \
         Block did"
    );
    assert_eq!(client.metrics().fallback_blocked, 1);
}

#[tokio::test(start_paused = true)]
async fn a_thread_grade_rule_that_gives_no_explained_tokens_is_asked_plainly() {
    let (client, mut peer, _world) = connected(Client::builder(), feature::ASK).await;
    let script = async {
        let Some(Asked::Ask { xid, .. }) = peer.asked().await else { panic!("an ask") };
        peer.send(&[Response::Head { xid, kind: kind::ASK, status: Status::BadRequest }]).await;
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(xid, id)]).await;
    };
    let what = What::flow(1, 1);
    let (why, ()) = tokio::join!(client.check_explained(what, false), script);
    assert_eq!((why.outcome, why.usage), (BY_SERVER(Verdict::Pass), None));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_would_be_too_long_is_told_to_the_server_which_books_nothing() {
    let builder = Client::builder().max_wait(Duration::from_micros(100_900));
    let (client, mut peer, _world) = connected(builder, feature::ASK).await;
    // With priority, and under a rule that paces; anything else is asked as ever.
    for (flow_id, priority) in [(1, true), (2, false)] {
        let script = async {
            for (status, wait_ns) in [(Status::ShouldWait, 100_000_000), (Status::Blocked, 1)] {
                let Some(Asked::Ask { xid, priority: with, peek: false, max_wait_ms, what }) =
                    peer.asked().await
                else {
                    panic!("an ask")
                };
                assert_eq!((with, max_wait_ms, what), (priority, 100, (flow_id, 1, vec![])));
                let explained = explained(100, 0, wait_ns);
                peer.send_extended(ExtendedResponse::Ask { xid, status, explained }).await;
            }
        };
        let calls = async {
            let started = now();
            let kept = client.check(flow_id, 1, priority).await;
            assert_eq!(kept, BY_SERVER(Verdict::Waited(100 * MS)));
            let refused = client.check(flow_id, 1, priority).await;
            assert_eq!(refused, BY_SERVER(Verdict::Block));
            assert_eq!(started.elapsed(), 100 * MS);
        };
        tokio::join!(script, calls);
    }
    let script = async {
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(xid, id)]).await;
    };
    let (outcome, ()) = tokio::join!(client.check(1, 1, false), script);
    assert!(outcome.is_pass());
    let metrics = client.metrics();
    assert_eq!((metrics.waited, metrics.blocked, metrics.max_wait_blocked), (2, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn without_a_bound_or_without_the_extension_a_check_is_sentinels() {
    for (builder, features) in [
        (Client::builder(), feature::ASK),
        (Client::builder().max_wait(100 * MS), feature::CONCURRENCY),
    ] {
        let (client, mut peer, _world) = connected(builder, features).await;
        let script = async {
            for id in [1, 2] {
                assert_eq!(peer.flow().await.1, id);
            }
        };
        let calls = async {
            client.check(1, 1, true).await;
            client.check(2, 1, false).await;
        };
        tokio::join!(script, calls);
    }
}

#[tokio::test(start_paused = true)]
async fn values_under_a_rule_that_paces_wait_where_the_server_can_say_so() {
    let user = value("u");
    let (client, mut peer, _world) = connected(Client::builder(), feature::ASK).await;
    let script = async {
        let Some(Asked::Ask { xid, max_wait_ms: ANY_WAIT, what, .. }) = peer.asked().await else {
            panic!("an ask")
        };
        assert_eq!(what, (2, 1, user.to_vec()));
        let (status, explained) = (Status::ShouldWait, explained(1, 0, 30_000_000));
        peer.send_extended(ExtendedResponse::Ask { xid, status, explained }).await;
        let Some(Asked::Param { xid, flow_id: 1, .. }) = peer.asked().await else {
            panic!("a rule that does not pace is asked plainly")
        };
        peer.send(&[Response::Param { xid, status: Status::Ok, remaining: 1, wait_ms: 0 }]).await;
    };
    let calls = async {
        let started = now();
        let outcome = client.check_param(2, 1, &user).await;
        assert_eq!(outcome, BY_SERVER(Verdict::Waited(30 * MS)));
        assert_eq!(started.elapsed(), 30 * MS);
        assert!(client.check_param(1, 1, &user).await.is_pass());
    };
    tokio::join!(script, calls);

    let (client, mut peer, _world) = connected(Client::builder(), 0).await;
    let script = async {
        let Some(Asked::Param { xid, flow_id: 2, .. }) = peer.asked().await else { panic!() };
        let status = Status::Blocked;
        peer.send(&[Response::Param { xid, status, remaining: 0, wait_ms: 0 }]).await;
    };
    let (outcome, ()) = tokio::join!(client.check_param(2, 1, &user), script);
    assert_eq!(outcome, BY_SERVER(Verdict::Block));
}

#[tokio::test(start_paused = true)]
async fn corrections_say_what_was_and_what_was_not_corrected() {
    let user = value("u");
    let (client, mut peer, _world) = connected(Client::builder(), feature::ASK).await;
    let script = async {
        let flow = (1, 3, vec![]);
        let param = (1, 731, user.to_vec());
        for (op, age_ms, what, status) in [
            (Adjustment::GiveBack, 2, flow.clone(), Status::Ok),
            (Adjustment::Charge, 0, param.clone(), Status::NoRuleExists),
            (Adjustment::Reset, 0, param, Status::BadRequest),
            (Adjustment::GiveBack, u32::MAX, flow, Status::Ok),
        ] {
            let Some(Asked::Adjust { xid, op: asked, age_ms: age, what: of }) = peer.asked().await
            else {
                panic!("a correction")
            };
            assert_eq!((asked, age, of), (op, age_ms, what));
            peer.send(&[Response::Head { xid, kind: kind::ADJUST, status }]).await;
        }
    };
    let calls = async {
        let (flow, param) = (What::flow(1, 3), What::param(1, 731, &user));
        assert_eq!(client.give_back(flow, Duration::from_micros(1_001)).await, Ok(()));
        assert_eq!(client.charge(param).await, Err(Unadjusted::NoRule));
        let refused = client.reset(param).await.unwrap_err();
        assert_eq!(refused, Unadjusted::Status(Status::BadRequest));
        assert_eq!(client.give_back(flow, Duration::MAX).await, Ok(()));
    };
    tokio::join!(script, calls);
    let silent = client.reset(What::flow(1, 1)).await;
    assert_eq!(silent, Err(Unadjusted::NoAnswer(NoAnswer::TimedOut)));
    let nothing = client.charge(What::flow(1, 0)).await;
    assert_eq!(nothing, Err(NoAnswer::BadRequest(BadCall::Count).into()));

    let (client, mut peer, _world) = connected(Client::builder(), feature::LEASE).await;
    let unsupported = client.charge(What::flow(1, 1)).await;
    assert_eq!(unsupported, Err(NoAnswer::Unsupported.into()));
    let asked = tokio::time::timeout(Duration::from_secs(20), peer.asked()).await;
    assert!(asked.is_err(), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn several_rules_are_asked_together() {
    let user = value("u");
    let (client, mut peer, _world) = connected(Client::builder(), feature::ASK).await;
    let all = [(What::flow(1, 2), true), (What::param(1, 3, &user), false)];
    let answer = |status| AllAnswer { status, failed: None, wait: Duration::ZERO, retry: None };
    for (status, failed, wait_ns, expected) in [
        (Status::Ok, None, 0, answer(Status::Ok)),
        (
            Status::Blocked,
            Some(1),
            5_000_000,
            AllAnswer { failed: Some(1), retry: Some(5 * MS), ..answer(Status::Blocked) },
        ),
        (
            Status::Blocked,
            Some(0),
            Explained::NEVER,
            AllAnswer { failed: Some(0), ..answer(Status::Blocked) },
        ),
        (
            Status::ShouldWait,
            None,
            7_000_000,
            AllAnswer { wait: 7 * MS, ..answer(Status::ShouldWait) },
        ),
        (
            Status::NoRuleExists,
            Some(1),
            9,
            AllAnswer { failed: Some(1), ..answer(Status::NoRuleExists) },
        ),
    ] {
        let script = async {
            let Some(Asked::All { xid, checks }) = peer.asked().await else { panic!("all") };
            assert_eq!(checks, [(true, (1, 2, vec![])), (false, (1, 3, user.to_vec()))]);
            peer.send_extended(ExtendedResponse::AcquireAll { xid, status, failed, wait_ns }).await;
        };
        let (answer, ()) = tokio::join!(client.acquire_all(&all), script);
        assert_eq!(answer, Ok(expected));
    }
    for (count, fits) in [(0, false), (16, true), (17, false)] {
        let all = vec![(What::flow(1, 1), false); count];
        let answer = client.acquire_all(&all).await;
        let expected = if fits { Err(NoAnswer::TimedOut) } else { answer };
        assert_eq!(answer, expected);
        assert_eq!(matches!(answer, Err(NoAnswer::BadRequest(BadCall::Params(_)))), !fits);
    }
}

#[tokio::test(start_paused = true)]
async fn an_extended_answer_reaches_only_the_call_of_its_number_and_type() {
    let (client, mut peer, _world) = connected(Client::builder(), feature::ASK).await;
    let script = async {
        let Some(Asked::Ask { xid, .. }) = peer.asked().await else { panic!("an ask") };
        peer.send(&[ok(xid, 1)]).await;
        let all =
            ExtendedResponse::AcquireAll { xid, status: Status::Ok, failed: None, wait_ns: 0 };
        peer.send_extended(all).await;
        let ask =
            |xid| ExtendedResponse::Ask { xid, status: Status::Ok, explained: explained(1, 2, 0) };
        peer.send_extended(ask(xid + 1)).await;
        peer.send_extended(ask(xid)).await;
    };
    let what = What::flow(1, 1);
    let (why, ()) = tokio::join!(client.explain(what, false), script);
    assert_eq!(why.unwrap().usage.unwrap().remaining, 2);
    let metrics = client.metrics();
    assert_eq!((metrics.mismatched_answers, metrics.stray_answers), (2, 1));
}
