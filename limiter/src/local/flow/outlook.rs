//! What flow rules leave a call.

use std::time::Duration;

use super::{Ask, FlowGuards, Watched, control::Control};
use crate::{
    Tick,
    algorithm::{Algorithm as _, Reserve, Verdict, WarmUpCurve},
    cluster::limit::whole,
    local::{
        Outlook, Quota, Retry,
        node::Nodes,
        outlook::retry_at,
        stat::{Stat, as_f64},
    },
};

const NOW: Retry = Retry::After(Duration::ZERO);
const SECOND: Duration = Duration::from_secs(1);

impl FlowGuards {
    /// What the rules say to a call together: those that compare the resource's own counters and
    /// ask no server.
    pub(in crate::local) fn outlook(&self, nodes: &mut Nodes, ask: &Ask<'_>) -> Outlook {
        let mut outlook = Outlook::FREE;
        for (at, guard) in self.guards.iter().enumerate() {
            let Some(Watched::Own(target)) = self.target(at, ask) else { continue };
            if guard.rule.cluster.is_some() {
                continue;
            }
            // Nobody has counted there yet.
            let mut new = Stat::default();
            let stat = nodes.stat(target).unwrap_or(&mut new);
            stat.advance(ask.now);
            outlook = outlook.and(guard.control.outlook(guard.rule.count, ask.now, stat, ask.n));
        }
        outlook
    }
}

impl Control {
    /// `count` is that of the rule, which asks no server.
    fn outlook(&self, count: f64, now: Tick, stat: &Stat, n: u64) -> Outlook {
        match self {
            Self::Reject { .. } => reject(count, now, stat, n),
            Self::Threads { .. } => threads(count, stat, n),
            Self::WarmUp { curve, reserve } => warm_up(count, curve, *reserve, (now, stat), n),
            Self::Pacing { queue, line } => pacing(count, |n| queue.peek(line, now, n), n),
            Self::WarmUpPacing { pacing: queue, state } => {
                let mut state = *state;
                // Nothing is taken; the reserve is brought to now.
                queue.take_after(&mut state, now, 0, stat.previous_pass());
                pacing(count, |n| queue.peek(&state, now, n), n)
            }
            // Rules of others than this process.
            Self::Client(_) | Self::Open => Outlook::FREE,
            Self::Never => {
                let window = Some(SECOND);
                let quota = Quota { window, limit: 0, remaining: 0, more_in: None };
                Outlook::of(Retry::Never, quota)
            }
        }
    }
}

fn reject(count: f64, now: Tick, stat: &Stat, n: u64) -> Outlook {
    let limit = whole(count);
    let remaining = whole(stat.room(count)).min(limit);
    let retry = if n <= remaining { NOW } else { retry_at(now, n, count, stat.coming()) };
    let more_in = match retry_at(now, remaining + 1, count, stat.coming()) {
        Retry::After(wait) => Some(wait),
        Retry::Unknown | Retry::Never => None,
    };
    Outlook::of(retry, Quota { window: Some(SECOND), limit, remaining, more_in })
}

fn threads(count: f64, stat: &Stat, n: u64) -> Outlook {
    let open = u64::try_from(stat.threads()).unwrap_or(0);
    let remaining = whole(count - as_f64(open));
    let retry = match n {
        _ if n <= remaining => NOW,
        _ if as_f64(n) <= count => Retry::Unknown,
        _ => Retry::Never,
    };
    Outlook::of(retry, Quota { window: None, limit: whole(count), remaining, more_in: None })
}

/// A window whose threshold moves from second to second.
fn warm_up(
    count: f64,
    curve: &WarmUpCurve,
    reserve: Reserve,
    (now, stat): (Tick, &Stat),
    n: u64,
) -> Outlook {
    let threshold = |at: Tick, stat: &Stat| {
        let mut reserve = reserve;
        curve.advance(&mut reserve, at, stat.previous_pass());
        curve.threshold(&reserve)
    };
    let admits = |at: Tick, stat: &Stat, n| curve.admits(threshold(at, stat), stat.passed(), n);
    let until = |n| {
        let mut ahead = stat.coming().into_iter().map(|(at, _)| {
            let mut stat = stat.clone();
            stat.advance(at);
            (at, stat)
        });
        ahead.find(|(at, stat)| admits(*at, stat, n)).map(|(at, _)| at.since(now))
    };
    let limit = whole(count);
    // However cold, one call goes.
    let least = u64::from(admits(now, stat, 1));
    let remaining = whole(threshold(now, stat) - as_f64(stat.passed())).clamp(least, limit);
    let retry =
        if admits(now, stat, n) { NOW } else { until(n).map_or(Retry::Never, Retry::After) };
    let more_in = if remaining < limit { until(remaining + 1) } else { None };
    Outlook::of(retry, Quota { window: Some(SECOND), limit, remaining, more_in })
}

/// A rule that lets calls go one after the other.
fn pacing(per_second: f64, peek: impl Fn(u64) -> Verdict, n: u64) -> Outlook {
    let wait = |n| match peek(n) {
        Verdict::Pass { .. } | Verdict::Wait { .. } => NOW,
        Verdict::Block { retry: Some(wait) } => Retry::After(wait),
        Verdict::Block { retry: None } => Retry::Never,
    };
    let one = wait(1);
    let more_in = match one {
        Retry::After(wait) if !wait.is_zero() => Some(wait),
        _ => None,
    };
    let (window, limit) = whole_rate(per_second);
    let remaining = u64::from(one == NOW);
    Outlook::of(wait(n), Quota { window: Some(window), limit, remaining, more_in })
}

/// A rate as whole calls in whole seconds: one call in several seconds below one a second.
fn whole_rate(per_second: f64) -> (Duration, u64) {
    if per_second >= 1.0 || per_second <= 0.0 {
        return (SECOND, whole(per_second));
    }
    (Duration::from_secs(whole((1.0 / per_second).ceil())), 1)
}
