//! The recorded conversions of the real classes. Java numbers the rules of a hash set in any order;
//! here the rules stand in the order that it took.

use std::{borrow::Cow, collections::HashMap};

use super::{Arg, GatewayRequest, GatewayRules};
use crate::{
    Param,
    rule::{ControlBehavior, ItemValue, ParamItem, ParamRule, ResourceMode, parse_gateway},
};

/// The parts of a request: `ip`, `host`, and `h:`, `q:` or `c:` with a name.
struct Request(HashMap<&'static str, &'static str>);

impl Request {
    fn new(parts: &[(&'static str, &'static str)]) -> Self {
        Self(parts.iter().copied().collect())
    }

    fn part(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.get(name).map(|&value| value.into())
    }
}

impl GatewayRequest for Request {
    fn client_ip(&self) -> Option<Cow<'_, str>> {
        self.part("ip")
    }
    fn host(&self) -> Option<Cow<'_, str>> {
        self.part("host")
    }
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.part(&format!("h:{name}"))
    }
    fn url_param(&self, name: &str) -> Option<Cow<'_, str>> {
        self.part(&format!("q:{name}"))
    }
    fn cookie(&self, name: &str) -> Option<Cow<'_, str>> {
        self.part(&format!("c:{name}"))
    }
}

fn rules(text: &str) -> GatewayRules {
    replaced(&GatewayRules::default(), text, &[])
}

fn replaced(before: &GatewayRules, text: &str, held: &[i32]) -> GatewayRules {
    let rules = parse_gateway(text, "test").unwrap().rules;
    before.replaced(&rules, |param_idx| held.contains(&param_idx))
}

const RECORDED: &str = r#"[
    {"resource": "r", "count": 5, "burst": 2, "paramItem": {"parseStrategy": 0}},
    {"resource": "r", "count": 10, "intervalSec": 2},
    {"resource": "r", "count": 3, "paramItem":
        {"parseStrategy": 2, "fieldName": "X", "pattern": "vip"}},
    {"resource": "r", "count": 4, "paramItem":
        {"parseStrategy": 3, "fieldName": "id", "pattern": "x.*y", "matchStrategy": 2}},
    {"resource": "r", "count": 7, "controlBehavior": 2, "maxQueueingTimeoutMs": 600, "paramItem":
        {"parseStrategy": 4, "fieldName": "ck", "pattern": "bc", "matchStrategy": 3}}]"#;

#[test]
fn rules_become_hot_parameter_rules() {
    let no_match = || vec![ParamItem { value: ItemValue::Str("$NM".into()), count: 10_000_000.0 }];
    let rule = |param_idx, count, burst_count, duration_sec, items| ParamRule {
        resource: "r".into(),
        regex: false,
        param_idx,
        count,
        grade: 1,
        behavior: ControlBehavior::Reject,
        max_queueing_time_ms: 500,
        burst_count,
        duration_sec,
        items,
        cluster: None,
    };
    let paced = ParamRule {
        behavior: ControlBehavior::Pacing,
        max_queueing_time_ms: 600,
        ..rule(3, 7.0, 0, 1, no_match())
    };
    assert_eq!(
        rules(RECORDED).rules(),
        [
            rule(0, 5.0, 2, 1, vec![]),
            rule(1, 3.0, 0, 1, no_match()),
            rule(2, 4.0, 0, 1, no_match()),
            paced,
            rule(4, 10.0, 0, 2, vec![]),
        ]
    );
}

/// The arguments as Java prints them, which has "null" for "none" as well.
fn args(
    rules: &GatewayRules,
    mode: ResourceMode,
    parts: &[(&'static str, &'static str)],
) -> String {
    let request = Request::new(parts);
    let shown = rules.args(mode, &request).into_iter().map(|arg| match arg {
        Arg::Null => "null".into(),
        Arg::One(Param::Str(text)) => text.into_owned(),
        Arg::Many(&[]) => "none".into(),
        other => format!("{other:?}"),
    });
    shown.collect::<Vec<String>>().join(", ")
}

