//! Rule JSON as Sentinel, its dashboard and careless operators write it.
#![expect(clippy::unwrap_used, reason = "what the helpers read is what the tests wrote")]

use limiter::{
    WindowShape,
    rule::{
        Contents, ControlBehavior, FallbackPolicy, Grade, ItemValue, OverloadPolicy, Parsed, Scope,
        ThresholdUnit, merge, parse,
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

#[test]
fn a_rule_with_nothing_but_what_is_required_has_sentinels_defaults() {
    let parsed = mixed(r#"[{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":7}}]"#);
    let rule = &parsed.rules.flow[0];
    assert_eq!((rule.count, rule.grade, rule.behavior), (0.0, Grade::Qps, ControlBehavior::Reject));
    assert_eq!((&*rule.limit_app, rule.warm_up_period_sec), ("default", 10));
    assert_eq!(rule.max_queueing_time_ms, 500);
    let cluster = rule.cluster.unwrap();
    assert_eq!((cluster.flow_id, cluster.scope), (7, Scope::PerClient));
    assert_eq!(cluster.window, WindowShape::SECOND);
    assert_eq!((cluster.unit, cluster.local_count), (ThresholdUnit::Sentinel, None));
    assert_eq!(
        (cluster.fallback, cluster.overload),
        (FallbackPolicy::Local, OverloadPolicy::Local)
    );
    assert_eq!((cluster.resource_timeout_ms, cluster.client_offline_ms), (2_000, 2_000));
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
}

#[test]
fn a_param_rule_does_not_fall_back_to_local_by_default() {
    let text = r#"[{"resource":"r","paramIdx":0,"clusterMode":true,"clusterConfig":{"flowId":7}}]"#;
    let parsed = mixed(text);
    assert_eq!(parsed.rules.param[0].cluster.unwrap().fallback, FallbackPolicy::Pass);
    assert_eq!((parsed.rules.param[0].duration_sec, parsed.rules.param[0].grade), (1, 1));
}

#[test]
fn numbers_and_booleans_may_be_text_and_names_may_have_any_case() {
    let parsed = mixed(
        r#"[{"RESOURCE":"r","Count":"7.5","clustermode":"true",
             "ClusterConfig":{"FLOWID":"42","thresholdtype":"1","sampleCount":5.0}}]"#,
    );
    let rule = &parsed.rules.flow[0];
    let cluster = rule.cluster.unwrap();
    assert_eq!((rule.count, cluster.flow_id, cluster.scope), (7.5, 42, Scope::Global));
    assert_eq!(cluster.window.buckets(), 5);
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
fn our_fields_are_read() {
    let parsed = mixed(
        r#"[{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":1,"thresholdUnit":"window",
             "windowIntervalMs":60000,"sampleCount":60,"localCount":10,"fallbackPolicy":"share",
             "overloadPolicy":"reject"}}]"#,
    );
    let cluster = parsed.rules.flow[0].cluster.unwrap();
    assert_eq!((cluster.unit, cluster.local_count), (ThresholdUnit::Window, Some(10.0)));
    assert_eq!(
        (cluster.fallback, cluster.overload),
        (FallbackPolicy::Share, OverloadPolicy::Reject)
    );
    assert_eq!(cluster.window, WindowShape::new(60_000, 60).unwrap());
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

#[test]
fn every_mistake_is_said_with_line_field_value_and_remedy() {
    let text = r#"[
  {"resource": "a", "clusterMode": true, "clusterConfig": {"flowId": 1}},
  {
    "resource": " ",
    "count": -1,
    "grade": 2,
    "clusterMode": true,
    "clusterConfig": {
      "flowId": 0,
      "windowIntervalMs": 1000,
      "sampleCount": 3
    }
  },
  {"resource": "c", "clusterMode": true}
]"#;
    assert_eq!(
        errors(text),
        [
            "rules.json:4: rule 1: resource = \" \": required: the name of what is protected",
            "rules.json:6: rule 1: grade = 2: must be a whole number from 0 to 1",
            "rules.json:5: rule 1: count = -1: must be a number from 0 to 9007199254740992 (2^53)",
            "rules.json:9: rule 1: clusterConfig.flowId = 0: \
             must be a whole number from 1 to 9223372036854775807",
            "rules.json:10: rule 1: clusterConfig.windowIntervalMs = 1000: \
             must be a multiple of sampleCount (3)",
            "rules.json:14: rule 2: clusterConfig: clusterMode needs it: {\"flowId\": …}",
        ]
    );
}

