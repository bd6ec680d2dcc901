//! A client of an engine in the same process.

use std::{sync::Arc, time::Duration};

use limiter::{ClusterEngine, ManualClock, Settings, Tick};
use protocol::Status;

use super::{fallback::rules, log};
use crate::{
    Client, ConnectionState, DecidedBy, Param, Pong, Reason, RuleId, Unadjusted, Verdict, What,
};

const RULES: &str = r#"[
    {"resource": "a", "count": 2, "clusterMode": true,
     "clusterConfig": {"flowId": 1, "thresholdType": 0}},
    {"resource": "b", "count": 1, "paramIdx": 0, "clusterMode": true,
     "clusterConfig": {"flowId": 2, "thresholdType": 1}}]"#;

fn embedded(engine: &Arc<ClusterEngine>, clock: &Arc<ManualClock>) -> Client {
    log::keep();
    let clock = Arc::clone(clock);
    Client::builder().namespace("ns").clock(clock).embedded(Arc::clone(engine)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_engine_decides_for_all_its_clients_together() {
    let engine = Arc::new(ClusterEngine::new(Settings::default()));
    engine.replace(rules(RULES)).unwrap();
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_930)));
    let client = embedded(&engine, &clock);
    client.ready(Duration::ZERO).await.unwrap();
    assert!(matches!(client.connection(), ConnectionState::Embedded));
    assert_eq!(client.ping().await, Ok(Pong { clients: Some(1) }));
    assert_eq!(client.acquire(1, 1, false).await.unwrap().remaining, 1);
    let other = embedded(&engine, &clock);
    assert_eq!(other.ping().await, Ok(Pong { clients: Some(2) }));
    assert_eq!(other.acquire(1, 1, false).await.unwrap().remaining, 2, "2 for each of 2");
    drop(other);
    assert_eq!(client.acquire(1, 1, false).await.unwrap().status, Status::Blocked);
    assert_eq!(client.acquire(9, 1, false).await.unwrap().status, Status::NoRuleExists);
    let value = [Param::Str("x".into())];
    assert_eq!(client.acquire_param(2, 1, &value).await.unwrap().status, Status::Ok);
    assert_eq!(client.acquire_param(2, 1, &value).await.unwrap().status, Status::Blocked);
}

#[tokio::test(start_paused = true)]
async fn a_booked_wait_is_kept_to_the_nanosecond() {
    let engine = Arc::new(ClusterEngine::new(Settings::default()));
    engine.replace(rules(RULES)).unwrap();
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_030)));
    let client = embedded(&engine, &clock);
    for _ in 0..2 {
        assert_eq!(client.check(1, 1, true).await.verdict, Verdict::Pass);
    }
    clock.set(Tick(1_700_000_000_930_500_000));
    let outcome = client.check(1, 1, true).await;
    assert_eq!(outcome.verdict, Verdict::Waited(Duration::from_micros(69_500)));
    assert_eq!(outcome.decided_by, DecidedBy::Server);
}

#[tokio::test]
async fn what_the_engine_cannot_decide_falls_back_too() {
    let settings = Settings { max_allowed_qps: Some(0.0), ..Settings::default() };
    let engine = Arc::new(ClusterEngine::new(settings));
    let share = r#"[{"resource": "a", "count": 20, "clusterMode": true, "clusterConfig":
        {"flowId": 1, "thresholdType": 1, "fallbackPolicy": "share"}}]"#;
    engine.replace(rules(share)).unwrap();
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
    let client = embedded(&engine, &clock);
    client.set_rules(rules(share)).unwrap();
    let _others = (embedded(&engine, &clock), embedded(&engine, &clock));
    let _fourth = embedded(&engine, &clock);
    let mut passed = 0;
    for _ in 0..40 {
        let outcome = client.check(1, 1, false).await;
        assert_eq!(outcome.fallback_reason(), Some(Reason::TooManyRequests));
        passed += u32::from(outcome.is_pass());
    }
    assert_eq!(passed, 5, "a quarter of 20");
}