#[test]
fn requests_become_arguments() {
    let rules = rules(RECORDED);
    for (parts, expected) in [
        (
            &[("q:id", "xaby"), ("c:ck", "abcz"), ("ip", "1.2.3.4"), ("h:X", "vip")][..],
            "1.2.3.4, vip, xaby, abcz, $D",
        ),
        (
            &[("q:id", "zz"), ("c:ck", "no"), ("ip", "1.2.3.4"), ("h:X", "other")],
            "1.2.3.4, $NM, $NM, $NM, $D",
        ),
        (&[("ip", "1.2.3.4")], "1.2.3.4, null, null, null, $D"),
    ] {
        assert_eq!(args(&rules, ResourceMode::Route, parts), expected);
    }
}

#[test]
fn rules_for_all_calls_share_an_argument_and_a_rule_twice_is_one() {
    let rules = rules(
        r#"[{"resource": "r", "count": 1}, {"resource": "r", "count": 2}, {"resource": "r",
             "count": 1}, {"resource": "r", "count": 1, "grade": 0}]"#,
    );
    let converted: Vec<_> = rules.rules().iter().map(|r| (r.param_idx, r.count, r.grade)).collect();
    assert_eq!(converted, [(0, 1.0, 1), (0, 2.0, 1), (0, 1.0, 0)]);
    assert_eq!(args(&rules, ResourceMode::Route, &[]), "$D");
}

/// With both modes on one name Sentinel gives no arguments at all, and every rule passes.
#[test]
fn a_rule_is_for_calls_of_its_own_mode() {
    let rules = rules(
        r#"[{"resource": "r", "count": 1}, {"resource": "r", "count": 2, "resourceMode": 1},
            {"resource": "r", "count": 3, "paramItem": {"parseStrategy": 1}},
            {"resource": "r", "count": 3, "resourceMode": 1, "paramItem": {"parseStrategy": 1}}]"#,
    );
    let converted: Vec<_> = rules.rules().iter().map(|r| (r.param_idx, r.count)).collect();
    assert_eq!(converted, [(0, 3.0), (1, 3.0), (2, 1.0), (3, 2.0)]);
    let parts = [("host", "h")];
    assert_eq!(args(&rules, ResourceMode::Route, &parts), "h, none, $D, none");
    assert_eq!(args(&rules, ResourceMode::ApiGroup, &parts), "none, h, none, $D");
}

#[test]
fn without_rules_there_are_no_arguments() {
    let rules = rules("[]");
    assert!(rules.rules().is_empty());
    assert_eq!(args(&rules, ResourceMode::Route, &[("ip", "1.2.3.4")]), "");
}

#[test]
fn rules_for_the_same_part_share_an_argument() {
    let rules = rules(
        r#"[{"resource": "r", "count": 1, "paramItem": {"parseStrategy": 0}},
            {"resource": "r", "count": 2, "paramItem": {"parseStrategy": 1}},
            {"resource": "r", "count": 3, "paramItem": {"parseStrategy": 0}}]"#,
    );
    let converted: Vec<_> = rules.rules().iter().map(|r| (r.param_idx, r.count)).collect();
    assert_eq!(converted, [(0, 1.0), (1, 2.0), (0, 3.0)]);
    let parts = [("ip", "1.2.3.4"), ("host", "h")];
    assert_eq!(args(&rules, ResourceMode::Route, &parts), "1.2.3.4, h");
}

#[test]
fn a_part_keeps_its_index_while_rules_look_at_it_or_calls_are_counted_by_it() {
    let (ip, host, all) = (
        r#"{"resource": "r", "count": 1, "paramItem": {"parseStrategy": 0}}"#,
        r#"{"resource": "r", "count": 2, "paramItem": {"parseStrategy": 1}}"#,
        r#"{"resource": "r", "count": 3}"#,
    );
    let parts = [("ip", "1.2.3.4"), ("host", "h")];
    let mut now = GatewayRules::default();
    for (list, held, shown) in [
        (format!("[{ip}, {all}]"), &[][..], "1.2.3.4, $D"),
        (format!("[{host}, {all}]"), &[0], "1.2.3.4, $D, h"),
        (format!("[{host}]"), &[], "null, null, h"),
        (format!("[{all}, {host}]"), &[], "$D, null, h"),
        (format!("[{all}]"), &[], "$D"),
        (format!("[{ip}]"), &[], "null, 1.2.3.4"),
        (format!("[{host}]"), &[], "h"),
        ("[]".into(), &[], ""),
    ] {
        now = replaced(&now, &list, held);
        assert_eq!(args(&now, ResourceMode::Route, &parts), shown, "{list}");
    }
}
