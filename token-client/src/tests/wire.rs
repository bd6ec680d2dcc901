//! What goes over the wire, and what may come back, on real sockets.

use std::time::Duration;

use protocol::{Response, Status};
use tokio::{io::AsyncReadExt, net::TcpListener, task::JoinSet};

use super::{
    log::{self, recorder},
    peer::{Asked, Peer, accept, listener, ok, status},
};
use crate::{Answer, BadCall, Builder, Client, ConnectionState, Extension, NoAnswer, Param, Pong};

/// Long enough for any machine: these tests are about bytes.
const PATIENT: Duration = Duration::from_secs(20);

fn builder(address: &str) -> Builder {
    Client::builder().server(address).namespace("ns").timeout(PATIENT)
}

/// A client, connected, and its server.
async fn connected() -> (Client, Peer<tokio::net::TcpStream>) {
    connected_with(|builder| builder).await
}

async fn connected_with(
    configure: impl FnOnce(Builder) -> Builder,
) -> (Client, Peer<tokio::net::TcpStream>) {
    let (listener, address) = listener().await;
    let client = configure(builder(&address)).build().unwrap();
    let mut peer = accept(&listener).await;
    peer.greet(1).await;
    client.ready(PATIENT).await.unwrap();
    (client, peer)
}

fn granted(remaining: i32) -> Answer {
    Answer { status: Status::Ok, remaining, wait: Duration::ZERO }
}

#[tokio::test]
async fn a_connection_begins_with_one_ping_and_hello_byte_for_byte() {
    let (listener, address) = listener().await;
    let client = builder(&address).build().unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut greeting = [0; 20];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(
        greeting,
        [0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 2, b'n', b's', 0, 5, 0, 0, 0, 1, 16],
        "ping with xid 0, HELLO with the first number"
    );
    assert!(matches!(client.connection(), ConnectionState::Connecting));
    assert_eq!(client.acquire(1, 1, false).await, Err(NoAnswer::Unreachable), "not yet proven");
}

#[tokio::test]
async fn a_request_is_as_java_writes_it() {
    let (client, mut peer) = connected().await;
    let call = client.acquire(0x0102_0304, 3, true);
    let script = async {
        let mut frame = [0; 20];
        peer.stream.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame, [0, 18, 0, 0, 0, 2, 1, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 3, 1]);
        peer.send(&[ok(2, 9)]).await;
    };
    assert_eq!(tokio::join!(call, script).0, Ok(granted(9)));
}

#[tokio::test]
async fn hello_is_noticed_when_it_is_answered_and_not_missed_when_not() {
    let (client, mut peer) = connected().await;
    assert_eq!(client.extension(), None);
    let extension = Extension { version: 1, features: 6, revision: 42 };
    let hello = |xid| Response::Hello { xid, version: 1, features: 6, revision: 42 };
    let script = async {
        let (xid, id) = peer.flow().await;
        peer.send(&[hello(77), hello(1), ok(xid, id)]).await;
    };
    let (answer, ()) = tokio::join!(client.acquire(5, 1, false), script);
    assert_eq!((answer, client.extension()), (Ok(granted(5)), Some(extension)));
    assert_eq!(client.metrics().stray_answers, 1, "the one with nobody's number");
}

#[tokio::test]
async fn calls_made_together_go_out_in_one_write() {
    let (client, mut peer) = connected().await;
    let mut calls = JoinSet::new();
    for id in 1..=100 {
        let client = client.clone();
        calls.spawn(async move { (id, client.acquire(id.into(), 1, false).await) });
    }
    let script = async {
        let mut reads = 0;
        let mut seen = Vec::new();
        while seen.len() < 100 {
            peer.read().await;
            reads += 1;
            while let Some(Asked::Flow { xid, flow_id, .. }) = peer.buffered() {
                seen.push(ok(xid, flow_id));
            }
        }
        seen.reverse();
        peer.send(&seen).await;
        reads
    };
    let (answers, reads) = tokio::join!(calls.join_all(), script);
    for (id, answer) in answers {
        assert_eq!(answer, Ok(granted(id)), "in any order, each to its own call");
    }
    assert!(reads <= 2, "{reads} reads");
}

