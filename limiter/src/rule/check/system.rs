//! The system rule (`SystemRuleManager.loadSystemConf`).

use super::{ANY_LONG, NO_MEANING};
use crate::rule::{SystemRule, object::Object, report::Report};

/// What every rule has in Java, and a system rule does not look at.
const OF_RESOURCES: &[&str] = &["resource", "limitApp", "regex"];

/// Reads a system rule; `None` when it is wrong (said in `report`).
pub(in crate::rule) fn system_rule(
    mut f: Object<'_>,
    report: &mut Report<'_>,
) -> Option<SystemRule> {
    let before = report.errors.len();
    let load = limit(&mut f, report, "highestSystemLoad", "the load average of one minute");
    let cpu = limit(&mut f, report, "highestCpuUsage", "a share of the processors from 0 to 1");
    let qps = limit(&mut f, report, "qps", "calls per second");
    let avg_rt_ms = whole(&mut f, report, "avgRt", "milliseconds");
    let max_thread = whole(&mut f, report, "maxThread", "calls in progress");
    let cpu = cpu.filter(|&share| {
        if share > 1.0 {
            let remedy = "ignored, as in Sentinel: a share of the processors from 0 to 1, so 0.8 \
                          is 80 %";
            f.warn(report, "highestCpuUsage", remedy);
        }
        share <= 1.0
    });
    let rule = SystemRule { load, cpu, qps, avg_rt_ms, max_thread };
    let is_right = report.errors.len() == before;
    if is_right && rule == SystemRule::default() {
        f.warn(report, "", "sets no limit");
    }
    f.warn_unknown(report, &[NO_MEANING, OF_RESOURCES].concat());
    is_right.then_some(rule)
}

/// `None` for none, which is written as a negative number.
fn limit(f: &mut Object<'_>, report: &mut Report<'_>, name: &str, what: &str) -> Option<f64> {
    let value = f.take(name).filter(|value| !value.is_absent())?;
    let number = value.number().filter(|number| number.is_finite());
    if number.is_none() {
        f.error(report, name, &format!("must be a number, {what}; -1 for no limit"));
    }
    number.filter(|&number| number >= 0.0)
}

fn whole(f: &mut Object<'_>, report: &mut Report<'_>, name: &str, unit: &str) -> Option<u64> {
    u64::try_from(f.int_of(report, name, unit, -1, ANY_LONG)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{RuleErrors, RuleList, parse_system};

    fn list(rules: &str) -> RuleList<SystemRule> {
        parse_system(rules, "test").unwrap()
    }

    #[test]
    fn the_dashboards_entity_and_plain_rules_are_read() {
        let text = r#"[{"id": 1, "app": "a", "ip": "i", "port": 1, "highestSystemLoad": 3.5,
                        "avgRt": -1, "maxThread": -1, "qps": -1.0, "highestCpuUsage": null,
                        "gmtCreate": null, "gmtModified": null},
                       {"resource": null, "limitApp": "default", "regex": false, "qps": "20",
                        "avgRt": 10.9, "maxThread": 0, "highestCpuUsage": 1}]"#;
        let RuleList { rules, warnings } = list(text);
        assert!(warnings.is_empty(), "{warnings:?}");
        let load = SystemRule { load: Some(3.5), ..SystemRule::default() };
        let rest = SystemRule {
            load: None,
            cpu: Some(1.0),
            qps: Some(20.0),
            avg_rt_ms: Some(10),
            max_thread: Some(0),
        };
        assert_eq!(rules, [load, rest]);
    }

    /// Case H07 of the recorded scenarios, and the empty rule of H06.
    #[test]
    fn what_limits_nothing_is_warned_of() {
        let RuleList { rules, warnings } = list(r#"[{"highestCpuUsage": 1.5}, {}, {"qsp": 1}]"#);
        assert_eq!(
            rules,
            [const { SystemRule { load: None, cpu: None, qps: None, avg_rt_ms: None, max_thread: None } };
                3]
        );
        let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "test:1: rule 0: highestCpuUsage = 1.5: ignored, as in Sentinel: a share of the \
                 processors from 0 to 1, so 0.8 is 80 %",
                "test:1: rule 0: sets no limit",
                "test:1: rule 1: sets no limit",
                "test:1: rule 2: sets no limit",
                "test:1: rule 2: qsp = 1: unknown field, ignored",
            ]
        );
    }

    #[test]
    fn what_is_no_number_is_a_mistake() {
        let text = r#"[{"highestSystemLoad": "x", "highestCpuUsage": [], "qps": "NaN",
                        "avgRt": 1e300, "maxThread": {}}]"#;
        let RuleErrors(found) = parse_system(text, "test").unwrap_err();
        let fields: Vec<&str> = found.iter().map(|finding| &*finding.field).collect();
        assert_eq!(fields, ["highestSystemLoad", "highestCpuUsage", "qps", "avgRt", "maxThread"]);
        let remedy = "must be a number, the load average of one minute; -1 for no limit";
        assert_eq!(&*found[0].remedy, remedy);
        assert!(found[3].remedy.starts_with("must be a whole number of milliseconds from "));
    }
}
