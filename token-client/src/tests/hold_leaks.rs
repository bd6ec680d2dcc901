//! Whatever becomes of the calls and the guards, the server is left holding nothing.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use protocol::{Response, Status, feature, kind};
use tokio::{
    io::DuplexStream,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    net::{Port, World, client, network},
    peer::{Asked, Peer, granted, ok},
};
use crate::{Client, NoAnswer, sync::lock};

const A: &str = "10.0.0.1:18730";
const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3_600);

async fn connected() -> (Client, Peer<DuplexStream>, World) {
    let (client, mut world) = client(Client::builder(), &[A]);
    let (_, mut peer) = world.accept().await;
    peer.greet_as_ours(1, feature::CONCURRENCY).await;
    client.ready(LONG).await.unwrap();
    (client, peer, world)
}

/// Reads a hold, and does not answer it yet.
async fn asked(peer: &mut Peer<DuplexStream>) -> i32 {
    match peer.asked().await {
        Some(Asked::Hold { xid, .. }) => xid,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_for_a_caller_that_went_away_is_released_when_it_comes() {
    let (client, mut peer, _world) = connected().await;
    let xid = tokio::select! {
        biased;
        _ = client.hold(1, 1) => panic!("nobody answers it"),
        xid = asked(&mut peer) => xid,
    };
    peer.send(&[granted(xid, Some(5))]).await;
    assert_eq!(peer.release().await, 5);
    assert_eq!((client.metrics().holding, client.metrics().holds), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_comes_too_late_is_released() {
    let (client, mut peer, _world) = connected().await;
    let (held, xid) = tokio::join!(client.hold(1, 1), asked(&mut peer));
    assert_eq!(held.unwrap().decided_by().fallback_reason(), Some(crate::Reason::TimedOut));
    peer.send(&[granted(xid, Some(5))]).await;
    assert_eq!(peer.release().await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_comes_too_late_is_released_by_a_client_that_is_too_busy_to_ask() {
    let (net, mut world) = network();
    world.set(A, Port::Open(64));
    let builder = Client::builder().server(A).silence(LONG).pending_max(NonZeroUsize::MAX);
    let client = builder.start(net).unwrap();
    let (_, mut peer) = world.accept().await;
    peer.greet_as_ours(1, feature::CONCURRENCY).await;
    client.ready(LONG).await.unwrap();
    let (_late, xid) = tokio::join!(client.hold(1, 1), asked(&mut peer));
    // The server reads no more, and the queue fills.
    while client.metrics().busy == 0 {
        let mut calls = JoinSet::new();
        for _ in 0..20_000 {
            let client = client.clone();
            calls.spawn(async move { client.acquire(1, 1, false).await });
        }
        calls.join_all().await;
    }
    peer.send(&[granted(xid, Some(5))]).await;
    while client.metrics().stray_answers == 0 {
        tokio::task::yield_now().await;
    }
    let released = async {
        loop {
            match peer.asked().await {
                Some(Asked::Flow { .. }) => {}
                Some(Asked::Release { token, .. }) => break token,
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(timeout(LONG, released).await, Ok(5));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_has_come_and_was_not_looked_at_is_released() {
    let (client, mut peer, _world) = connected().await;
    let mut hold = Box::pin(client.hold(1, 1));
    let xid = tokio::select! {
        biased;
        _ = &mut hold => panic!("nobody answers it"),
        xid = asked(&mut peer) => xid,
    };
    peer.send(&[granted(xid, Some(5))]).await;
    while client.metrics().answered == 0 {
        tokio::task::yield_now().await;
    }
    drop(hold);
    assert_eq!(peer.release().await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_regained_for_a_guard_that_went_away_is_released() {
    let (client, mut peer, _world) = connected().await;
    let (held, _) = tokio::join!(client.hold(1, 1), peer.hold(Some(5)));
    assert_eq!(peer.renew(Status::AlreadyRelease).await, 5);
    let xid = asked(&mut peer).await;
    drop(held);
    peer.send(&[granted(xid, Some(6))]).await;
    assert_eq!(peer.release().await, 6);
    assert_eq!(client.metrics().holding, 0);
}

/// What a server holds: tokens, each with the connection that holds it.
#[derive(Debug, Default)]
struct Level {
    live: BTreeMap<i64, usize>,
    made: i64,
    /// Releases of tokens that were not held.
    in_vain: u64,
}

const MAX: usize = 20;

/// Serves a connection as a server that is slow at times, until it has answered `lives` requests;
/// what the connection holds ends with it.
async fn serve(
    mut peer: Peer<DuplexStream>,
    connection: usize,
    lives: u32,
    level: Arc<Mutex<Level>>,
    mut random: fastrand::Rng,
) {
    peer.greet_as_ours(1, feature::CONCURRENCY).await;
    for _ in 0..lives {
        let Some(asked) = peer.asked().await else { break };
        let answer = match asked {
            Asked::Hold { xid, .. } => {
                let level = &mut *lock(&level);
                let token = (level.live.len() < MAX).then(|| {
                    level.made += 1;
                    level.live.insert(level.made, connection);
                    level.made
                });
                granted(xid, token)
            }
            Asked::Release { xid, token } => {
                let level = &mut *lock(&level);
                let held = level.live.remove(&token).is_some();
                level.in_vain += u64::from(!held);
                let status = if held { Status::ReleaseOk } else { Status::AlreadyRelease };
                Response::ConcurrentRelease { xid, status }
            }
            Asked::Renew { xid, token } => {
                let owner = lock(&level).live.get_mut(&token).map(|owner| *owner = connection);
                let status = if owner.is_some() { Status::Ok } else { Status::AlreadyRelease };
                Response::Head { xid, kind: kind::RENEW, status }
            }
            Asked::Flow { xid, flow_id, .. } => ok(xid, flow_id),
            Asked::Ping { xid, .. } => Response::Ping { xid, connected: 1 },
            other => panic!("{other:?}"),
        };
        if random.u32(0..20) == 0 {
            // Beyond the time-out of those who wait, at times.
            sleep(random.u32(0..30) * MS).await;
        }
        peer.send(&[answer]).await;
    }
    drop(peer);
    lock(&level).live.retain(|_, owner| *owner != connection);
}

async fn accept_all(mut world: World, level: Arc<Mutex<Level>>, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut connections = JoinSet::new();
    for connection in 0.. {
        let (_, peer) = world.accept().await;
        // The last one lives on, so that it is the client who leaves nothing behind.
        let lives = if connection < 10 { random.u32(300..1_500) } else { u32::MAX };
        connections.spawn(serve(peer, connection, lives, Arc::clone(&level), random.fork()));
    }
}

async fn hold(client: Client, task: u64, most: Arc<AtomicU64>) {
    let mut random = fastrand::Rng::with_seed(task);
    for _ in 0..300 {
        let impatience = sleep(random.u32(0..40) * MS);
        let held = tokio::select! {
            biased;
            held = client.hold(1, 1) => held.ok(),
            () = impatience => None,
        };
        most.fetch_max(client.metrics().holding, Ordering::Relaxed);
        // Some long enough to be renewed.
        let long = random.u32(0..20) == 0;
        sleep(random.u32(0..if long { 3_000 } else { 60 }) * MS).await;
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn no_token_is_left_behind_by_callers_that_go_away_at_any_moment() {
    for seed in 0..2 {
        let (client, world) = client(Client::builder(), &[A]);
        let (level, most) = (Arc::<Mutex<Level>>::default(), Arc::<AtomicU64>::default());
        let mut server = JoinSet::new();
        server.spawn(accept_all(world, Arc::clone(&level), seed));
        client.ready(LONG).await.unwrap();
        let mut tasks = JoinSet::new();
        for task in 0..50 {
            tasks.spawn(hold(client.clone(), seed * 100 + task, Arc::clone(&most)));
        }
        tasks.join_all().await;
        // Answers that are still on their way come within a second.
        sleep(Duration::from_secs(1)).await;
        client.ready(LONG).await.unwrap();
        while client.acquire(1, 1, false).await == Err(NoAnswer::TimedOut) {}
        sleep(Duration::from_secs(1)).await;
        server.shutdown().await;
        let level = &*lock(&level);
        assert!(level.live.is_empty(), "{level:?}");
        let metrics = client.metrics();
        assert_eq!((metrics.holding, metrics.waiting), (0, 0));
        // It was as bad as it was meant to be.
        assert!(level.made > 1_000, "{level:?}");
        assert!(metrics.cancelled > 1_000 && metrics.timed_out > 1_000, "{metrics:?}");
        assert!(metrics.stray_answers > 1_000 && metrics.connections_closed > 5, "{metrics:?}");
        assert!(metrics.holds > 300 && metrics.holds_refused > 200, "{metrics:?}");
        assert!(metrics.holds_lost > 5 && metrics.holds_regained > 0, "{metrics:?}");
        assert!(most.load(Ordering::Relaxed) > 10);
    }
}
