//! Rule JSON as Sentinel, its dashboard and careless operators write it.
#![expect(clippy::unwrap_used, reason = "what the helpers read is what the tests wrote")]

mod findings;
mod forms;
mod local;
mod merging;
mod ours;
mod unable;
mod validity;
mod warnings;

use limiter::{
    WindowShape,
    rule::{
        Algorithm, Contents, ControlBehavior, FallbackPolicy, Grade, ItemValue, Mode,
        OverloadPolicy, Parsed, Scope, ThresholdUnit, parse,
    },
};

fn mixed(text: &str) -> Parsed {
    parse(text, "rules.json", "default", Contents::Mixed, true).unwrap()
}

/// The messages of a text that is refused.
fn errors(text: &str) -> Vec<String> {
    let errors = parse(text, "rules.json", "default", Contents::Mixed, true).unwrap_err();
    errors.0.iter().map(ToString::to_string).collect()
}

/// A cluster flow rule with further fields, each with a comma behind, and further fields of its
/// `clusterConfig`, each with a comma before.
fn rule(fields: &str, config: &str) -> String {
    format!(
        r#"[{{"resource":"r","clusterMode":true,{fields}
            "clusterConfig":{{"flowId":1{config}}}}}]"#
    )
}

#[test]
fn a_rule_with_nothing_but_what_is_required_has_sentinels_defaults() {
    let parsed = mixed(r#"[{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":7}}]"#);
    let rule = &parsed.rules.flow[0];
    assert_eq!((rule.count, rule.grade, rule.behavior), (0.0, Grade::Qps, ControlBehavior::Reject));
    assert_eq!((rule.limit_app(), rule.warm_up_period_sec), ("default", 10));
    assert_eq!(rule.max_queueing_time_ms, 500);
    let cluster = rule.cluster.as_ref().unwrap();
    assert_eq!((cluster.flow_id, cluster.scope), (7, Scope::PerClient));
    assert_eq!(cluster.window, WindowShape::SECOND);
    assert_eq!((cluster.unit, cluster.local_count()), (ThresholdUnit::Sentinel, None));
    assert_eq!(
        (cluster.fallback, cluster.overload),
        (FallbackPolicy::Local, OverloadPolicy::Local)
    );
    assert_eq!((cluster.resource_timeout_ms(), cluster.client_offline_ms()), (2_000, 2_000));
    assert_eq!((cluster.mode, &cluster.algorithm), (Mode::Enforce, &Algorithm::SlidingWindow));
    assert_eq!((cluster.cold_factor(), cluster.lease()), (3, None));
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
}

#[test]
fn a_param_rule_does_not_fall_back_to_local_by_default() {
    let text = r#"[{"resource":"r","paramIdx":0,"clusterMode":true,"clusterConfig":{"flowId":7}}]"#;
    let parsed = mixed(text);
    assert_eq!(parsed.rules.param[0].cluster.as_ref().unwrap().fallback, FallbackPolicy::Pass);
    assert_eq!((parsed.rules.param[0].duration_sec, parsed.rules.param[0].grade), (1, 1));
}

#[test]
fn a_dashboard_entity_is_read_with_its_extra_fields_and_its_nesting() {
    let parsed = mixed(
        r#"[{"id":3,"app":"a","ip":"127.0.0.1","port":8719,"gmtCreate":1,"gmtModified":2,
             "rule":{"resource":"r","paramIdx":1,"count":2,"clusterMode":true,
                     "paramFlowItemList":[{"object":"vip","count":5,"classType":"String"}],
                     "clusterConfig":{"flowId":9,"thresholdType":1}}},
            {"id":4,"app":"a","resource":"s","clusterMode":true,"clusterConfig":{"flowId":10}}]"#,
    );
    assert_eq!(parsed.rules.param[0].items[0].value, ItemValue::Str("vip".into()));
    assert_eq!(&*parsed.rules.flow[0].resource, "s");
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
}

#[test]
fn local_rules_are_counted_and_left_out_unread() {
    let text = r#"[{"resource":"r","count":-1},{"resource":"r","clusterMode":false},
                   {"resource":"s","clusterMode":true,"clusterConfig":{"flowId":1}}]"#;
    let parsed = mixed(text);
    assert_eq!((parsed.skipped, parsed.rules.flow.len()), (2, 1));
}

#[test]
fn null_and_an_empty_list_are_no_rules_and_an_empty_text_is_a_mistake() {
    for text in ["null", "[]", " [ ] "] {
        assert_eq!(mixed(text).rules.flow.len(), 0, "{text}");
    }
    for text in ["", "  ", "{}", "7", "[{]", "[1]"] {
        assert_eq!(errors(text).len(), 1, "{text}");
    }
}
