//! The extension frames: asking with reasons, correcting counts, several rules at once, leases.

use std::{borrow::Cow, time::Duration};

use limiter::{All, Ask, Decision, LeaseId, Param, RuleSet, Tick};
use protocol::{
    ANY_WAIT, Adjustment, Checks, Explained, ExtendedResponse, Mode, Status, Unit, What, kind,
};

use crate::{dispatch::undecided, values::values};

/// An answer, and its status for the metrics.
type Answered = (ExtendedResponse<'static>, Status);

/// What is asked about, in the engine's words, and the values that it borrows.
struct Asked<'a> {
    what: What<'a>,
    values: Vec<Param<'a>>,
}

impl<'a> Asked<'a> {
    fn new(what: What<'a>) -> Self {
        Self { what, values: what.params.into_iter().flat_map(values).collect() }
    }

    fn what(&self) -> limiter::What<'_> {
        let What { flow_id: id, count, params } = self.what;
        match params {
            None => limiter::What::Flow { id, count },
            Some(_) => limiter::What::Param { id, count, values: &self.values },
        }
    }
}

/// How a client asks: `max_wait_ms` as on the wire.
pub(crate) fn how(prioritized: bool, peek: bool, max_wait_ms: u32) -> Ask {
    let max_wait = (max_wait_ms != ANY_WAIT).then(|| Duration::from_millis(max_wait_ms.into()));
    Ask { prioritized, peek, max_wait }
}

/// A decision with its reasons.
pub(crate) fn decide(xid: i32, now: Tick, rules: &RuleSet, what: What<'_>, ask: Ask) -> Answered {
    let explained = match rules.ask(now, &Asked::new(what).what(), ask) {
        Ok(explained) => explained,
        Err(why) => {
            let status = undecided(why);
            return (ExtendedResponse::Head { xid, kind: kind::ASK, status }, status);
        }
    };
    let (status, remaining, wait_ns) = match explained.decision {
        Decision::Pass { remaining } => (Status::Ok, remaining, 0),
        Decision::Wait { wait } => (Status::ShouldWait, 0, nanoseconds(Some(wait))),
        Decision::Block => (Status::Blocked, 0, nanoseconds(explained.retry)),
    };
    let explained = Explained {
        remaining,
        wait_ns,
        used: explained.used,
        threshold: explained.threshold,
        window_ms: explained.window_ms,
        unit: match explained.unit {
            limiter::Unit::PerWindow => Unit::PerWindow,
            limiter::Unit::PerSecond => Unit::PerSecond,
            limiter::Unit::InProgress => Unit::InProgress,
        },
        mode: match explained.mode {
            limiter::rule::Mode::Enforce => Mode::Enforce,
            limiter::rule::Mode::Shadow => Mode::Shadow,
            limiter::rule::Mode::Pass => Mode::Pass,
            limiter::rule::Mode::Block => Mode::Block,
        },
        connected: explained.connected,
        resource: Cow::Owned(explained.resource.into()),
    };
    (ExtendedResponse::Ask { xid, status, explained }, status)
}

/// Corrects what a rule counted; gives the status of the answer, which is nothing else.
pub(crate) fn adjust(
    now: Tick,
    rules: &RuleSet,
    op: Adjustment,
    age_ms: u32,
    what: What<'_>,
) -> Status {
    let asked = Asked::new(what);
    let what = asked.what();
    let adjusted = match op {
        Adjustment::GiveBack => rules.give_back(now, &what, Duration::from_millis(age_ms.into())),
        Adjustment::Charge => rules.charge(now, &what),
        Adjustment::Reset => rules.reset(now, &what),
    };
    adjusted.map_or_else(undecided, |()| Status::Ok)
}

