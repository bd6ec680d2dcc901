//! Mistakes that were made once, each with how it came about.

use std::time::UNIX_EPOCH;

use limiter::{Ask, ClusterEngine, Decision, Param, What};

use super::{at, engine, load, ms, rule};

fn take(engine: &ClusterEngine, after: u64, count: i32) -> Decision {
    engine.rules().acquire_flow(at(after), 1, count, false).unwrap()
}

/// Tokens that count.
fn used(engine: &ClusterEngine, after: u64) -> u64 {
    let peek = Ask { peek: true, ..Ask::default() };
    engine.rules().ask(at(after), &What::Flow { id: 1, count: 1 }, peek).unwrap().used
}

fn bucket(count: u32, window: &str) -> String {
    let algorithm = r#","algorithm":"tokenBucket","burst":10"#;
    rule(count, "", &format!("{algorithm}{window}"))
}

/// A bucket is brought to a new rate when it is next used, not when the rule changes. What
/// dripped in since it was used last must be by the slower of the two.
#[test]
fn a_bucket_whose_rate_was_changed_refills_by_the_slower_until_it_is_used() {
    for (before, after) in [(10, 1), (1, 10)] {
        let engine = engine();
        load(&engine, &[bucket(before, "")]);
        assert_eq!(take(&engine, 0, 10), Decision::Pass { remaining: 0 });
        load(&engine, &[bucket(after, "")]);
        assert_eq!(used(&engine, 1_000), 9, "{before} and then {after} a second");
    }
}

/// How much a bucket had refilled since tokens were taken was worked out with the rate of now. At
/// the faster rate of before they were all there again, and were given back a second time.
#[test]
fn tokens_that_were_taken_at_another_rate_are_not_given_back() {
    let engine = engine();
    load(&engine, &[bucket(10, "")]);
    take(&engine, 0, 3);
    take(&engine, 500, 1);
    load(&engine, &[bucket(1, "")]);
    take(&engine, 500, 1);
    let three = What::Flow { id: 1, count: 3 };
    engine.rules().give_back(at(500), &three, ms(500)).unwrap();
    assert_eq!(used(&engine, 500), 2);
    let one = What::Flow { id: 1, count: 1 };
    engine.rules().give_back(at(500), &one, ms(0)).unwrap();
    assert_eq!(used(&engine, 500), 1, "this one was taken at the rate of now");
}

/// A rule without a rule's counter is forgotten when its window holds nothing. Its leases may
/// outlive the window.
#[test]
fn a_lease_that_is_longer_than_the_window_keeps_the_counter_of_a_rule_that_went() {
    let engine = engine();
    load(&engine, &[rule(10, "", r#","lease":{"maxTokens":8,"ttlMs":5000}"#)]);
    let leased = engine.rules().lease(at(0), 1, 8, None).unwrap().unwrap();
    assert_eq!(leased.granted, 5);
    load(&engine, &[]);
    engine.tidy(at(3_000), UNIX_EPOCH);
    load(&engine, &[rule(10, "", "")]);
    assert_eq!(take(&engine, 3_000, 6), Decision::Block);
    assert_eq!(take(&engine, 3_000, 5), Decision::Pass { remaining: 0 });
    load(&engine, &[]);
    engine.tidy(at(5_999), UNIX_EPOCH);
    load(&engine, &[rule(10, "", "")]);
    assert_eq!(used(&engine, 5_999), 5, "one window after its end");
    load(&engine, &[]);
    engine.tidy(at(6_100), UNIX_EPOCH);
    load(&engine, &[rule(10, "", "")]);
    assert_eq!(used(&engine, 6_100), 0);
}

/// A rule of count 0 has no algorithm that could read what was saved, so it was forgotten, and a
/// restart in between reopened the rule. What stands in must not refill meanwhile either.
#[test]
fn a_rule_that_is_set_to_nothing_for_a_restart_keeps_what_was_used() {
    let minute = r#","thresholdUnit":"window","windowIntervalMs":60000"#;
    for config in [
        minute.to_owned(),
        format!(r#"{minute},"algorithm":"slidingLog""#),
        format!(r#"{minute},"algorithm":"gcra""#),
    ] {
        let with =
            |count: u32| [rule(count, "", &config), rule(count, r#""paramIdx":0,"#, &config)];
        let before = engine();
        load(&before, &with(10));
        let values = &[Param::Long(7)];
        let both = [What::Flow { id: 1, count: 10 }, What::Param { id: 1, count: 10, values }];
        for what in &both {
            before.rules().ask(at(0), what, Ask::default()).unwrap();
        }
        load(&before, &with(0));
        let mut records = Vec::new();
        let saved: Result<(), ()> = before.save(at(10), |record| {
            records.push(record);
            Ok(())
        });
        saved.unwrap();
        let after = engine();
        after.restore(at(10), at(10), records);
        load(&after, &with(0));
        let one = [What::Flow { id: 1, count: 1 }, What::Param { id: 1, count: 1, values }];
        let decide = |what| after.rules().ask(at(600), what, Ask::default()).unwrap().decision;
        assert_eq!(one.each_ref().map(decide), [Decision::Block; 2], "{config}");
        after.tidy(at(700), UNIX_EPOCH);
        load(&after, &with(10));
        assert_eq!(one.each_ref().map(decide), [Decision::Block; 2], "{config}");
    }
}
