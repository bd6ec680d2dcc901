//! Translates between the wire and the engine: requests in, answers out.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::{Buf, BytesMut};
use limiter::{Clock, ClusterEngine, Decision, Membership, RuleReader, RuleSet, Tick, Undecided};
use protocol::{BadRequest, Deframer, HELLO_VERSION, Request, Response, Status, kind};
use tracing::{Span, debug};

use crate::{
    Close, Options,
    io::Handler,
    telemetry::{Tally, Telemetry},
    values::values,
};

/// Bytes of the longest answer, HELLO's.
const ANSWER_LEN_MAX: usize = 22;
/// Bytes of the shortest frame that is answered.
const FRAME_LEN_MIN: usize = 7;
/// Feature bits of HELLO. None yet: the types 3 and 4 are not decided, and no type from 17 up is
/// answered with more than -4.
const FEATURES: u32 = 0;

/// What all connections of a server share.
#[derive(Debug)]
pub struct Service {
    engine: Arc<ClusterEngine>,
    clock: Arc<dyn Clock>,
    /// The namespaces that a ping may name; empty: any.
    namespaces: BTreeSet<Box<str>>,
    /// Answers of one batch.
    answers_max: usize,
    pub(crate) telemetry: Arc<Telemetry>,
}

/// One connection: its place in the stream, and the namespace it belongs to.
#[derive(Debug)]
pub struct Session {
    service: Arc<Service>,
    rules: RuleReader,
    deframer: Deframer,
    membership: Option<Membership>,
    number: usize,
}

impl Service {
    /// A service over `engine`, which any number of connections may use.
    #[must_use]
    pub(crate) fn new(
        engine: Arc<ClusterEngine>,
        clock: Arc<dyn Clock>,
        options: &Options,
    ) -> Self {
        Self {
            engine,
            clock,
            namespaces: options.allowed_namespaces.iter().cloned().collect(),
            answers_max: options.answers_max,
            telemetry: Arc::default(),
        }
    }

    /// A session for the connection with that number.
    #[must_use]
    pub fn session(self: &Arc<Self>, number: usize) -> Session {
        Session {
            service: Arc::clone(self),
            rules: self.engine.reader(),
            deframer: Deframer::requests(),
            membership: None,
            number,
        }
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    fn join(&self, namespace: &str) -> Option<Membership> {
        if !self.namespaces.is_empty() && !self.namespaces.contains(namespace) {
            return None;
        }
        self.engine.join(namespace).ok()
    }
}

impl Handler for Session {
    fn batch(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<(), Close> {
        let Self { service, rules, deframer, membership, number } = self;
        // One reading of the clock and one set of rules for the whole batch.
        let now = service.clock.now();
        let rules = rules.load();
        let mut tally = Tally::default();
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
            let (answer, status) = match Request::decode(body) {
                Ok(Request::Flow { xid, flow_id, count, priority }) => {
                    tally.request(kind::FLOW);
                    flow(xid, rules.acquire_flow(now, flow_id, count, priority))
                }
                Ok(request) => {
                    tally.request(request.kind());
                    other(request, now, rules, service, membership)
                }
                Err(bad) => {
                    tally.request(bad.kind);
                    tally.bad_bodies += 1;
                    refuse(&bad)
                }
            };
            tally.answer(status);
            answer.encode(out);
        }
        let taken = input.len() - rest.len();
        tally.bytes_read = taken as u64;
        tally.bytes_written = out.len() as u64;
        tally.bad_frames = deframer.malformed() - malformed_before;
        service.telemetry.add(*number, &tally);
        input.advance(taken);
        verdict
    }

