//! Rules that change, move, go and come back.

use limiter::Decision;

use crate::{START_MS, at, engine, flow, param, passes, rules, take};

fn per_minute(count: f64) -> String {
    flow(401, count, r#","windowIntervalMs":60000,"sampleCount":10,"thresholdUnit":"window""#)
}

#[test]
fn tc_17_a_rule_push_keeps_what_was_used() {
    let engine = engine(&[per_minute(5.0)]);
    for second in 0..5 {
        assert_ne!(take(&engine, second * 1_000, 401, 1), Decision::Block);
    }
    assert_eq!(passes(&engine, 5_000, 401, 1), 0);
    engine.replace(rules("ns", &[per_minute(5.0)])).unwrap();
    assert_eq!(passes(&engine, 11_000, 401, 1), 0);
    engine.replace(rules("ns", &[per_minute(10.0)])).unwrap();
    assert_eq!(passes(&engine, 20_000, 401, 6), 5);
    engine.replace(rules("ns", &[per_minute(3.0)])).unwrap();
    assert_eq!(passes(&engine, 30_000, 401, 1), 0);
    engine.replace(rules("ns", &[per_minute(3.0), flow(402, 1.0, "")])).unwrap();
    assert_eq!(passes(&engine, 40_000, 401, 1), 0);
}

#[test]
fn usage_is_kept_where_it_means_the_same() {
    let bucket = |burst: &str| flow(1, 10.0, &format!(r#","algorithm":"tokenBucket"{burst}"#));
    let other = |algorithm: &str| flow(1, 10.0, &format!(r#","algorithm":"{algorithm}""#));
    let window = |ms| flow(1, 10.0, &format!(r#","windowIntervalMs":{ms}"#));
    let cases = [
        (flow(1, 10.0, ""), flow(1, 15.0, ""), 5),
        (flow(1, 10.0, ""), flow(1, 10.0, r#","mode":"shadow","localCount":3"#), 20),
        // Sentinel's average lets (10 - 1) x 2 + 1 pass in two seconds.
        (flow(1, 10.0, ""), window(2_000), 19),
        (bucket(""), bucket(r#","burst":14"#), 4),
        (bucket(""), other("gcra"), 0),
        (bucket(""), other("leakyBucket"), 0),
        (bucket(""), other("slidingLog"), 10),
        (other("slidingLog"), other("slidingLog").replace("flow-1", "renamed"), 0),
        (other("fixedWindow"), flow(1, 10.0, ""), 10),
    ];
    for (before, after, right) in cases {
        let engine = engine(std::slice::from_ref(&before));
        assert_eq!(passes(&engine, 0, 1, 20), 10, "{before}");
        engine.replace(rules("ns", std::slice::from_ref(&after))).unwrap();
        assert_eq!(passes(&engine, 0, 1, 20), right, "{before} then {after}");
    }
}

#[test]
fn a_flow_that_moves_to_another_namespace_takes_its_usage_along() {
    let engine = engine(&[flow(1, 5.0, "")]);
    assert_eq!(passes(&engine, 0, 1, 3), 3);
    engine.replace(rules("elsewhere", &[flow(1, 5.0, "")])).unwrap();
    assert_eq!(passes(&engine, 0, 1, 9), 2);
    assert_eq!(engine.rules().flow(1).unwrap().namespace().name(), "elsewhere");
}

#[test]
fn a_rule_that_comes_back_finds_what_it_had_used() {
    let list = [flow(1, 5.0, ""), param(1, 5.0, "", "")];
    let engine = engine(&list);
    let values = |calls: usize| {
        let ask = || engine.snapshot().acquire_param(at(100), 1, 1, [limiter::Param::Int(7)]);
        (0..calls).filter(|_| ask().unwrap() != Decision::Block).count()
    };
    assert_eq!((passes(&engine, 100, 1, 3), values(4)), (3, 4));
    engine.replace(Vec::new()).unwrap();
    engine.tidy(at(900), wall(900));
    engine.replace(rules("ns", &list)).unwrap();
    assert_eq!((passes(&engine, 900, 1, 9), values(9)), (2, 1));
}

#[test]
fn what_a_batch_takes_of_a_rule_that_has_just_gone_is_found_when_it_comes_back() {
    let list = [flow(1, 5.0, ""), param(1, 5.0, "", "")];
    for (comes_back_first, tidies) in [(false, false), (false, true), (true, false), (true, true)] {
        let engine = engine(&list);
        let batch = engine.snapshot();
        let value = || [limiter::Param::Int(7)];
        let take_three = || {
            for _ in 0..3 {
                assert_ne!(batch.acquire_flow(at(100), 1, 1, false), Ok(Decision::Block));
                assert_ne!(batch.acquire_param(at(100), 1, 1, value()), Ok(Decision::Block));
            }
        };
        // Nobody had asked for it before.
        engine.replace(Vec::new()).unwrap();
        let come_back = || engine.replace(rules("ns", &list)).unwrap();
        if tidies {
            engine.tidy(at(100), wall(100));
        }
        if comes_back_first {
            come_back();
            take_three();
        } else {
            take_three();
            come_back();
        }
        assert_eq!(passes(&engine, 100, 1, 9), 2, "{comes_back_first} {tidies}");
        let ask = || engine.snapshot().acquire_param(at(100), 1, 1, value()).unwrap();
        assert_eq!((0..9).filter(|_| ask() != Decision::Block).count(), 2, "{tidies}");
    }
}

#[test]
fn a_rule_that_comes_back_late_starts_again() {
    let engine = engine(&[flow(1, 5.0, "")]);
    assert_eq!(passes(&engine, 100, 1, 5), 5);
    engine.replace(Vec::new()).unwrap();
    engine.tidy(at(1_100), wall(1_100));
    engine.replace(rules("ns", &[flow(1, 5.0, "")])).unwrap();
    assert_eq!(passes(&engine, 200, 1, 9), 5, "forgotten, so even an old tick finds it empty");
}

#[test]
fn a_rule_that_is_the_same_in_both_sets_is_one_object() {
    let engine = engine(&[flow(1, 5.0, ""), flow(2, 5.0, "")]);
    let before = engine.rules();
    engine.replace(rules("ns", &[flow(1, 5.0, ""), flow(2, 6.0, "")])).unwrap();
    let after = engine.rules();
    assert!(std::ptr::eq(before.flow(1).unwrap(), after.flow(1).unwrap()));
    assert!(!std::ptr::eq(before.flow(2).unwrap(), after.flow(2).unwrap()));
    assert_eq!(after.applied().revision, before.applied().revision + 1);
}

fn wall(ms: u64) -> std::time::SystemTime {
    std::time::UNIX_EPOCH + std::time::Duration::from_millis(START_MS + ms)
}

#[test]
fn a_calendar_period_is_that_of_the_wall_clock_and_never_opens_twice() {
    let engine = engine(&[flow(1, 2.0, r#","calendar":"day","timeZone":"America/New_York""#)]);
    // 2023-11-14 22:13:20 UTC is 17:13:20 there: 6 h 46 min 40 s before midnight.
    let midnight = (6 * 3_600 + 46 * 60 + 40) * 1_000;
    engine.tidy(at(0), wall(0));
    assert_eq!(passes(&engine, 0, 1, 5), 2);
    assert_eq!(passes(&engine, midnight - 1, 1, 5), 0);
    assert_eq!(passes(&engine, midnight, 1, 5), 2);
    // The wall clock steps back an hour, over midnight; the tick goes on.
    engine.tidy(at(midnight), wall(midnight - 3_600_000));
    assert_eq!(passes(&engine, midnight + 1_000, 1, 5), 0, "yesterday does not open again");
    assert_eq!(passes(&engine, midnight + 3_600_000, 1, 5), 0, "nor does today");
}
