//! The recorded scenarios of circuit breakers, and what they leave out.

use std::sync::Arc;

use super::{Breaker, BreakerState, BreakerState::*, Gate};
use crate::{
    Tick,
    rule::{DegradeRule, parse_degrade},
};

/// A rule as JSON, without its resource.
fn rule(fields: &str) -> DegradeRule {
    let text = format!(r#"[{{"resource": "r", {fields}}}]"#);
    parse_degrade(&text, "test").unwrap().rules.remove(0)
}

/// A breaker on a clock that starts at a whole minute, in milliseconds.
struct Case(Breaker);

const START_MS: u64 = 1_700_000_040_000;

fn at(ms: u64) -> Tick {
    Tick::from_ms(START_MS + ms)
}

impl Case {
    fn new(fields: &str) -> Self {
        Self(Breaker::new(Arc::new(rule(fields))))
    }

    fn ask(&mut self, ms: u64) -> Gate {
        self.0.gate(at(ms))
    }

    /// A call that takes no time.
    fn call(&mut self, ms: u64, is_error: bool) -> Gate {
        let gate = self.ask(ms);
        if gate != Gate::Refuse {
            self.0.complete(at(ms), 0, is_error);
        }
        gate
    }

    fn slow(&mut self, ms: u64, rt_ms: u64) -> BreakerState {
        self.0.complete(at(ms), rt_ms, false);
        self.0.state()
    }

    fn errors(&mut self, ms: u64, count: usize) -> BreakerState {
        for _ in 0..count {
            assert_ne!(self.call(ms, true), Gate::Refuse);
        }
        self.0.state()
    }
}

#[test]
fn g01_three_slow_of_five_open_it_and_a_good_probe_closes_it() {
    let mut case = Case::new(
        r#""count": 50, "slowRatioThreshold": 0.5, "timeWindow": 5, "minRequestAmount": 5"#,
    );
    assert_eq!([case.call(0, false), case.call(0, false)], [Gate::Pass; 2]);
    assert_eq!([case.ask(0), case.ask(0), case.ask(0)], [Gate::Pass; 3]);
    assert_eq!([case.slow(51, 51), case.slow(51, 51), case.slow(51, 51)], [Closed, Closed, Open]);
    assert_eq!([case.ask(51), case.ask(5_050)], [Gate::Refuse; 2]);
    assert_eq!((case.ask(5_051), case.0.state()), (Gate::Probe, HalfOpen));
    assert_eq!(case.ask(5_051), Gate::Refuse);
    assert_eq!(case.slow(5_102, 51), Open);
    assert_eq!(case.ask(10_101), Gate::Refuse);
    assert_eq!((case.call(10_102, false), case.0.state()), (Gate::Probe, Closed));
    assert_eq!(case.ask(10_102), Gate::Pass);
}

#[test]
fn g02_a_call_of_exactly_the_longest_time_is_not_slow() {
    let mut case = Case::new(
        r#""count": 50, "slowRatioThreshold": 0.1, "timeWindow": 5, "minRequestAmount": 2"#,
    );
    assert_eq!([50, 50, 50].map(|rt| case.slow(50, rt)), [Closed; 3]);
    let mut rounded = Case::new(r#""count": 49.5, "timeWindow": 5, "minRequestAmount": 1"#);
    assert_eq!([rounded.slow(0, 50), rounded.slow(1_000, 51)], [Closed, Open]);
}

#[test]
fn g03_a_ratio_must_be_exceeded_but_all_slow_are_a_ratio_of_1() {
    let mut half = Case::new(
        r#""count": 50, "slowRatioThreshold": 0.5, "timeWindow": 5, "minRequestAmount": 4"#,
    );
    assert_eq!([0, 0, 60, 60].map(|rt| half.slow(60, rt)), [Closed; 4]);
    assert_eq!(half.slow(60, 60), Open);
    let mut all = Case::new(r#""count": 50, "timeWindow": 5, "minRequestAmount": 2"#);
    assert_eq!([60, 60].map(|rt| all.slow(60, rt)), [Closed, Open]);
    let mut but_one = Case::new(r#""count": 50, "timeWindow": 5, "minRequestAmount": 2"#);
    assert_eq!([0, 60, 60].map(|rt| but_one.slow(60, rt)), [Closed; 3]);
}

#[test]
fn g05_an_error_ratio_of_1_is_never_exceeded() {
    let mut case = Case::new(r#""grade": 1, "count": 1.0, "timeWindow": 2, "minRequestAmount": 2"#);
    assert_eq!(case.errors(0, 10), Closed);
}

#[test]
fn g06_the_third_error_exceeds_2_and_a_good_call_can_make_it_enough() {
    let mut case = Case::new(r#""grade": 2, "count": 2, "timeWindow": 2, "minRequestAmount": 1"#);
    assert_eq!([case.errors(0, 2), case.errors(0, 1)], [Closed, Open]);
    let mut case = Case::new(r#""grade": 2, "count": 0, "timeWindow": 2, "minRequestAmount": 5"#);
    assert_eq!(case.errors(0, 4), Closed);
    assert_eq!((case.call(0, false), case.0.state()), (Gate::Pass, Open));
}

#[test]
fn g07_and_g15_errors_count_together_in_one_aligned_window_only() {
    let second = r#""grade": 2, "count": 3, "timeWindow": 2, "minRequestAmount": 1"#;
    let mut case = Case::new(second);
    assert_eq!([case.errors(900, 3), case.errors(1_000, 1)], [Closed; 2]);
    assert_eq!(case.errors(1_999, 3), Open);
    let mut case = Case::new(&format!(r#"{second}, "statIntervalMs": 10000"#));
    assert_eq!([case.errors(100, 2), case.errors(9_100, 2)], [Closed, Open]);
}

#[test]
fn g08_a_bad_probe_opens_it_for_another_time_window() {
    let mut case = Case::new(r#""grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1"#);
    assert_eq!(case.errors(0, 1), Open);
    assert_eq!(case.0.complete(at(500), 500, false), None, "a call from before changes nothing");
    assert_eq!((case.ask(1_000), case.0.state()), (Gate::Probe, HalfOpen));
    assert_eq!(case.0.complete(at(1_200), 200, true), Some((HalfOpen, Open)));
    assert_eq!(case.ask(2_199), Gate::Refuse);
    assert_eq!((case.call(2_200, false), case.0.state()), (Gate::Probe, Closed));
}

/// Whatever call completes first, as in Sentinel.
#[test]
fn a_call_from_before_can_decide_in_place_of_the_probe() {
    let mut case = Case::new(r#""grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1"#);
    case.errors(0, 1);
    assert_eq!(case.ask(1_000), Gate::Probe);
    assert_eq!(case.0.complete(at(1_000), 1_000, false), Some((HalfOpen, Closed)));
    assert_eq!(case.0.probe_refused(at(1_100)), None);
    assert_eq!(case.0.state(), Closed);
}

/// G10, where Sentinel probes again at once: a probe that another breaker refuses waits for another
/// time window.
#[test]
fn a_refused_probe_opens_it_for_another_time_window() {
    let mut pair = [
        Case::new(r#""grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1"#),
        Case::new(r#""grade": 1, "count": 0.5, "timeWindow": 10, "minRequestAmount": 1"#),
    ];
    // All are asked in their order; the first refusal ends it, and the probes before it.
    let mut call = |ms, is_error| {
        let refused = pair.iter_mut().position(|case| case.ask(ms) == Gate::Refuse);
        for case in &mut pair {
            match refused {
                Some(_) => drop(case.0.probe_refused(at(ms))),
                None => drop(case.0.complete(at(ms), 0, is_error)),
            }
        }
        (refused, pair.each_ref().map(|case| (case.0.state(), case.0.retry_at())))
    };
    let open = |ms| (Open, Some(at(ms)));
    assert_eq!(call(0, true), (None, [open(1_000), open(10_000)]));
    assert_eq!(call(1_000, false), (Some(1), [open(2_000), open(10_000)]));
    assert_eq!(call(1_000, false), (Some(0), [open(2_000), open(10_000)]));
    assert_eq!(call(1_999, false).0, Some(0));
    assert_eq!(call(10_000, false), (None, [(Closed, None), (Closed, None)]));
}

#[test]
fn every_transition_is_told_once() {
    let mut case = Case::new(r#""grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1"#);
    let breaker = &mut case.0;
    assert_eq!(breaker.rule().count, 0.0);
    assert_eq!(breaker.complete(at(0), 0, false), None);
    assert_eq!(breaker.complete(at(0), 0, true), Some((Closed, Open)));
    assert_eq!(breaker.complete(at(0), 0, true), None);
    assert_eq!(breaker.probe_refused(at(0)), None);
    assert_eq!(breaker.gate(at(1_000)), Gate::Probe);
    assert_eq!(breaker.probe_refused(at(1_000)), Some((HalfOpen, Open)));
    assert_eq!(breaker.gate(at(2_000)), Gate::Probe);
    assert_eq!(breaker.complete(at(2_000), 0, false), Some((HalfOpen, Closed)));
}

#[test]
fn the_retry_time_is_exact_and_an_older_tick_reopens_nothing() {
    let mut case = Case::new(r#""grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1"#);
    let opened = Tick(at(0).0 + 1);
    case.0.complete(opened, 0, true);
    let retry_at = Tick(at(1_000).0 + 1);
    assert_eq!(case.0.retry_at(), Some(retry_at));
    assert_eq!([case.0.gate(at(1_000)), case.0.gate(at(0))], [Gate::Refuse; 2]);
    assert_eq!(case.0.gate(retry_at), Gate::Probe);
    let mut late = Case::new(r#""grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1"#);
    late.0.complete(Tick(u64::MAX), 0, true);
    assert_eq!(late.0.retry_at(), Some(Tick(u64::MAX)));
}

#[test]
fn a_good_probe_starts_the_window_anew() {
    let mut case = Case::new(
        r#""grade": 2, "count": 1, "timeWindow": 1, "minRequestAmount": 1, "statIntervalMs": 60000"#,
    );
    assert_eq!(case.errors(0, 2), Open);
    assert_eq!((case.call(1_000, false), case.0.state()), (Gate::Probe, Closed));
    assert_eq!([case.errors(1_000, 1), case.errors(1_000, 1)], [Closed, Open]);
}

#[test]
fn a_probe_that_never_ends_is_followed_by_another_each_time_window() {
    let mut case = Case::new(r#""grade": 2, "count": 0, "timeWindow": 2, "minRequestAmount": 1"#);
    assert_eq!(case.errors(0, 1), Open);
    assert_eq!((case.ask(2_000), case.0.retry_at()), (Gate::Probe, Some(at(4_000))));
    assert_eq!((case.ask(3_999), case.0.state()), (Gate::Refuse, HalfOpen));
    assert_eq!((case.ask(9_000), case.0.state()), (Gate::Probe, HalfOpen));
    assert_eq!([case.ask(9_000), case.ask(10_999)], [Gate::Refuse; 2]);
    assert_eq!((case.call(11_000, true), case.0.state()), (Gate::Probe, Open));
    // That of 2 000 ends after all, and decides nothing.
    assert_eq!(case.slow(11_001, 9_001), Open);
    assert_eq!((case.call(13_000, false), case.0.state()), (Gate::Probe, Closed));
}
