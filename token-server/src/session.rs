//! What all connections share, and what each has for itself.

use std::{collections::BTreeSet, sync::Arc};

use bytes::{Buf, BytesMut};
use limiter::{Clock, ClusterEngine, Membership, Tick};
use protocol::{Deframer, ExtendedResponse, PREFIX_LEN, Request, Response, kind};
use tracing::{Level, debug, enabled, trace};

use crate::{
    Close, Options, dispatch,
    io::Handler,
    peer::Peer,
    telemetry::{Counted, Telemetry},
};

/// Bytes of the longest answer that is no extended one, HELLO's.
const ANSWER_LEN_MAX: usize = 22;
/// Bytes of the shortest frame that is answered.
const FRAME_LEN_MIN: usize = 7;

/// What all connections of a server share.
#[derive(Debug)]
pub struct Service {
    pub(crate) engine: Arc<ClusterEngine>,
    clock: Arc<dyn Clock>,
    /// The namespaces that a ping may name; empty: any.
    namespaces: BTreeSet<Box<str>>,
    /// Answers of one batch.
    answers_max: usize,
    pub(crate) telemetry: Arc<Telemetry>,
}

/// One connection: its place in the stream, and what it has of the engine, which it gives back when
/// it is dropped.
#[derive(Debug)]
pub struct Session {
    service: Arc<Service>,
    deframer: Deframer,
    peer: Peer,
    counted: Counted,
}

impl Service {
    /// A service over `engine`, which any number of connections may use.
    #[must_use]
    pub fn new(engine: Arc<ClusterEngine>, clock: Arc<dyn Clock>, options: &Options) -> Self {
        Self {
            engine,
            clock,
            namespaces: options.allowed_namespaces.iter().cloned().collect(),
            answers_max: options.answers_max.max(1),
            telemetry: Arc::default(),
        }
    }

