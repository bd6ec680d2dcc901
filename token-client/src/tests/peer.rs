//! A server that does what a test tells it to, frame by frame.

use std::io;

use bytes::{Buf, BytesMut};
use protocol::{
    Adjustment, Deframer, ExtendedResponse, HELLO_VERSION, Request, Response, Status, kind,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};

use super::log;
use crate::Param;

/// What a client asked, without a borrow.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    Ping { xid: i32, namespace: String },
    Flow { xid: i32, flow_id: i64, count: i32, priority: bool },
    Param { xid: i32, flow_id: i64, count: i32, params: Vec<Param<'static>> },
    Hello { xid: i32 },
    Hold { xid: i32, flow_id: i64, count: i32 },
    Renew { xid: i32, token: i64 },
    Release { xid: i32, token: i64 },
    Ask { xid: i32, priority: bool, peek: bool, max_wait_ms: u32, what: Wanted },
    Adjust { xid: i32, op: Adjustment, age_ms: u32, what: Wanted },
    All { xid: i32, checks: Vec<(bool, Wanted)> },
    Lease { xid: i32, flow_id: i64, want: u32, returned: i64, used: u32 },
    Rules { xid: i32, digest: u64 },
}

/// Flow id, count and values, of which a flow rule has none.
pub(super) type Wanted = (i64, i32, Vec<Param<'static>>);

fn owned(param: Param<'_>) -> Param<'static> {
    match param {
        Param::Str(text) => Param::Str(text.into_owned().into()),
        Param::Int(value) => Param::Int(value),
        other => panic!("{other:?} is not what these tests send"),
    }
}

fn wanted(what: &protocol::What<'_>) -> Wanted {
    let values = what.params.iter().flat_map(|params| params.iter().map(owned));
    (what.flow_id, what.count, values.collect())
}

/// The server's end of a connection.
#[derive(Debug)]
pub(super) struct Peer<S> {
    pub(super) stream: S,
    input: BytesMut,
    deframer: Deframer,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, input: BytesMut::new(), deframer: Deframer::requests() }
    }

    /// The next request; `None` when the client has closed.
    pub(super) async fn asked(&mut self) -> Option<Asked> {
        loop {
            if let Some(asked) = self.buffered() {
                return Some(asked);
            }
            if self.read().await == 0 {
                return None;
            }
        }
    }

    /// The next request of those that were read already.
    pub(super) fn buffered(&mut self) -> Option<Asked> {
        let mut rest = &self.input[..];
        let body = self.deframer.next(&mut rest).expect("a client's frames");
        let asked = body.map(|body| match Request::decode(body).expect("a client's request") {
            Request::Ping { xid, namespace } => {
                Asked::Ping { xid, namespace: namespace.into_owned() }
            }
            Request::Flow { xid, flow_id, count, priority } => {
                Asked::Flow { xid, flow_id, count, priority }
            }
            Request::Param { xid, flow_id, count, params } => {
                Asked::Param { xid, flow_id, count, params: params.iter().map(owned).collect() }
            }
            Request::Hello { xid } => Asked::Hello { xid },
            Request::ConcurrentAcquire { xid, flow_id, count } => {
                Asked::Hold { xid, flow_id, count }
            }
            Request::Renew { xid, token_id: token } => Asked::Renew { xid, token },
            Request::ConcurrentRelease { xid, token_id: token } => Asked::Release { xid, token },
            Request::Ask { xid, priority, peek, max_wait_ms, what } => {
                Asked::Ask { xid, priority, peek, max_wait_ms, what: wanted(&what) }
            }
            Request::Adjust { xid, op, age_ms, what } => {
                Asked::Adjust { xid, op, age_ms, what: wanted(&what) }
            }
            Request::AcquireAll { xid, checks } => {
                let checks = checks.iter().map(|check| (check.priority, wanted(&check.what)));
                Asked::All { xid, checks: checks.collect() }
            }
            Request::Lease { xid, flow_id, want, returned, used } => {
                Asked::Lease { xid, flow_id, want, returned, used }
            }
            Request::Rules { xid, digest } => Asked::Rules { xid, digest },
        });
        let used = self.input.len() - rest.len();
        self.input.advance(used);
        asked
    }

    /// Reads once, as much as there is; 0 when the client has closed.
    pub(super) async fn read(&mut self) -> usize {
        self.input.reserve(1 << 16);
        self.stream.read_buf(&mut self.input).await.unwrap_or(0)
    }

    /// The next request, which is one of a flow.
    pub(super) async fn flow(&mut self) -> (i32, i64) {
        match self.asked().await {
            Some(Asked::Flow { xid, flow_id, .. }) => (xid, flow_id),
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn send(&mut self, responses: &[Response]) {
        let mut out = BytesMut::new();
        responses.iter().for_each(|response| response.encode(&mut out));
        self.raw(&out).await.expect("the client reads");
    }

    pub(super) async fn send_extended(&mut self, response: ExtendedResponse<'_>) {
        let mut out = BytesMut::new();
        response.encode(&mut out);
        self.raw(&out).await.expect("the client reads");
    }

    pub(super) async fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Answers the ping of a new connection, and leaves HELLO unanswered as a Java server does.
    pub(super) async fn greet(&mut self, connected: i32) {
        let asked = self.asked().await;
        assert!(matches!(asked, Some(Asked::Ping { xid: 0, .. })), "{asked:?}");
        self.send(&[Response::Ping { xid: 0, connected }]).await;
        let asked = self.asked().await;
        assert!(matches!(asked, Some(Asked::Hello { xid: 1.. })), "{asked:?}");
    }

    /// Answers the ping and HELLO of a new connection, as a server of ours with `features`.
    pub(super) async fn greet_as_ours(&mut self, connected: i32, features: u32) {
        let asked = self.asked().await;
        assert!(matches!(asked, Some(Asked::Ping { xid: 0, .. })), "{asked:?}");
        let Some(Asked::Hello { xid }) = self.asked().await else { panic!("HELLO") };
        let hello = Response::Hello { xid, version: HELLO_VERSION, features, revision: 1 };
        self.send(&[Response::Ping { xid: 0, connected }, hello]).await;
    }

    /// The next request, which is a hold; answered with a token, or with BLOCKED.
    pub(super) async fn hold(&mut self, token: Option<i64>) -> (i64, i32) {
        match self.asked().await {
            Some(Asked::Hold { xid, flow_id, count }) => {
                self.send(&[granted(xid, token)]).await;
                (flow_id, count)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The next request, which is a renewal; answered with `status`.
    pub(super) async fn renew(&mut self, status: Status) -> i64 {
        match self.asked().await {
            Some(Asked::Renew { xid, token }) => {
                self.send(&[Response::Head { xid, kind: kind::RENEW, status }]).await;
                token
            }
            other => panic!("{other:?}"),
        }
    }

    /// The next request, which is a release; answered as a server does.
    pub(super) async fn release(&mut self) -> i64 {
        match self.asked().await {
            Some(Asked::Release { xid, token }) => {
                let status = Status::ReleaseOk;
                self.send(&[Response::ConcurrentRelease { xid, status }]).await;
                token
            }
            other => panic!("{other:?}"),
        }
    }

    /// The next request, which is one for a lease; answered with a lease's id, tokens and
    /// milliseconds, or with BLOCKED. Gives what was wanted, and the lease that came back with what
    /// was used of it.
    pub(super) async fn lease(&mut self, granted: Option<(i64, u32, u32)>) -> (u32, i64, u32) {
        match self.asked().await {
            Some(Asked::Lease { xid, flow_id: 1, want, returned, used }) => {
                let status = match (granted, want) {
                    (None, 1..) => Status::Blocked,
                    (Some(_), _) | (None, 0) => Status::Ok,
                };
                let (lease_id, granted, ttl_ms) = granted.unwrap_or_default();
                let answer = ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms };
                self.send_extended(answer).await;
                (want, returned, used)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Answers every request of a flow with OK and the flow id as what remains, until the client
    /// closes; pings with `connected`.
    pub(super) async fn serve(mut self, connected: i32) {
        while let Some(asked) = self.asked().await {
            match asked {
                Asked::Ping { xid, .. } => self.send(&[Response::Ping { xid, connected }]).await,
                Asked::Flow { xid, flow_id, .. } => self.send(&[ok(xid, flow_id)]).await,
                Asked::Param { xid, flow_id, .. } => {
                    let remaining = i32::try_from(flow_id).unwrap();
                    let status = Status::Ok;
                    self.send(&[Response::Param { xid, status, remaining, wait_ms: 0 }]).await;
                }
                Asked::Hello { .. } => {}
                other => panic!("{other:?} without a word of the extension"),
            }
        }
    }
}

/// OK, with the flow id as what remains, so that an answer shows which question it answers.
pub(super) fn ok(xid: i32, flow_id: i64) -> Response {
    let remaining = i32::try_from(flow_id).unwrap();
    Response::Flow { xid, status: Status::Ok, remaining, wait_ms: 0 }
}

/// A concurrency token, or none since the level is full.
pub(super) fn granted(xid: i32, token: Option<i64>) -> Response {
    let status = if token.is_some() { Status::Ok } else { Status::Blocked };
    Response::ConcurrentAcquire { xid, status, token_id: token.unwrap_or(0) }
}

/// An answer without tokens.
pub(super) fn status(xid: i32, status: Status) -> Response {
    Response::Flow { xid, status, remaining: 0, wait_ms: 0 }
}

/// A real port, and its address.
pub(super) async fn listener() -> (TcpListener, String) {
    log::keep();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

pub(super) async fn accept(listener: &TcpListener) -> Peer<tokio::net::TcpStream> {
    let (stream, _) = listener.accept().await.unwrap();
    stream.set_nodelay(true).unwrap();
    Peer::new(stream)
}
