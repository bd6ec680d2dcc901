//! The authority rule (`AuthorityRuleManager.isValidRule`).

use super::{NO_MEANING, check_pattern, required};
use crate::rule::{AuthorityRule, AuthorityStrategy, object::Object, report::Report};

/// Reads an authority rule; `None` when it is wrong (said in `report`).
pub(in crate::rule) fn authority_rule(
    mut f: Object<'_>,
    report: &mut Report<'_>,
) -> Option<AuthorityRule> {
    let before = report.errors.len();
    let resource = required(&mut f, report, "resource", "required: the name of what is protected");
    let regex = f.bool(report, "regex", false);
    check_pattern(&f, report, regex, &resource);
    let remedy = "required: the origins, with commas between them";
    let limit_app = required(&mut f, report, "limitApp", remedy);
    let strategy = f.code(
        report,
        "strategy",
        AuthorityStrategy::White,
        &[
            (0, "only the listed may call", AuthorityStrategy::White),
            (1, "the listed may not call", AuthorityStrategy::Black),
        ],
    );
    if limit_app.split(',').any(|origin| origin.trim() != origin) {
        f.warn(report, "limitApp", "blanks beside a comma are a part of the name, as in Sentinel");
    }
    f.warn_unknown(report, NO_MEANING);
    (report.errors.len() == before)
        .then(|| AuthorityRule::new(&resource, regex, strategy, &limit_app))
}

#[cfg(test)]
mod tests {
    use crate::rule::{AuthorityRule, AuthorityStrategy, parse_authority};

    #[test]
    fn the_dashboards_entity_and_plain_rules_are_read() {
        let text = r#"[{"id": 1, "app": "a", "ip": "i", "port": 1, "gmtCreate": 1,
                        "rule": {"resource": "r", "limitApp": "app1,app2", "strategy": 1}},
                       {"resource": "s.*", "regex": true, "limitApp": "x"}]"#;
        let list = parse_authority(text, "test").unwrap();
        assert!(list.warnings.is_empty(), "{:?}", list.warnings);
        let black = AuthorityRule::new("r", false, AuthorityStrategy::Black, "app1,app2");
        let white = AuthorityRule::new("s.*", true, AuthorityStrategy::White, "x");
        assert_eq!(list.rules, [black, white]);
    }

    #[test]
    fn each_mistake_is_named() {
        for (fields, error) in [
            (r#""limitApp": "a""#, "resource: required: the name of what is protected"),
            (
                r#""resource": "r", "limitApp": " ""#,
                r#"limitApp = " ": required: the origins, with commas between them"#,
            ),
            (
                r#""resource": "r", "limitApp": "a", "strategy": 2"#,
                "strategy = 2: must be one of 0 (only the listed may call), 1 (the listed may not \
                 call)",
            ),
            (
                r#""resource": "*", "regex": 1, "limitApp": "a""#,
                r#"resource = "*": no such pattern: repetition operator missing expression"#,
            ),
        ] {
            let errors = parse_authority(&format!("[{{{fields}}}]"), "test").unwrap_err();
            assert_eq!(errors.to_string(), format!("test:1: rule 0: {error}"));
        }
    }

    /// Case I03 of the recorded scenarios.
    #[test]
    fn a_blank_beside_a_comma_and_a_second_rule_are_warned_of() {
        let text = "[{\"resource\": \"I03\", \"limitApp\": \"app1, app2\"},\n\
                     {\"resource\": \"I03\", \"limitApp\": \"zzz\"},\n\
                     {\"resource\": \"I03\", \"limitApp\": \"z\", \"regex\": true}]";
        let list = parse_authority(text, "test").unwrap();
        assert_eq!(list.rules.len(), 2, "a name and a pattern are two");
        assert!(list.rules[0].lists("app1") && !list.rules[0].lists("app2"));
        let said: Vec<String> = list.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                r#"test:1: rule 0: limitApp = "app1, app2": blanks beside a comma are a part of the name, as in Sentinel"#,
                r#"test:2: rule 1: resource = "I03": left out: rule 0 on line 1 is for it already, and a resource has one"#,
            ]
        );
    }
}
