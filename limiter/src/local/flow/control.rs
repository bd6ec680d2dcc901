//! What one flow rule remembers and how it decides (`DefaultController`, `WarmUpController`,
//! `ThrottlingController`, `WarmUpRateLimiterController`).
//!
//! Warm-up and pacing are those of [`crate::algorithm`], which mend what is wrong in Java: warm-ups
//! that never open or never fill again, and pacing in whole milliseconds, which limits nothing above
//! 2 000 a second, and nothing at all for a count of 0.

use std::{cmp::Ordering, time::Duration};

use super::related::Counters;
use crate::{
    Decision, LocalFlow, LocalLimit, Tick,
    algorithm::{
        Algorithm as _, Invalid, LeakyQueue, Line, Rate, Reserve, Verdict as Paced, WarmUpCurve,
        WarmUpPacing, WarmUpPacingState,
    },
    local::{stat::as_f64, unserved::Unserved},
    rule::{ControlBehavior, FlowRule, Grade},
};

/// `csp.sentinel.flow.cold.factor`.
const COLD_FACTOR: u32 = 3;
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum Control {
    /// At most `count` calls in progress.
    Threads {
        count: f64,
    },
    /// At most `count` tokens a second.
    Reject {
        count: f64,
    },
    WarmUp {
        curve: WarmUpCurve,
        reserve: Reserve,
    },
    Pacing {
        queue: LeakyQueue,
        line: Line,
    },
    WarmUpPacing {
        pacing: WarmUpPacing,
        state: WarmUpPacingState,
    },
    /// A cluster rule without a server, in windows or by an algorithm of its own. What it lets
    /// through is counted by it alone.
    Client(Box<LocalFlow>),
    /// One that lets everything pass.
    Open,
    /// One that lets nothing pass.
    Never,
}

/// What one rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Wait(Duration),
    Block,
}

/// How warm a rule is that warms up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUpReading {
    /// Stored tokens above which the service is cold.
    pub warning: u64,
    /// Most tokens that are stored.
    pub max: u64,
    /// Seconds a token by which each stored one above `warning` slows down.
    pub slope: f64,
    /// Tokens stored now; 0 before the first call, which makes it cold.
    pub stored: u64,
}

impl Control {
    /// A rule that was parsed can always be enforced; one that cannot, refuses. A cluster rule is
    /// enforced as without a server.
    pub(super) fn new(rule: &FlowRule) -> Self {
        let (count, cold) = match &rule.cluster {
            None => (rule.count, COLD_FACTOR),
            Some(cluster) => match Unserved::of(cluster, true) {
                Unserved::Open => return Self::Open,
                Unserved::Shut => return Self::Never,
                Unserved::AsClient if rule.grade == Grade::Qps => {
                    return Self::client(rule, None).unwrap_or(Self::Never);
                }
                Unserved::AsClient => (rule.count, cluster.cold_factor()),
                Unserved::AsLocal(count) => (count.unwrap_or(rule.count), cluster.cold_factor()),
            },
        };
        if rule.grade == Grade::Thread {
            return Self::Threads { count };
        }
        Self::shaping(rule, count, cold).unwrap_or(Self::Never)
    }

    fn shaping(rule: &FlowRule, count: f64, cold: u32) -> Result<Self, Invalid> {
        let period = Duration::from_secs(rule.warm_up_period_sec.into());
        let longest = Duration::from_millis(rule.max_queueing_time_ms.into());
        Ok(match rule.behavior {
            ControlBehavior::Reject => Self::Reject { count },
            ControlBehavior::WarmUp => {
                let curve = WarmUpCurve::new(count, period, cold)?;
                Self::WarmUp { curve, reserve: Reserve::default() }
            }
            ControlBehavior::Pacing => {
                let queue = LeakyQueue::new(Rate::new(count, SECOND)?, longest);
                Self::Pacing { queue, line: Line::default() }
            }
            ControlBehavior::WarmUpPacing => {
                let pacing = WarmUpPacing::new(count, period, cold, longest)?;
                Self::WarmUpPacing { pacing, state: WarmUpPacingState::default() }
            }
        })
    }

    fn client(rule: &FlowRule, before: Option<&LocalFlow>) -> Option<Self> {
        let flow = LocalFlow::new(rule, LocalLimit::Own, before)?;
        Some(Self::Client(Box::new(flow)))
    }

    /// Goes on, as that of `rule`, where the control of the rule before ends, as far as both
    /// remember the same: who waits in line, how warm the service is, and what is in a window.
    pub(super) fn adopt(&mut self, old: &Self, rule: &FlowRule) {
        let (warmth, line) = (old.warmth(), old.line());
        match self {
            Self::WarmUp { curve, reserve } => {
                *reserve = warmth.map_or(*reserve, |(old, kept)| refit(curve, old, kept));
            }
            Self::Pacing { queue, line: own } => {
                *own = line.map_or(*own, |(line, pace)| queue.line_from(line, pace));
            }
            Self::WarmUpPacing { pacing, state } => {
                let curve = pacing.curve();
                let reserve =
                    warmth.map_or(*state.reserve(), |(old, kept)| refit(curve, old, kept));
                *state = pacing.state_from(reserve, line.unwrap_or((*state.line(), pacing.rate())));
            }
            Self::Client(_) => {
                if let Self::Client(old) = old
                    && let Some(control) = Self::client(rule, Some(old))
                {
                    *self = control;
                }
            }
            Self::Threads { .. } | Self::Reject { .. } | Self::Open | Self::Never => {}
        }
    }

