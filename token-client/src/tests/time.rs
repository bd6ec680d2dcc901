//! Budgets, waits and silence, on a stopped clock.

use std::{num::NonZeroUsize, time::Duration};

use protocol::{Response, Status};
use tokio::{io::DuplexStream, task::JoinSet};

use super::{
    net::{Port, World, client, network},
    peer::{Asked, Peer, ok},
};
use crate::{Builder, Client, DecidedBy, NoAnswer, Outcome, Verdict, time::now};

const A: &str = "10.0.0.1:18730";
const MS: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_millis(20);

async fn connected(builder: Builder) -> (Client, Peer<DuplexStream>, World) {
    let (client, mut world) = client(builder, &[A]);
    let (_, mut peer) = world.accept().await;
    peer.greet(1).await;
    client.ready(TIMEOUT).await.unwrap();
    (client, peer, world)
}

fn wait(xid: i32, wait_ms: i32) -> Response {
    Response::Flow { xid, status: Status::ShouldWait, remaining: 0, wait_ms }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_costs_a_call_its_time_out_and_not_a_moment_more() {
    let (client, _peer, _world) = connected(Client::builder()).await;
    for _ in 0..5 {
        let started = now();
        assert_eq!(client.acquire(1, 1, false).await, Err(NoAnswer::TimedOut));
        assert!((TIMEOUT..=TIMEOUT + MS).contains(&started.elapsed()), "{:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_has_its_own_deadline() {
    let (client, _peer, _world) = connected(Client::builder()).await;
    let call = async |after: u32| {
        tokio::time::sleep(after * MS).await;
        let started = now();
        assert_eq!(client.acquire(1, 1, false).await, Err(NoAnswer::TimedOut));
        started.elapsed()
    };
    let (a, b, c) = tokio::join!(call(0), call(7), call(33));
    assert!([a, b, c].iter().all(|t| (TIMEOUT..=TIMEOUT + MS).contains(t)), "{a:?} {b:?} {c:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_a_call_fails_at_once() {
    for port in [Port::Refuses, Port::Drops] {
        let (net, world) = network();
        world.set(A, port);
        let client = Client::builder().server(A).start(net).unwrap();
        tokio::time::sleep(300 * MS).await;
        let started = now();
        assert_eq!(client.acquire(1, 1, false).await, Err(NoAnswer::Unreachable));
        assert_eq!(started.elapsed(), Duration::ZERO, "{port:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_reads_costs_no_more_and_fills_a_bounded_queue() {
    let (net, mut world) = network();
    world.set(A, Port::Open(64));
    let builder = Client::builder().server(A).silence(Duration::from_secs(3_600));
    let client = builder.start(net).unwrap();
    let (_, mut peer) = world.accept().await;
    peer.greet(1).await;
    client.ready(TIMEOUT).await.unwrap();
    let mut refused = 0;
    for _ in 0..4 {
        let mut calls = JoinSet::new();
        for _ in 0..20_000 {
            let client = client.clone();
            calls.spawn(async move {
                let started = now();
                (client.acquire(1, 1, false).await, started.elapsed())
            });
        }
        for (answer, took) in calls.join_all().await {
            assert!(took <= TIMEOUT + MS, "{took:?}");
            match answer {
                Err(NoAnswer::TimedOut) => {}
                Err(NoAnswer::Busy) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    // 1 MiB of 20-byte frames waits, and 20 000 of them are being written.
    assert!((7_000..8_000).contains(&refused), "{refused}");
    assert_eq!(client.metrics().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_left_after_a_second() {
    let (client, mut peer, _world) = connected(Client::builder()).await;
    // Idle for an hour is not silent.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (answer, ()) = tokio::join!(client.acquire(7, 1, false), async {
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(xid, id)]).await;
    });
    assert!(answer.is_ok());
    let started = now();
    while client.acquire(1, 1, false).await == Err(NoAnswer::TimedOut) {}
    let took = started.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_millis(1_050)).contains(&took), "{took:?}");
    let state = client.connection().to_string();
    assert!(state.contains("has sent nothing for 1"), "{state}");
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_answers_are_all_late_is_not_left() {
    let (client, mut peer, _world) = connected(Client::builder()).await;
    let late = async {
        while let Some(Asked::Flow { xid, flow_id, .. }) = peer.asked().await {
            tokio::time::sleep(TIMEOUT + 2 * MS).await;
            peer.send(&[ok(xid, flow_id)]).await;
        }
    };
    let calls = async {
        for _ in 0..200 {
            assert_eq!(client.acquire(1, 1, false).await, Err(NoAnswer::TimedOut));
        }
    };
    tokio::select! { () = late => panic!("left"), () = calls => {} }
    assert!(client.metrics().stray_answers > 150);
}

#[tokio::test(start_paused = true)]
async fn one_lost_answer_among_many_is_no_silence_however_long_the_time_out() {
    let builder = Client::builder().timeout(Duration::from_secs(2));
    let (client, mut peer, _world) = connected(builder).await;
    let serve = async {
        loop {
            let (xid, id) = peer.flow().await;
            if id != 13 {
                peer.send(&[ok(xid, id)]).await;
            }
        }
    };
    let calls = async {
        for _ in 0..100 {
            tokio::time::sleep(100 * MS).await;
            assert!(client.acquire(1, 1, false).await.is_ok());
        }
    };
    let lost = async {
        for _ in 0..4 {
            assert_eq!(client.acquire(13, 1, false).await, Err(NoAnswer::TimedOut));
        }
    };
    tokio::select! { () = serve => {}, _ = async { tokio::join!(calls, lost) } => {} }
    assert_eq!(client.metrics().connections_closed, 0);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiting_callers_delay_nobody() {
    let (client, mut peer, _world) = connected(Client::builder()).await;
    let serve = async move {
        while let Some(Asked::Flow { xid, flow_id, .. }) = peer.asked().await {
            peer.send(&[if flow_id == 1 { wait(xid, 500) } else { ok(xid, flow_id) }]).await;
        }
    };
    let calls = async {
        let started = now();
        let mut waiting = JoinSet::new();
        for _ in 0..10_000 {
            let client = client.clone();
            waiting.spawn(async move { (client.check(1, 1, true).await, started.elapsed()) });
        }
        while client.metrics().waited < 10_000 {
            tokio::task::yield_now().await;
        }
        let other = client.check(2, 1, false).await;
        assert_eq!((other.verdict, started.elapsed()), (Verdict::Pass, Duration::ZERO));
        for (outcome, took) in waiting.join_all().await {
            assert_eq!(outcome.verdict, Verdict::Waited(500 * MS));
            assert!((500 * MS..=501 * MS).contains(&took), "{took:?}");
        }
    };
    tokio::select! { () = serve => panic!("closed"), () = calls => {} }
}

#[tokio::test(start_paused = true)]
async fn a_wait_over_max_wait_is_a_block_at_once() {
    let builder = Client::builder().max_wait(100 * MS);
    let (client, mut peer, _world) = connected(builder).await;
    let serve = async {
        for wait_ms in [100, 101] {
            let (xid, _) = peer.flow().await;
            peer.send(&[wait(xid, wait_ms)]).await;
        }
    };
    let calls = async {
        let started = now();
        let kept = client.check(1, 1, true).await;
        assert_eq!((kept.verdict, started.elapsed()), (Verdict::Waited(100 * MS), 100 * MS));
        let refused = client.check(1, 1, true).await;
        let decided_by = DecidedBy::MaxWait { wait: 101 * MS };
        assert_eq!(refused, Outcome { verdict: Verdict::Block, decided_by });
        assert_eq!(started.elapsed(), 100 * MS);
    };
    tokio::join!(serve, calls);
    assert_eq!((client.metrics().waited, client.metrics().max_wait_blocked), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_only_fails_still_lets_the_connection_be_made() {
    let (client, mut world) = client(Client::builder(), &[A]);
    let one = NonZeroUsize::MIN;
    let serve = async { world.accept().await.1.serve(1).await };
    let calls = async {
        let mut failed = one.get();
        // Without a wait in it: it would keep its thread for ever if calls did not give way.
        while client.acquire(1, 1, false).await == Err(NoAnswer::Unreachable) {
            failed += 1;
        }
        failed
    };
    tokio::select! { () = serve => panic!("closed"), failed = calls => assert!(failed > 1) }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_clients_is_asked_for_every_thirty_seconds() {
    let (client, mut peer, _world) = connected(Client::builder().namespace("ns")).await;
    assert_eq!(client.metrics().clients, 1);
    let started = now();
    for (nth, connected) in [(1, 7), (2, 3)] {
        let Some(Asked::Ping { xid, namespace }) = peer.asked().await else { panic!("a ping") };
        assert_eq!((&*namespace, started.elapsed().as_secs()), ("ns", 30 * nth));
        peer.send(&[Response::Ping { xid, connected }]).await;
        tokio::time::sleep(MS).await;
        assert_eq!(client.metrics().clients, connected.unsigned_abs());
    }
}
