//! Calls under rules with `clusterMode`: who is asked, and what comes of it.

use std::{sync::Arc, time::Duration};

use limiter::{
    ClusterEngine, Param, Settings,
    local::{Arg, LocalSettings},
    rule::{Contents, NamespaceRules, parse},
};
use protocol::{Response, Status};
use tokio::{io::DuplexStream, time::timeout};

use super::{
    super::{
        fallback::rules,
        log,
        net::{World, client},
        peer::{Asked, Peer, ok, status},
    },
    RuntimeClock, node,
};
use crate::{Client, ClusterMode, Engine, NotNow, time::now};

const A: &str = "10.0.0.1:18730";

/// Loads the rules, and gives those of a server.
fn load(engine: &Engine, text: &str) -> Vec<NamespaceRules> {
    load_here(engine, text);
    rules(text)
}

fn load_here(engine: &Engine, text: &str) {
    let parsed = parse(text, "test", "ns", Contents::Mixed, false).unwrap().rules;
    engine.local().load_flow(parsed.flow);
    engine.local().load_param(parsed.param);
}

fn clock() -> Arc<RuntimeClock> {
    Arc::new(RuntimeClock(now()))
}

fn engine_on(clock: &Arc<RuntimeClock>) -> Engine {
    log::keep();
    Engine::with_clock(LocalSettings::default(), Arc::<RuntimeClock>::clone(clock))
}

/// An engine with these rules, whose client is connected.
async fn connected(text: &str) -> (Engine, Peer<DuplexStream>, World) {
    let clock = clock();
    let engine = engine_on(&clock);
    load(&engine, text);
    let (client, mut world) = client(Client::builder().clock(clock), &[A]);
    engine.connect(client.clone());
    let (_, mut peer) = world.accept().await;
    peer.greet(1).await;
    client.ready(Duration::from_secs(1)).await.unwrap();
    (engine, peer, world)
}

/// A server in this process with the cluster rules of the text, and an engine that asks it.
fn served(text: &str) -> (Engine, Client) {
    let clock = clock();
    let engine = engine_on(&clock);
    let rules = load(&engine, text);
    let server = Arc::new(ClusterEngine::new(Settings::default()));
    server.replace(rules).unwrap();
    let builder = Client::builder().namespace("ns").clock(Arc::<RuntimeClock>::clone(&clock));
    (engine, builder.embedded(server).unwrap())
}

fn rule(flow_id: i64, count: u32, config: &str) -> String {
    format!(
        r#"{{"resource": "r", "count": {count}, "clusterMode": true,
             "clusterConfig": {{"flowId": {flow_id}, "thresholdType": 1{config}}}}}"#
    )
}

