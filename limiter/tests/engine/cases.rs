//! Cases that users of Sentinel and other limiters reported, through the whole engine. The numbers
//! are those of the collection that the project keeps.

use std::{sync::Barrier, thread};

use limiter::{
    Ask, ClusterEngine, Decision, What,
    rule::{Contents, parse},
};

use super::{at, engine, load, ms, rule};

const PASS: fn(u64) -> Decision = |remaining| Decision::Pass { remaining };

fn take(engine: &ClusterEngine, ms: u64, count: i32, prioritized: bool) -> Decision {
    engine.rules().acquire_flow(at(ms), 1, count, prioritized).unwrap()
}

fn passes(engine: &ClusterEngine, ms: u64, calls: u32) -> usize {
    (0..calls).filter(|_| matches!(take(engine, ms, 1, false), Decision::Pass { .. })).count()
}

#[test]
fn tc_01_a_window_longer_than_a_second() {
    let times = [100, 200, 300, 400, 500, 600, 700];
    let answers = |config: &str| {
        let engine = engine();
        load(&engine, &[rule(2, "", config)]);
        let answers = times.map(|ms| take(&engine, ms, 1, false));
        (answers, take(&engine, 2_999, 1, false), take(&engine, 3_000, 1, false))
    };
    let window = r#","windowIntervalMs":3000,"sampleCount":10"#;
    let (compat, ..) = answers(window);
    let block = Decision::Block;
    assert_eq!(compat, [PASS(1), PASS(0), PASS(0), PASS(0), block, block, block]);

    let strict = format!(r#"{window},"thresholdUnit":"window""#);
    for algorithm in ["", r#","algorithm":"fixedWindow""#] {
        let (strict, late, next) = answers(&format!("{strict}{algorithm}"));
        assert_eq!(strict, [PASS(1), PASS(0), block, block, block, block, block]);
        assert_eq!((late, next), (block, PASS(1)));
    }

    for (count, window_ms, compat, strict) in [(30, 4_000, 117, 30), (10, 60_000, 541, 10)] {
        let window = format!(r#","windowIntervalMs":{window_ms}"#);
        let engine = engine();
        load(&engine, &[rule(count, "", &window)]);
        assert_eq!(passes(&engine, 0, 600), compat);
        for algorithm in ["slidingWindow", "fixedWindow", "slidingLog", "tokenBucket", "gcra"] {
            let unit = format!(r#"{window},"thresholdUnit":"window","algorithm":"{algorithm}""#);
            let engine = super::engine();
            load(&engine, &[rule(count, "", &unit)]);
            assert_eq!(passes(&engine, 0, 600), strict, "{algorithm}");
        }
    }
}

#[test]
fn tc_02_tokens_are_counted_and_not_requests() {
    let algorithms =
        ["slidingWindow", "fixedWindow", "slidingLog", "tokenBucket", "leakyBucket", "gcra"];
    for algorithm in algorithms {
        let engine = engine();
        load(&engine, &[rule(10, "", &format!(r#","algorithm":"{algorithm}""#))]);
        let answers = [(0, 5), (0, 5), (0, 5), (10, 11), (1_000, 10)]
            .map(|(ms, count)| take(&engine, ms, count, false));
        let block = Decision::Block;
        assert_eq!(answers, [PASS(5), PASS(0), block, block, PASS(0)], "{algorithm}");
    }
}

#[test]
fn tc_03_a_priority_wait_lasts_until_the_bucket_that_was_booked() {
    let engine = engine();
    load(&engine, &[rule(10, "", r#","windowIntervalMs":2000,"sampleCount":10"#)]);
    assert_eq!(passes(&engine, 10, 30), 19);
    assert_eq!(take(&engine, 1_810, 1, true), Decision::Wait { wait: ms(190) });
    assert_eq!(engine.rules().flow(1).unwrap().usage(at(2_000)), (1, 0));

    load(&engine, &[rule(10, "", "")]);
    assert_eq!(passes(&engine, 10_000, 30), 10);
    assert_eq!(take(&engine, 10_900, 1, true), Decision::Wait { wait: ms(100) });
}

#[test]
fn tc_14_pacing_is_precise_lets_one_of_a_crowd_go_and_takes_fractions() {
    let pacing = |count: f64, queue_ms| {
        let engine = engine();
        let fields = format!(r#""controlBehavior":2,"maxQueueingTimeMs":{queue_ms},"#);
        load(&engine, &[rule(count, &fields, "")]);
        engine
    };
    for (rate, admitted) in [(160, 81), (170, 86), (1_000, 501), (2_000, 1_001), (5_000, 2_501)] {
        let engine = pacing(f64::from(rate), 500);
        let waits: Vec<u128> = (0..3_000)
            .filter_map(|_| match take(&engine, 0, 1, false) {
                Decision::Pass { .. } => Some(0),
                Decision::Wait { wait } => Some(wait.as_nanos()),
                Decision::Block => None,
            })
            .collect();
        assert_eq!(waits.len(), admitted, "{rate} a second");
        for (k, wait) in waits.into_iter().enumerate() {
            assert_eq!(wait, (k as u128 * 1_000_000_000).div_ceil(rate as u128));
        }
    }

    let (crowd, start) = (pacing(1.0, 1), Barrier::new(8));
    let passed: usize = thread::scope(|scope| {
        let one = || {
            start.wait();
            passes(&crowd, 0, 125)
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 1);

    let fifth = pacing(0.2, 500);
    assert_eq!(take(&fifth, 0, 1, false), PASS(0));
    assert_eq!(take(&fifth, 4_400, 1, false), Decision::Block);
    assert_eq!(take(&fifth, 4_600, 1, false), Decision::Wait { wait: ms(400) });
}

#[test]
fn tc_17_a_rule_push_keeps_what_was_used() {
    let algorithms = ["slidingWindow", "fixedWindow", "slidingLog", "tokenBucket"];
    for algorithm in algorithms {
        let engine = engine();
        let of = |id: i64, count: u32| {
            let config = format!(
                r#","thresholdUnit":"window","windowIntervalMs":60000,"algorithm":"{algorithm}""#
            );
            rule(count, "", &config).replace(r#""flowId":1"#, &format!(r#""flowId":{id}"#))
        };
        // From the start of a minute on.
        let calls = |second: u64, calls| passes(&engine, 48_000 + 1_000 * second, calls);
        load(&engine, &[of(1, 5)]);
        assert_eq!((0..5).map(|second| calls(second, 1)).sum::<usize>(), 5, "{algorithm}");
        // A bucket refills a token in 12 s, of which less than 6 have gone.
        assert_eq!(calls(5, 1), 0);
        load(&engine, &[of(1, 5)]);
        assert_eq!(calls(11, 1), 0);
        load(&engine, &[of(1, 10)]);
        let refilled = if algorithm == "tokenBucket" { 1 } else { 0 };
        assert_eq!(calls(20, 8), 5 + refilled, "{algorithm}");
        load(&engine, &[of(1, 3)]);
        assert_eq!(calls(30, 1), 0, "{algorithm}");
        load(&engine, &[of(1, 3), of(2, 3)]);
        assert_eq!(calls(40, 1), 0, "{algorithm}");
    }
}

#[test]
fn tc_18_two_clients_in_a_closed_loop_are_paced_together() {
    let engine = engine();
    load(&engine, &[rule(3, r#""controlBehavior":2,"maxQueueingTimeMs":1000,"#, "")]);
    // When each client asks next, in nanoseconds: as soon as its call has gone.
    let (mut next, mut calls, start) = ([0_u64; 2], 0, at(0).0);
    while let Some(client) = (0..2).min_by_key(|client| next[*client])
        && next[client] < 10_000_000_000
    {
        let now = limiter::Tick(start + next[client]);
        match engine.rules().acquire_flow(now, 1, 1, false).unwrap() {
            Decision::Pass { .. } => next[client] += 1,
            Decision::Wait { wait } => next[client] += wait.as_nanos() as u64,
            Decision::Block => panic!("the queue has room for three"),
        }
        calls += usize::from(next[client] <= 10_000_000_000);
    }
    assert!((29..=31).contains(&calls), "{calls}");
}

#[test]
fn tc_18_what_cannot_be_is_refused_with_its_field_and_the_rules_before_stay() {
    let engine = engine();
    load(&engine, &[rule(1, "", "")]);
    let no_id = r#"{"resource":"r","count":3,"clusterMode":true,"clusterConfig":{}}"#;
    for (text, field) in [
        (no_id.to_owned(), "clusterConfig.flowId"),
        (rule(-1, "", ""), "count"),
        (rule(1, "", r#","windowIntervalMs":0"#), "clusterConfig.windowIntervalMs"),
        (
            rule(1, "", r#","windowIntervalMs":1000,"sampleCount":3"#),
            "clusterConfig.windowIntervalMs",
        ),
        (rule(1, r#""grade":0,"#, r#","algorithm":"gcra""#), "clusterConfig.algorithm"),
    ] {
        let errors = parse(&format!("[{text}]"), "test", "ns", Contents::Mixed, true).unwrap_err();
        assert!(errors.0.iter().any(|error| &*error.field == field), "{text}: {errors}");
    }
    let peek = Ask { peek: true, ..Ask::default() };
    let explained = engine.rules().ask(at(0), &What::Flow { id: 1, count: 1 }, peek).unwrap();
    assert_eq!((explained.decision, explained.threshold), (PASS(0), 1.0));
}
