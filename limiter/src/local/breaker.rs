//! The circuit breaker (`AbstractCircuitBreaker`, `ResponseTimeCircuitBreaker`,
//! `ExceptionCircuitBreaker`).
//!
//! ```text
//!            too many bad calls                  time window over
//!  ┌────────┐ ───────────────► ┌──────┐ ─────────────────────────► ┌───────────┐
//!  │ closed │                  │ open │                            │ half open │
//!  └────────┘                  └──────┘ ◄───────────────────────── └───────────┘
//!       ▲                       bad call, or the probe never ran         │
//!       └────────────────────────────────────────────────────────────────┘
//!                                 good call
//! ```
//!
//! While half open one call, the probe, is on its way and all others are refused. As in Sentinel
//! the next call that completes decides, which may be one from before. When none has by the end of
//! another time window, because the probe hangs or its guard was leaked, a further one is let
//! through, and so on: Sentinel's breaker stays half open, and refuses everything, for ever.
//!
//! Calls are counted when they complete, in windows that begin at multiples of their length: a
//! window starts empty, so bad calls on both sides of its border do not add up.

mod window;

use std::{sync::Arc, time::Duration};

use self::window::Window;
use crate::{
    Tick,
    rule::{DegradeGrade, DegradeRule},
};

/// What a circuit breaker does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// They pass.
    Closed,
    /// They are refused until the rule's time window is over.
    Open,
    /// They are refused while a probe is on its way, but for another one each time that the rule's
    /// time window is over and none has ended.
    HalfOpen,
}

/// From one state into another.
pub(crate) type Transition = (BreakerState, BreakerState);

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It goes on.
    Pass,
    /// It goes on, and the breaker is half open for it. The caller owes [`Breaker::complete`] or
    /// [`Breaker::probe_refused`].
    Probe,
    /// It does not.
    Refuse,
}

/// One rule's breaker of one resource.
#[derive(Debug)]
pub(crate) struct Breaker {
    rule: Arc<DegradeRule>,
    state: State,
    window: Window,
}

/// The state, with what belongs to it: a breaker is never open without its retry time. Sentinel
/// sets the two one after the other, and a thread that comes between them probes at once.
#[derive(Clone, Copy, Debug)]
enum State {
    Closed,
    Open {
        retry_at: Tick,
    },
    /// The retry is for a probe that does not end.
    HalfOpen {
        retry_at: Tick,
    },
}

impl Breaker {
    pub(crate) fn new(rule: Arc<DegradeRule>) -> Self {
        Self { window: Window::new(rule.stat_interval_ms), state: State::Closed, rule }
    }

    pub(crate) fn rule(&self) -> &Arc<DegradeRule> {
        &self.rule
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// When it lets a probe through, if it refuses calls.
    pub(crate) fn retry_at(&self) -> Option<Tick> {
        match self.state {
            State::Open { retry_at } | State::HalfOpen { retry_at } => Some(retry_at),
            State::Closed => None,
        }
    }

    /// Whether a call may go on.
    #[inline]
    pub(crate) fn gate(&mut self, now: Tick) -> Gate {
        match self.state {
            State::Closed => Gate::Pass,
            State::Open { retry_at } | State::HalfOpen { retry_at } if now >= retry_at => {
                self.state = State::HalfOpen { retry_at: self.next_retry(now) };
                Gate::Probe
            }
            State::Open { .. } | State::HalfOpen { .. } => Gate::Refuse,
        }
    }

    /// Whether nothing that it remembers counts at `now`: its window is over, and it is closed, or
    /// would have let a probe through for a whole time window. A breaker that nobody calls stays
    /// open for ever, and the resources of names that fail once and never come back would fill
    /// their bound.
    pub(crate) fn is_idle(&self, now: Tick) -> bool {
        let is_forgiven = self.retry_at().is_none_or(|retry_at| now >= self.next_retry(retry_at));
        is_forgiven && self.window.is_over(now)
    }

    /// The probe did not run to its end: a later check refused it, or its caller went away. The
    /// breaker opens for another time window; Sentinel lets the next call probe at once, and so
    /// every call of a resource that somebody else refuses anyway.
    ///
    /// Nothing happens when a call from before has decided already.
    pub(crate) fn probe_refused(&mut self, now: Tick) -> Option<Transition> {
        matches!(self.state, State::HalfOpen { .. }).then(|| self.open(now))
    }

    /// Counts a call that was admitted and has come to its end after `rt_ms` milliseconds. Its
    /// acquire count does not matter.
    pub(crate) fn complete(&mut self, now: Tick, rt_ms: u64, is_error: bool) -> Option<Transition> {
        let is_bad = match self.rule.grade {
            DegradeGrade::SlowRatio => rt_ms > self.rule.max_rt_ms(),
            DegradeGrade::ErrorRatio | DegradeGrade::ErrorCount => is_error,
        };
        self.window.count(now, is_bad);
        match self.state {
            State::Closed => self.is_too_bad().then(|| self.open(now)),
            // From before it opened.
            State::Open { .. } => None,
            State::HalfOpen { .. } if is_bad => Some(self.open(now)),
            State::HalfOpen { .. } => {
                self.window.clear();
                self.state = State::Closed;
                Some((BreakerState::HalfOpen, BreakerState::Closed))
            }
        }
    }

    fn is_too_bad(&self) -> bool {
        let Window { bad, total, .. } = self.window;
        if total < u64::from(self.rule.min_request_amount) {
            return false;
        }
        #[expect(clippy::cast_precision_loss, reason = "no window sees 2^53 calls")]
        let (bad, ratio) = (bad as f64, bad as f64 / total as f64);
        match self.rule.grade {
            DegradeGrade::SlowRatio => {
                let limit = self.rule.slow_ratio_threshold;
                ratio > limit || ratio >= 1.0 && limit >= 1.0
            }
            DegradeGrade::ErrorRatio => ratio > self.rule.count,
            DegradeGrade::ErrorCount => bad > self.rule.count,
        }
    }

    fn open(&mut self, now: Tick) -> Transition {
        let from = self.state();
        self.state = State::Open { retry_at: self.next_retry(now) };
        (from, BreakerState::Open)
    }

    fn next_retry(&self, now: Tick) -> Tick {
        now.plus(Duration::from_secs(self.rule.time_window_sec.into()))
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
