//! A counter as an object: look, give back, charge, reset, lease.

use std::time::Duration;

use limiter::{Ask, Decision, Leased, Tick, Undecided, What};

use crate::{at, engine, flow, param, passes, take};

const KINDS: [&str; 7] = [
    "",
    r#","algorithm":"fixedWindow""#,
    r#","algorithm":"slidingLog""#,
    r#","algorithm":"tokenBucket""#,
    r#","algorithm":"leakyBucket""#,
    r#","algorithm":"gcra""#,
    r#","calendar":"minute""#,
];

const FIVE: What<'_> = What::Flow { id: 1, count: 5 };

#[test]
fn a_peek_takes_nothing_and_tells_what_there_is() {
    for kind in KINDS {
        let engine = engine(&[flow(1, 10.0, kind)]);
        take(&engine, 0, 1, 3);
        let peek = Ask { peek: true, ..Ask::default() };
        for _ in 0..9 {
            let told = engine.snapshot().ask(at(0), &FIVE, peek).unwrap();
            assert_eq!((told.decision, told.used), (Decision::Pass { remaining: 2 }, 3), "{kind}");
            assert_eq!((told.threshold, &*told.resource), (10.0, "flow-1"));
        }
        let totals = engine.rules().flow(1).unwrap().totals();
        assert_eq!(totals.pass_requests, 1, "a peek is no request");
    }
}

#[test]
fn what_is_given_back_at_once_can_be_taken_again() {
    for kind in KINDS {
        let engine = engine(&[flow(1, 10.0, kind)]);
        assert_eq!(passes(&engine, 0, 1, 20), 10, "{kind}");
        engine.snapshot().give_back(at(0), &FIVE, Duration::ZERO).unwrap();
        assert_eq!(passes(&engine, 0, 1, 20), 5, "{kind}");
    }
}

#[test]
fn what_no_longer_counts_is_not_given_back() {
    for kind in KINDS {
        let engine = engine(&[flow(1, 10.0, kind)]);
        take(&engine, 0, 1, 5);
        let later = if kind.contains("calendar") { 60_000 } else { 1_000 };
        assert_eq!(passes(&engine, later, 1, 20), 10, "{kind}");
        engine.snapshot().give_back(at(later), &FIVE, Duration::from_millis(later)).unwrap();
        assert_eq!(passes(&engine, later, 1, 20), 0, "{kind}");
    }
}

#[test]
fn a_cost_that_is_known_only_afterwards_is_charged_over_the_limit() {
    // Take 1, later charge 731 more.
    for kind in KINDS {
        let engine = engine(&[flow(1, 100.0, kind)]);
        take(&engine, 0, 1, 1);
        let more = What::Flow { id: 1, count: 731 };
        engine.snapshot().charge(at(200), &more).unwrap();
        assert_eq!(passes(&engine, 200, 1, 5), 0, "{kind}");
        let peek = Ask { peek: true, ..Ask::default() };
        let told = engine.snapshot().ask(at(200), &What::Flow { id: 1, count: 1 }, peek).unwrap();
        let retry = told.retry.unwrap();
        // A window forgets it as a whole; a bucket refills 100 a second.
        let bounds = match kind {
            k if k.contains("Bucket") || k.contains("gcra") => 6_120..6_331,
            k if k.contains("calendar") => 1..60_000,
            _ => 1..1_001,
        };
        assert!(bounds.contains(&retry.as_millis()), "{kind}: {told:?}");
    }
}

#[test]
fn a_charge_moves_a_queue_back() {
    let paced = flow(1, 10.0, "").replace("\"count\"", "\"controlBehavior\":2,\"count\"");
    let engine = engine(&[paced]);
    take(&engine, 0, 1, 1);
    engine.snapshot().charge(at(0), &What::Flow { id: 1, count: 3 }).unwrap();
    assert_eq!(take(&engine, 0, 1, 1), Decision::Wait { wait: Duration::from_millis(400) });
}

#[test]
fn a_reset_forgets_what_was_used() {
    for kind in KINDS {
        let engine = engine(&[flow(1, 10.0, kind)]);
        assert_eq!(passes(&engine, 0, 1, 20), 10);
        engine.snapshot().reset(at(0), &What::Flow { id: 1, count: 0 }).unwrap();
        assert_eq!(passes(&engine, 0, 1, 20), 10, "{kind}");
    }
}

