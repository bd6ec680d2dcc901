//! What all inbound calls together may take of the machine (`SystemRuleManager.checkSystem`).

use std::fmt;

use crate::rule::SystemRule;

/// How busy the machine is; whoever runs the engine measures it. A negative value is not known, and
/// nothing is refused for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SystemStatus {
    /// The load average of one minute.
    pub load: f64,
    /// The share of the processors in use, from 0 to 1.
    pub cpu: f64,
}

impl Default for SystemStatus {
    /// Nothing is known.
    fn default() -> Self {
        Self { load: -1.0, cpu: -1.0 }
    }
}

/// The limit that a call was refused for. It is shown as Sentinel's block log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemKind {
    /// Calls per second.
    Qps,
    /// Calls in progress.
    Thread,
    /// Average response time.
    Rt,
    /// Load average.
    Load,
    /// Processors in use.
    Cpu,
}

impl SystemKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Qps => "qps",
            Self::Thread => "thread",
            Self::Rt => "rt",
            Self::Load => "load",
            Self::Cpu => "cpu",
        }
    }
}

impl fmt::Display for SystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the statistic of all inbound calls says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inbound {
    pub(crate) pass_qps: f64,
    /// Calls in progress.
    pub(crate) threads: i64,
    /// In milliseconds.
    pub(crate) avg_rt: f64,
    /// The best rate of completions that a bucket of the window has seen, per second.
    pub(crate) max_success_qps: f64,
    /// In milliseconds.
    pub(crate) min_rt: f64,
}

/// The limits of all system rules together: the smallest of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SystemLimits {
    // Infinite where no rule sets one.
    qps: f64,
    threads: f64,
    avg_rt_ms: f64,
    load: f64,
    cpu: f64,
}

impl Default for SystemLimits {
    fn default() -> Self {
        Self::NONE
    }
}

impl SystemLimits {
    const NONE: Self = Self {
        qps: f64::INFINITY,
        threads: f64::INFINITY,
        avg_rt_ms: f64::INFINITY,
        load: f64::INFINITY,
        cpu: f64::INFINITY,
    };

    /// Whatever the order of the rules. In Sentinel the last one alone decides whether there is
    /// a check at all.
    #[expect(clippy::cast_precision_loss, reason = "no clock and no list of calls gets to 2^53")]
    pub(crate) fn of(rules: &[SystemRule]) -> Self {
        let lower = |limit: f64, value: Option<f64>| value.map_or(limit, |value| limit.min(value));
        rules.iter().fold(Self::NONE, |limits, rule| Self {
            qps: lower(limits.qps, rule.qps),
            threads: lower(limits.threads, rule.max_thread.map(|n| n as f64)),
            avg_rt_ms: lower(limits.avg_rt_ms, rule.avg_rt_ms.map(|ms| ms as f64)),
            load: lower(limits.load, rule.load),
            cpu: lower(limits.cpu, rule.cpu.filter(|&share| share <= 1.0)),
        })
    }

    /// Whether any rule sets a limit; without one there is nothing to check.
    pub(crate) fn is_set(&self) -> bool {
        *self != Self::NONE
    }

    /// Calls a second; infinite without a limit.
    pub(crate) const fn qps(&self) -> f64 {
        self.qps
    }

    /// Limits that are set.
    pub(crate) fn len(&self) -> usize {
        let limits = [self.qps, self.threads, self.avg_rt_ms, self.load, self.cpu];
        limits.iter().filter(|limit| limit.is_finite()).count()
    }

    /// Whether an inbound call of `n` may go on, and which limit refuses it otherwise: the first in
    /// Sentinel's order.
    #[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 calls in progress")]
    pub(crate) fn check(
        &self,
        inbound: &Inbound,
        status: SystemStatus,
        n: u32,
    ) -> Result<(), SystemKind> {
        if inbound.pass_qps + f64::from(n) > self.qps {
            return Err(SystemKind::Qps);
        }
        if inbound.threads as f64 > self.threads {
            return Err(SystemKind::Thread);
        }
        if inbound.avg_rt > self.avg_rt_ms {
            return Err(SystemKind::Rt);
        }
        if status.load > self.load && inbound.is_backlog() {
            return Err(SystemKind::Load);
        }
        if status.cpu > self.cpu {
            return Err(SystemKind::Cpu);
        }
        Ok(())
    }
}