    /// A session for one more connection.
    #[must_use]
    pub fn session(self: &Arc<Self>) -> Session {
        Session {
            service: Arc::clone(self),
            deframer: Deframer::requests(),
            peer: Peer::default(),
            counted: self.telemetry.connection(),
        }
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Frees what the engine no longer needs. May take a while.
    pub(crate) fn tidy(&self) {
        self.engine.tidy(self.now(), self.clock.wall());
    }

    /// A place in `namespace`, if a ping may name it and it can be.
    pub(crate) fn join(&self, namespace: &str) -> Option<Membership> {
        if !self.namespaces.is_empty() && !self.namespaces.contains(namespace) {
            return None;
        }
        self.engine.join(namespace).ok()
    }
}

impl Handler for Session {
    fn batch(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<(), Close> {
        let Self { service, deframer, peer, counted } = self;
        let traffic = &*counted.traffic;
        // One reading of the clock and one set of rules for the whole batch.
        let now = service.clock.now();
        let rules = &*service.engine.snapshot();
        let traced = enabled!(Level::TRACE);
        let malformed_before = deframer.malformed();
        let mut rest = &input[..];
        out.reserve(service.answers_max.min(rest.len() / FRAME_LEN_MIN) * ANSWER_LEN_MAX);
        let mut verdict = Ok(());
        for _ in 0..service.answers_max {
            let body = match deframer.next(&mut rest) {
                Ok(Some(body)) => body,
                Ok(None) => break,
                Err(lost) => {
                    verdict = Err(Close::Stream(lost));
                    break;
                }
            };
            let start = out.len();
            let status = match Request::decode(body) {
                // What comes all day; apart from the rest, so that it is small enough to be inlined.
                Ok(Request::Flow { xid, flow_id, count, priority }) => {
                    traffic.request(kind::FLOW);
                    let decided = rules.acquire_flow(now, flow_id, count, priority);
                    let (answer, status) = dispatch::flow(xid, decided);
                    answer.encode(out);
                    status
                }
                Ok(request) => {
                    let kind = request.kind();
                    traffic.request(kind);
                    if let Request::Rules { digest, .. } = request {
                        traffic.enforces(digest);
                    }
                    let status = dispatch::answer(request, now, rules, service, peer, out);
                    traffic.tokens(kind, status);
                    status
                }
                Err(bad) => {
                    traffic.request(bad.kind);
                    traffic.bad_body();
                    let (answer, status) = dispatch::refuse(&bad);
                    answer.encode(out);
                    status
                }
            };
            if traced {
                tell(body, out.get(start + PREFIX_LEN..).unwrap_or_default());
            }
            traffic.answer(status);
        }
        let taken = input.len() - rest.len();
        let bad_frames = deframer.malformed() - malformed_before;
        if bad_frames > 0 {
            debug!(frames = bad_frames, "frames without a usable head");
        }
        traffic.batch(taken, out.len(), bad_frames);
        input.advance(taken);
        verdict
    }

    fn is_skipping(&self) -> bool {
        self.deframer.is_skipping()
    }
}

/// Logs one request and its answer.
#[cold]
fn tell(request: &[u8], answer: &[u8]) {
    let request = Request::decode(request);
    match ExtendedResponse::decode(answer) {
        Ok(ExtendedResponse::Head { .. }) | Err(_) => {
            trace!(?request, answer = ?Response::decode(answer), "answered");
        }
        Ok(answer) => trace!(?request, ?answer, "answered"),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.peer.leave(&self.service);
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use limiter::Settings;
    use protocol::{FrameError, Status};

    use super::*;
    use crate::testing::*;

    #[test]
    fn bad_bodies_and_unknown_types_are_answered_in_their_turn() {
        let bytes = [
            &[0, 5, 0, 0, 0, 1, 1][..],
            &[0, 5, 0, 0, 0, 2, 99],
            &flow_request(3, 101, 1, false),
            &[0, 6, 0, 0, 0, 4, 0, 0],
        ]
        .concat();
        let status = Status::BadRequest;
        let session = &mut session();
        assert_eq!(
            ask(session, &bytes),
            [
                Response::Flow { xid: 1, status, remaining: 0, wait_ms: 0 },
                Response::Head { xid: 2, kind: 99, status },
                Response::Flow { xid: 3, status: Status::Ok, remaining: 1, wait_ms: 0 },
                Response::PingRefused { xid: 4 },
            ]
        );
    }

    #[test]
    fn a_batch_stops_at_its_bound_and_goes_on_where_it_stopped() {
        let options = Options { answers_max: 2, ..Options::default() };
        let session = &mut service(Settings::default(), &options).0.session();
        let frames: Vec<u8> = (1..=5).flat_map(|xid| flow_request(xid, 102, 1, false)).collect();
        let (mut input, mut out) = (BytesMut::from(&frames[..]), BytesMut::new());
        let mut xids = Vec::new();
        for answers in [2, 2, 1, 0] {
            session.batch(&mut input, &mut out).unwrap();
            let batch = responses(&out);
            assert_eq!(batch.len(), answers);
            xids.extend(batch.iter().map(Response::xid));
            out.clear();
        }
        assert_eq!(xids, [1, 2, 3, 4, 5]);
        assert!(input.is_empty());
    }

    #[test]
    fn frames_however_short_are_taken_whatever_the_room_for_answers() {
        // Empty frames, then the rest of an over-long one: none is answered, all are consumed.
        let session = &mut session();
        assert_eq!(ask(session, &[0, 0]), []);
        assert_eq!(
            ask(session, &[&flow_request(1, 101, 1, false)[..], &[0xff, 0xff, 1]].concat()).len(),
            1
        );
        assert!(session.is_skipping());
        assert_eq!(ask(session, &[1, 2]), []);
    }

    #[test]
    fn what_came_before_the_loss_of_the_stream_is_answered() {
        let bytes = [&flow_request(1, 101, 1, false)[..], &[0, 1, 9].repeat(16)].concat();
        let (mut input, mut out) = (BytesMut::from(&bytes[..]), BytesMut::new());
        let verdict = session().batch(&mut input, &mut out);
        assert_eq!(verdict, Err(Close::Stream(FrameError::TooManyBad)));
        assert_eq!(responses(&out).len(), 1);
    }
}