    fn warmth(&self) -> Option<(&WarmUpCurve, Reserve)> {
        match self {
            Self::WarmUp { curve, reserve } => Some((curve, *reserve)),
            Self::WarmUpPacing { pacing, state } => Some((pacing.curve(), *state.reserve())),
            _ => None,
        }
    }

    fn line(&self) -> Option<(Line, Rate)> {
        match self {
            Self::Pacing { queue, line } => Some((*line, queue.rate())),
            Self::WarmUpPacing { pacing, state } => Some((*state.line(), pacing.rate())),
            _ => None,
        }
    }

    /// Greater: by what it remembers it lets less through, since its last turn is later or it is
    /// colder.
    pub(super) fn strictness(&self, other: &Self) -> Ordering {
        let turn = |control: &Self| control.line().map(|(line, pace)| line.last_turn(&pace));
        let coldness =
            |control: &Self| control.warmth().map_or(0.0, |(curve, kept)| curve.coldness(&kept));
        turn(self).cmp(&turn(other)).then(coldness(self).total_cmp(&coldness(other)))
    }

    /// Whether `n` more tokens may go, now or later. Windows of this engine only look; queues book,
    /// and so does what counts by itself.
    #[inline]
    pub(super) fn check(&mut self, now: Tick, seen: &impl Counters, n: u64) -> Verdict {
        match self {
            Self::Reject { count } => {
                let fits = as_f64(seen.passed() + n) <= *count && seen.spares_booked(n, *count);
                if fits { Verdict::Pass } else { Verdict::Block }
            }
            Self::Threads { count } => {
                #[expect(clippy::cast_precision_loss, reason = "calls in progress")]
                let threads = seen.threads() as f64;
                if threads + as_f64(n) <= *count { Verdict::Pass } else { Verdict::Block }
            }
            Self::WarmUp { curve, reserve } => {
                curve.advance(reserve, now, seen.previous_pass());
                let threshold = curve.threshold(reserve);
                let fits = curve.admits(threshold, seen.passed(), n);
                if fits { Verdict::Pass } else { Verdict::Block }
            }
            Self::Pacing { queue, line } => queue.try_take(line, now, n).into(),
            Self::WarmUpPacing { pacing, state } => {
                pacing.take_after(state, now, n, seen.previous_pass()).into()
            }
            Self::Client(flow) => {
                let n = u32::try_from(n).unwrap_or(u32::MAX);
                match flow.acquire(now, n, None) {
                    Decision::Pass { .. } => Verdict::Pass,
                    Decision::Wait { wait } => Verdict::Wait(wait),
                    Decision::Block => Verdict::Block,
                }
            }
            Self::Open => Verdict::Pass,
            Self::Never => Verdict::Block,
        }
    }

    /// Whether nothing that it remembers counts at `now`: nobody waits, the service is cold, and
    /// windows are empty.
    pub(super) fn is_idle(&self, now: Tick) -> bool {
        match self {
            Self::Threads { .. } | Self::Reject { .. } | Self::Open | Self::Never => true,
            Self::WarmUp { curve, reserve } => {
                let mut reserve = *reserve;
                curve.advance(&mut reserve, now, 0);
                curve.is_cold(&reserve)
            }
            Self::Pacing { queue, line } => queue.is_idle(line, now),
            Self::WarmUpPacing { pacing, state } => pacing.is_idle(state, now),
            Self::Client(flow) => flow.is_idle(now),
        }
    }

    /// Whether asking twice books twice.
    pub(super) const fn books(&self) -> bool {
        matches!(self, Self::Pacing { .. } | Self::WarmUpPacing { .. } | Self::Client(_))
    }

    /// The threshold of a plain window, from which prioritized calls may borrow.
    pub(super) const fn count(&self) -> Option<f64> {
        match self {
            Self::Reject { count } => Some(*count),
            _ => None,
        }
    }

    pub(super) fn warm_up(&self) -> Option<WarmUpReading> {
        let (curve, reserve) = self.warmth()?;
        Some(WarmUpReading {
            warning: curve.warning(),
            max: curve.max(),
            slope: curve.slope(),
            stored: reserve.tokens(),
        })
    }
}

/// As warm as `kept` is on the curve of the rule before.
fn refit(curve: &WarmUpCurve, old: &WarmUpCurve, mut kept: Reserve) -> Reserve {
    curve.adopt(&mut kept, old);
    kept
}

impl From<Paced> for Verdict {
    fn from(verdict: Paced) -> Self {
        match verdict {
            Paced::Pass { .. } => Self::Pass,
            Paced::Wait { wait } => Self::Wait(wait),
            Paced::Block { .. } => Self::Block,
        }
    }
}
