//! The gateway rule (`GatewayRuleManager.isValidRule`).

use super::{ANY_INT, I32_MAX, NO_MEANING, required};
use crate::rule::{
    COUNT_MAX, ControlBehavior, GatewayFlowRule, GatewayParam, GatewayParamItem, Grade, Pattern,
    ResourceMode, ValuePattern,
    object::{Object, Owner},
    report::Report,
};

const QUEUEING_MS: u32 = 500;

/// Reads a gateway rule; `None` when it is wrong (said in `report`).
pub(in crate::rule) fn gateway_rule(
    mut f: Object<'_>,
    report: &mut Report<'_>,
) -> Option<GatewayFlowRule> {
    let before = report.errors.len();
    let remedy = "required: the id of a route or the name of an API group";
    let resource = required(&mut f, report, "resource", remedy);
    let modes = [(0, "route", ResourceMode::Route), (1, "API group", ResourceMode::ApiGroup)];
    let mode = f.code(report, "resourceMode", ResourceMode::Route, &modes);
    let grades = [(0, "calls in progress", Grade::Thread), (1, "calls a window", Grade::Qps)];
    let grade = f.code(report, "grade", Grade::Qps, &grades);
    let what = match grade {
        Grade::Thread => "calls in progress (grade 0)",
        Grade::Qps => "calls in intervalSec seconds (grade 1)",
    };
    let count = f.measure(report, "count", what, COUNT_MAX).unwrap_or(0.0);
    let interval_sec = interval(&mut f, report);
    let behavior = f.int(report, "controlBehavior", 0, (0, I32_MAX));
    let paces = behavior == 2;
    if !matches!(behavior, 0 | 2) {
        f.warn(report, "controlBehavior", "taken as 0 (refuse), as in Sentinel: 2 paces");
    }
    let burst =
        u32::try_from(f.int_of(report, "burst", "tokens", 0, (0, I32_MAX))).unwrap_or_default();
    let queueing =
        f.int_of(report, "maxQueueingTimeoutMs", "milliseconds", QUEUEING_MS.into(), ANY_INT);
    if paces && queueing < 0 {
        let remedy = "with controlBehavior 2 the longest wait in milliseconds, at least 0";
        f.error(report, "maxQueueingTimeoutMs", remedy);
    }
    let is_given = f.gives("paramItem");
    let fields = f.object("paramItem", Owner::ParamItem);
    if is_given && fields.is_none() {
        f.error(report, "paramItem", "must be an object");
    }
    let param_item = fields.and_then(|fields| param_item(fields, report));
    f.warn_unknown(report, NO_MEANING);
    (report.errors.len() == before).then(|| GatewayFlowRule {
        resource,
        mode,
        grade,
        count,
        interval_sec,
        behavior: if paces { ControlBehavior::Pacing } else { ControlBehavior::Reject },
        burst,
        max_queueing_timeout_ms: u32::try_from(queueing).unwrap_or(QUEUEING_MS),
        param_item,
    })
}

/// `intervalSec`, or what the dashboard stores in its place: `interval` and `intervalUnit`
/// (`GatewayFlowRuleEntity.calIntervalSec`).
fn interval(f: &mut Object<'_>, report: &mut Report<'_>) -> u64 {
    let seconds = f.int_of(report, "intervalSec", "seconds", 1, (1, i64::MAX)).unsigned_abs();
    if f.gives("intervalSec") {
        return seconds;
    }
    let units = [(0, "seconds", 1), (1, "minutes", 60), (2, "hours", 3_600), (3, "days", 86_400)];
    let unit = f.code(report, "intervalUnit", 1, &units);
    let interval = f.int(report, "interval", 1, (1, i64::MAX / 86_400));
    if f.gives("interval") { interval.unsigned_abs() * unit } else { 1 }
}