#[tokio::test]
async fn late_duplicate_unknown_and_mistyped_answers_are_counted_and_harm_nobody() {
    let (client, mut peer) = connected_with(|b| b.timeout(Duration::from_millis(20))).await;
    let (lost, late) = tokio::join!(client.acquire(7, 1, false), peer.flow());
    assert_eq!(lost, Err(NoAnswer::TimedOut));
    let client = client.clone();
    let script = async {
        let (xid, id) = peer.flow().await;
        let mistyped = Response::Param { xid, status: Status::Ok, remaining: 1, wait_ms: 0 };
        let nobodys = [ok(0, 1), ok(-5, 1), ok(xid + 1, 1), ok(i32::MAX, 1)];
        peer.send(&[ok(late.0, late.1), mistyped]).await;
        peer.send(&nobodys).await;
        let alien = Response::Head { xid, kind: 99, status: Status::Ok };
        peer.send(&[alien, ok(xid, id), status(xid, Status::Blocked)]).await;
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(xid, id)]).await;
    };
    let calls = async {
        assert_eq!(client.acquire(8, 1, false).await, Ok(granted(8)));
        assert_eq!(client.acquire(9, 1, false).await, Ok(granted(9)));
    };
    tokio::join!(calls, script);
    let metrics = client.metrics();
    assert_eq!((metrics.timed_out, metrics.answered), (1, 2));
    assert_eq!((metrics.stray_answers, metrics.mismatched_answers), (6, 2), "{metrics:?}");
}

#[tokio::test]
async fn a_caller_that_goes_away_frees_its_slot_and_its_answer_finds_nobody() {
    let one = std::num::NonZeroUsize::MIN;
    let (client, mut peer) = connected_with(|b| b.pending_max(one)).await;
    let abandoned = tokio::select! {
        biased;
        _ = client.acquire(7, 1, false) => panic!("nobody answers it"),
        asked = peer.flow() => asked,
    };
    assert_eq!(client.metrics().waiting, 0);
    let script = async {
        let (xid, id) = peer.flow().await;
        peer.send(&[ok(abandoned.0, abandoned.1), ok(xid, id)]).await;
    };
    let (answer, ()) = tokio::join!(client.acquire(8, 1, false), script);
    assert_eq!(answer, Ok(granted(8)));
    let metrics = client.metrics();
    assert_eq!((metrics.cancelled, metrics.stray_answers), (1, 1));
}

#[tokio::test]
async fn more_calls_than_allowed_are_refused_at_once() {
    let two = std::num::NonZeroUsize::new(2).unwrap();
    let (client, mut peer) = connected_with(|b| b.pending_max(two)).await;
    let third = async {
        // Polled last, so the other two have their slots.
        assert_eq!(client.acquire(3, 1, false).await, Err(NoAnswer::Busy));
        for _ in 0..2 {
            let (xid, id) = peer.flow().await;
            peer.send(&[ok(xid, id)]).await;
        }
    };
    let (first, second) = (client.acquire(1, 1, false), client.acquire(2, 1, false));
    let answers = tokio::join!(biased; first, second, third);
    assert_eq!(answers, (Ok(granted(1)), Ok(granted(2)), ()));
    assert_eq!(client.metrics().busy, 1);
}

#[tokio::test]
async fn calls_that_wait_end_at_once_when_the_server_closes() {
    let (client, mut peer) = connected().await;
    let script = async {
        peer.flow().await;
        drop(peer);
    };
    let (answer, ()) = tokio::join!(client.acquire(1, 1, false), script);
    assert_eq!(answer, Err(NoAnswer::Unreachable));
}

#[tokio::test]
async fn an_answer_may_come_byte_by_byte_with_odd_frames_around_it() {
    let (client, mut peer) = connected().await;
    let script = async {
        let (xid, _) = peer.flow().await;
        // An empty frame, one too short for a head, an over-long one, and the answer.
        let mut bytes = vec![0, 0, 0, 3, 1, 2, 3, 0xff, 0xff];
        bytes.resize(bytes.len() + 0xffff, 9);
        bytes.extend([0, 14]);
        bytes.extend(xid.to_be_bytes());
        bytes.extend([1, 0, 0, 0, 0, 77, 0, 0, 0, 0]);
        let (head, tail) = bytes.split_at(bytes.len() - 40);
        peer.raw(head).await.unwrap();
        for byte in tail {
            peer.raw(&[*byte]).await.unwrap();
        }
    };
    let (answer, ()) = tokio::join!(client.acquire(1, 1, false), script);
    assert_eq!((answer, client.metrics().malformed_frames), (Ok(granted(77)), 2));
}

