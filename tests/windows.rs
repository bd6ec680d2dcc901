//! Windows as users expect them, over the wire and on a manual clock. Times are milliseconds from
//! the start of a window.

use limiter::{Settings, Tick};
use support::{InProcess, Wire, flow_rule, parsed, status::*};

/// The start of a window of 2, 3, 4 and 60 seconds alike.
const START: u64 = 1_700_000_040_000;

/// The connection stands first, since a server that ends waits for those that stay.
struct Scene {
    wire: Wire,
    server: InProcess,
}

impl Scene {
    fn with(rules: &[String]) -> Self {
        let server = InProcess::start(Settings::default());
        let wire = Wire::connect(server.addr);
        let scene = Self { wire, server };
        scene.push(rules);
        scene
    }

    fn push(&self, rules: &[String]) {
        self.server.engine.replace(parsed(rules)).unwrap();
    }

    /// The connection at the time `ms`.
    fn at(&mut self, ms: u64) -> &mut Wire {
        self.server.clock.set(Tick::from_ms(START + ms));
        &mut self.wire
    }
}

/// Further fields of a rule with ten buckets.
fn window(ms: u64, unit: &str) -> String {
    format!(r#","windowIntervalMs":{ms},"sampleCount":10,"thresholdUnit":"{unit}""#)
}

/// TC-01, first input.
#[test]
fn two_in_three_seconds_are_four_by_sentinels_average_and_two_by_the_window() {
    for (unit, remaining) in [("sentinel", &[1, 0, 0, 0][..]), ("window", &[1, 0])] {
        let mut scene = Scene::with(&[flow_rule(101, 2.0, &window(3_000, unit))]);
        let mut passed = Vec::new();
        for ms in (100..=700).step_by(100) {
            let answer = scene.at(ms).ask(101, 1, 1)[0];
            match answer.status {
                OK => passed.push(answer.remaining),
                refused => assert_eq!(refused, BLOCKED),
            }
        }
        assert_eq!(passed, remaining, "{unit}");
        assert_eq!(scene.at(2_999).status(101), BLOCKED);
        assert_eq!(scene.at(3_000).status(101), OK);
    }
}

/// TC-01, second and third input.
#[test]
fn a_long_window_lets_through_sentinels_average_or_exactly_its_count() {
    for (count, ms, calls, average) in [(30, 4_000, 400, 117), (10, 60_000, 1_000, 541)] {
        for (unit, expected) in [("sentinel", average), ("window", count)] {
            let mut scene = Scene::with(&[flow_rule(1, f64::from(count), &window(ms, unit))]);
            let passed = scene.at(0).passes(1, calls);
            assert_eq!(passed, usize::try_from(expected).unwrap(), "{count} in {ms} ms, {unit}");
            assert_eq!(scene.at(ms - 1).passes(1, 10), 0);
            assert_eq!(scene.at(ms).passes(1, calls), usize::try_from(expected).unwrap());
        }
    }
}

/// TC-02.
#[test]
fn tokens_are_counted_and_not_requests() {
    let mut scene = Scene::with(&[flow_rule(1, 10.0, "")]);
    let answers = scene.at(0).ask(1, 5, 3);
    let statuses: Vec<i8> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [OK, OK, BLOCKED]);
    assert_eq!((answers[0].remaining, answers[1].remaining), (5, 0));
    assert_eq!(scene.at(10).ask(1, 11, 1)[0].status, BLOCKED, "more than the rule ever has");
    let fresh = scene.at(1_000).ask(1, 10, 1)[0];
    assert_eq!((fresh.status, fresh.remaining), (OK, 0));
}

/// TC-03.
#[test]
fn a_prioritized_caller_waits_for_the_next_bucket_which_then_holds_its_token() {
    let mut scene = Scene::with(&[flow_rule(1, 10.0, &window(2_000, "sentinel"))]);
    // (10 - 1) × 2 + 1 by Sentinel's average.
    assert_eq!(scene.at(10).passes(1, 30), 19);
    let booked = scene.at(1_810).ask_with_priority(1);
    assert_eq!(booked.status, SHOULD_WAIT);
    assert!((190..=200).contains(&booked.wait_ms), "until 2000: {booked:?}");
    assert_eq!(scene.at(2_000).passes(1, 30), 18, "one less than a window that is empty");
}

/// TC-17.
#[test]
fn pushing_rules_keeps_what_was_used() {
    let five = |count| flow_rule(401, count, &window(60_000, "window"));
    let mut scene = Scene::with(&[five(5.0)]);
    for second in 0..5 {
        assert_eq!(scene.at(second * 1_000).status(401), OK);
    }
    assert_eq!(scene.at(5_000).status(401), BLOCKED);

    scene.at(10_000);
    scene.push(&[five(5.0)]);
    assert_eq!(scene.at(11_000).status(401), BLOCKED, "the same rule again");

    scene.at(20_000);
    scene.push(&[five(10.0)]);
    let statuses: Vec<i8> = (0..6).map(|_| scene.wire.status(401)).collect();
    assert_eq!(statuses, [OK, OK, OK, OK, OK, BLOCKED], "twice the count");

    scene.at(30_000);
    scene.push(&[five(3.0)]);
    assert_eq!(scene.wire.status(401), BLOCKED, "less than was used");

    scene.at(40_000);
    scene.push(&[five(3.0), flow_rule(402, 1.0, "")]);
    assert_eq!(scene.wire.status(402), OK);
    assert_eq!(scene.wire.status(401), BLOCKED, "beside a new rule");
}