fn param_item(mut f: Object<'_>, report: &mut Report<'_>) -> Option<GatewayParamItem> {
    let before = report.errors.len();
    let name = f.text(report, "fieldName").filter(|name| !name.trim().is_empty());
    let part = f.code::<fn(Box<str>) -> GatewayParam>(
        report,
        "parseStrategy",
        |_| GatewayParam::ClientIp,
        &[
            (0, "client address", |_| GatewayParam::ClientIp),
            (1, "host", |_| GatewayParam::Host),
            (2, "header", GatewayParam::Header),
            (3, "URL parameter", GatewayParam::UrlParam),
            (4, "cookie", GatewayParam::Cookie),
        ],
    );
    let source = part(name.clone().unwrap_or_default());
    let is_named = !matches!(source, GatewayParam::ClientIp | GatewayParam::Host);
    if is_named && name.is_none() && report.errors.len() == before {
        let what = "parseStrategy 2, 3 and 4 need it: the name of the header, URL parameter or \
                    cookie";
        f.error(report, "fieldName", what);
    }
    f.idle(report, "fieldName", !is_named && name.is_some(), "parseStrategy 0 and 1 have no name");
    let values = values(&mut f, report);
    f.warn_unknown(report, &[NO_MEANING, &["index"]].concat());
    (report.errors.len() == before).then_some(GatewayParamItem { source, values })
}