#[tokio::test]
async fn requests_that_make_no_sense_are_not_sent() {
    let (client, mut peer) = connected().await;
    let long = Param::Str("x".repeat(997).into());
    let fits = Param::Str("x".repeat(996).into());
    let bad = |bad| Err(NoAnswer::BadRequest(bad));
    assert_eq!(client.acquire(0, 1, false).await, bad(BadCall::FlowId));
    assert_eq!(client.acquire(1, 0, false).await, bad(BadCall::Count));
    let refused = client.acquire_param(1, 1, &[long]).await;
    assert!(matches!(refused, Err(NoAnswer::BadRequest(BadCall::Params(_)))), "{refused:?}");
    let refused = client.acquire_param(1, 1, &[]).await;
    assert!(matches!(refused, Err(NoAnswer::BadRequest(BadCall::Params(_)))), "{refused:?}");
    let script = async {
        let Some(Asked::Param { xid, params, .. }) = peer.asked().await else { panic!("a param") };
        assert_eq!(params.len(), 1);
        let status = Status::Ok;
        peer.send(&[Response::Param { xid, status, remaining: -1, wait_ms: 0 }]).await;
    };
    let params = [fits];
    let (answer, ()) = tokio::join!(client.acquire_param(1, 1, &params), script);
    assert_eq!(answer, Ok(granted(-1)), "the first that was sent");
    assert_eq!((client.metrics().calls, client.metrics().waiting), (1, 0));
}

#[tokio::test]
async fn a_ping_tells_how_many_clients_there_are_or_that_the_namespace_is_refused() {
    let (client, mut peer) = connected().await;
    let script = async {
        for connected in [Some(4), None] {
            let Some(Asked::Ping { xid, namespace }) = peer.asked().await else { panic!("a ping") };
            assert_eq!((xid > 0, &*namespace), (true, "ns"));
            peer.send(&[connected.map_or(Response::PingRefused { xid }, |connected| {
                Response::Ping { xid, connected }
            })])
            .await;
        }
    };
    let pings = async { (client.ping().await, client.ping().await) };
    let (pongs, ()) = tokio::join!(pings, script);
    assert_eq!(pongs, (Ok(Pong { clients: Some(4) }), Ok(Pong { clients: None })));
    assert_eq!(client.metrics().clients, 4, "the last that was said");
}

#[tokio::test]
async fn a_peer_that_is_no_token_server_is_named_by_its_first_bytes() {
    for (bytes, shown) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
            r"HTTP/1.1 400 Bad Request\r\nConten",
        ),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", r"SSH-2.0-OpenSSH_9.2p1\r\n"),
        (b"\x16\x03\x01", r"\x16\x03\x01"),
        // Frames, but no answer to a ping: the type is FLOW, and then the number is another.
        (&[0, 6, 0, 0, 0, 0, 1, 0], r"\x00\x06\x00\x00\x00\x00\x01\x00"),
        (&[0, 6, 0, 0, 0, 9, 0, 255], r"\x00\x06\x00\x00\x00\t\x00\xff"),
        // The start of a frame, and then the end.
        (b"\x00", r"\x00"),
    ] {
        let (listener, address) = listener().await;
        let (recorder, mut heard) = recorder();
        let _client = builder(&address).listener(recorder).build().unwrap();
        let mut peer = accept(&listener).await;
        assert!(peer.asked().await.is_some());
        peer.raw(bytes).await.unwrap();
        drop(peer);
        let error = heard.connection().await.to_string();
        assert_eq!(error, format!("{address}: is not a token server: it sent \"{shown}\""));
    }
}

#[tokio::test]
async fn ipv6_serves_as_well() {
    log::keep();
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = builder(&address.to_string()).build().unwrap();
    let serve = async { accept(&listener).await.serve(1).await };
    let calls = async {
        client.ready(PATIENT).await.unwrap();
        assert_eq!(client.acquire(6, 1, false).await, Ok(granted(6)));
        client.close().await;
    };
    tokio::join!(serve, calls);
}