/// Whatever the algorithm: the engine is asked, which knows what all clients have used.
#[tokio::test(start_paused = true)]
async fn over_the_limit_of_its_namespace_who_has_the_engine_asks_it_all_the_same() {
    let settings = Settings { max_allowed_qps: Some(1.0), ..Settings::default() };
    let engine = Arc::new(ClusterEngine::new(settings));
    let text = r#"[
        {"resource": "a", "count": 3, "clusterMode": true,
         "clusterConfig": {"flowId": 1, "thresholdType": 1, "overloadPolicy": "share"}},
        {"resource": "b", "count": 3, "paramIdx": 0, "clusterMode": true,
         "clusterConfig": {"flowId": 2, "thresholdType": 1, "overloadPolicy": "share"}},
        {"resource": "c", "count": 2, "controlBehavior": 2, "maxQueueingTimeMs": 10000,
         "clusterMode": true,
         "clusterConfig": {"flowId": 3, "thresholdType": 1, "overloadPolicy": "share"}},
        {"resource": "d", "count": 3, "grade": 0, "clusterMode": true,
         "clusterConfig": {"flowId": 4, "thresholdType": 1, "overloadPolicy": "share"}},
        {"resource": "e", "count": 3, "clusterMode": true,
         "clusterConfig": {"flowId": 5, "thresholdType": 1, "overloadPolicy": "reject"}}]"#;
    engine.replace(rules(text)).unwrap();
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
    let client = embedded(&engine, &clock);
    client.set_rules(rules(text)).unwrap();
    let other = embedded(&engine, &clock);
    assert_eq!(other.acquire(1, 2, false).await.unwrap().status, Status::Ok);
    assert_eq!(other.acquire(1, 1, false).await.unwrap().status, Status::TooManyRequest);
    let verdicts = [client.check(1, 1, false).await, client.check(1, 1, true).await];
    for (outcome, verdict) in verdicts.iter().zip([Verdict::Pass, Verdict::Block]) {
        assert_eq!((outcome.verdict, outcome.decided_by), (verdict, DecidedBy::Server));
    }
    let value = [Param::Str("x".into())];
    for verdict in [Verdict::Pass, Verdict::Block] {
        let outcome = client.check_param(2, 2, &value).await;
        assert_eq!((outcome.verdict, outcome.decided_by), (verdict, DecidedBy::Server));
    }
    for wait in [0, 500] {
        let wait = Duration::from_millis(wait);
        let verdict = if wait.is_zero() { Verdict::Pass } else { Verdict::Waited(wait) };
        assert_eq!(client.check(3, 1, false).await.verdict, verdict);
    }
    // Calls in progress have an owner whom only the guarded request names; and who rejects, rejects.
    assert!(client.hold(4, 1).await.is_err());
    for id in [4, 5] {
        let outcome = client.check(id, 1, false).await;
        assert_eq!(outcome.fallback_reason(), Some(Reason::TooManyRequests));
        assert!(outcome.is_block(), "{id}");
    }
}

/// A rule of each kind, two a second each; flow rule 3 paces, and 4 counts calls in progress.
const EXTENDED: &str = r#"[
    {"resource": "a", "count": 2, "clusterMode": true,
     "clusterConfig": {"flowId": 1, "thresholdType": 1}},
    {"resource": "b", "count": 2, "paramIdx": 0, "clusterMode": true,
     "clusterConfig": {"flowId": 2, "thresholdType": 1}},
    {"resource": "c", "count": 2, "controlBehavior": 2, "maxQueueingTimeMs": 10000,
     "clusterMode": true, "clusterConfig": {"flowId": 3, "thresholdType": 1}},
    {"resource": "d", "count": 2, "grade": 0, "clusterMode": true,
     "clusterConfig": {"flowId": 4, "thresholdType": 1}}]"#;

