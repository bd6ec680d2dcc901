//! The fields of `clusterConfig` that Sentinel does not have.

use limiter::{
    WindowShape,
    algorithm::{Calendar, Unit},
    rule::{
        Algorithm, Burst, ClusterConfig, FallbackPolicy, Lease, Mode, OverloadPolicy, ThresholdUnit,
    },
};

use super::{errors, mixed, rule};

/// The configuration of a flow rule with a count of 7, and the fields that are warned of.
fn read(fields: &str, config: &str) -> (ClusterConfig, Vec<String>) {
    let parsed = mixed(&rule(&format!(r#""count":7,{fields}"#), config));
    let warned = parsed.warnings.iter().map(|w| w.field.to_string()).collect();
    let flow = parsed.rules.flow.first().and_then(|rule| rule.cluster.clone());
    let param = parsed.rules.param.first().and_then(|rule| rule.cluster.clone());
    (flow.or(param).unwrap(), warned)
}

/// The same, of which nothing is warned.
fn config(fields: &str, config: &str) -> ClusterConfig {
    let (read, warned) = read(fields, config);
    assert_eq!(warned, [""; 0], "{fields} {config}");
    read
}

#[test]
fn all_of_them_are_read() {
    let cluster = config(
        "",
        r#","thresholdUnit":"window","windowIntervalMs":60000,"sampleCount":60,"localCount":10,
            "fallbackPolicy":"share","overloadPolicy":"reject","mode":"shadow",
            "lease":{"maxTokens":1000000,"ttlMs":"60,000"}"#,
    );
    assert_eq!((cluster.unit, cluster.local_count()), (ThresholdUnit::Window, Some(10.0)));
    assert_eq!(
        (cluster.fallback, cluster.overload, cluster.mode),
        (FallbackPolicy::Share, OverloadPolicy::Reject, Mode::Shadow)
    );
    assert_eq!(cluster.window, WindowShape::new(60_000, 60).unwrap());
    assert_eq!(cluster.lease(), Some(Lease { max_tokens: 1_000_000, ttl_ms: 60_000 }));
    let cluster = config(r#""controlBehavior":3,"#, r#","coldFactor":100"#);
    assert_eq!(cluster.cold_factor(), 100);
}

#[test]
fn an_algorithm_is_named_in_any_case_and_its_burst_is_the_count_unless_it_is_given() {
    let burst = |algorithm: &Algorithm| match algorithm {
        Algorithm::TokenBucket { burst }
        | Algorithm::LeakyBucket { burst }
        | Algorithm::Gcra { burst } => Some(*burst),
        _ => None,
    };
    let algorithm = |name: &str, more: &str| {
        let cluster = config("", &format!(r#","algorithm":"{name}"{more}"#));
        assert_eq!((cluster.window, cluster.unit), (WindowShape::SECOND, ThresholdUnit::Sentinel));
        cluster.algorithm
    };
    assert_eq!(algorithm("slidingwindow", ""), Algorithm::SlidingWindow);
    assert_eq!(algorithm("FixedWindow", ""), Algorithm::FixedWindow);
    assert_eq!(algorithm("SLIDINGLOG", ""), Algorithm::SlidingLog);
    for (name, read) in [
        ("tokenBucket", Algorithm::TokenBucket { burst: Burst::COUNT }),
        ("leakyBucket", Algorithm::LeakyBucket { burst: Burst::COUNT }),
        ("gcra", Algorithm::Gcra { burst: Burst::COUNT }),
    ] {
        assert_eq!(algorithm(name, ""), read);
        assert_eq!(algorithm(name, r#","burst":null"#), read);
        assert_eq!(burst(&read).unwrap().of(7.5, 1.0), 7);
        for tokens in [0, 50, 1 << 53] {
            let read = algorithm(name, &format!(r#","burst":{tokens}"#));
            assert_eq!(burst(&read), Some(Burst::tokens(tokens)));
        }
    }
}

#[test]
fn a_calendar_is_the_window_and_the_longest_period_stands_for_it() {
    for (name, unit, minutes) in [
        ("minute", Unit::Minute, 1),
        ("HOUR", Unit::Hour, 60),
        ("day", Unit::Day, 24 * 60),
        ("Month", Unit::Month, 31 * 24 * 60),
    ] {
        let cluster = config("", &format!(r#","calendar":"{name}""#));
        let calendar = Calendar::new(unit, "UTC").unwrap();
        assert_eq!(cluster.algorithm, Algorithm::Calendar(calendar.into()));
        assert_eq!(cluster.unit, ThresholdUnit::Window);
        assert_eq!(cluster.window, WindowShape::new(minutes * 60_000, 10).unwrap());
    }
    let explicit = r#","calendar":"day","timeZone":"Europe/Berlin","algorithm":"fixedWindow",
                       "thresholdUnit":"window","windowIntervalMs":1000,"sampleCount":10"#;
    let calendar = Calendar::new(Unit::Day, "Europe/Berlin").unwrap();
    assert_eq!(config("", explicit).algorithm, Algorithm::Calendar(calendar.into()));
    let utc = config("", r#","calendar":"day","timeZone":" ""#);
    assert_eq!(utc, config("", r#","calendar":"day""#));
}

#[test]
fn a_window_without_buckets_needs_no_multiple_of_them() {
    for name in ["fixedWindow", "slidingLog"] {
        let text = format!(r#","algorithm":"{name}","windowIntervalMs":25"#);
        assert_eq!(config("", &text).window, WindowShape::new(25, 1).unwrap());
    }
    for name in ["tokenBucket", "leakyBucket", "gcra"] {
        let text =
            format!(r#","algorithm":"{name}","windowIntervalMs":25,"thresholdUnit":"window""#);
        assert_eq!(config("", &text).window, WindowShape::new(25, 1).unwrap());
    }
    assert_eq!(errors(&rule("", r#","windowIntervalMs":25"#)).len(), 1);
    let unknown = errors(&rule("", r#","windowIntervalMs":25,"algorithm":"fixed","burst":1"#));
    assert_eq!(unknown.len(), 1, "{unknown:?}");
}

#[test]
fn hot_parameter_rules_have_them_too_but_for_leases_and_the_cold_factor() {
    let param = r#""paramIdx":0,"#;
    let cluster = config(param, r#","algorithm":"gcra","burst":50,"mode":"block""#);
    assert_eq!(cluster.algorithm, Algorithm::Gcra { burst: Burst::tokens(50) });
    assert_eq!(cluster.mode, Mode::Block);
    let monthly = config(param, r#","calendar":"month""#).algorithm;
    assert!(matches!(monthly, Algorithm::Calendar(_)));
    // What Sentinel takes for a plain rule may have an algorithm.
    let (cluster, warned) =
        read(r#""paramIdx":0,"controlBehavior":1,"#, r#","algorithm":"fixedWindow""#);
    assert_eq!(
        (cluster.algorithm, warned),
        (Algorithm::FixedWindow, vec!["controlBehavior".into()])
    );
}

#[test]
fn what_the_others_make_useless_is_warned_of() {
    let window = r#","thresholdUnit":"window""#;
    for (fields, config, warned) in [
        ("", r#","calendar":"day","windowIntervalMs":5000"#, "windowIntervalMs"),
        ("", r#","calendar":"day","windowIntervalMs":1001"#, "windowIntervalMs"),
        ("", r#","calendar":"day","sampleCount":1"#, "sampleCount"),
        ("", r#","algorithm":"fixedWindow","sampleCount":1"#, "sampleCount"),
        ("", r#","algorithm":"slidingLog","sampleCount":3"#, "sampleCount"),
        ("", r#","algorithm":"gcra","sampleCount":1"#, "sampleCount"),
        ("", r#","algorithm":"gcra","windowIntervalMs":5000"#, "windowIntervalMs"),
        ("", r#","coldFactor":2"#, "coldFactor"),
        (r#""grade":0,"controlBehavior":0,"#, r#","coldFactor":2"#, "coldFactor"),
        (r#""controlBehavior":2,"#, r#","coldFactor":2"#, "coldFactor"),
        (r#""controlBehavior":2,"#, r#","sampleCount":1"#, "sampleCount"),
        (r#""controlBehavior":3,"#, r#","sampleCount":1"#, "sampleCount"),
        (r#""controlBehavior":2,"#, r#","windowIntervalMs":5000"#, "windowIntervalMs"),
        (r#""paramIdx":0,"controlBehavior":2,"#, r#","sampleCount":1"#, "sampleCount"),
        (r#""paramIdx":0,"#, r#","coldFactor":2"#, "coldFactor"),
        ("", r#","lease":{"maxTokens":5,"ttlMs":100,"ttl":1}"#, "lease.ttl"),
    ] {
        let warned = format!("clusterConfig.{warned}");
        assert_eq!(read(fields, config).1, [warned], "{fields} {config}");
    }
    for (fields, more) in [
        ("", r#","windowIntervalMs":5000,"algorithm":"gcra""#),
        ("", r#","coldFactor":3"#),
        (r#""controlBehavior":1,"#, r#","coldFactor":2"#),
        (r#""controlBehavior":2,"#, r#","windowIntervalMs":5000"#),
    ] {
        config(fields, &format!("{more}{window}"));
    }
}

#[test]
fn a_wrong_value_is_an_error() {
    for (config, field) in [
        (r#","algorithm":"leaky""#, "algorithm"),
        (r#","algorithm":"gcra","burst":-1"#, "burst"),
        (r#","algorithm":"gcra","burst":2.5"#, "burst"),
        (r#","algorithm":"gcra","burst":9007199254740993"#, "burst"),
        (r#","calendar":"week""#, "calendar"),
        (r#","calendar":"week","timeZone":"UTC""#, "calendar"),
        (r#","calendar":"day","timeZone":"Europe/Atlantis""#, "timeZone"),
        (r#","calendar":"day","timeZone":"Etc/Unknown""#, "timeZone"),
        (r#","calendar":"day","timeZone":"+02:00""#, "timeZone"),
        (r#","calendar":"day","timeZone":[]"#, "timeZone"),
        (r#","mode":"off""#, "mode"),
        (r#","coldFactor":1"#, "coldFactor"),
        (r#","coldFactor":101"#, "coldFactor"),
        (r#","coldFactor":2.5"#, "coldFactor"),
        (r#","lease":true"#, "lease"),
        (r#","lease":[5,100]"#, "lease"),
        (r#","lease":{"ttlMs":100}"#, "lease.maxTokens"),
        (r#","lease":{"maxTokens":5,"ttlMs":null}"#, "lease.ttlMs"),
        (r#","lease":{"maxTokens":0,"ttlMs":100}"#, "lease.maxTokens"),
        (r#","lease":{"maxTokens":1000001,"ttlMs":100}"#, "lease.maxTokens"),
        (r#","lease":{"maxTokens":5.5,"ttlMs":100}"#, "lease.maxTokens"),
        (r#","lease":{"maxTokens":5,"ttlMs":60001}"#, "lease.ttlMs"),
    ] {
        let found = errors(&rule("", config));
        assert_eq!(found.len(), 1, "{config}: {found:?}");
        assert!(found[0].contains(&format!(": clusterConfig.{field}")), "{config}: {found:?}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let lease = r#","lease":{"maxTokens":5,"ttlMs":100}"#;
    let (leased_log, monthly_lease) =
        (format!(r#","algorithm":"slidingLog"{lease}"#), format!(r#","calendar":"month"{lease}"#));
    let minute = r#","thresholdUnit":"window","windowIntervalMs":60000"#;
    for (fields, config, field) in [
        ("", r#","burst":5"#, "burst"),
        ("", r#","algorithm":"fixedWindow","burst":5"#, "burst"),
        ("", r#","algorithm":"slidingLog","burst":5"#, "burst"),
        ("", r#","calendar":"day","burst":5"#, "burst"),
        ("", r#","timeZone":"UTC""#, "timeZone"),
        ("", r#","calendar":"day","thresholdUnit":"sentinel""#, "thresholdUnit"),
        ("", r#","calendar":"day","algorithm":"slidingWindow""#, "algorithm"),
        ("", r#","calendar":"day","algorithm":"gcra""#, "algorithm"),
        (r#""controlBehavior":1,"#, r#","algorithm":"gcra""#, "algorithm"),
        (r#""controlBehavior":2,"#, r#","algorithm":"fixedWindow""#, "algorithm"),
        (r#""controlBehavior":3,"#, r#","calendar":"day""#, "calendar"),
        (r#""controlBehavior":2,"#, r#","burst":5"#, "burst"),
        (r#""controlBehavior":1,"#, minute, "thresholdUnit"),
        (r#""controlBehavior":3,"#, minute, "thresholdUnit"),
        (r#""paramIdx":0,"controlBehavior":2,"#, r#","algorithm":"gcra""#, "algorithm"),
        (r#""grade":0,"#, r#","algorithm":"gcra""#, "algorithm"),
        (r#""grade":0,"#, r#","burst":5"#, "burst"),
        (r#""grade":0,"#, r#","calendar":"day","timeZone":"UTC""#, "calendar"),
        (r#""grade":0,"#, lease, "lease"),
        (r#""controlBehavior":2,"#, lease, "lease"),
        (r#""paramIdx":0,"#, lease, "lease"),
        ("", &leased_log, "lease"),
        ("", &monthly_lease, "lease"),
    ] {
        let found = errors(&rule(fields, config));
        assert_eq!(found.len(), 1, "{fields} {config}: {found:?}");
        let start = format!(": clusterConfig.{field} = ");
        assert!(found[0].contains(&start), "{fields} {config}: {found:?}");
    }
    // Each of these is fine with the default of the other.
    config(r#""controlBehavior":1,"#, r#","thresholdUnit":"window","sampleCount":2"#);
    config(r#""controlBehavior":1,"#, r#","windowIntervalMs":60000"#);
    config(r#""controlBehavior":2,"#, r#","algorithm":"slidingWindow""#);
    config(r#""grade":0,"#, r#","algorithm":"slidingWindow""#);
}

#[test]
fn all_mistakes_are_said_at_once_each_with_what_would_do() {
    let text = r#"[{
  "resource": "r",
  "clusterMode": true,
  "controlBehavior": 2,
  "clusterConfig": {
    "flowId": 0,
    "algorithm": "Gcra",
    "burst": "5",
    "calendar": "day",
    "timeZone": "Mars/Olympus",
    "coldFactor": 0,
    "lease": {
      "maxTokens": 0
    },
    "mode": "maybe"
  }
}]"#;
    let counts = "pacing and warm-up count in their own way; needs controlBehavior 0";
    let expected = [
        "6: rule 0: clusterConfig.flowId = 0: must be a whole number from 1 to 9223372036854775807",
        "10: rule 0: clusterConfig.timeZone = \"Mars/Olympus\": \
         unknown; must be a name of the IANA database, such as Europe/Berlin or UTC",
        &format!("7: rule 0: clusterConfig.algorithm = \"Gcra\": {counts}"),
        &format!("8: rule 0: clusterConfig.burst = \"5\": {counts}"),
        &format!("9: rule 0: clusterConfig.calendar = \"day\": {counts}"),
        "11: rule 0: clusterConfig.coldFactor = 0: must be a whole number from 2 to 100",
        "12: rule 0: clusterConfig.lease = {…: \
         needs a flow rule with grade 1, controlBehavior 0 and algorithm slidingWindow",
        "13: rule 0: clusterConfig.lease.maxTokens = 0: must be a whole number from 1 to 1000000",
        "12: rule 0: clusterConfig.lease.ttlMs: required: a whole number from 1 to 60000",
        "15: rule 0: clusterConfig.mode = \"maybe\": \
         must be one of enforce, shadow, pass, block",
    ];
    assert_eq!(errors(text), expected.map(|finding| format!("rules.json:{finding}")));
}