/// Tokens of several rules, or of none.
pub(crate) fn acquire_all(xid: i32, now: Tick, rules: &RuleSet, checks: Checks<'_>) -> Answered {
    let asked: Vec<_> =
        checks.iter().map(|check| (Asked::new(check.what), check.priority)).collect();
    let requests: Vec<_> =
        asked.iter().map(|(asked, priority)| (asked.what(), *priority)).collect();
    let (status, failed, wait_ns) = match rules.acquire_all(now, &requests) {
        Ok(All::Taken { wait: Duration::ZERO }) => (Status::Ok, None, 0),
        Ok(All::Taken { wait }) => (Status::ShouldWait, None, nanoseconds(Some(wait))),
        Ok(All::Refused { index, retry }) => (Status::Blocked, Some(index), nanoseconds(retry)),
        Err((index, why)) => (undecided(why), Some(index), 0),
    };
    let failed = failed.and_then(|index| u8::try_from(index).ok());
    (ExtendedResponse::AcquireAll { xid, status, failed, wait_ns }, status)
}

/// A lease that a client asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) flow_id: i64,
    /// Tokens; 0 when a lease is only returned.
    pub(crate) want: u32,
    /// The lease that comes back; 0: none.
    pub(crate) returned: i64,
    /// Tokens of it that were spent.
    pub(crate) used: u32,
}

/// Tokens in advance, or back.
pub(crate) fn lease(xid: i32, now: Tick, rules: &RuleSet, wanted: Wanted) -> Answered {
    let Wanted { flow_id, want, returned, used } = wanted;
    let returned = (returned != 0).then_some((LeaseId(returned), used));
    let (status, lease_id, granted, ttl) = match rules.lease(now, flow_id, want, returned) {
        Ok(Ok(leased)) => match leased.id {
            Some(LeaseId(id)) => (Status::Ok, id, leased.granted, leased.ttl),
            None if want == 0 => (Status::Ok, 0, 0, Duration::ZERO),
            None => (Status::Blocked, 0, 0, Duration::ZERO),
        },
        Ok(Err(limiter::LeaseRefused)) => (Status::AlreadyRelease, 0, 0, Duration::ZERO),
        Err(why) => (undecided(why), 0, 0, Duration::ZERO),
    };
    let ttl_ms = u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX);
    (ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms }, status)
}

