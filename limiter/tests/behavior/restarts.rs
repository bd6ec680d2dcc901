//! What was used survives a restart for as long as it counts.

use limiter::{ClusterEngine, Decision, Param, Record, Restored, Settings, Tick};

use crate::{at, engine, flow, param, passes, rules, take};

fn saved(engine: &ClusterEngine, ms: u64) -> Vec<Record> {
    let mut records = Vec::new();
    engine
        .save(at(ms), |record| {
            records.push(record);
            Ok::<(), ()>(())
        })
        .unwrap();
    records
}

/// A process that starts at `ms` with what another saved at `saved_at`.
fn restarted(list: &[String], ms: u64, saved_at: u64, records: Vec<Record>) -> ClusterEngine {
    let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
    engine.restore(at(ms), at(saved_at), records);
    engine.replace(rules("ns", list)).unwrap();
    engine
}

const KINDS: [&str; 7] = [
    "",
    r#","windowIntervalMs":86400000,"sampleCount":24,"thresholdUnit":"window""#,
    r#","algorithm":"fixedWindow","windowIntervalMs":60000,"thresholdUnit":"window""#,
    r#","algorithm":"slidingLog","windowIntervalMs":60000,"thresholdUnit":"window""#,
    r#","algorithm":"tokenBucket","windowIntervalMs":60000,"thresholdUnit":"window""#,
    r#","calendar":"month","timeZone":"Europe/Berlin""#,
    r#","lease":{"maxTokens":9,"ttlMs":500}"#,
];

#[test]
fn five_a_day_do_not_start_again() {
    for kind in KINDS {
        let list = [flow(1, 5.0, kind)];
        let before = engine(&list);
        assert_eq!(passes(&before, 0, 1, 3), 3);
        let after = restarted(&list, 20, 10, saved(&before, 10));
        assert_eq!(passes(&after, 20, 1, 9), 2, "{kind}");
        // Once more, with what the second process used.
        let third = restarted(&list, 40, 30, saved(&after, 30));
        assert_eq!(passes(&third, 40, 1, 9), 0, "{kind}");
    }
}

#[test]
fn what_no_longer_counts_is_not_even_written() {
    let before = engine(&[flow(1, 5.0, ""), flow(2, 5.0, "")]);
    assert_eq!(passes(&before, 0, 1, 3), 3);
    assert_eq!(saved(&before, 999).len(), 1, "flow 2 was never used");
    assert_eq!(saved(&before, 1_000).len(), 0);
}

#[test]
fn what_is_older_than_its_window_by_now_does_not_count() {
    let list = [flow(1, 5.0, "")];
    let before = engine(&list);
    assert_eq!(passes(&before, 0, 1, 5), 5);
    let after = restarted(&list, 1_000, 10, saved(&before, 10));
    assert_eq!(passes(&after, 1_000, 1, 9), 5);
}