#[tokio::test(start_paused = true)]
async fn the_engine_explains_and_is_corrected_like_a_server() {
    let engine = Arc::new(ClusterEngine::new(Settings::default()));
    engine.replace(rules(EXTENDED)).unwrap();
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
    let client = embedded(&engine, &clock);
    let value = [Param::Str("x".into())];
    for (what, three) in [
        (What::flow(1, 1), What::flow(1, 3)),
        (What::param(2, 1, &value), What::param(2, 3, &value)),
    ] {
        for used in 0..2 {
            let why = client.explain(what, false).await.unwrap();
            assert_eq!((why.outcome.verdict, why.usage.unwrap().used), (Verdict::Pass, used));
            let why = client.check_explained(what, false).await;
            assert_eq!((why.outcome.verdict, why.usage.unwrap().used), (Verdict::Pass, used));
        }
        let why = client.explain(what, false).await.unwrap();
        let resource = if what.rule() == RuleId::Flow(1) { "a" } else { "b" };
        assert_eq!(
            why.to_string(),
            format!(
                "{} ({resource}): blocked, 2 used of 2 per second, again in 1s; decided by the \
                 token server",
                what.rule()
            )
        );
        client.give_back(what, Duration::from_millis(500)).await.unwrap();
        let why = client.check_explained(what, false).await;
        assert!(why.outcome.is_pass(), "{why}");
        client.reset(what).await.unwrap();
        client.charge(three).await.unwrap();
        assert!(client.check_explained(what, false).await.outcome.is_block());
        client.reset(what).await.unwrap();
    }
    assert_eq!(client.charge(What::flow(9, 1)).await, Err(Unadjusted::NoRule));
    let unknown = client.explain(What::flow(9, 1), false).await.unwrap_err();
    assert_eq!(unknown.reason, Reason::NoRule);
    // Tokens of calls in progress have an owner; the rule can still be looked at.
    let _held = client.hold(4, 1).await.unwrap();
    let why = client.explain(What::flow(4, 1), false).await.unwrap();
    assert_eq!(
        why.to_string(),
        "flow rule 4 (d): pass, 1 used of 2 concurrent, 0 left; decided by the token server"
    );
    assert!(client.check_explained(What::flow(4, 1), false).await.outcome.is_pass());
}

#[tokio::test(start_paused = true)]
async fn the_engine_takes_all_or_nothing() {
    let engine = Arc::new(ClusterEngine::new(Settings::default()));
    engine.replace(rules(EXTENDED)).unwrap();
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
    let client = embedded(&engine, &clock);
    let value = [Param::Str("x".into())];
    let all = |count| [(What::flow(1, 1), false), (What::param(2, count, &value), false)];
    assert_eq!(client.acquire_all(&all(2)).await.unwrap().status, Status::Ok);
    let refused = client.acquire_all(&all(1)).await.unwrap();
    assert_eq!((refused.status, refused.failed), (Status::Blocked, Some(1)));
    assert_eq!(refused.retry, Some(Duration::from_secs(1)));
    let left = client.acquire(1, 1, false).await.unwrap();
    assert_eq!((left.status, left.remaining), (Status::Ok, 0), "the refusal took nothing");
    let unknown = client.acquire_all(&[(What::flow(9, 1), false)]).await.unwrap();
    assert_eq!((unknown.status, unknown.failed), (Status::NoRuleExists, Some(0)));
}

#[tokio::test(start_paused = true)]
async fn a_wait_over_max_wait_books_nothing_with_the_engine() {
    let engine = Arc::new(ClusterEngine::new(Settings::default()));
    engine.replace(rules(EXTENDED)).unwrap();
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
    let builder = Client::builder().namespace("ns").max_wait(Duration::from_millis(1_000));
    let client = builder.clock(Arc::<ManualClock>::clone(&clock));
    let client = client.embedded(Arc::clone(&engine)).unwrap();
    let mut verdicts = Vec::new();
    // Two a second: the waits are 0, 500 and 1 000 ms, and then no longer ones are handed out.
    for _ in 0..6 {
        verdicts.push(client.check(3, 1, false).await);
    }
    let waits = [0, 500, 1_000].map(Duration::from_millis);
    for (outcome, wait) in verdicts.iter().zip(waits) {
        let verdict = if wait.is_zero() { Verdict::Pass } else { Verdict::Waited(wait) };
        assert_eq!(outcome.verdict, verdict);
    }
    for outcome in &verdicts[3..] {
        assert_eq!((outcome.verdict, outcome.decided_by), (Verdict::Block, DecidedBy::Server));
    }
    assert_eq!(client.metrics().max_wait_blocked, 0);
}
