//! The breaker against a model that keeps every call and looks at all of them each time.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Breaker, BreakerState, Gate};
use crate::{
    Tick,
    rule::{DegradeGrade, DegradeRule},
};

/// What happens to a breaker.
#[derive(Clone, Copy, Debug)]
enum Event {
    Ask,
    Refused,
    Complete { rt_ms: u64, is_error: bool },
}

/// The history, from which everything is worked out anew.
struct Model<'r> {
    rule: &'r DegradeRule,
    /// Each completed call: when, and whether it was bad.
    completed: Vec<(u64, bool)>,
    /// Calls before this one are forgotten.
    forgotten: usize,
    /// Each transition: when, and into what.
    turned: Vec<(u64, BreakerState)>,
}

impl Model<'_> {
    fn state(&self) -> BreakerState {
        self.turned.last().map_or(BreakerState::Closed, |&(_, state)| state)
    }

    fn turn(&mut self, now: u64, state: BreakerState) -> Option<(BreakerState, BreakerState)> {
        let from = self.state();
        self.turned.push((now, state));
        Some((from, state))
    }

    fn ask(&mut self, now: u64) -> Gate {
        match self.turned.last() {
            None | Some((_, BreakerState::Closed)) => Gate::Pass,
            Some((since, BreakerState::Open | BreakerState::HalfOpen)) => {
                if now - since < u64::from(self.rule.time_window_sec) * 1_000 {
                    return Gate::Refuse;
                }
                self.turn(now, BreakerState::HalfOpen);
                Gate::Probe
            }
        }
    }

    fn refused(&mut self, now: u64) -> Option<(BreakerState, BreakerState)> {
        let is_probed = self.state() == BreakerState::HalfOpen;
        if is_probed { self.turn(now, BreakerState::Open) } else { None }
    }

    fn complete(
        &mut self,
        now: u64,
        rt_ms: u64,
        is_error: bool,
    ) -> Option<(BreakerState, BreakerState)> {
        let is_bad = match self.rule.grade {
            DegradeGrade::SlowRatio => rt_ms as f64 > (self.rule.count + 0.5).floor(),
            _ => is_error,
        };
        self.completed.push((now, is_bad));
        match self.state() {
            BreakerState::Open => None,
            BreakerState::HalfOpen if is_bad => self.turn(now, BreakerState::Open),
            BreakerState::HalfOpen => {
                self.forgotten = self.completed.len();
                self.turn(now, BreakerState::Closed)
            }
            BreakerState::Closed => {
                let start = now - now % u64::from(self.rule.stat_interval_ms);
                let inside =
                    || self.completed[self.forgotten..].iter().filter(|&&(when, _)| when >= start);
                let (total, bad) = (inside().count(), inside().filter(|(_, bad)| *bad).count());
                let too_bad = match self.rule.grade {
                    DegradeGrade::SlowRatio if self.rule.slow_ratio_threshold == 1.0 => {
                        bad == total
                    }
                    // Thresholds of the test are multiples of a quarter, so products are exact.
                    DegradeGrade::SlowRatio => {
                        bad as f64 > self.rule.slow_ratio_threshold * total as f64
                    }
                    DegradeGrade::ErrorRatio => bad as f64 > self.rule.count * total as f64,
                    DegradeGrade::ErrorCount => bad as f64 > self.rule.count,
                };
                let is_enough = total >= self.rule.min_request_amount as usize;
                if is_enough && too_bad { self.turn(now, BreakerState::Open) } else { None }
            }
        }
    }
}

fn rules() -> impl Strategy<Value = DegradeRule> {
    let grades = prop_oneof![
        (0_u32..=12, 0_u32..=4).prop_map(|(ms, quarters)| {
            (DegradeGrade::SlowRatio, f64::from(ms) / 4.0, f64::from(quarters) / 4.0)
        }),
        (0_u32..=4).prop_map(|quarters| (DegradeGrade::ErrorRatio, f64::from(quarters) / 4.0, 1.0)),
        (0_u32..=6).prop_map(|halves| (DegradeGrade::ErrorCount, f64::from(halves) / 2.0, 1.0)),
    ];
    (grades, 1_u32..=2, 1_u32..=5, prop::sample::select(vec![1, 100, 700, 1_000, 5_000])).prop_map(
        |((grade, count, slow_ratio_threshold), time_window_sec, min_request_amount, interval)| {
            DegradeRule {
                resource: "r".into(),
                regex: false,
                grade,
                count,
                time_window_sec,
                min_request_amount,
                slow_ratio_threshold,
                stat_interval_ms: interval,
            }
        },
    )
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        3 => Just(Event::Ask),
        1 => Just(Event::Refused),
        4 => (0_u64..5, any::<bool>())
            .prop_map(|(rt_ms, is_error)| Event::Complete { rt_ms, is_error }),
    ];
    let pause = prop_oneof![4 => Just(0_u64), 3 => 1_u64..300, 2 => 900_u64..2_100];
    prop::collection::vec((pause, event), 0..120)
}

proptest! {
    #[test]
    fn a_breaker_does_what_its_history_says(rule in rules(), events in events()) {
        let mut breaker = Breaker::new(Arc::new(rule.clone()));
        let mut model =
            Model { rule: &rule, completed: Vec::new(), forgotten: 0, turned: Vec::new() };
        let mut now = 1_700_000_000_123;
        for (pause, event) in events {
            now += pause;
            let tick = Tick::from_ms(now);
            match event {
                Event::Ask => prop_assert_eq!(breaker.gate(tick), model.ask(now)),
                Event::Refused => {
                    prop_assert_eq!(breaker.probe_refused(tick), model.refused(now));
                }
                Event::Complete { rt_ms, is_error } => prop_assert_eq!(
                    breaker.complete(tick, rt_ms, is_error),
                    model.complete(now, rt_ms, is_error)
                ),
            }
            prop_assert_eq!(breaker.state(), model.state());
            prop_assert_eq!(breaker.retry_at().is_some(), model.state() != BreakerState::Closed);
        }
    }
}