#[test]
fn what_sentinel_calls_invalid_is_an_error() {
    let rule = |fields: &str, config: &str| {
        format!(
            r#"[{{"resource":"r","clusterMode":true,{fields}
                "clusterConfig":{{"flowId":1{config}}}}}]"#
        )
    };
    for (fields, config, field) in [
        (r#""regex":true,"#, "", "regex"),
        (r#""count":"NaN","#, "", "count"),
        (r#""count":9007199254740994,"#, "", "count"),
        (r#""strategy":1,"#, "", "refResource"),
        (r#""strategy":-1,"#, "", "strategy"),
        (r#""controlBehavior":-1,"#, "", "controlBehavior"),
        (r#""controlBehavior":1,"warmUpPeriodSec":0,"#, "", "warmUpPeriodSec"),
        (r#""controlBehavior":2,"maxQueueingTimeMs":0,"#, "", "maxQueueingTimeMs"),
        ("", r#","strategy":1"#, "clusterConfig.strategy"),
        ("", r#","sampleCount":0"#, "clusterConfig.sampleCount"),
        ("", r#","sampleCount":1001,"windowIntervalMs":1001"#, "clusterConfig.sampleCount"),
        ("", r#","windowIntervalMs":0"#, "clusterConfig.windowIntervalMs"),
        ("", r#","thresholdUnit":"minute""#, "clusterConfig.thresholdUnit"),
        ("", r#","fallbackPolicy":"retry""#, "clusterConfig.fallbackPolicy"),
        (r#""grade":0,"#, r#","resourceTimeout":0"#, "clusterConfig.resourceTimeout"),
        (r#""grade":0,"#, r#","clientOfflineTime":0"#, "clusterConfig.clientOfflineTime"),
        (r#""paramIdx":0,"durationInSec":0,"#, "", "durationInSec"),
        (r#""paramIdx":0,"burstCount":-1,"#, "", "burstCount"),
        (r#""paramIdx":0,"paramFlowItemList":7,"#, "", "paramFlowItemList"),
    ] {
        let text = rule(fields, config);
        let found = errors(&text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains(&format!(": {field}")), "{field}: {found:?}");
    }
}

#[test]
fn a_thread_grade_rule_needs_no_behaviour_fields() {
    let text = r#"[{"resource":"r","grade":0,"strategy":1,"controlBehavior":1,"warmUpPeriodSec":0,
                    "clusterMode":true,"clusterConfig":{"flowId":1,"strategy":1}}]"#;
    assert_eq!(mixed(text).rules.flow[0].grade, Grade::Thread);
}

#[test]
fn what_is_odd_but_harmless_is_warned_of() {
    let parsed = mixed(
        r#"[{"resource":"r","paramIdx":0,"cuont":5,"clusterMode":true,
             "paramFlowItemList":[{"object":"x","count":1,"classType":"int"},
                                  {"object":"5","count":-1,"classType":"int"},
                                  {"object":"5","count":3,"classType":"int"}, 7],
             "clusterConfig":{"flowId":1,"thresholdType":2,"brust":1}}]"#,
    );
    let fields: Vec<&str> = parsed.warnings.iter().map(|w| &*w.field).collect();
    assert_eq!(
        fields,
        [
            "paramFlowItemList[0]",
            "paramFlowItemList[1]",
            "paramFlowItemList[3]",
            "clusterConfig.thresholdType",
            "clusterConfig.brust",
            "cuont",
        ]
    );
    assert_eq!(parsed.rules.param[0].items.len(), 1);
    assert_eq!(parsed.rules.param[0].cluster.unwrap().scope, Scope::PerClient);
}

#[test]
fn one_flow_id_twice_names_both_places() {
    let rule = |id: u32| {
        format!(r#"{{"resource":"r","clusterMode":true,"clusterConfig":{{"flowId":{id}}}}}"#)
    };
    let a = format!("[{},\n{},\n{}]", rule(1), rule(2), rule(1));
    let b = format!("[\n{}]", rule(2));
    let parsed = |text: &str, source, namespace| {
        parse(text, source, namespace, Contents::Flow, true).unwrap()
    };
    let texts = vec![parsed(&a, "a.json", "one"), parsed(&b, "b.json", "two")];
    assert_eq!(
        merge(texts).unwrap_err().to_string(),
        "a.json:3: clusterConfig.flowId = 1: already used at a.json:1; ids are unique\n\
         b.json:2: clusterConfig.flowId = 2: already used at a.json:2; ids are unique"
    );
}

#[test]
fn flow_rules_and_param_rules_are_two_id_spaces_and_files_of_a_namespace_come_together() {
    let flow = r#"[{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":1}}]"#;
    let param =
        r#"[{"resource":"r","paramIdx":0,"clusterMode":true,"clusterConfig":{"flowId":1}}]"#;
    let texts = vec![
        parse(flow, "a", "one", Contents::Flow, true).unwrap(),
        parse(param, "b", "one", Contents::Param, true).unwrap(),
    ];
    let merged = merge(texts).unwrap();
    assert_eq!(merged.len(), 1);
    assert_eq!((merged[0].flow.len(), merged[0].param.len()), (1, 1));
}
