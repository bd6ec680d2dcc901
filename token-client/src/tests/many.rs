//! Many callers at once, a server that does everything wrong that a server may, and no answer in
//! the wrong hands.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use protocol::{Response, Status};
use tokio::{net::TcpListener, task::JoinSet};

use super::peer::{Asked, Peer, accept, listener};
use crate::{Client, NoAnswer, Param};

const TASKS: u64 = 64;

/// Calls of each task; `MANY_CALLS` in the environment says another number for all together.
#[expect(clippy::disallowed_methods, reason = "the long run is asked for by the environment")]
fn calls() -> u64 {
    let all = std::env::var("MANY_CALLS").map(|all| all.parse::<u64>().expect("a number"));
    all.map_or(500, |all| all.div_ceil(TASKS))
}

/// What a server answers to exactly this question, and to no other.
fn fingerprint(flow_id: i64, count: i32, extra: i32) -> i32 {
    let mixed = flow_id.wrapping_mul(0x9e37_79b9).wrapping_add(i64::from(count) * 31);
    i32::try_from(mixed & 0x3fff_ffff).unwrap() ^ extra
}

fn answer(asked: &Asked) -> Option<Response> {
    Some(match asked {
        Asked::Flow { xid, flow_id, count, .. } => {
            let remaining = fingerprint(*flow_id, *count, 0);
            Response::Flow { xid: *xid, status: Status::Ok, remaining, wait_ms: 0 }
        }
        Asked::Param { xid, flow_id, count, params } => {
            let Some(Param::Int(value)) = params.first() else { panic!("an int") };
            let remaining = fingerprint(*flow_id, *count, *value);
            Response::Param { xid: *xid, status: Status::Ok, remaining, wait_ms: 0 }
        }
        Asked::Ping { xid, .. } => Response::Ping { xid: *xid, connected: 1 },
        _ => return None,
    })
}

/// An answer of the wrong type, with the number of a call that waits.
fn mistyped(response: Response) -> Response {
    match response {
        Response::Flow { xid, .. } => {
            Response::Param { xid, status: Status::Ok, remaining: -9, wait_ms: 0 }
        }
        other => Response::Flow { xid: other.xid(), status: Status::Ok, remaining: -9, wait_ms: 0 },
    }
}

/// Serves one connection: answers in any order, some twice, some a batch late, some never, some
/// in the wrong type first, some that nobody asked for; and closes after `lives` requests.
async fn misbehave(
    mut peer: Peer<tokio::net::TcpStream>,
    mut lives: u32,
    mut random: fastrand::Rng,
) {
    let mut late: Vec<Response> = Vec::new();
    let Some(greeting @ Asked::Ping { .. }) = peer.asked().await else { return };
    let pong = answer(&greeting).into_iter().collect::<Vec<_>>();
    let mut out = bytes::BytesMut::new();
    pong.iter().for_each(|response| response.encode(&mut out));
    while lives > 0 {
        if peer.raw(&out).await.is_err() || peer.read().await == 0 {
            return;
        }
        out.clear();
        let mut batch = std::mem::take(&mut late);
        while let Some(asked) = peer.buffered() {
            lives = lives.saturating_sub(1);
            let Some(response) = answer(&asked) else { continue };
            match random.u32(0..100) {
                0 => {}
                1..5 => late.push(response),
                5..10 => batch.extend([response, response]),
                10..15 => batch.extend([mistyped(response), response]),
                15..18 => {
                    let xid = response.xid() + random.i32(500_000..900_000);
                    let status = Status::Blocked;
                    let nobodys = Response::Flow { xid, status, remaining: -7, wait_ms: 0 };
                    batch.extend([nobodys, response]);
                }
                _ => batch.push(response),
            }
        }
        // A mistyped answer must stay in front of the right one to mean anything.
        if random.bool() {
            batch.reverse();
        }
        batch.iter().for_each(|response| response.encode(&mut out));
    }
}

async fn serve(listener: TcpListener, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut connections = JoinSet::new();
    // In turns short and longer ones, in which calls also run out of time before their connection
    // ends.
    loop {
        let peer = accept(&listener).await;
        while connections.try_join_next().is_some() {}
        let lives = random.u32(200..1_000) * if random.u32(0..20) == 0 { 30 } else { 1 };
        connections.spawn(misbehave(peer, lives, random.fork()));
    }
}

#[derive(Debug, Default)]
struct Seen {
    answered: AtomicU64,
    timed_out: AtomicU64,
    unreachable: AtomicU64,
    cancelled: AtomicU64,
}

async fn call(client: Client, task: u64, seen: Arc<Seen>) {
    let mut random = fastrand::Rng::with_seed(task);
    let calls = calls();
    for nth in 0..calls {
        let flow_id = i64::try_from(task * calls + nth + 1).unwrap();
        let count = random.u32(1..1_000);
        let wire_count = i32::try_from(count).unwrap();
        let value = random.i32(..);
        let param = random.bool();
        let extra = if param { value } else { 0 };
        let asked = async {
            if param {
                client.acquire_param(flow_id, count, &[Param::Int(value)]).await
            } else {
                client.acquire(flow_id, count, false).await
            }
        };
        let patience = random.u32(0..20);
        let impatient = async {
            for _ in 0..patience {
                tokio::task::yield_now().await;
            }
            // Most callers wait to the end.
            if patience > 2 {
                std::future::pending::<()>().await;
            }
        };
        let counter = tokio::select! {
            biased;
            answer = asked => match answer {
                Ok(answer) => {
                    let expected = fingerprint(flow_id, wire_count, extra);
                    assert_eq!((answer.status, answer.remaining), (Status::Ok, expected));
                    &seen.answered
                }
                Err(NoAnswer::TimedOut) => &seen.timed_out,
                Err(NoAnswer::Unreachable) => {
                    client.ready(Duration::from_secs(20)).await.unwrap();
                    &seen.unreachable
                }
                Err(other) => panic!("{other}"),
            },
            () = impatient => &seen.cancelled,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_reaches_a_caller_that_did_not_ask_for_it() {
    let (listener, address) = listener().await;
    let mut server = JoinSet::new();
    server.spawn(serve(listener, 7));
    // Long enough for a busy machine: what runs out of time are the answers that never come.
    let builder = Client::builder().server(&address).timeout(Duration::from_millis(200));
    let client = builder.backoff_cap(Duration::from_millis(1)).build().unwrap();
    client.ready(Duration::from_secs(20)).await.unwrap();
    let seen = Arc::new(Seen::default());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(call(client.clone(), task, Arc::clone(&seen)));
    }
    tasks.join_all().await;
    let metrics = client.metrics();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let answered = count(&seen.answered);
    assert_eq!(
        answered + count(&seen.timed_out) + count(&seen.unreachable) + count(&seen.cancelled),
        TASKS * calls()
    );
    // It was as bad as it was meant to be, and most calls came through.
    assert!(answered > TASKS * calls() / 2, "{seen:?} {metrics:?}");
    assert!(count(&seen.timed_out) > 10, "{seen:?} {metrics:?}");
    assert!(count(&seen.unreachable) > 10, "{seen:?} {metrics:?}");
    assert!(count(&seen.cancelled) > 100, "{seen:?} {metrics:?}");
    assert!(metrics.stray_answers > 100, "{metrics:?}");
    assert!(metrics.mismatched_answers > 100, "{metrics:?}");
    assert!(metrics.connections_opened > 5, "{metrics:?}");
    assert_eq!(metrics.waiting, 0, "every slot is free again");
}
