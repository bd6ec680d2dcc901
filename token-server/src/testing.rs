//! What the tests of this crate share: a service on a manual clock, and a peer without a socket.

use std::sync::Arc;

use bytes::BytesMut;
use limiter::{ClusterEngine, ManualClock, Settings, Tick, rule};
use protocol::{Deframer, Param, Request, Response, Status, encode_param_request};

use crate::{Options, Service, Session, io::Handler};

const RULES: &str = r#"[
    {"resource": "a", "count": 2, "clusterMode": true,
     "clusterConfig": {"flowId": 101, "thresholdType": 1}},
    {"resource": "huge", "count": 1e12, "clusterMode": true,
     "clusterConfig": {"flowId": 102, "thresholdType": 1}},
    {"resource": "each", "count": 3, "clusterMode": true,
     "clusterConfig": {"flowId": 103, "thresholdType": 0}},
    {"resource": "hot", "count": 5, "paramIdx": 0, "clusterMode": true,
     "clusterConfig": {"flowId": 201, "thresholdType": 1}}
]"#;

/// A service with [`RULES`] on a clock that stands at a whole second.
pub(crate) fn service(settings: Settings, options: &Options) -> (Arc<Service>, Arc<ManualClock>) {
    let engine = Arc::new(ClusterEngine::new(settings));
    let parsed = rule::parse(RULES, "test", "default", rule::Contents::Mixed, true).unwrap();
    engine.replace(rule::merge(vec![parsed]).unwrap()).unwrap();
    let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
    (Arc::new(Service::new(engine, clock.clone(), options)), clock)
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
    let mut bytes = BytesMut::new();
    encode_param_request(7, 201, count, params, &mut bytes).unwrap();
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