fn values(f: &mut Object<'_>, report: &mut Report<'_>) -> Option<ValuePattern> {
    let pattern = f.text(report, "pattern").filter(|pattern| !pattern.is_empty());
    let make = f.code::<fn(&str) -> Result<ValuePattern, String>>(
        report,
        "matchStrategy",
        |text| Ok(ValuePattern::Exact(text.into())),
        &[
            (0, "exact", |text| Ok(ValuePattern::Exact(text.into()))),
            (1, "prefix", |text| Ok(ValuePattern::Prefix(text.into()))),
            (2, "regular expression", |text| Pattern::new(text).map(ValuePattern::Regex)),
            (3, "contains", |text| Ok(ValuePattern::Contains(text.into()))),
        ],
    );
    let made = make(&pattern?);
    if let Err(wrong) = &made {
        f.error(report, "pattern", wrong);
    }
    made.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{RuleErrors, parse_gateway};

    fn rules(text: &str) -> Vec<GatewayFlowRule> {
        let list = parse_gateway(text, "test").unwrap();
        assert!(list.warnings.is_empty(), "{:?}", list.warnings);
        list.rules
    }

    /// The recorded answer of the command centre for a rule that gives only what it must.
    #[test]
    fn defaults_are_sentinels() {
        let given = r#"[{"resource": "route1", "count": 10, "intervalSec": 1, "paramItem":
            {"parseStrategy": 2, "fieldName": "X-User", "pattern": "a", "matchStrategy": 0}}]"#;
        let answer = r#"[{"burst":0,"controlBehavior":0,"count":10.0,"grade":1,"intervalSec":1,
            "maxQueueingTimeoutMs":500,"paramItem":{"fieldName":"X-User","index":0,
            "matchStrategy":0,"parseStrategy":2,"pattern":"a"},"resource":"route1",
            "resourceMode":0}]"#;
        let rule = GatewayFlowRule {
            resource: "route1".into(),
            mode: ResourceMode::Route,
            grade: Grade::Qps,
            count: 10.0,
            interval_sec: 1,
            behavior: ControlBehavior::Reject,
            burst: 0,
            max_queueing_timeout_ms: 500,
            param_item: Some(GatewayParamItem {
                source: GatewayParam::Header("X-User".into()),
                values: Some(ValuePattern::Exact("a".into())),
            }),
        };
        assert_eq!(rules(given), std::slice::from_ref(&rule));
        assert_eq!(rules(answer), [rule]);
    }

    #[test]
    fn the_dashboards_entity_has_an_interval_with_a_unit() {
        let text = r#"[{"id": 1, "app": "a", "ip": "i", "port": 1, "gmtCreate": 1,
            "gmtModified": 1, "resource": "api", "resourceMode": 1, "grade": 0, "count": 2.0,
            "interval": 5, "intervalUnit": 1, "controlBehavior": 2, "burst": 3,
            "maxQueueingTimeoutMs": 0, "paramItem": {"parseStrategy": 1, "fieldName": null,
            "pattern": "", "matchStrategy": null}}, {"resource": "r", "interval": 2,
            "intervalUnit": 3}, {"resource": "r", "intervalUnit": 3}]"#;
        let rules = rules(text);
        let seconds: Vec<u64> = rules.iter().map(|rule| rule.interval_sec).collect();
        assert_eq!(seconds, [300, 172_800, 1]);
        assert_eq!(rules[0].mode, ResourceMode::ApiGroup);
        assert_eq!((rules[0].grade, rules[0].behavior), (Grade::Thread, ControlBehavior::Pacing));
        assert_eq!((rules[0].burst, rules[0].max_queueing_timeout_ms), (3, 0));
        let host = GatewayParamItem { source: GatewayParam::Host, values: None };
        assert_eq!(rules[0].param_item, Some(host));
    }

    #[test]
    fn each_mistake_is_named_with_its_grade_and_unit() {
        for (fields, error) in [
            (
                r#""grade": 0, "count": -1"#,
                "count = -1: must be calls in progress (grade 0), from 0 to 9007199254740992 (2^53)",
            ),
            (
                r#""grade": 2"#,
                "grade = 2: must be one of 0 (calls in progress), 1 (calls a window)",
            ),
            (r#""resourceMode": 5"#, "resourceMode = 5: must be one of 0 (route), 1 (API group)"),
            (
                r#""intervalSec": 0"#,
                "intervalSec = 0: must be a whole number of seconds from 1 to 9223372036854775807",
            ),
            (
                r#""interval": 1, "intervalUnit": 4"#,
                "intervalUnit = 4: must be one of 0 (seconds), 1 (minutes), 2 (hours), 3 (days)",
            ),
            (
                r#""controlBehavior": 2, "maxQueueingTimeoutMs": -1"#,
                "maxQueueingTimeoutMs = -1: with controlBehavior 2 the longest wait in \
                 milliseconds, at least 0",
            ),
            (
                r#""paramItem": {"parseStrategy": 3, "fieldName": " "}"#,
                r#"paramItem.fieldName = " ": parseStrategy 2, 3 and 4 need it: the name of the header, URL parameter or cookie"#,
            ),
            (
                r#""paramItem": {"pattern": "(", "matchStrategy": 2}"#,
                r#"paramItem.pattern = "(": no such pattern: unclosed group"#,
            ),
            (
                r#""paramItem": {"pattern": "a", "matchStrategy": 4}"#,
                "paramItem.matchStrategy = 4: must be one of 0 (exact), 1 (prefix), 2 (regular \
                 expression), 3 (contains)",
            ),
            (
                r#""paramItem": {"parseStrategy": 5}"#,
                "paramItem.parseStrategy = 5: must be one of 0 (client address), 1 (host), \
                 2 (header), 3 (URL parameter), 4 (cookie)",
            ),
            (r#""paramItem": 7"#, "paramItem = 7: must be an object"),
        ] {
            let text = format!(r#"[{{"resource": "r", {fields}}}]"#);
            let RuleErrors(found) = parse_gateway(&text, "test").unwrap_err();
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, [format!("test:1: rule 0: {error}")]);
        }
    }

    #[test]
    fn what_has_no_effect_is_warned_of() {
        let text = r#"[{"resource": "r", "controlBehavior": 1, "maxQueueingTimeoutMs": -1,
            "clusterMode": true, "paramItem": {"fieldName": "x", "patern": "y"}}]"#;
        let list = parse_gateway(text, "test").unwrap();
        let fields: Vec<&str> = list.warnings.iter().map(|warning| &*warning.field).collect();
        assert_eq!(
            fields,
            ["controlBehavior", "paramItem.fieldName", "paramItem.patern", "clusterMode"]
        );
        assert_eq!(list.rules[0].max_queueing_timeout_ms, 500);
    }
}