impl Inbound {
    /// Whether more calls are in progress than the process can work on at once, as TCP BBR
    /// estimates a path: the best rate times the shortest time. One call alone never is.
    #[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 calls in progress")]
    fn is_backlog(&self) -> bool {
        self.threads > 1 && self.threads as f64 > self.max_success_qps * self.min_rt / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An inbound statistic that nothing has happened on.
    const IDLE: Inbound =
        Inbound { pass_qps: 0.0, threads: 0, avg_rt: 0.0, max_success_qps: 2.0, min_rt: 5_000.0 };

    fn limits(rule: SystemRule) -> SystemLimits {
        SystemLimits::of(&[rule])
    }

    fn check(rule: SystemRule, inbound: Inbound) -> Result<(), SystemKind> {
        limits(rule).check(&inbound, SystemStatus::default(), 1)
    }

    /// Case H01 of the recorded scenarios.
    #[test]
    fn the_rate_includes_the_call_that_asks() {
        let rule = SystemRule { qps: Some(3.0), ..SystemRule::default() };
        let after = |passed| check(rule.clone(), Inbound { pass_qps: passed, ..IDLE });
        assert_eq!([0.0, 1.0, 2.0].map(after), [Ok(()); 3]);
        assert_eq!(after(3.0), Err(SystemKind::Qps));
        let three =
            limits(rule).check(&Inbound { pass_qps: 1.0, ..IDLE }, SystemStatus::default(), 3);
        assert_eq!(three, Err(SystemKind::Qps));
    }

    /// Case H02.
    #[test]
    fn one_call_more_than_the_limit_is_in_progress_at_most() {
        let rule = SystemRule { max_thread: Some(2), ..SystemRule::default() };
        let with = |threads| check(rule.clone(), Inbound { threads, ..IDLE });
        assert_eq!([-1, 0, 2].map(with), [Ok(()); 3]);
        assert_eq!(with(3), Err(SystemKind::Thread));
    }

    /// Case H03.
    #[test]
    fn the_average_time_must_exceed_its_limit() {
        let rule = SystemRule { avg_rt_ms: Some(10), ..SystemRule::default() };
        let at = |avg_rt| check(rule.clone(), Inbound { avg_rt, ..IDLE });
        assert_eq!(at(10.0), Ok(()));
        assert_eq!(at(30.0), Err(SystemKind::Rt));
    }

    /// Case H04: 2 completions a second at 100 ms each come to a fifth of a call at once.
    #[test]
    fn load_refuses_what_the_process_cannot_work_off() {
        let limits = limits(SystemRule { load: Some(1.0), ..SystemRule::default() });
        let busy = SystemStatus { load: 2.0, cpu: -1.0 };
        let before = |threads| Inbound { threads, ..IDLE };
        for threads in 0..=10 {
            assert_eq!(limits.check(&before(threads), busy, 1), Ok(()), "2/s × 5 s is 10 calls");
        }
        assert_eq!(limits.check(&before(11), busy, 1), Err(SystemKind::Load));
        let after = |threads| Inbound { threads, min_rt: 100.0, ..IDLE };
        assert_eq!(limits.check(&after(2), busy, 1), Err(SystemKind::Load));
        assert_eq!(limits.check(&after(1), busy, 1), Ok(()));
        for load in [1.0, 0.5, -1.0] {
            assert_eq!(limits.check(&after(2), SystemStatus { load, cpu: 1.0 }, 1), Ok(()));
        }
    }

    #[test]
    fn processors_in_use_refuse_at_once_and_only_when_known() {
        let limits = limits(SystemRule { cpu: Some(0.8), ..SystemRule::default() });
        let at = |cpu| limits.check(&IDLE, SystemStatus { load: -1.0, cpu }, 1);
        assert_eq!([at(-1.0), at(0.8)], [Ok(()); 2]);
        assert_eq!(at(0.81), Err(SystemKind::Cpu));
    }

    #[test]
    fn the_first_limit_in_sentinels_order_refuses() {
        let zero = SystemRule {
            load: Some(0.0),
            cpu: Some(0.0),
            qps: Some(0.0),
            avg_rt_ms: Some(0),
            max_thread: Some(0),
        };
        let inbound = Inbound { pass_qps: 1.0, threads: 2, avg_rt: 1.0, min_rt: 1.0, ..IDLE };
        let status = SystemStatus { load: 1.0, cpu: 1.0 };
        let mut rule = zero.clone();
        let mut kinds = Vec::new();
        let lift: [fn(&mut SystemRule); 5] = [
            |rule| rule.qps = None,
            |rule| rule.max_thread = None,
            |rule| rule.avg_rt_ms = None,
            |rule| rule.load = None,
            |rule| rule.cpu = None,
        ];
        for lift in lift {
            kinds.push(limits(rule.clone()).check(&inbound, status, 1).unwrap_err().to_string());
            lift(&mut rule);
        }
        assert_eq!(kinds, ["qps", "thread", "rt", "load", "cpu"]);
        assert_eq!(limits(rule).check(&inbound, status, 1), Ok(()));
    }

    /// Case H06, where Sentinel's answer is another: an empty rule at the end switches it off.
    #[test]
    fn the_smallest_of_each_value_counts_wherever_it_stands() {
        let qps = |qps| SystemRule { qps: Some(qps), ..SystemRule::default() };
        let rules = [qps(5.0), qps(2.0), SystemRule::default()];
        let limits = SystemLimits::of(&rules);
        assert!(limits.is_set());
        assert_eq!(limits, SystemLimits::of(&[qps(2.0)]));
        let third = limits.check(&Inbound { pass_qps: 2.0, ..IDLE }, SystemStatus::default(), 1);
        assert_eq!(third, Err(SystemKind::Qps));
    }

    /// Case H07.
    #[test]
    fn what_sets_nothing_is_not_checked() {
        let above_all = SystemRule { cpu: Some(1.5), ..SystemRule::default() };
        for rules in [&[][..], &[SystemRule::default()], &[above_all]] {
            assert!(!SystemLimits::of(rules).is_set());
        }
    }
}