#[test]
fn numbers_may_have_changed_but_another_window_begins_anew() {
    let before =
        engine(&[flow(1, 10.0, ""), flow(2, 10.0, r#","algorithm":"gcra""#), flow(3, 10.0, "")]);
    for id in 1..=3 {
        assert_eq!(passes(&before, 0, id, 4), 4);
    }
    let list = [
        flow(1, 6.0, ""),
        flow(2, 6.0, r#","algorithm":"tokenBucket""#),
        flow(3, 10.0, r#","windowIntervalMs":500"#),
    ];
    let after = restarted(&list, 0, 0, saved(&before, 0));
    assert_eq!(
        [1, 2, 3].map(|id| passes(&after, 0, id, 20)),
        [2, 2, 5],
        "5 in half a second is 10 a second"
    );
}

#[test]
fn hot_values_and_those_beyond_the_cap_are_kept_too() {
    let items = r#","paramFlowItemList":[{"object":"9","count":7,"classType":"int"}]"#;
    for cluster in ["", r#","algorithm":"tokenBucket""#] {
        let list = [param(1, 5.0, items, cluster)];
        let settings = Settings { max_allowed_qps: None, values_max: 2, ..Settings::default() };
        let before = ClusterEngine::new(settings);
        before.replace(rules("ns", &list)).unwrap();
        let left = |engine: &ClusterEngine, value| {
            let ask = || engine.snapshot().acquire_param(at(0), 1, 1, [Param::Int(value)]).unwrap();
            (0..20).filter(|_| ask() != Decision::Block).count()
        };
        before.snapshot().acquire_param(at(0), 1, 3, [Param::Int(9)]).unwrap();
        before.snapshot().acquire_param(at(0), 1, 4, [Param::Int(1)]).unwrap();
        before.snapshot().acquire_param(at(0), 1, 2, [Param::Int(2)]).unwrap();
        let records = saved(&before, 0);
        let after = ClusterEngine::new(settings);
        let restored = after.restore(at(0), at(0), records);
        assert_eq!(restored, Restored { flows: 0, values: 2 });
        after.replace(rules("ns", &list)).unwrap();
        assert_eq!([9, 1, 3].map(|value| left(&after, value)), [4, 1, 3], "{cluster}");
    }
}

fn take_of(engine: &ClusterEngine, ms: u64, value: i64, count: i32) -> Decision {
    engine.snapshot().acquire_param(at(ms), 1, count, [Param::Long(value)]).unwrap()
}

fn with_values_max(values_max: usize) -> ClusterEngine {
    ClusterEngine::new(Settings { max_allowed_qps: None, values_max, ..Settings::default() })
}

#[test]
fn after_a_restart_the_value_that_falls_idle_first_makes_room_first() {
    let list = [param(1, 5.0, "", "")];
    let before = with_values_max(3);
    before.replace(rules("ns", &list)).unwrap();
    for (ms, value) in [(0, 1), (100, 2), (200, 3), (900, 1)] {
        take_of(&before, ms, value, 2);
    }
    let after = with_values_max(3);
    after.restore(at(950), at(950), saved(&before, 950));
    after.replace(rules("ns", &list)).unwrap();
    assert_eq!(take_of(&after, 1_150, 4, 1), Decision::Pass { remaining: 4 });
    let totals = after.rules().param(1).unwrap().totals();
    assert_eq!((totals.values, totals.overflow_uses), (3, 0), "in the place of 2");
    assert_eq!(take_of(&after, 1_150, 1, 4), Decision::Block, "1 is still there");
}

/// Each with the time at which all that was used is there again.
const OF_VALUES: [(&str, &str, u64); 6] = [
    ("", "", 1_000),
    ("", r#","algorithm":"fixedWindow""#, 1_000),
    ("", r#","algorithm":"slidingLog""#, 1_000),
    ("", r#","algorithm":"tokenBucket""#, 1_200),
    ("", r#","calendar":"minute""#, 60_000),
    (r#","controlBehavior":2,"maxQueueingTimeMs":800"#, "", 2_000),
];

#[test]
fn values_beyond_a_smaller_cap_take_no_more_than_was_left_to_each() {
    for (fields, cluster, whole) in OF_VALUES {
        let list = [param(1, 5.0, fields, cluster)];
        let left = |engine: &ClusterEngine, ms, value| {
            (0..20).filter(|_| take_of(engine, ms, value, 1) != Decision::Block).count()
        };
        let before = with_values_max(9);
        before.replace(rules("ns", &list)).unwrap();
        for (value, uses) in [(1_i64, 1), (2, 4), (3, 2), (4, 3), (5, 1)] {
            for _ in 0..uses {
                take_of(&before, 10 * value.unsigned_abs(), value, 1);
            }
        }
        let records = || saved(&before, 60);
        // Each alone, so that none is refused for what another takes now.
        for value in 1..=5 {
            let (same, smaller) = (with_values_max(9), with_values_max(2));
            for engine in [&same, &smaller] {
                engine.restore(at(60), at(60), records());
                engine.replace(rules("ns", &list)).unwrap();
            }
            assert_eq!(smaller.rules().param(1).unwrap().totals().values, 2);
            let (was_left, is_left) = (left(&same, 60, value), left(&smaller, 60, value));
            if value >= 4 {
                assert_eq!(is_left, was_left, "{fields}{cluster}: {value} was among the last used");
            } else {
                assert!(is_left <= was_left, "{fields}{cluster}: {value} took {is_left}");
            }
            // It does not shut anybody out for longer than what was used counts.
            let free = with_values_max(2);
            free.restore(at(60), at(60), records());
            free.replace(rules("ns", &list)).unwrap();
            let fresh = if fields.is_empty() { 5 } else { 4 };
            assert!(left(&free, 60 + whole, value) >= fresh, "{fields}{cluster}: {value}");
        }
    }
}

#[test]
fn what_is_shared_after_a_smaller_cap_is_what_two_values_had_used_at_most() {
    let list = [param(1, 10.0, "", "")];
    let before = with_values_max(100);
    before.replace(rules("ns", &list)).unwrap();
    for value in 0..100 {
        take_of(&before, 0, value, 3);
    }
    let after = with_values_max(1);
    after.restore(at(0), at(0), saved(&before, 0));
    after.replace(rules("ns", &list)).unwrap();
    assert_eq!(take_of(&after, 0, 1_000, 1), Decision::Pass { remaining: 3 });
}

#[test]
fn a_rule_that_is_loaded_later_still_finds_its_use_and_is_written_meanwhile() {
    let day = flow(1, 5.0, KINDS[1]);
    let before = engine(std::slice::from_ref(&day));
    assert_eq!(passes(&before, 0, 1, 5), 5);
    let second = restarted(&[], 10, 0, saved(&before, 0));
    let third = restarted(&[], 20, 15, saved(&second, 15));
    third.replace(rules("ns", &[day])).unwrap();
    assert_eq!(passes(&third, 30, 1, 5), 0);
}

#[test]
fn a_clock_that_starts_behind_the_last_one_blocks_nobody_for_longer_than_a_window() {
    let list = [flow(1, 5.0, ""), flow(2, 5.0, r#","algorithm":"tokenBucket""#)];
    let before = engine(&list);
    assert_eq!((passes(&before, 60_000, 1, 9), passes(&before, 60_000, 2, 9)), (5, 5));
    let after = restarted(&list, 0, 60_000, saved(&before, 60_000));
    assert_eq!((passes(&after, 0, 1, 9), passes(&after, 0, 2, 9)), (0, 0), "an hour was lost");
    assert_eq!((passes(&after, 1_100, 1, 9), passes(&after, 1_100, 2, 9)), (5, 5));
    assert_eq!(take(&after, 2_200, 1, 5), Decision::Pass { remaining: 0 });
    let _the_end_of_time =
        restarted(&list, 0, 0, saved(&before, 0)).save(Tick(u64::MAX), |_| Err(()));
}
