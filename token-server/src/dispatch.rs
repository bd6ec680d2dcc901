//! Translates between the wire and the engine: a request in, its answer out.

use std::time::Duration;

use limiter::{Decision, Membership, RuleSet, Tick, Undecided};
use protocol::{BadRequest, HELLO_VERSION, Request, Response, Status, kind};
use tracing::{Span, debug};

use crate::{Service, values::values};

/// Feature bits of HELLO. None yet: the types 3 and 4 are not decided, and no type from 17 up is
/// answered with more than -4.
const FEATURES: u32 = 0;

/// The answer to a flow request, as `FlowRequestProcessor.java` makes it.
#[inline]
pub(crate) fn flow(xid: i32, decided: Result<Decision, Undecided>) -> (Response, Status) {
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

/// The answer to any request, and its status for the metrics.
#[inline(never)]
pub(crate) fn answer(
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
                service.telemetry.pings_refused.add_one();
                return (Response::PingRefused { xid }, Status::Fail);
            }
        },
    };
    let connected = i32::try_from(member.namespace().connected()).unwrap_or(i32::MAX);
    (Response::Ping { xid, connected }, Status::Ok)
}

#[cold]
pub(crate) fn refuse(bad: &BadRequest) -> (Response, Status) {
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

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use limiter::Settings;
    use protocol::Param;

    use super::*;
    use crate::{Options, testing::*};

    #[test]
    fn tokens_are_granted_until_there_are_none() {
        let session = &mut session();
        assert_eq!(ask_flow(session, 101, 1, false), (Status::Ok, 1, 0));
        assert_eq!(ask_flow(session, 101, 1, false), (Status::Ok, 0, 0));
        assert_eq!(ask_flow(session, 101, 1, false), (Status::Blocked, 0, 0));
    }

    #[test]
    fn a_wait_is_rounded_up_to_a_millisecond() {
        let (service, clock) = service(Settings::default(), &Options::default());
        let session = &mut service.session();
        assert_eq!(ask_flow(session, 101, 2, false).0, Status::Ok);
        // The first bucket is the oldest one now, and the next bucket takes its place.
        clock.set(Tick(1_700_000_000_900_000_001));
        assert_eq!(ask_flow(session, 101, 1, true), (Status::ShouldWait, 0, 100));
        clock.set(Tick(1_700_000_000_999_999_999));
        assert_eq!(ask_flow(session, 101, 1, true), (Status::ShouldWait, 0, 1));
    }

    #[test]
    fn more_tokens_than_the_wire_can_say_are_the_most_it_can() {
        assert_eq!(ask_flow(&mut session(), 102, 1, false), (Status::Ok, i32::MAX, 0));
    }

    #[test]
    fn an_id_without_a_rule_of_that_kind_has_no_rule() {
        let session = &mut session();
        assert_eq!(ask_flow(session, 999, 1, false), (Status::NoRuleExists, 0, 0));
        assert_eq!(ask_flow(session, 201, 1, false), (Status::NoRuleExists, 0, 0));
    }

    #[test]
    fn ids_and_counts_below_one_are_bad_requests() {
        let session = &mut session();
        for (id, count) in [(0, 1), (-1, 1), (101, 0), (101, -1)] {
            assert_eq!(ask_flow(session, id, count, false), (Status::BadRequest, 0, 0));
        }
        assert_eq!(ask_param(session, 0, &[Param::Int(1)]), (Status::BadRequest, 0, 0));
    }

    #[test]
    fn a_namespace_over_its_request_limit_is_told_so() {
        let settings = Settings { max_allowed_qps: Some(1.0), ..Settings::default() };
        let session = &mut service(settings, &Options::default()).0.session();
        assert_eq!(ask_flow(session, 102, 1, false).0, Status::Ok);
        assert_eq!(ask_flow(session, 102, 1, false), (Status::TooManyRequest, 0, 0));
        assert_eq!(ask_param(session, 1, &[Param::Int(1)]), (Status::TooManyRequest, 0, 0));
    }

    #[test]
    fn parameters_have_no_wait_and_say_what_is_left_for_one_value_only() {
        let session = &mut session();
        let (a, b) = (Param::Str("a".into()), Param::Long(7));
        assert_eq!(ask_param(session, 3, std::slice::from_ref(&a)), (Status::Ok, 2, 0));
        assert_eq!(ask_param(session, 2, &[a.clone(), b.clone()]), (Status::Ok, -1, 0));
        assert_eq!(ask_param(session, 1, &[b.clone(), a]), (Status::Blocked, 0, 0));
        // The refused request took nothing of `b`.
        assert_eq!(ask_param(session, 3, &[b]), (Status::Ok, 0, 0));
    }

    #[test]
    fn every_type_of_parameter_has_a_counter_of_its_own() {
        let session = &mut session();
        let ones = [
            Param::Int(1),
            Param::Long(1),
            Param::Byte(1),
            Param::Double(1.0),
            Param::Float(1.0),
            Param::Short(1),
            Param::Bool(true),
            Param::Str("1".into()),
        ];
        assert_eq!(ask_param(session, 5, &ones), (Status::Ok, -1, 0));
        for one in ones {
            assert_eq!(ask_param(session, 1, &[one]), (Status::Blocked, 0, 0));
        }
    }

    #[test]
    fn a_ping_counts_its_connection_once_and_in_one_namespace() {
        let (service, _) = service(Settings::default(), &Options::default());
        let (mut a, mut b) = (service.session(), service.session());
        assert_eq!(ask_ping(&mut a, "one"), Some(1));
        assert_eq!(ask_ping(&mut a, "one"), Some(1));
        assert_eq!(ask_ping(&mut b, "one"), Some(2));
        assert_eq!(ask_ping(&mut b, "two"), Some(1));
        assert_eq!(ask_ping(&mut a, "one"), Some(1));
        drop(b);
        assert_eq!(ask_ping(&mut a, "two"), Some(1));
    }

    #[test]
    fn a_per_client_rule_counts_the_connections_that_pinged() {
        let (service, _) = service(Settings::default(), &Options::default());
        let (mut a, mut b) = (service.session(), service.session());
        assert_eq!(ask_flow(&mut a, 103, 1, false), (Status::Blocked, 0, 0));
        // A ping acts within the batch it came in.
        let both = [&ping_request("default")[..], &flow_request(1, 103, 1, false)].concat();
        let granted = Response::Flow { xid: 1, status: Status::Ok, remaining: 2, wait_ms: 0 };
        assert_eq!(ask(&mut a, &both), [Response::Ping { xid: 0, connected: 1 }, granted]);
        assert_eq!(ask_ping(&mut b, "default"), Some(2));
        assert_eq!(ask_flow(&mut a, 103, 1, false), (Status::Ok, 4, 0));
    }

    #[test]
    fn blank_and_forbidden_namespaces_are_refused_and_leave_the_connection_where_it_was() {
        let allowed_namespaces = vec!["default".into(), "mine".into()];
        let options = Options { allowed_namespaces, ..Options::default() };
        let (service, _) = service(Settings::default(), &options);
        let session = &mut service.session();
        assert_eq!(ask_ping(session, "mine"), Some(1));
        assert_eq!(ask_ping(session, "theirs"), None);
        assert_eq!(ask_ping(session, " \t"), None);
        assert_eq!(ask_ping(&mut service.session(), "mine"), Some(2));
    }

    #[test]
    fn above_the_bound_on_namespaces_a_ping_is_refused() {
        let settings = Settings { namespaces_max: 2, ..Settings::default() };
        let (service, _) = service(settings, &Options::default());
        let (mut a, mut b) = (service.session(), service.session());
        // `default` has rules, so it is one of the two.
        assert_eq!(ask_ping(&mut a, "one"), Some(1));
        assert_eq!(ask_ping(&mut b, "two"), None);
        drop(a);
        assert_eq!(ask_ping(&mut b, "two"), Some(1));
    }

    #[test]
    fn hello_tells_version_features_and_the_revision_of_the_rules() {
        let bytes = [0, 5, 0, 0, 0, 9, 16];
        let hello = Response::Hello { xid: 9, version: 1, features: 0, revision: 1 };
        assert_eq!(ask(&mut session(), &bytes), [hello]);
    }

    #[test]
    fn concurrency_tokens_are_refused_in_their_own_layouts() {
        let mut bytes = BytesMut::new();
        Request::ConcurrentAcquire { xid: 1, flow_id: 101, count: 1 }.encode(&mut bytes).unwrap();
        Request::ConcurrentRelease { xid: 2, token_id: 5 }.encode(&mut bytes).unwrap();
        let status = Status::BadRequest;
        assert_eq!(
            ask(&mut session(), &bytes),
            [
                Response::ConcurrentAcquire { xid: 1, status, token_id: 0 },
                Response::ConcurrentRelease { xid: 2, status },
            ]
        );
    }
}