#[test]
fn values_are_given_back_charged_and_reset_one_by_one() {
    let engine = engine(&[param(1, 10.0, "", "")]);
    let (a, b) = ([limiter::Param::Int(1)], [limiter::Param::Int(2)]);
    let what = |values, count| What::Param { id: 1, count, values };
    let left = |values| {
        let peek = Ask { peek: true, ..Ask::default() };
        let told = engine.snapshot().ask(at(0), &what(values, 1), peek).unwrap();
        (told.used, told.decision != Decision::Block)
    };
    let rules = engine.snapshot();
    rules.charge(at(0), &what(&a, 30)).unwrap();
    assert_eq!((left(&a), left(&b)), ((30, false), (0, true)));
    rules.give_back(at(0), &what(&a, 22), Duration::ZERO).unwrap();
    assert_eq!(left(&a), (8, true));
    rules.give_back(at(0), &what(&b, 22), Duration::ZERO).unwrap();
    assert_eq!(left(&b), (0, true), "nothing to give back to");
    rules.reset(at(0), &what(&a, 1)).unwrap();
    assert_eq!(left(&a), (0, true));
}

#[test]
fn what_does_not_exist_is_said() {
    let engine = engine(&[flow(1, 1.0, "")]);
    let rules = engine.snapshot();
    let missing = What::Flow { id: 9, count: 1 };
    assert_eq!(rules.charge(at(0), &missing), Err(Undecided::NoRule));
    assert_eq!(rules.give_back(at(0), &missing, Duration::ZERO), Err(Undecided::NoRule));
    assert_eq!(rules.reset(at(0), &missing), Err(Undecided::NoRule));
    assert_eq!(rules.lease(at(0), 9, 1, None), Err(Undecided::NoRule));
    let none = What::Flow { id: 1, count: 0 };
    assert_eq!(rules.charge(at(0), &none), Err(Undecided::BadRequest));
}

#[test]
fn calls_in_progress_are_explained_but_not_taken_without_an_owner() {
    let engine = engine(&[flow(1, 2.0, "").replace("\"count\"", "\"grade\":0,\"count\"")]);
    let owner = engine.owner();
    engine.rules().acquire_concurrent(at(0), 1, 1, owner).unwrap();
    let what = What::Flow { id: 1, count: 1 };
    let told = engine.snapshot().ask(at(0), &what, Ask { peek: true, ..Ask::default() }).unwrap();
    assert_eq!((told.used, told.limit()), (1, "2 concurrent".to_owned()));
    let taken = engine.snapshot().ask(at(0), &what, Ask::default());
    assert_eq!(taken, Err(Undecided::BadRequest));
}

#[test]
fn calls_whose_time_is_over_are_not_explained_as_in_progress_though_nobody_tidied() {
    let rule = flow(1, 2.0, r#","resourceTimeout":100"#);
    let engine = engine(&[rule.replace("\"count\"", "\"grade\":0,\"count\"")]);
    let owner = engine.owner();
    for ms in [0, 1] {
        assert!(engine.rules().acquire_concurrent(at(ms), 1, 1, owner).unwrap().is_some());
    }
    let peek = |now| {
        let (what, ask) = (What::Flow { id: 1, count: 1 }, Ask { peek: true, ..Ask::default() });
        let told = engine.snapshot().ask(now, &what, ask).unwrap();
        (told.decision, told.used)
    };
    assert_eq!(peek(Tick(at(100).0 - 1)), (Decision::Block, 2));
    assert_eq!(peek(at(100)), (Decision::Pass { remaining: 0 }, 1));
    assert_eq!(peek(at(101)), (Decision::Pass { remaining: 1 }, 0));
}

#[test]
fn a_lease_is_half_of_what_is_left_at_most_and_counts_until_a_window_after_its_end() {
    let engine = engine(&[flow(1, 10.0, r#","lease":{"maxTokens":4,"ttlMs":300}"#)]);
    let lease =
        |ms, want, returned| engine.snapshot().lease(at(ms), 1, want, returned).unwrap().unwrap();
    let first = lease(0, 9, None);
    assert_eq!((first.granted, first.ttl), (4, Duration::from_millis(300)));
    let second = lease(0, 9, None);
    assert_eq!(second.granted, 3, "half of six");
    assert_eq!(passes(&engine, 0, 1, 9), 3);
    let back = lease(100, 0, Some((first.id.unwrap(), 1)));
    assert_eq!(back, Leased { id: None, granted: 0, ttl: Duration::ZERO });
    assert_eq!(passes(&engine, 100, 1, 9), 3, "three of four came back");
    assert_eq!(passes(&engine, 1_000, 1, 9), 3, "those of the start have left");
    // The second lease ended in the bucket of 300.
    assert_eq!((passes(&engine, 1_299, 1, 9), passes(&engine, 1_300, 1, 9)), (4, 3));
}

#[test]
fn a_rule_without_a_lease_grants_none() {
    let engine = engine(&[flow(1, 10.0, "")]);
    assert!(engine.snapshot().lease(Tick::from_ms(5), 1, 1, None).unwrap().is_err());
}