#[tokio::test(start_paused = true)]
async fn a_server_says_whether_a_call_passes_waits_or_is_refused() {
    let (engine, mut peer, _world) = connected(&format!("[{}]", rule(7, 5, ""))).await;
    let wait = |xid| Response::Flow { xid, status: Status::ShouldWait, remaining: 0, wait_ms: 40 };
    let answers: [&dyn Fn(i32) -> Response; 3] =
        [&|xid| ok(xid, 7), &|xid| status(xid, Status::Blocked), &wait];
    let serve = async {
        for answer in answers {
            let Some(Asked::Flow { xid, flow_id: 7, count: 2, priority: true }) =
                peer.asked().await
            else {
                panic!()
            };
            peer.send(&[answer(xid)]).await;
        }
    };
    let call = || engine.entry("r").count(2).prioritized().acquire();
    let calls = async {
        drop(call().await.unwrap());
        let refused = call().await.unwrap_err();
        assert_eq!(refused.to_string(), "cluster flow rule 7 of r: 5 calls per second");
        let started = now();
        let guard = call().await.unwrap();
        assert!(started.elapsed() >= Duration::from_millis(40));
        guard
    };
    let ((), guard) = tokio::join!(serve, calls);
    assert_eq!(node(&engine, "r").threads, 1);
    drop(guard);
    let node = node(&engine, "r");
    assert_eq!((node.total_pass, node.total_block, node.threads), (4, 2, 0));
    assert_eq!(engine.cluster_mode(), ClusterMode::Client);
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_each_rule_falls_back_by_itself() {
    for (config, passed) in [
        (r#", "localCount": 2"#, 2),
        (r#", "fallbackPolicy": "share""#, 5),
        (r#", "fallbackPolicy": "pass""#, 9),
        (r#", "fallbackPolicy": "block""#, 0),
    ] {
        let (engine, peer, world) = connected(&format!("[{}]", rule(7, 5, config))).await;
        world.set(A, super::super::net::Port::Refuses);
        drop(peer);
        let mut count = 0;
        for _ in 0..9 {
            count += u32::from(engine.entry("r").acquire().await.is_ok());
        }
        assert_eq!(count, passed, "{config}");
        assert_eq!(engine.client().unwrap().metrics().fallback_passed, u64::from(passed));
    }
}

#[tokio::test(start_paused = true)]
async fn switching_between_client_server_and_nobody_keeps_what_is_counted() {
    let text = format!("[{}]", rule(7, 3, r#", "localCount": 1"#));
    let (engine, server) = served(&text);
    assert_eq!(engine.cluster_mode(), ClusterMode::Off);
    drop(engine.entry("r").acquire().await.unwrap());
    engine.entry("r").acquire().await.unwrap_err();

    engine.connect(server);
    assert_eq!(engine.cluster_mode(), ClusterMode::Server);
    for _ in 0..3 {
        drop(engine.entry("r").acquire().await.unwrap());
    }
    engine.entry("r").acquire().await.unwrap_err();

    let server = engine.disconnect().unwrap();
    assert!(engine.disconnect().is_none() && engine.client().is_none());
    engine.entry("r").acquire().await.expect_err("four have passed here, and one may");
    engine.connect(server);
    engine.entry("r").acquire().await.expect_err("three have passed there");
    let node = node(&engine, "r");
    assert_eq!((node.total_pass, node.total_block), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn hot_values_are_held_to_their_count_in_the_whole_cluster() {
    let text = r#"[{"resource": "r", "paramIdx": 0, "count": 2, "clusterMode": true,
                    "clusterConfig": {"flowId": 9, "thresholdType": 1}}]"#;
    let (engine, server) = served(text);
    let other = engine_on(&clock());
    load(&other, text);
    engine.connect(server.clone());
    other.connect(server);
    let call = async |engine: &Engine, value: &str| {
        let args = [Arg::One(Param::Str(value.into()))];
        engine.entry("r").args(&args).acquire().await.map(drop)
    };
    for engine in [&engine, &other] {
        assert_eq!(call(engine, "a").await, Ok(()));
    }
    for engine in [&engine, &other] {
        let refused = call(engine, "a").await.unwrap_err().to_string();
        assert!(refused.starts_with("cluster hot-parameter rule 9 of r: 2 calls"), "{refused}");
        assert_eq!(call(engine, "b").await, Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_on_calls_in_progress_holds_its_place_until_the_guard_goes() {
    let text = r#"[{"resource": "r", "count": 1, "grade": 0, "clusterMode": true,
                    "clusterConfig": {"flowId": 8, "thresholdType": 1}}]"#;
    let (engine, server) = served(text);
    let other = engine_on(&clock());
    load(&other, text);
    engine.connect(server.clone());
    other.connect(server);
    let guard = engine.entry("r").acquire().await.unwrap();
    assert!(guard.held()[0].is_held());
    let refused = other.entry("r").acquire().await.unwrap_err();
    assert_eq!(refused.to_string(), "cluster flow rule 8 of r: 1 calls in progress");
    drop(guard);
    let guard = other.entry("r").acquire().await.unwrap();
    drop((guard, engine.entry("r").acquire().await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn rules_that_change_are_told_to_the_client() {
    let (engine, peer, world) = connected(&format!("[{}]", rule(7, 5, ""))).await;
    world.set(A, super::super::net::Port::Refuses);
    drop(peer);
    load(&engine, &format!("[{}]", rule(7, 5, r#", "fallbackPolicy": "block""#)));
    engine.entry("r").acquire().await.unwrap_err();
    load(&engine, &format!("[{}]", rule(7, 5, r#", "fallbackPolicy": "pass""#)));
    drop(engine.entry("r").acquire().await.unwrap());
    // Two rules of one id cannot stand beside each other: those before stay.
    load_here(&engine, &format!("[{}, {}]", rule(7, 5, ""), rule(7, 6, "")));
    drop(engine.entry("r").acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_asks_no_server_but_the_one_in_this_process() {
    let text = format!("[{}]", rule(7, 1, ""));
    let (engine, _peer, _world) = connected(&text).await;
    assert_eq!(engine.entry("r").try_acquire().unwrap_err(), NotNow::MustAsk);
    let (engine, server) = served(&text);
    engine.connect(server);
    drop(engine.entry("r").try_acquire().unwrap());
    assert!(matches!(engine.entry("r").try_acquire(), Err(NotNow::Blocked(_))));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_away_while_it_asks_is_not_in_progress() {
    let (engine, mut peer, _world) = connected(&format!("[{}]", rule(7, 5, ""))).await;
    timeout(Duration::from_millis(5), engine.entry("r").acquire()).await.unwrap_err();
    let (xid, _) = peer.flow().await;
    peer.send(&[ok(xid, 7)]).await;
    let node = node(&engine, "r");
    assert_eq!((node.total_pass, node.threads), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn without_a_client_nobody_is_asked_for_ever() {
    let engine = engine_on(&clock());
    load(&engine, &format!("[{}]", rule(7, 1, "")));
    engine.local().ask_servers(true);
    drop(engine.entry("r").acquire().await.unwrap());
    engine.entry("r").acquire().await.unwrap_err();
}
