//! The circuit breaker's rule (`DegradeRuleManager.isValidRule`).

use super::{I32_MAX, NO_MEANING, check_pattern, required};
use crate::rule::{
    COUNT_MAX, DegradeGrade, DegradeRule, object::Object, report::Report, value::Value,
};

/// Reads a breaker's rule; `None` when it is wrong (said in `report`).
pub(in crate::rule) fn degrade_rule(
    mut f: Object<'_>,
    report: &mut Report<'_>,
) -> Option<DegradeRule> {
    let before = report.errors.len();
    let resource = required(&mut f, report, "resource", "required: the name of what is protected");
    let regex = f.bool(report, "regex", false);
    check_pattern(&f, report, regex, &resource);
    let grade = f.code(
        report,
        "grade",
        DegradeGrade::SlowRatio,
        &[
            (0, "ratio of slow calls", DegradeGrade::SlowRatio),
            (1, "ratio of failed calls", DegradeGrade::ErrorRatio),
            (2, "number of failed calls", DegradeGrade::ErrorCount),
        ],
    );
    let is_slow = grade == DegradeGrade::SlowRatio;
    let (what, max) = match grade {
        DegradeGrade::SlowRatio => (
            "the longest response time that is not slow in milliseconds (grade 0, ratio of slow \
             calls)",
            COUNT_MAX,
        ),
        DegradeGrade::ErrorRatio => ("the ratio of failed calls (grade 1)", 1.0),
        DegradeGrade::ErrorCount => ("the number of failed calls (grade 2)", COUNT_MAX),
    };
    let count = f.measure(report, "count", what, max).unwrap_or(0.0);
    let slow_ratio = if is_slow {
        let what = "the ratio of slow calls (grade 0)";
        f.measure(report, "slowRatioThreshold", what, 1.0)
    } else {
        let is_set = f.gives("slowRatioThreshold")
            && f.take("slowRatioThreshold").and_then(Value::number) != Some(1.0);
        f.idle(report, "slowRatioThreshold", is_set, "only grade 0 (ratio of slow calls) has it");
        None
    };
    if !f.gives("timeWindow") {
        let remedy = "required: how long the breaker stays open, in seconds";
        f.error(report, "timeWindow", remedy);
    }
    let time_window = above_zero(&mut f, report, "timeWindow", "seconds", 1);
    let min_request_amount = above_zero(&mut f, report, "minRequestAmount", "calls", 5);
    let stat_interval = above_zero(&mut f, report, "statIntervalMs", "milliseconds", 1_000);
    warn_odd(&mut f, report, grade, count);
    f.warn_unknown(report, NO_MEANING);
    (report.errors.len() == before).then(|| DegradeRule {
        resource,
        regex,
        grade,
        count,
        time_window_sec: time_window,
        min_request_amount,
        slow_ratio_threshold: slow_ratio.unwrap_or(1.0),
        stat_interval_ms: stat_interval,
    })
}

fn above_zero(
    f: &mut Object<'_>,
    report: &mut Report<'_>,
    name: &str,
    unit: &str,
    default: u32,
) -> u32 {
    let number = f.int_of(report, name, unit, default.into(), (1, I32_MAX));
    u32::try_from(number).unwrap_or(default)
}

