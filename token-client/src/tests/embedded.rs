//! A client of an engine in the same process.

use std::sync::Arc;

use limiter::{ClusterEngine, ManualClock, Settings, Tick};
use protocol::Status;

use super::{fallback::rules, log};
use crate::{Client, ConnectionState, DecidedBy, Param, Pong, Reason, Verdict};

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
    client.ready(std::time::Duration::ZERO).await.unwrap();
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
    assert_eq!(outcome.verdict, Verdict::Waited(std::time::Duration::from_micros(69_500)));
    assert_eq!(outcome.decided_by, DecidedBy::Server);
}

#[tokio::test]
async fn what_the_engine_cannot_decide_falls_back_too() {
    let settings = Settings { max_allowed_qps: Some(0.0), ..Settings::default() };
    let engine = Arc::new(ClusterEngine::new(settings));
    let share = r#"[{"resource": "a", "count": 20, "clusterMode": true, "clusterConfig":
        {"flowId": 1, "thresholdType": 1, "overloadPolicy": "share"}}]"#;
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
