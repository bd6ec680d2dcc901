//! Rules that no server enforces.

use limiter::rule::{
    Contents, Finding, RuleErrors, parse, parse_apis, parse_authority, parse_degrade,
    parse_gateway, parse_system,
};
use proptest::prelude::*;

/// What is said of a rule with further fields.
fn said(contents: Contents, fields: &str) -> Vec<String> {
    let text = format!(r#"[{{"resource": "r", {fields}}}]"#);
    let found = match parse(&text, "rules.json", "", contents, false) {
        Ok(parsed) => parsed.warnings,
        Err(RuleErrors(errors)) => errors,
    };
    found.iter().map(|finding| format!("{}: {}", finding.field, finding.remedy)).collect()
}

#[test]
fn each_mistake_of_a_flow_rule_is_named_with_its_grade_and_unit() {
    for (fields, expected) in [
        (
            r#""count": -1"#,
            "count: must be calls per second (grade 1), from 0 to 9007199254740992 (2^53)",
        ),
        (
            r#""grade": 0, "count": "x""#,
            "count: must be calls in progress (grade 0), from 0 to 9007199254740992 (2^53)",
        ),
        (r#""grade": 7"#, "grade: must be one of 0 (calls in progress), 1 (calls per second)"),
        (
            r#""controlBehavior": 2, "count": 1e-40"#,
            "count: too slow: a token takes more than 250 000 years; 0 lets nothing pass",
        ),
        (
            r#""controlBehavior": 1, "count": 1e13, "warmUpPeriodSec": 10000"#,
            "warmUpPeriodSec: times the count must be at most 9007199254740992 (2^53)",
        ),
        (
            r#""controlBehavior": 3, "count": 1, "warmUpPeriodSec": 31622401"#,
            "warmUpPeriodSec: must be at most 31622400 (366 days)",
        ),
        (
            r#""clusterMode": true, "controlBehavior": 2, "count": 1,
               "clusterConfig": {"flowId": 1, "localCount": 1e-40}"#,
            "clusterConfig.localCount: too slow: a token takes more than 250 000 years; 0 lets \
             nothing pass",
        ),
    ] {
        assert_eq!(said(Contents::Flow, fields), [expected], "{fields}");
    }
}

/// Case K08 of the recorded scenarios: all three are dropped there.
#[test]
fn a_pattern_must_be_one_and_only_refuses_and_has_no_server() {
    for (fields, expected) in [
        (
            r#""resource": "K08[", "regex": true"#,
            "resource: no such pattern: unclosed character class",
        ),
        (
            r#""resource": "K08.*", "regex": true, "controlBehavior": 2"#,
            "regex: a pattern needs controlBehavior 0",
        ),
        (
            r#""resource": "K08.*", "regex": true, "clusterMode": true, "clusterConfig": {"flowId": 9}"#,
            "regex: a cluster rule cannot be a pattern; use one rule a resource",
        ),
    ] {
        let errors = parse(&format!("[{{{fields}}}]"), "", "", Contents::Flow, false).unwrap_err();
        let found: Vec<String> = errors
            .0
            .iter()
            .map(|finding| format!("{}: {}", finding.field, finding.remedy))
            .collect();
        assert_eq!(found, [expected]);
    }
    let param = r#""paramIdx": 0, "regex": true"#;
    assert!(said(Contents::Param, param).is_empty());
}

#[test]
fn what_a_local_flow_rule_says_and_does_not_do_is_warned_of() {
    for (fields, field) in [
        (r#""limitApp": "a,b""#, "limitApp"),
        (r#""grade": 0, "controlBehavior": 2"#, "controlBehavior"),
        (r#""controlBehavior": 4"#, "controlBehavior"),
        (r#""strategy": 3"#, "strategy"),
        (r#""grade": 0, "strategy": 2"#, "refResource"),
    ] {
        let found = said(Contents::Flow, fields);
        assert_eq!(found.len(), 1, "{fields}: {found:?}");
        assert!(found[0].starts_with(field), "{found:?}");
    }
    assert!(said(Contents::Flow, r#""grade": 0, "strategy": 2, "refResource": "x""#).is_empty());
}

#[test]
fn what_a_local_hot_parameter_rule_says_and_does_not_do_is_said() {
    for (fields, expected) in [
        (
            r#""count": -1"#,
            "count: must be calls of each value in a window (grade 1), from 0 to 9007199254740992 \
             (2^53)",
        ),
        (
            r#""grade": 0, "count": -1"#,
            "count: must be calls in progress of each value (grade 0), from 0 to \
             9007199254740992 (2^53)",
        ),
        (
            r#""grade": 2, "count": 1"#,
            "grade: unknown, and every call passes, as in Sentinel: 0 counts calls in progress, \
             1 calls in a window",
        ),
        (r#""count": 0.9"#, "count: cut to 0, as in Sentinel"),
    ] {
        assert_eq!(said(Contents::Param, &format!(r#""paramIdx": 0, {fields}"#)), [expected]);
    }
}

/// Something of every kind of list, to be spoilt.
const WHOLE: &str = r#"[
  {"id": 1, "resource": "\u00e9", "grade": 0, "count": "5", "timeWindow": 1,
   "limitApp": "a,b", "strategy": 1, "qps": 5,
   "paramItem": {"parseStrategy": 2, "fieldName": "x", "pattern": "a.*", "matchStrategy": 2}},
  {"rule": {"apiName": "a", "resource": "r", "limitApp": "c", "timeWindow": 2, "maxThread": 3,
   "predicateItems": [{"pattern": "/foo/**", "matchStrategy": 1}, null]}}
]"#;

proptest! {
    #[test]
    fn whatever_is_wrong_with_a_list_is_on_one_of_its_lines(
        at in 0..WHOLE.len(),
        cut in 0_usize..30,
        put in prop_oneof![
            Just(String::new()),
            "[\"{}:,\\[\\]\\\\a-c0-9'/.\n \u{0}-\u{1f}é-]{0,8}",
            prop::sample::select(vec!["1e400", "\"\\ud800\"", "null", "{}", "[]", "-1", "true"])
                .prop_map(String::from),
        ],
    ) {
        fn found<T>(list: Result<limiter::rule::RuleList<T>, RuleErrors>) -> Vec<Finding> {
            match list {
                Ok(list) => list.warnings,
                Err(RuleErrors(errors)) => errors,
            }
        }
        let end = (at + cut).min(WHOLE.len());
        let text = format!("{}{put}{}", &WHOLE[..at], &WHOLE[end..]);
        let lines = u32::try_from(text.matches('\n').count() + 1).unwrap();
        for found in [
            found(parse_degrade(&text, "rules.json")),
            found(parse_system(&text, "rules.json")),
            found(parse_authority(&text, "rules.json")),
            found(parse_gateway(&text, "rules.json")),
            found(parse_apis(&text, "rules.json")),
        ] {
            for finding in found {
                prop_assert!((1..=lines).contains(&finding.line.unwrap()), "{text}\n{finding}");
            }
        }
    }
}