fn warn_odd(f: &mut Object<'_>, report: &mut Report<'_>, grade: DegradeGrade, count: f64) {
    let is_named = f.text(report, "limitApp").is_some_and(|app| {
        let app = app.trim();
        !app.is_empty() && app != "default"
    });
    f.idle(report, "limitApp", is_named, "a breaker is for the calls of all origins together");
    if grade == DegradeGrade::ErrorRatio && count == 1.0 {
        let remedy = "never opens: a ratio opens when exceeded, and none is above 1";
        f.warn(report, "count", remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{RuleErrors, parse_degrade};

    const WHOLE: &str = r#""resource": "r", "timeWindow": 5"#;

    fn rule(fields: &str) -> DegradeRule {
        parse_degrade(&format!("[{{{fields}}}]"), "test").unwrap().rules.remove(0)
    }

    fn errors(fields: &str) -> Vec<String> {
        let RuleErrors(found) = parse_degrade(&format!("[{{{fields}}}]"), "test").unwrap_err();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_are_sentinels() {
        assert_eq!(
            rule(WHOLE),
            DegradeRule {
                resource: "r".into(),
                regex: false,
                grade: DegradeGrade::SlowRatio,
                count: 0.0,
                time_window_sec: 5,
                min_request_amount: 5,
                slow_ratio_threshold: 1.0,
                stat_interval_ms: 1_000,
            }
        );
    }

    #[test]
    fn a_rule_has_all_the_forms_that_fastjson_reads() {
        let written = r#""RESOURCE": "r", "grade": "1", "count": "0.5", "time_window": 2.9,
            "minRequestAmount": "1,000", "stat-interval-ms": 10000, "slowRatioThreshold": null"#;
        let rule = rule(written);
        assert_eq!(
            (rule.grade, rule.count, rule.time_window_sec),
            (DegradeGrade::ErrorRatio, 0.5, 2)
        );
        assert_eq!((rule.min_request_amount, rule.stat_interval_ms), (1_000, 10_000));
    }

    #[test]
    fn the_dashboards_entity_is_a_rule() {
        let text = r#"[{"id": 7, "app": "a", "ip": "1.2.3.4", "port": 8719, "gmtCreate": 1,
            "gmtModified": null, "resource": "r", "limitApp": "default", "count": 50.0,
            "timeWindow": 5, "grade": 0, "minRequestAmount": 5, "slowRatioThreshold": 0.5,
            "statIntervalMs": 1000}, {"id": 8, "rule": {"resource": "s", "timeWindow": 1}}]"#;
        let list = parse_degrade(text, "test").unwrap();
        assert!(list.warnings.is_empty(), "{:?}", list.warnings);
        assert_eq!(list.rules[0].slow_ratio_threshold, 0.5);
        assert_eq!(&*list.rules[1].resource, "s");
    }

    /// Case G13 of the recorded scenarios: only the last of its rules is valid.
    #[test]
    fn each_mistake_is_named_with_its_grade_and_unit() {
        for (fields, error) in [
            (
                r#""resource": "r", "grade": 0, "count": 50, "timeWindow": 0"#,
                "timeWindow = 0: must be a whole number of seconds from 1 to 2147483647",
            ),
            (
                r#""resource": "r", "grade": 1, "count": 1.5, "timeWindow": 1"#,
                "count = 1.5: must be the ratio of failed calls (grade 1), from 0 to 1",
            ),
            (
                r#""resource": "r", "count": 50, "slowRatioThreshold": 1.5, "timeWindow": 1"#,
                "slowRatioThreshold = 1.5: must be the ratio of slow calls (grade 0), from 0 to 1",
            ),
            (
                r#""resource": "r", "grade": 2, "timeWindow": 1, "minRequestAmount": 0"#,
                "minRequestAmount = 0: must be a whole number of calls from 1 to 2147483647",
            ),
            (
                r#""resource": "r", "grade": 2, "timeWindow": 1, "statIntervalMs": 0"#,
                "statIntervalMs = 0: must be a whole number of milliseconds from 1 to 2147483647",
            ),
            (
                r#""resource": "r", "grade": 0, "count": -1, "timeWindow": 1"#,
                "count = -1: must be the longest response time that is not slow in milliseconds \
                 (grade 0, ratio of slow calls), from 0 to 9007199254740992 (2^53)",
            ),
            (
                r#""resource": "r", "grade": 3, "timeWindow": 1"#,
                "grade = 3: must be one of 0 (ratio of slow calls), 1 (ratio of failed calls), \
                 2 (number of failed calls)",
            ),
            (
                r#""resource": "r""#,
                "timeWindow: required: how long the breaker stays open, in seconds",
            ),
            (
                r#""resource": "r[", "regex": true, "timeWindow": 1"#,
                r#"resource = "r[": no such pattern: unclosed character class"#,
            ),
            (r#""timeWindow": 1"#, "resource: required: the name of what is protected"),
        ] {
            assert_eq!(errors(fields), [format!("test:1: rule 0: {error}")], "{fields}");
        }
        rule(r#""resource": "G13", "grade": 2, "count": 1, "timeWindow": 1"#);
        assert_eq!(errors(r#""grade": "x", "count": -1, "timeWindow": 0"#).len(), 4);
    }

    #[test]
    fn what_has_no_effect_is_warned_of() {
        let text = r#"[{"resource": "r", "grade": 1, "count": 1, "timeWindow": 1,
            "slowRatioThreshold": -2, "limitApp": "shop", "minRequest": 3}]"#;
        let list = parse_degrade(text, "test").unwrap();
        let fields: Vec<&str> = list.warnings.iter().map(|warning| &*warning.field).collect();
        assert_eq!(fields, ["slowRatioThreshold", "limitApp", "count", "minRequest"]);
        assert_eq!(list.rules[0].slow_ratio_threshold, 1.0);
    }
}
