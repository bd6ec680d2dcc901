//! What is read and means nothing.

use limiter::rule::{Contents, Scope, parse};

use super::{mixed, rule};

/// The fields that a text is warned of.
fn warned(text: &str) -> Vec<String> {
    mixed(text).warnings.iter().map(|w| w.field.to_string()).collect()
}

#[test]
fn what_is_odd_but_harmless_is_warned_of() {
    let parsed = mixed(
        r#"[{"resource":"r","paramIdx":0,"cuont":5,"clusterMode":true,
             "paramFlowItemList":[{"object":"x","count":1,"classType":"int"},
                                  {"object":"5","count":-1,"classType":"int"},
                                  {"object":"5","count":3,"classType":"int","cout":4}, 7, null,
                                  {"count":1}, {"object":"x","count":"x"}, {"object":"x"},
                                  {"object":"x","count":1,"classType":"char"}],
             "clusterConfig":{"flowId":1,"thresholdType":2,"brust":1}}]"#,
    );
    let fields: Vec<&str> = parsed.warnings.iter().map(|w| &*w.field).collect();
    assert_eq!(
        fields,
        [
            "paramFlowItemList[0].object",
            "paramFlowItemList[1].count",
            "paramFlowItemList[2].cout",
            "paramFlowItemList[3]",
            "paramFlowItemList[4]",
            "paramFlowItemList[5].object",
            "paramFlowItemList[6].count",
            "paramFlowItemList[7].count",
            "paramFlowItemList[8].object",
            "clusterConfig.thresholdType",
            "clusterConfig.brust",
            "cuont",
        ]
    );
    assert_eq!(parsed.rules.param[0].items.len(), 1);
    assert_eq!(parsed.rules.param[0].cluster.as_ref().unwrap().scope, Scope::PerClient);
}

