//! Hot values under any algorithm, in any number.

use limiter::{ClusterEngine, Decision, Param, Settings, rule::ItemValue};

use crate::{at, engine, param, rules};

fn left(engine: &ClusterEngine, ms: u64, value: &Param<'_>, calls: usize) -> usize {
    let ask = || engine.snapshot().acquire_param(at(ms), 1, 1, [value.clone()]).unwrap();
    (0..calls).filter(|_| ask() != Decision::Block).count()
}

#[test]
fn each_user_has_a_burst_of_50_at_once_and_then_10_a_second() {
    for algorithm in ["tokenBucket", "leakyBucket", "gcra"] {
        let engine =
            engine(&[param(1, 10.0, "", &format!(r#","algorithm":"{algorithm}","burst":50"#))]);
        for user in 0..20 {
            let user = Param::Long(user);
            assert_eq!(left(&engine, 0, &user, 99), 50, "{algorithm}");
            assert_eq!(left(&engine, 99, &user, 99), 0);
            assert_eq!(left(&engine, 100, &user, 99), 1);
            assert_eq!(left(&engine, 1_100, &user, 99), 10);
        }
    }
}

#[test]
fn an_item_of_every_class_has_its_own_count_under_every_algorithm() {
    let items = [
        ("int", "7"),
        ("long", "7"),
        ("byte", "7"),
        ("short", "7"),
        ("double", "7"),
        ("float", "7"),
        ("boolean", "true"),
        ("java.lang.String", "7"),
    ]
    .map(|(class, text)| format!(r#"{{"object":"{text}","count":3,"classType":"{class}"}}"#))
    .join(",");
    let fields = format!(r#","paramFlowItemList":[{items}]"#);
    let values = [
        Param::Int(7),
        Param::Long(7),
        Param::Byte(7),
        Param::Short(7),
        Param::Double(7.0),
        Param::Float(7.0),
        Param::Bool(true),
        Param::Str("7".into()),
    ];
    for cluster in [
        "",
        r#","algorithm":"tokenBucket""#,
        r#","algorithm":"slidingLog""#,
        r#","algorithm":"fixedWindow""#,
        r#","calendar":"hour""#,
    ] {
        let engine = engine(&[param(1, 1.0, &fields, cluster)]);
        for value in &values {
            assert_eq!(left(&engine, 0, value, 9), 3, "{value:?} {cluster}");
        }
        assert_eq!(left(&engine, 0, &Param::Int(8), 9), 1, "{cluster}");
    }
}

#[test]
fn a_collection_takes_of_all_its_values_or_of_none() {
    for cluster in ["", r#","algorithm":"tokenBucket""#] {
        let engine = engine(&[param(1, 2.0, "", cluster)]);
        let ask = |values: &[i32]| {
            let values = values.iter().map(|value| Param::Int(*value));
            engine.snapshot().acquire_param(at(0), 1, 1, values).unwrap()
        };
        assert_eq!(ask(&[1, 2]), Decision::Pass { remaining: 1 });
        assert_eq!(ask(&[3, 3]), Decision::Pass { remaining: 0 }, "{cluster}");
        assert_eq!(ask(&[1, 3]), Decision::Block, "{cluster}");
        assert_eq!(ask(&[1, 2]), Decision::Pass { remaining: 0 }, "{cluster}: none was taken");
    }
}

#[test]
fn one_value_at_a_thousand_times_its_rate_costs_the_others_no_pass() {
    for cluster in ["", r#","algorithm":"gcra""#] {
        let engine = engine(&[param(1, 10.0, "", cluster)]);
        for second in 0..3 {
            let ms = second * 1_000;
            assert!(left(&engine, ms, &Param::Int(0), 10_000) <= 10);
            for value in 1..50 {
                assert_eq!(left(&engine, ms, &Param::Int(value), 10), 10, "{cluster}");
            }
        }
    }
}

#[test]
fn a_flood_of_one_shot_values_stays_under_the_cap_and_wipes_no_limit() {
    const CAP: usize = 2_000;
    for cluster in ["", r#","algorithm":"tokenBucket""#] {
        let settings = Settings { max_allowed_qps: None, values_max: CAP, ..Settings::default() };
        let engine = ClusterEngine::new(settings);
        engine.replace(rules("ns", &[param(1, 5.0, "", cluster)])).unwrap();
        let regular = Param::Long(-1);
        let flow = engine.rules();
        let flow = flow.param(1).unwrap();
        let mut passed = 0;
        for one in 0..60_000_i64 {
            let ms = u64::try_from(one).unwrap() / 20;
            if one % 100 == 0 {
                passed += left(&engine, ms, &regular, 1);
            }
            left(&engine, ms, &Param::Long(one), 1);
            assert!(flow.totals().values <= CAP, "{cluster}");
        }
        // Three seconds of 200 calls each, five of them allowed, and a full start.
        assert!((15..=20).contains(&passed), "{passed} {cluster}");
        engine.tidy(at(9_000), std::time::UNIX_EPOCH);
        assert_eq!(flow.totals().values, 0, "all are forgotten");
    }
}

#[test]
fn the_most_used_values_can_be_read() {
    let engine = engine(&[param(1, 1_000.0, "", "")]);
    for value in 1..=30_i64 {
        let count = i32::try_from(value * 10).unwrap();
        engine.snapshot().acquire_param(at(0), 1, count, [Param::Long(value)]).unwrap();
    }
    engine.snapshot().acquire_param(at(0), 1, 999, [Param::Str("heavy".into())]).unwrap();
    let rules = engine.rules();
    let top = rules.param(1).unwrap().top(at(100), 3);
    let right = [
        (ItemValue::Str("heavy".into()), 999),
        (ItemValue::Long(30), 300),
        (ItemValue::Long(29), 290),
    ];
    assert_eq!(top, right);
    assert_eq!(rules.param(1).unwrap().top(at(5_000), 3), [], "idle");
}

#[test]
fn values_are_paced_one_by_one() {
    let engine = engine(&[param(1, 10.0, r#","controlBehavior":2,"maxQueueingTimeMs":250"#, "")]);
    let ask = |value| engine.snapshot().acquire_param(at(0), 1, 1, [Param::Int(value)]).unwrap();
    let waits = [100, 200].map(|ms| Decision::Wait { wait: std::time::Duration::from_millis(ms) });
    for value in 0..3 {
        let decisions = [(); 4].map(|()| ask(value));
        assert_eq!(
            decisions,
            [Decision::Pass { remaining: 0 }, waits[0], waits[1], Decision::Block]
        );
    }
}
