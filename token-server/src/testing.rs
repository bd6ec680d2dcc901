//! What the tests of this crate share: a service on a manual clock, and a peer without a socket.

use std::{
    fmt::Write,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use bytes::BytesMut;
use limiter::{ClusterEngine, ManualClock, Settings, Tick, rule};
use protocol::{
    Deframer, ExtendedResponse, Param, Request, Response, Status, encode_param_request,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{Event, Level, field::Visit, subscriber::DefaultGuard};
use tracing_subscriber::{Layer, layer::SubscriberExt};

use crate::{Options, Served, Server, Service, Session, io::Handler, telemetry::Telemetry};

const RULES: &str = r#"[
    {"resource": "a", "count": 2, "clusterMode": true,
     "clusterConfig": {"flowId": 101, "thresholdType": 1}},
    {"resource": "huge", "count": 1e12, "clusterMode": true,
     "clusterConfig": {"flowId": 102, "thresholdType": 1}},
    {"resource": "each", "count": 3, "clusterMode": true,
     "clusterConfig": {"flowId": 103, "thresholdType": 0}},
    {"resource": "calls", "grade": 0, "count": 2, "clusterMode": true,
     "clusterConfig": {"flowId": 104, "thresholdType": 1,
                       "resourceTimeout": 2000, "clientOfflineTime": 500}},
    {"resource": "leased", "count": 100, "clusterMode": true,
     "clusterConfig": {"flowId": 105, "thresholdType": 1,
                       "lease": {"maxTokens": 10, "ttlMs": 500}}},
    {"resource": "paced", "count": 10, "paramIdx": 0, "clusterMode": true,
     "controlBehavior": 2, "maxQueueingTimeMs": 1000,
     "clusterConfig": {"flowId": 202, "thresholdType": 1}},
    {"resource": "hot", "count": 5, "paramIdx": 0, "clusterMode": true,
     "clusterConfig": {"flowId": 201, "thresholdType": 1}}
]"#;

/// An engine with [`RULES`].
pub(crate) fn engine(settings: Settings) -> Arc<ClusterEngine> {
    let engine = Arc::new(ClusterEngine::new(settings));
    let parsed = rule::parse(RULES, "test", "default", rule::Contents::Mixed, true).unwrap();
    engine.replace(rule::merge(vec![parsed]).unwrap()).unwrap();
    engine
}

/// A service with [`RULES`] on a clock that stands at a whole second.
pub(crate) fn service(settings: Settings, options: &Options) -> (Arc<Service>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
    (Arc::new(Service::new(engine(settings), clock.clone(), options)), clock)
}

pub(crate) fn session() -> Session {
    service(Settings::default(), &Options::default()).0.session()
}

pub(crate) fn flow_request(xid: i32, flow_id: i64, count: i32, priority: bool) -> BytesMut {
    let mut bytes = BytesMut::new();
    Request::Flow { xid, flow_id, count, priority }.encode(&mut bytes).unwrap();
    bytes
}

pub(crate) fn ping_request(namespace: &str) -> BytesMut {
    let mut bytes = BytesMut::new();
    Request::Ping { xid: 0, namespace: namespace.into() }.encode(&mut bytes).unwrap();
    bytes
}

/// One batch: all answers to `bytes`, which must be whole frames.
pub(crate) fn ask(session: &mut Session, bytes: &[u8]) -> Vec<Response> {
    let (mut input, mut out) = (BytesMut::from(bytes), BytesMut::new());
    session.batch(&mut input, &mut out).unwrap();
    assert!(input.is_empty(), "{input:?}");
    responses(&out)
}

pub(crate) fn responses(out: &[u8]) -> Vec<Response> {
    let (mut deframer, mut rest) = (Deframer::responses(), out);
    let bodies = std::iter::from_fn(|| deframer.next(&mut rest).unwrap());
    bodies.map(|body| Response::decode(body).unwrap()).collect()
}

pub(crate) fn ask_flow(
    session: &mut Session,
    id: i64,
    count: i32,
    priority: bool,
) -> (Status, i32, i32) {
    match ask(session, &flow_request(7, id, count, priority))[..] {
        [Response::Flow { xid: 7, status, remaining, wait_ms }] => (status, remaining, wait_ms),
        ref other => panic!("{other:?}"),
    }
}

pub(crate) fn ask_param(
    session: &mut Session,
    count: i32,
    params: &[Param<'_>],
) -> (Status, i32, i32) {
    ask_param_of(session, 201, count, params)
}

pub(crate) fn ask_param_of(
    session: &mut Session,
    flow_id: i64,
    count: i32,
    params: &[Param<'_>],
) -> (Status, i32, i32) {
    let mut bytes = BytesMut::new();
    encode_param_request(7, flow_id, count, params, &mut bytes).unwrap();
    match ask(session, &bytes)[..] {
        [Response::Param { xid: 7, status, remaining, wait_ms }] => (status, remaining, wait_ms),
        ref other => panic!("{other:?}"),
    }
}

pub(crate) fn ask_ping(session: &mut Session, namespace: &str) -> Option<i32> {
    match ask(session, &ping_request(namespace))[..] {
        [Response::Ping { xid: 0, connected }] => Some(connected),
        [Response::PingRefused { xid: 0 }] => None,
        ref other => panic!("{other:?}"),
    }
}

/// The status of a request for a token of flow 104, and the token.
pub(crate) fn ask_token(session: &mut Session, count: i32) -> (Status, i64) {
    ask_token_of(session, 104, count)
}

/// The status of a request for a concurrency token, and the token.
pub(crate) fn ask_token_of(session: &mut Session, flow_id: i64, count: i32) -> (Status, i64) {
    let mut bytes = BytesMut::new();
    Request::ConcurrentAcquire { xid: 7, flow_id, count }.encode(&mut bytes).unwrap();
    match ask(session, &bytes)[..] {
        [Response::ConcurrentAcquire { xid: 7, status, token_id }] => (status, token_id),
        ref other => panic!("{other:?}"),
    }
}

pub(crate) fn release(session: &mut Session, token_id: i64) -> Status {
    let mut bytes = BytesMut::new();
    Request::ConcurrentRelease { xid: 7, token_id }.encode(&mut bytes).unwrap();
    match ask(session, &bytes)[..] {
        [Response::ConcurrentRelease { xid: 7, status }] => status,
        ref other => panic!("{other:?}"),
    }
}

pub(crate) fn renew(session: &mut Session, token_id: i64) -> Status {
    let mut bytes = BytesMut::new();
    Request::Renew { xid: 7, token_id }.encode(&mut bytes).unwrap();
    match ask(session, &bytes)[..] {
        [Response::Head { xid: 7, kind: 17, status }] => status,
        ref other => panic!("{other:?}"),
    }
}

/// The answer to an extension request.
pub(crate) fn ask_extended(
    session: &mut Session,
    request: &Request<'_>,
) -> ExtendedResponse<'static> {
    let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
    request.encode(&mut input).unwrap();
    session.batch(&mut input, &mut out).unwrap();
    let mut rest = &out[..];
    let body = Deframer::responses().next(&mut rest).unwrap().unwrap();
    assert!(rest.is_empty(), "one answer");
    let answer = ExtendedResponse::decode(body).unwrap().into_owned();
    assert_eq!(answer.xid(), request.xid());
    answer
}

/// A server on a free port of the loopback interface, in the test's own thread.
pub(crate) struct Running {
    pub(crate) addr: SocketAddr,
    pub(crate) telemetry: Arc<Telemetry>,
    stop: CancellationToken,
    serving: JoinSet<Served>,
    log: Log,
}

impl Running {
    /// Starts one with [`RULES`] and without HTTP.
    pub(crate) fn start(change: impl FnOnce(&mut Options)) -> Self {
        let log = Log::start();
        let mut options =
            Options { listen: (Ipv4Addr::LOCALHOST, 0).into(), http: None, ..Options::default() };
        change(&mut options);
        let bound = Server::new(options, engine(Settings::default())).bind().unwrap();
        let (addr, telemetry) = (bound.token_addr(), Arc::clone(&bound.service.telemetry));
        let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
        serving.spawn(bound.serve(stop.clone().cancelled_owned()));
        Self { addr, telemetry, stop, serving, log }
    }

    pub(crate) async fn connect(&self) -> Peer {
        Peer(TcpStream::connect(self.addr).await.unwrap())
    }

    /// Shuts down. The log must hold no more warnings and errors than were told.
    pub(crate) async fn finish(mut self, warnings: &[&str]) -> Served {
        self.stop.cancel();
        let served = self.serving.join_next().await.unwrap().unwrap();
        self.log.assert(warnings);
        served
    }
}

/// A client that is a script.
pub(crate) struct Peer(pub(crate) TcpStream);

impl Peer {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// The next answer.
    pub(crate) async fn answer(&mut self) -> Response {
        let len = self.0.read_u16().await.unwrap();
        let mut body = vec![0; len.into()];
        self.0.read_exact(&mut body).await.unwrap();
        Response::decode(&body).unwrap()
    }

    pub(crate) async fn ping(&mut self, namespace: &str) -> Response {
        self.send(&ping_request(namespace)).await;
        self.answer().await
    }

    /// Waits for the end of the stream, before which nothing may come.
    pub(crate) async fn closed(&mut self) {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest).await {
            Ok(_) => assert!(rest.is_empty(), "{rest:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

/// Warnings and errors that this thread logs.
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    _collecting: DefaultGuard,
}

impl Log {
    pub(crate) fn start() -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let subscriber = tracing_subscriber::registry().with(Collect(Arc::clone(&lines)));
        Self { lines, _collecting: tracing::subscriber::set_default(subscriber) }
    }

    /// Each line must contain the text that stands in its place in `expected`.
    pub(crate) fn assert(&self, expected: &[&str]) {
        let lines = self.lines.lock().unwrap();
        let same = lines.len() == expected.len()
            && lines.iter().zip(expected).all(|(line, text)| line.contains(text));
        assert!(same, "{lines:#?}, expected {expected:#?}");
    }
}

struct Collect(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Collect {
    fn on_event(&self, event: &Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if *event.metadata().level() <= Level::WARN {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}