#[test]
fn each_field_of_a_flow_rule_that_cluster_rules_do_not_use_is_warned_of() {
    for (fields, config, field) in [
        (r#""limitApp":"shop","#, "", "limitApp"),
        (r#""controlBehavior":4,"#, "", "controlBehavior"),
        (r#""grade":0,"controlBehavior":1,"#, "", "controlBehavior"),
        (r#""grade":0,"controlBehavior":4,"#, "", "controlBehavior"),
        (r#""warmUpPeriodSec":20,"#, "", "warmUpPeriodSec"),
        (r#""controlBehavior":2,"warmUpPeriodSec":20,"#, "", "warmUpPeriodSec"),
        (r#""maxQueueingTimeMs":0,"#, "", "maxQueueingTimeMs"),
        (r#""controlBehavior":1,"maxQueueingTimeMs":20,"#, "", "maxQueueingTimeMs"),
        (r#""strategy":3,"#, "", "strategy"),
        (r#""refResource":"other","#, "", "refResource"),
        ("", r#","resourceTimeout":1"#, "clusterConfig.resourceTimeout"),
        ("", r#","clientOfflineTime":1"#, "clusterConfig.clientOfflineTime"),
        ("", r#","resourceTimeoutStrategy":1"#, "clusterConfig.resourceTimeoutStrategy"),
        ("", r#","acquireRefuseStrategy":1"#, "clusterConfig.acquireRefuseStrategy"),
        (r#""grade":0,"#, r#","strategy":1"#, "clusterConfig.strategy"),
        (r#""grade":0,"#, r#","acquireRefuseStrategy":1"#, "clusterConfig.acquireRefuseStrategy"),
    ] {
        assert_eq!(warned(&rule(fields, config)), [field], "{fields} {config}");
    }
    let related = rule(r#""strategy":2,"refResource":"entrance","#, "");
    assert_eq!(warned(&related), ["strategy", "refResource"]);
}

#[test]
fn a_share_that_nobody_can_lend_is_warned_of_with_what_would_do() {
    let share = |fields: &str, config: &str| {
        let config = format!(r#","overloadPolicy":"share"{config}"#);
        let warnings = mixed(&rule(fields, &config)).warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let warning = "rules.json:2: rule 0: clusterConfig.overloadPolicy = \"share\": acts as reject here: \
        to be lent, it needs a flow rule with grade 1, controlBehavior 0 and algorithm \
        slidingWindow; or let local decide";
    for (fields, config) in [
        (r#""grade":0,"#, ""),
        (r#""controlBehavior":1,"warmUpPeriodSec":5,"#, ""),
        (r#""controlBehavior":2,"#, ""),
        (r#""controlBehavior":3,"#, ""),
        (r#""paramIdx":0,"#, ""),
        ("", r#","algorithm":"tokenBucket""#),
        ("", r#","algorithm":"fixedWindow""#),
        ("", r#","calendar":"day""#),
    ] {
        assert_eq!(share(fields, config), [warning], "{fields} {config}");
    }
    for config in ["", r#","algorithm":"slidingWindow""#, r#","thresholdUnit":"window""#] {
        assert_eq!(share("", config), [""; 0], "{config}");
    }
}

#[test]
fn each_field_of_a_hot_parameter_rule_that_cluster_rules_do_not_use_is_warned_of() {
    for (fields, config, field) in [
        (r#""limitApp":"shop","#, "", "limitApp"),
        (r#""grade":0,"#, "", "grade"),
        (r#""controlBehavior":1,"#, "", "controlBehavior"),
        (r#""controlBehavior":3,"#, "", "controlBehavior"),
        (r#""controlBehavior":4,"#, "", "controlBehavior"),
        (r#""maxQueueingTimeMs":500,"#, "", "maxQueueingTimeMs"),
        (r#""burstCount":5,"#, "", "burstCount"),
        (r#""durationInSec":5,"#, "", "durationInSec"),
        (r#""durationInSec":5,"#, r#","fallbackPolicy":"local","localCount":3"#, "durationInSec"),
        ("", r#","resourceTimeout":2000"#, "clusterConfig.resourceTimeout"),
    ] {
        let text = rule(&format!(r#""paramIdx":0,{fields}"#), config);
        assert_eq!(warned(&text), [field], "{fields} {config}");
    }
}

#[test]
fn what_somebody_uses_or_what_is_the_default_is_not_warned_of() {
    for (fields, config) in [
        (
            r#""limitApp":"default","grade":1,"strategy":0,"refResource":"","controlBehavior":0,
               "warmUpPeriodSec":10,"maxQueueingTimeMs":500,"regex":false,"id":null,"#,
            r#","strategy":0,"resourceTimeout":2000,"resourceTimeoutStrategy":0,
               "acquireRefuseStrategy":0,"clientOfflineTime":2000,"@type":"x""#,
        ),
        (r#""limitApp":" ","#, ""),
        (r#""grade":0,"#, r#","resourceTimeout":1,"clientOfflineTime":1"#),
        (
            r#""paramIdx":0,"grade":1,"controlBehavior":0,"maxQueueingTimeMs":0,"burstCount":0,
               "durationInSec":1,"limitApp":"default","#,
            "",
        ),
        // A client that decides alone counts over it.
        (r#""paramIdx":0,"durationInSec":5,"#, r#","fallbackToLocalWhenFail":true"#),
        (r#""controlBehavior":1,"warmUpPeriodSec":20,"#, r#","sampleCount":2"#),
        (r#""controlBehavior":2,"maxQueueingTimeMs":20,"#, ""),
        (r#""controlBehavior":3,"warmUpPeriodSec":20,"maxQueueingTimeMs":20,"#, ""),
        (r#""paramIdx":0,"controlBehavior":2,"maxQueueingTimeMs":20,"#, ""),
        (r#""paramIdx":0,"controlBehavior":2,"#, ""),
    ] {
        assert_eq!(warned(&rule(fields, config)), [""; 0], "{fields} {config}");
    }
}

#[test]
fn a_warning_says_what_happens_instead() {
    for (fields, warning) in [
        (
            r#""grade":0,"controlBehavior":2,"#,
            "controlBehavior = 2: not used by a cluster rule: \
             calls in progress neither wait nor warm up",
        ),
        (
            r#""controlBehavior":9,"#,
            "controlBehavior = 9: unknown; taken as 0 (refuse), as Sentinel does",
        ),
        (
            r#""maxQueueingTimeMs":9,"#,
            "maxQueueingTimeMs = 9: not used: only controlBehavior 2 and 3 queue calls",
        ),
        (
            r#""paramIdx":0,"controlBehavior":1,"#,
            "controlBehavior = 1: taken as 0 (refuse), as Sentinel does: \
             hot parameters do not warm up",
        ),
        (
            r#""paramIdx":0,"burstCount":5,"#,
            "burstCount = 5: not used by a cluster rule: \
             clusterConfig.burst is, with algorithm tokenBucket, leakyBucket or gcra",
        ),
    ] {
        let found = mixed(&rule(fields, "")).warnings;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].to_string(), format!("rules.json:1: rule 0: {warning}"));
    }
}

#[test]
fn a_local_rule_is_warned_of_only_what_it_cannot_hold() {
    let text = r#"[{"resource":"r","limitApp":"shop","controlBehavior":2,"maxQueueingTimeMs":20,
                    "warmUpPeriodSec":-1}]"#;
    let parsed = parse(text, "rules.json", "default", Contents::Flow, false).unwrap();
    let fields: Vec<&str> = parsed.warnings.iter().map(|w| &*w.field).collect();
    assert_eq!(fields, ["warmUpPeriodSec"]);
    let rule = &parsed.rules.flow[0];
    assert_eq!((rule.warm_up_period_sec, rule.max_queueing_time_ms), (10, 20));
}

#[test]
fn unknown_fields_beside_a_nested_rule_are_warned_of() {
    let nested = r#"[{"id":1,"app":"a","cuont":1,
        "rule":{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":1}}}]"#;
    assert_eq!(warned(nested), ["cuont"]);
}
