//! What Sentinel's `isValidRule` calls valid, and what not.

use limiter::{BUCKETS_MAX, rule::Grade};

use super::{errors, mixed, rule};

#[test]
fn what_sentinel_calls_invalid_is_an_error() {
    let too_many = format!(r#","sampleCount":{0},"windowIntervalMs":{0}"#, BUCKETS_MAX + 1);
    for (fields, config, field) in [
        (r#""regex":true,"#, "", "regex"),
        (r#""count":"NaN","#, "", "count"),
        (r#""count":-0.5,"#, "", "count"),
        (r#""count":9007199254740994,"#, "", "count"),
        (r#""count":1e400,"#, "", "count"),
        (r#""count":"many","#, "", "count"),
        (r#""grade":2,"#, "", "grade"),
        (r#""grade":3000000000,"#, "", "grade"),
        (r#""strategy":1,"#, "", "refResource"),
        (r#""strategy":-1,"#, "", "strategy"),
        (r#""controlBehavior":-1,"#, "", "controlBehavior"),
        (r#""controlBehavior":1,"warmUpPeriodSec":0,"#, "", "warmUpPeriodSec"),
        (r#""controlBehavior":3,"warmUpPeriodSec":-1,"#, "", "warmUpPeriodSec"),
        (r#""controlBehavior":2,"maxQueueingTimeMs":0,"#, "", "maxQueueingTimeMs"),
        (r#""controlBehavior":3,"maxQueueingTimeMs":-1,"#, "", "maxQueueingTimeMs"),
        (r#""warmUpPeriodSec":"x","#, "", "warmUpPeriodSec"),
        (r#""limitApp":[],"#, "", "limitApp"),
        ("", r#","strategy":1"#, "clusterConfig.strategy"),
        ("", r#","sampleCount":0"#, "clusterConfig.sampleCount"),
        ("", &too_many, "clusterConfig.sampleCount"),
        ("", r#","windowIntervalMs":0"#, "clusterConfig.windowIntervalMs"),
        ("", r#","windowIntervalMs":1001"#, "clusterConfig.windowIntervalMs"),
        ("", r#","thresholdUnit":"minute""#, "clusterConfig.thresholdUnit"),
        ("", r#","fallbackPolicy":"retry""#, "clusterConfig.fallbackPolicy"),
        ("", r#","resourceTimeout":"soon""#, "clusterConfig.resourceTimeout"),
        (r#""grade":0,"#, r#","resourceTimeout":0"#, "clusterConfig.resourceTimeout"),
        (r#""grade":0,"#, r#","clientOfflineTime":-1"#, "clusterConfig.clientOfflineTime"),
        (r#""grade":0,"#, r#","acquireRefuseStrategy":-1"#, "clusterConfig.acquireRefuseStrategy"),
        (
            r#""grade":0,"#,
            r#","resourceTimeoutStrategy":-1"#,
            "clusterConfig.resourceTimeoutStrategy",
        ),
        (r#""paramIdx":0,"durationInSec":0,"#, "", "durationInSec"),
        (r#""paramIdx":0,"burstCount":-1,"#, "", "burstCount"),
        (r#""paramIdx":0,"grade":-1,"#, "", "grade"),
        (r#""paramIdx":0,"maxQueueingTimeMs":-1,"#, "", "maxQueueingTimeMs"),
        (r#""paramIdx":0,"paramFlowItemList":7,"#, "", "paramFlowItemList"),
    ] {
        let text = rule(fields, config);
        let found = errors(&text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains(&format!(": {field}")), "{field}: {found:?}");
    }
}

#[test]
fn what_is_not_used_may_have_any_value_and_its_default_stands_in_the_rule() {
    for (fields, config) in [
        (r#""warmUpPeriodSec":-1,"#, ""),
        (r#""maxQueueingTimeMs":-1,"#, ""),
        ("", r#","resourceTimeout":-1"#),
        ("", r#","resourceTimeout":99999999999999"#),
        ("", r#","clientOfflineTime":0"#),
        ("", r#","acquireRefuseStrategy":-1"#),
        ("", r#","resourceTimeoutStrategy":-1"#),
    ] {
        let text = rule(fields, config);
        let parsed = mixed(&text);
        assert_eq!(parsed.rules, mixed(&rule("", "")).rules, "{text}");
        assert_eq!(parsed.warnings.len(), 1, "{text}: {:?}", parsed.warnings);
    }
}

#[test]
fn a_behaviour_keeps_the_other_one_from_being_used() {
    let pacing = mixed(&rule(r#""controlBehavior":2,"warmUpPeriodSec":-1,"#, ""));
    assert_eq!(pacing.rules.flow[0].warm_up_period_sec, 10);
    let warm_up = mixed(&rule(r#""controlBehavior":1,"maxQueueingTimeMs":-1,"#, ""));
    assert_eq!(warm_up.rules.flow[0].max_queueing_time_ms, 500);
}

#[test]
fn a_thread_grade_rule_needs_no_behaviour_fields() {
    let parsed = mixed(&rule(
        r#""grade":0,"strategy":1,"controlBehavior":3,"warmUpPeriodSec":0,"maxQueueingTimeMs":-1,"#,
        r#","strategy":1"#,
    ));
    assert_eq!(parsed.rules.flow[0].grade, Grade::Thread);
}

#[test]
fn a_time_to_live_longer_than_we_can_count_is_cut() {
    let parsed = mixed(&rule(r#""grade":0,"#, r#","resourceTimeout":99999999999999"#));
    let cluster = parsed.rules.flow[0].cluster.as_ref().unwrap();
    assert_eq!((cluster.resource_timeout_ms(), cluster.client_offline_ms()), (u32::MAX, 2_000));
    assert_eq!(parsed.warnings.len(), 1, "{:?}", parsed.warnings);
}

#[test]
fn an_argument_counts_from_either_end_and_a_duration_is_a_long() {
    let fields = r#""paramIdx":-2147483648,"durationInSec":5000000000,"#;
    let parsed = mixed(&rule(fields, r#","fallbackPolicy":"local""#));
    let rule = &parsed.rules.param[0];
    assert_eq!((rule.param_idx, rule.duration_sec), (i32::MIN, 5_000_000_000));
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
}
