//! Translates between the wire and the engine: a request in, its answer out.

use std::time::Duration;

use bytes::BytesMut;
use limiter::{Decision, Released, RuleSet, Tick, TokenId, Undecided};
use protocol::{
    BadRequest, ExtendedResponse, HELLO_VERSION, Params, Request, Response, Status, feature, kind,
};
use tracing::debug;

use crate::{
    Service,
    extension::{self, Wanted},
    peer::Peer,
    values::values,
};

/// Feature bits of HELLO.
const FEATURES: u32 = feature::CONCURRENCY | feature::ASK | feature::LEASE | feature::RULES;

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
/// and -1 left when there was more than one value. What would have to wait is BLOCKED here and keeps
/// no turn, since a Java client falls back to its local rule on any other status.
fn param(
    xid: i32,
    now: Tick,
    rules: &RuleSet,
    (flow_id, count): (i64, i32),
    params: Params<'_>,
) -> (Response, Status) {
    let decided = rules.acquire_param_at_once(now, flow_id, count, values(params));
    let (status, remaining) = match decided {
        Ok(Decision::Pass { .. }) if params.len() > 1 => (Status::Ok, -1),
        Ok(Decision::Pass { remaining }) => (Status::Ok, saturated(remaining)),
        Ok(Decision::Wait { .. } | Decision::Block) => (Status::Blocked, 0),
        Err(why) => (undecided(why), 0),
    };
    (Response::Param { xid, status, remaining, wait_ms: 0 }, status)
}

/// Writes the answer to any request into `out`, and gives its status for the metrics.
#[inline(never)]
pub(crate) fn answer(
    request: Request<'_>,
    now: Tick,
    rules: &RuleSet,
    service: &Service,
    peer: &mut Peer,
    out: &mut BytesMut,
) -> Status {
    let (answer, status) = match request {
        Request::Flow { xid, flow_id, count, priority } => {
            flow(xid, rules.acquire_flow(now, flow_id, count, priority))
        }
        Request::Param { xid, flow_id, count, params } => {
            param(xid, now, rules, (flow_id, count), params)
        }
        Request::Ping { xid, namespace } => ping(xid, peer.join(&namespace, service)),
        Request::Hello { xid } => {
            let revision = rules.applied().revision;
            let version = HELLO_VERSION;
            (Response::Hello { xid, version, features: FEATURES, revision }, Status::Ok)
        }
        Request::ConcurrentAcquire { xid, flow_id, count } => {
            let (status, token_id) = match peer.acquire(now, rules, flow_id, count, service) {
                Ok(Some(TokenId(id))) => (Status::Ok, id),
                Ok(None) => (Status::Blocked, 0),
                Err(why) => (undecided(why), 0),
            };
            (Response::ConcurrentAcquire { xid, status, token_id }, status)
        }
        Request::ConcurrentRelease { xid, token_id } => {
            let status = match peer.release(now, TokenId(token_id), service) {
                Released::Ok => Status::ReleaseOk,
                Released::AlreadyReleased => Status::AlreadyRelease,
            };
            (Response::ConcurrentRelease { xid, status }, status)
        }
        Request::Renew { xid, token_id } => {
            let held = peer.renew(now, TokenId(token_id), service);
            let status = if held { Status::Ok } else { Status::AlreadyRelease };
            (Response::Head { xid, kind: kind::RENEW, status }, status)
        }
        Request::Ask { xid, priority, peek, max_wait_ms, what } => {
            let how = extension::how(priority, peek, max_wait_ms);
            return put(extension::decide(xid, now, rules, what, how), out);
        }
        Request::Adjust { xid, op, age_ms, what } => {
            let status = extension::adjust(now, rules, op, age_ms, what);
            (Response::Head { xid, kind: kind::ADJUST, status }, status)
        }
        Request::AcquireAll { xid, checks } => {
            return put(extension::acquire_all(xid, now, rules, checks), out);
        }
        Request::Lease { xid, flow_id, want, returned, used } => {
            let wanted = Wanted { flow_id, want, returned, used };
            return put(extension::lease(xid, now, rules, wanted), out);
        }
        // The session has noted it.
        Request::Rules { xid, .. } => {
            let status = Status::Ok;
            (Response::Head { xid, kind: kind::RULES, status }, status)
        }
    };
    answer.encode(out);
    status
}

fn put((answer, status): (ExtendedResponse<'_>, Status), out: &mut BytesMut) -> Status {
    answer.encode(out);
    status
}

/// The answer to a ping: how many connections the namespace has now, if it could be joined.
fn ping(xid: i32, connected: Option<u32>) -> (Response, Status) {
    match connected {
        Some(connected) => {
            let connected = i32::try_from(connected).unwrap_or(i32::MAX);
            (Response::Ping { xid, connected }, Status::Ok)
        }
        None => (Response::PingRefused { xid }, Status::Fail),
    }
}

#[cold]
pub(crate) fn refuse(bad: &BadRequest) -> (Response, Status) {
    debug!(xid = bad.xid, kind = bad.kind, reason = %bad.reason, "bad request");
    let ping = bad.kind == kind::PING;
    (bad.answer(), if ping { Status::Fail } else { Status::BadRequest })
}

pub(crate) fn undecided(why: Undecided) -> Status {
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
        let hello = Response::Hello { xid: 9, version: 1, features: 15, revision: 1 };
        assert_eq!(ask(&mut session(), &bytes), [hello]);
    }

    #[test]
    fn concurrency_tokens_are_taken_given_back_and_held_on() {
        let session = &mut session();
        let (status, token) = ask_token(session, 2);
        assert!(status == Status::Ok && token > 0, "{status:?} {token}");
        assert_eq!(ask_token(session, 1), (Status::Blocked, 0));
        assert_eq!(renew(session, token), Status::Ok);
        assert_eq!(release(session, token), Status::ReleaseOk);
        assert_eq!(release(session, token), Status::AlreadyRelease);
        assert_eq!(renew(session, token), Status::AlreadyRelease);
    }

    #[test]
    fn a_concurrency_token_is_of_a_thread_grade_rule_and_of_a_positive_count() {
        let session = &mut session();
        assert_eq!(ask_token_of(session, 999, 1), (Status::NoRuleExists, 0));
        for (id, count) in [(101, 1), (104, 0), (104, -1), (0, 1), (-1, 1)] {
            assert_eq!(ask_token_of(session, id, count), (Status::BadRequest, 0), "{id} {count}");
        }
    }

    #[test]
    fn at_the_bound_on_tokens_of_all_rules_a_client_is_told_so() {
        let settings = Settings { tokens_max: 1, ..Settings::default() };
        let session = &mut service(settings, &Options::default()).0.session();
        let (_, token) = ask_token(session, 1);
        assert_eq!(ask_token(session, 1), (Status::TooManyRequest, 0));
        assert_eq!(release(session, token), Status::ReleaseOk);
        assert_eq!(ask_token(session, 1).0, Status::Ok);
    }
}