fn nanoseconds(wait: Option<Duration>) -> u64 {
    wait.and_then(|wait| u64::try_from(wait.as_nanos()).ok()).unwrap_or(Explained::NEVER)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use limiter::{ManualClock, Settings};
    use protocol::{Check, Param, Params, Request, Response};

    use super::*;
    use crate::{Options, Session, testing::*};

    const START: u64 = 1_700_000_000_000_000_000;

    fn scene() -> (Session, std::sync::Arc<ManualClock>) {
        let (service, clock) = service(Settings::default(), &Options::default());
        (service.session(), clock)
    }

    fn flow(flow_id: i64, count: i32) -> What<'static> {
        What { flow_id, count, params: None }
    }

    /// Asks with `[priority, peek]`: status, what is left, and the wait; nothing for a mere head.
    fn asked(
        session: &mut Session,
        what: What<'_>,
        [priority, peek]: [bool; 2],
        max_wait_ms: u32,
    ) -> (Status, Option<Explained<'static>>) {
        let request = Request::Ask { xid: 3, priority, peek, max_wait_ms, what };
        match ask_extended(session, &request) {
            ExtendedResponse::Ask { status, explained, .. } => (status, Some(explained)),
            ExtendedResponse::Head { kind: kind::ASK, status, .. } => (status, None),
            other => panic!("{other:?}"),
        }
    }

    fn plainly(session: &mut Session, what: What<'_>) -> (Status, Option<Explained<'static>>) {
        asked(session, what, [false, false], ANY_WAIT)
    }

    fn adjusted(session: &mut Session, op: Adjustment, age_ms: u32, what: What<'_>) -> Status {
        match ask_extended(session, &Request::Adjust { xid: 4, op, age_ms, what }) {
            ExtendedResponse::Head { kind: kind::ADJUST, status, .. } => status,
            other => panic!("{other:?}"),
        }
    }

    fn all(session: &mut Session, checks: &[Check<'_>]) -> (Status, Option<u8>, u64) {
        let mut buf = BytesMut::new();
        let checks = Checks::write(checks, &mut buf).unwrap();
        match ask_extended(session, &Request::AcquireAll { xid: 5, checks }) {
            ExtendedResponse::AcquireAll { status, failed, wait_ns, .. } => {
                (status, failed, wait_ns)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Status, lease, granted and time to live.
    fn leased(session: &mut Session, wanted: Wanted) -> (Status, i64, u32, u32) {
        let Wanted { flow_id, want, returned, used } = wanted;
        match ask_extended(session, &Request::Lease { xid: 6, flow_id, want, returned, used }) {
            ExtendedResponse::Lease { status, lease_id, granted, ttl_ms, .. } => {
                (status, lease_id, granted, ttl_ms)
            }
            other => panic!("{other:?}"),
        }
    }

    fn want(flow_id: i64, want: u32) -> Wanted {
        Wanted { flow_id, want, returned: 0, used: 0 }
    }

    #[test]
    fn a_decision_comes_with_its_reasons() {
        let (mut session, _) = scene();
        ask_ping(&mut session, "default");
        let expected = Explained {
            remaining: 1,
            wait_ns: 0,
            used: 0,
            threshold: 2.0,
            window_ms: 1_000,
            unit: Unit::PerSecond,
            mode: Mode::Enforce,
            connected: 1,
            resource: "a".into(),
        };
        assert_eq!(plainly(&mut session, flow(101, 1)), (Status::Ok, Some(expected.clone())));
        let (status, explained) = plainly(&mut session, flow(101, 2));
        let explained = explained.unwrap();
        assert_eq!((status, explained.remaining, explained.used), (Status::Blocked, 0, 1));
        assert_eq!(explained.resource, expected.resource);
    }

    #[test]
    fn the_time_in_a_refusal_is_when_it_would_pass_and_not_a_nanosecond_earlier() {
        let (mut session, clock) = scene();
        clock.set(Tick(START + 123_456_789));
        assert_eq!(plainly(&mut session, flow(101, 2)).0, Status::Ok);
        clock.set(Tick(START + 400_000_000));
        let wait_ns = plainly(&mut session, flow(101, 1)).1.unwrap().wait_ns;
        clock.set(Tick(START + 400_000_000 + wait_ns - 1));
        assert_eq!(plainly(&mut session, flow(101, 1)).0, Status::Blocked);
        clock.set(Tick(START + 400_000_000 + wait_ns));
        assert_eq!(plainly(&mut session, flow(101, 1)).0, Status::Ok);
        let (status, never) = plainly(&mut session, flow(101, 3));
        assert_eq!((status, never.unwrap().wait_ns), (Status::Blocked, Explained::NEVER));
    }

    #[test]
    fn a_peek_takes_nothing() {
        let (mut session, _) = scene();
        for _ in 0..9 {
            let (status, explained) = asked(&mut session, flow(101, 2), [false, true], ANY_WAIT);
            assert_eq!((status, explained.unwrap().remaining), (Status::Ok, 0));
        }
        assert_eq!(ask_flow(&mut session, 101, 2, false), (Status::Ok, 0, 0));
    }

    #[test]
    fn calls_in_progress_can_be_peeked_at() {
        let (mut session, _) = scene();
        ask_token(&mut session, 2);
        let (status, explained) = asked(&mut session, flow(104, 1), [false, true], ANY_WAIT);
        let explained = explained.unwrap();
        assert_eq!((status, explained.wait_ns), (Status::Blocked, Explained::NEVER));
        assert_eq!((explained.used, explained.threshold), (2, 2.0));
        assert_eq!(explained.unit, Unit::InProgress);
        assert_eq!(plainly(&mut session, flow(104, 1)), (Status::BadRequest, None));
    }

    #[test]
    fn a_wait_that_is_too_long_is_refused_and_books_nothing() {
        let (mut session, clock) = scene();
        assert_eq!(plainly(&mut session, flow(101, 2)).0, Status::Ok);
        clock.set(Tick(START + 900_000_001));
        for _ in 0..5 {
            let (status, _) = asked(&mut session, flow(101, 1), [true, false], 99);
            assert_eq!(status, Status::Blocked);
        }
        for _ in 0..2 {
            let (status, explained) = asked(&mut session, flow(101, 1), [true, false], 100);
            assert_eq!((status, explained.unwrap().wait_ns), (Status::ShouldWait, 99_999_999));
        }
        assert_eq!(asked(&mut session, flow(101, 1), [true, false], 100).0, Status::Blocked);
    }

    #[test]
    fn of_several_values_the_one_with_the_least_left_is_told() {
        let (mut session, _) = scene();
        ask_param(&mut session, 3, &[Param::Int(1)]);
        let mut buf = BytesMut::new();
        let both = [Param::Int(2), Param::Int(1)];
        let params = Some(Params::write(&both, &mut buf).unwrap());
        let (status, explained) = plainly(&mut session, What { flow_id: 201, count: 2, params });
        let explained = explained.unwrap();
        assert_eq!((status, explained.remaining, explained.used), (Status::Ok, 0, 3));
        assert_eq!((explained.threshold, &*explained.resource), (5.0, "hot"));
        assert_eq!(ask_param(&mut session, 3, &[Param::Int(2)]), (Status::Ok, 0, 0));
    }

    #[test]
    fn what_is_not_decided_is_a_head() {
        let (mut session, _) = scene();
        assert_eq!(plainly(&mut session, flow(999, 1)), (Status::NoRuleExists, None));
        for bad in [flow(101, 0), flow(0, 1), flow(101, -1)] {
            assert_eq!(plainly(&mut session, bad), (Status::BadRequest, None));
        }
        let settings = Settings { max_allowed_qps: Some(1.0), ..Settings::default() };
        let session = &mut service(settings, &Options::default()).0.session();
        assert_eq!(plainly(session, flow(102, 1)).0, Status::Ok);
        assert_eq!(plainly(session, flow(102, 1)), (Status::TooManyRequest, None));
    }

    /// A session of a namespace that may make so many requests a second, its ping not among them.
    fn guarded(requests: f64) -> Session {
        let settings = Settings { max_allowed_qps: Some(requests), ..Settings::default() };
        let mut session = service(settings, &Options::default()).0.session();
        assert_eq!(ask_ping(&mut session, "default"), Some(1));
        session
    }

    #[test]
    fn every_kind_of_request_counts_for_the_namespaces_limit() {
        let value = [Param::Int(1)];
        let charge_value = |session: &mut Session| {
            let mut buf = BytesMut::new();
            let params = Some(Params::write(&value, &mut buf).unwrap());
            adjusted(session, Adjustment::Charge, 0, What { flow_id: 201, count: 1, params })
        };
        let requests: [&dyn Fn(&mut Session) -> Status; 12] = [
            &|session| ask_flow(session, 102, 1, false).0,
            &|session| ask_param(session, 1, &value).0,
            &|session| ask_token(session, 1).0,
            &|session| release(session, 1),
            &|session| renew(session, 1),
            &|session| plainly(session, flow(102, 1)).0,
            &|session| all(session, &[Check { priority: false, what: flow(102, 1) }]).0,
            &|session| leased(session, want(105, 1)).0,
            &|session| leased(session, want(105, 0)).0,
            &|session| adjusted(session, Adjustment::GiveBack, 0, flow(102, 1)),
            &charge_value,
            &|session| adjusted(session, Adjustment::Reset, 0, flow(102, 1)),
        ];
        for (index, request) in requests.iter().enumerate() {
            let session = &mut guarded(3.0);
            let first = request(session);
            assert!(first != Status::TooManyRequest && first != Status::BadRequest, "{index}");
            let rest: Vec<Status> = (0..3).map(|_| ask_flow(session, 102, 1, false).0).collect();
            let expected = [Status::Ok, Status::Ok, Status::TooManyRequest];
            assert_eq!(rest, expected, "{index}: {first:?}");
        }
    }

    #[test]
    fn above_the_limit_what_asks_is_refused_and_what_returns_or_corrects_is_not() {
        let session = &mut guarded(3.0);
        let (_, token) = ask_token(session, 1);
        let (_, lease, ..) = leased(session, want(105, 5));
        assert_eq!(ask_flow(session, 101, 2, false).0, Status::Ok);
        assert_eq!(ask_token(session, 1), (Status::TooManyRequest, 0));
        assert_eq!(plainly(session, flow(101, 1)), (Status::TooManyRequest, None));
        let peek = asked(session, flow(101, 1), [false, true], ANY_WAIT);
        assert_eq!(peek, (Status::TooManyRequest, None));
        let checks = [Check { priority: false, what: flow(102, 1) }];
        assert_eq!(all(session, &checks), (Status::TooManyRequest, Some(0), 0));
        assert_eq!(leased(session, want(105, 1)), (Status::TooManyRequest, 0, 0, 0));

        assert_eq!(renew(session, token), Status::Ok);
        assert_eq!(release(session, token), Status::ReleaseOk);
        let back = Wanted { flow_id: 105, want: 0, returned: lease, used: 0 };
        assert_eq!(leased(session, back), (Status::Ok, 0, 0, 0));
        for op in [Adjustment::GiveBack, Adjustment::Charge, Adjustment::Reset] {
            assert_eq!(adjusted(session, op, 0, flow(101, 1)), Status::Ok, "{op:?}");
        }
    }

    #[test]
    fn above_the_limit_a_rule_that_shares_is_lent_to() {
        let settings = Settings { max_allowed_qps: Some(2.0), ..Settings::default() };
        let (service, _) = service(settings, &Options::default());
        let text = r#"[{"resource": "shared", "count": 40, "clusterMode": true, "clusterConfig":
            {"flowId": 106, "thresholdType": 1, "overloadPolicy": "share"}}]"#;
        let contents = limiter::rule::Contents::Flow;
        let rules = limiter::rule::parse(text, "test", "default", contents, true).unwrap();
        service.engine.replace(vec![rules.rules]).unwrap();
        let session = &mut service.session();
        ask_ping(session, "default");
        for status in [Status::Ok, Status::Ok, Status::TooManyRequest] {
            assert_eq!(ask_flow(session, 106, 1, false).0, status);
        }
        let (status, lease, granted, ttl_ms) = leased(session, want(106, 4));
        assert_eq!((status, granted, ttl_ms), (Status::Ok, 4, 100));
        assert!(lease > 0);
        assert_eq!(ask_flow(session, 106, 1, false).0, Status::TooManyRequest);
    }

    #[test]
    fn a_lease_that_comes_back_with_a_wish_above_the_limit_is_taken_all_the_same() {
        let settings = Settings { max_allowed_qps: Some(1.0), ..Settings::default() };
        let (service, _) = service(settings, &Options::default());
        let session = &mut service.session();
        let (_, lease, granted, _) = leased(session, want(105, 10));
        let again = Wanted { flow_id: 105, want: 10, returned: lease, used: 0 };
        assert_eq!((granted, leased(session, again).0), (10, Status::TooManyRequest));
        let usage = service.engine.rules().flow(105).unwrap().usage(Tick(START));
        assert_eq!(usage, (0, 0));
    }

    #[test]
    fn counts_are_given_back_charged_and_reset() {
        let (mut session, clock) = scene();
        let left = |session: &mut Session| {
            asked(session, flow(105, 1), [false, true], ANY_WAIT).1.unwrap().used
        };
        ask_flow(&mut session, 105, 60, false);
        assert_eq!(adjusted(&mut session, Adjustment::GiveBack, 10, flow(105, 20)), Status::Ok);
        assert_eq!(left(&mut session), 40);
        assert_eq!(adjusted(&mut session, Adjustment::Charge, 0, flow(105, 731)), Status::Ok);
        assert_eq!(left(&mut session), 771, "over the limit");
        assert_eq!(adjusted(&mut session, Adjustment::Reset, 0, flow(105, 0)), Status::Ok);
        assert_eq!(left(&mut session), 0);
        // What was taken longer ago than the client says is not its to give.
        ask_flow(&mut session, 105, 60, false);
        clock.set(Tick(START + 500_000_000));
        assert_eq!(adjusted(&mut session, Adjustment::GiveBack, 10, flow(105, 20)), Status::Ok);
        assert_eq!(left(&mut session), 60);
        for op in [Adjustment::GiveBack, Adjustment::Charge, Adjustment::Reset] {
            assert_eq!(adjusted(&mut session, op, 0, flow(999, 1)), Status::NoRuleExists);
            assert_eq!(adjusted(&mut session, op, 0, flow(0, 1)), Status::BadRequest);
        }
    }

    #[test]
    fn counts_of_values_are_corrected_one_by_one() {
        let (mut session, _) = scene();
        let both = [Param::Int(1), Param::Int(2)];
        ask_param(&mut session, 5, &both);
        let mut buf = BytesMut::new();
        let params = Some(Params::write(&both[..1], &mut buf).unwrap());
        let what = What { flow_id: 201, count: 2, params };
        assert_eq!(adjusted(&mut session, Adjustment::GiveBack, 0, what), Status::Ok);
        assert_eq!(ask_param(&mut session, 2, &both[..1]), (Status::Ok, 0, 0));
        assert_eq!(ask_param(&mut session, 1, &both[1..]), (Status::Blocked, 0, 0));
    }

    #[test]
    fn several_rules_give_all_or_nothing() {
        let (mut session, clock) = scene();
        let check = |priority, what| Check { priority, what };
        let both = [check(false, flow(102, 5)), check(true, flow(101, 2))];
        assert_eq!(all(&mut session, &both), (Status::Ok, None, 0));
        let three = [check(false, flow(102, 7)), check(false, flow(101, 1))];
        assert_eq!(all(&mut session, &three), (Status::Blocked, Some(1), 1_000_000_000));
        let used = asked(&mut session, flow(102, 1), [false, true], ANY_WAIT).1.unwrap().used;
        assert_eq!(used, 5, "the first was not taken either");
        clock.set(Tick(START + 950_000_000));
        assert_eq!(all(&mut session, &both), (Status::ShouldWait, None, 50_000_000));
        let too_many = [check(false, flow(102, 5)), check(false, flow(101, 3))];
        assert_eq!(all(&mut session, &too_many), (Status::Blocked, Some(1), Explained::NEVER));
    }

    #[test]
    fn of_several_rules_the_first_that_cannot_be_decided_is_named() {
        let (mut session, _) = scene();
        let mut of = |second| {
            let checks = [flow(102, 5), second].map(|what| Check { priority: false, what });
            all(&mut session, &checks)
        };
        assert_eq!(of(flow(999, 1)), (Status::NoRuleExists, Some(1), 0));
        assert_eq!(of(flow(101, 0)), (Status::BadRequest, Some(1), 0));
        assert_eq!(of(flow(102, 1)), (Status::BadRequest, Some(1), 0), "one rule twice");
        assert_eq!(of(flow(104, 1)), (Status::BadRequest, Some(1), 0), "calls need an owner");
    }

    #[test]
    fn values_of_a_parameter_rule_are_part_of_all_or_nothing() {
        let (mut session, _) = scene();
        let mut buf = BytesMut::new();
        let value = [Param::Str("é".into())];
        let params = Some(Params::write(&value, &mut buf).unwrap());
        let hot = What { flow_id: 201, count: 5, params };
        let checks = [flow(101, 1), hot].map(|what| Check { priority: false, what });
        assert_eq!(all(&mut session, &checks), (Status::Ok, None, 0));
        let (status, failed, _) = all(&mut session, &checks);
        assert_eq!((status, failed), (Status::Blocked, Some(1)));
        assert_eq!(ask_flow(&mut session, 101, 1, false), (Status::Ok, 0, 0));
    }

    #[test]
    fn leases_are_granted_counted_and_taken_back() {
        let (mut session, _) = scene();
        let (status, lease, granted, ttl_ms) = leased(&mut session, want(105, 25));
        assert_eq!((status, granted, ttl_ms), (Status::Ok, 10, 500));
        assert!(lease > 0);
        assert_eq!(ask_flow(&mut session, 105, 91, false), (Status::Blocked, 0, 0));
        let back = Wanted { flow_id: 105, want: 0, returned: lease, used: 4 };
        assert_eq!(leased(&mut session, back), (Status::Ok, 0, 0, 0));
        assert_eq!(leased(&mut session, back), (Status::Ok, 0, 0, 0), "twice");
        assert_eq!(ask_flow(&mut session, 105, 96, false), (Status::Ok, 0, 0));
        assert_eq!(leased(&mut session, want(105, 1)), (Status::Blocked, 0, 0, 0));
    }

    #[test]
    fn a_rule_without_leases_and_no_rule_say_so() {
        let (mut session, _) = scene();
        assert_eq!(leased(&mut session, want(101, 1)), (Status::AlreadyRelease, 0, 0, 0));
        assert_eq!(leased(&mut session, want(999, 1)), (Status::NoRuleExists, 0, 0, 0));
        assert_eq!(leased(&mut session, want(0, 1)), (Status::BadRequest, 0, 0, 0));
    }

    #[test]
    fn a_client_that_cannot_wait_for_its_values_keeps_no_turn() {
        let (mut session, clock) = scene();
        let value = [Param::Int(1)];
        assert_eq!(ask_param_of(&mut session, 202, 1, &value).0, Status::Ok);
        for _ in 0..20 {
            assert_eq!(ask_param_of(&mut session, 202, 1, &value), (Status::Blocked, 0, 0));
        }
        // The next turn is still the first one in a tenth of a second.
        let mut buf = BytesMut::new();
        let params = Some(Params::write(&value, &mut buf).unwrap());
        let (status, explained) = plainly(&mut session, What { flow_id: 202, count: 1, params });
        assert_eq!((status, explained.unwrap().wait_ns), (Status::ShouldWait, 100_000_000));
        clock.set(Tick(START + 200_000_000));
        assert_eq!(ask_param_of(&mut session, 202, 1, &value).0, Status::Ok);
    }

    #[test]
    fn of_several_values_none_keeps_a_turn_when_one_would_have_to_wait() {
        let (mut session, _) = scene();
        let (one, two) = (Param::Int(1), Param::Int(2));
        assert_eq!(ask_param_of(&mut session, 202, 1, std::slice::from_ref(&one)).0, Status::Ok);
        let both = [two.clone(), one];
        assert_eq!(ask_param_of(&mut session, 202, 1, &both), (Status::Blocked, 0, 0));
        assert_eq!(ask_param_of(&mut session, 202, 1, &[two]).0, Status::Ok, "it was not taken");
    }

    #[test]
    fn a_bad_body_is_answered_with_a_head_and_the_next_one_is_read() {
        let (mut session, _) = scene();
        let bad: [&[u8]; 5] = [
            &[0, 5, 0, 0, 0, 1, 17],
            &[0, 10, 0, 0, 0, 1, 18, 0xff, 0, 0, 0, 0],
            &[0, 10, 0, 0, 0, 1, 19, 9, 0, 0, 0, 0],
            &[0, 6, 0, 0, 0, 1, 20, 0],
            &[0, 5, 0, 0, 0, 1, 21],
        ];
        let status = Status::BadRequest;
        let heads = (17..=21).map(|kind| Response::Head { xid: 1, kind, status });
        let mut expected: Vec<_> = heads.collect();
        expected.push(Response::Flow { xid: 9, status: Status::Ok, remaining: 1, wait_ms: 0 });
        let bytes = [&bad.concat()[..], &flow_request(9, 101, 1, false)].concat();
        assert_eq!(ask(&mut session, &bytes), expected);
    }
}