    fn is_skipping(&self) -> bool {
        self.deframer.is_skipping()
    }
}

/// The answer to a flow request, as `FlowRequestProcessor.java` makes it.
#[inline]
fn flow(xid: i32, decided: Result<Decision, Undecided>) -> (Response, Status) {
    let (status, remaining, wait_ms) = match decided {
        Ok(Decision::Pass { remaining }) => (Status::Ok, saturated(remaining), 0),
        Ok(Decision::Wait { wait }) => (Status::ShouldWait, 0, whole_ms(wait)),
        Ok(Decision::Block) => (Status::Blocked, 0, 0),
        Err(why) => (undecided(why), 0, 0),
    };
    (Response::Flow { xid, status, remaining, wait_ms }, status)
}

/// The answer to a hot-parameter request, as `ParamFlowRequestProcessor.java` makes it: no wait,
/// and -1 left when there was more than one value. A wait is BLOCKED here, since a Java client
/// falls back to its local rule on any other status.
fn param(xid: i32, values: usize, decided: Result<Decision, Undecided>) -> (Response, Status) {
    let (status, remaining) = match decided {
        Ok(Decision::Pass { .. }) if values > 1 => (Status::Ok, -1),
        Ok(Decision::Pass { remaining }) => (Status::Ok, saturated(remaining)),
        Ok(Decision::Wait { .. } | Decision::Block) => (Status::Blocked, 0),
        Err(why) => (undecided(why), 0),
    };
    (Response::Param { xid, status, remaining, wait_ms: 0 }, status)
}

fn other(
    request: Request<'_>,
    now: Tick,
    rules: &RuleSet,
    service: &Service,
    membership: &mut Option<Membership>,
) -> (Response, Status) {
    match request {
        Request::Flow { xid, flow_id, count, priority } => {
            flow(xid, rules.acquire_flow(now, flow_id, count, priority))
        }
        Request::Param { xid, flow_id, count, params } => {
            let decided = rules.acquire_param(now, flow_id, count, values(params));
            param(xid, params.len(), decided)
        }
        Request::Ping { xid, namespace } => ping(xid, &namespace, service, membership),
        Request::Hello { xid } => {
            let revision = rules.applied().revision;
            let version = HELLO_VERSION;
            (Response::Hello { xid, version, features: FEATURES, revision }, Status::Ok)
        }
        // Concurrency tokens are not decided by this version: no rule serves them, and -4 makes a
        // client fall back at once.
        Request::ConcurrentAcquire { xid, .. } => {
            let status = Status::BadRequest;
            (Response::ConcurrentAcquire { xid, status, token_id: 0 }, status)
        }
        Request::ConcurrentRelease { xid, .. } => {
            let status = Status::BadRequest;
            (Response::ConcurrentRelease { xid, status }, status)
        }
    }
}

/// Makes the connection a member of `namespace`, and of no other any more. A ping that is refused
/// leaves it where it was.
fn ping(
    xid: i32,
    namespace: &str,
    service: &Service,
    membership: &mut Option<Membership>,
) -> (Response, Status) {
    let member = match membership {
        Some(member) if member.namespace().name() == namespace => member,
        _ => match service.join(namespace) {
            Some(joined) => {
                Span::current().record("namespace", namespace);
                membership.insert(joined)
            }
            None => {
                debug!(namespace, "ping refused");
                service.telemetry.pings_refused.add(1);
                return (Response::PingRefused { xid }, Status::Fail);
            }
        },
    };
    let connected = i32::try_from(member.namespace().connected()).unwrap_or(i32::MAX);
    (Response::Ping { xid, connected }, Status::Ok)
}

#[cold]
fn refuse(bad: &BadRequest) -> (Response, Status) {
    debug!(xid = bad.xid, kind = bad.kind, reason = %bad.reason, "bad request");
    let ping = bad.kind == kind::PING;
    (bad.answer(), if ping { Status::Fail } else { Status::BadRequest })
}

fn undecided(why: Undecided) -> Status {
    match why {
        Undecided::BadRequest => Status::BadRequest,
        Undecided::NoRule => Status::NoRuleExists,
        Undecided::TooManyRequests => Status::TooManyRequest,
    }
}

fn saturated(tokens: u64) -> i32 {
    i32::try_from(tokens).unwrap_or(i32::MAX)
}

/// Whole milliseconds, rounded up: a caller that waits so long is never early.
fn whole_ms(wait: Duration) -> i32 {
    i32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}
