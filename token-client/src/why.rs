//! Why a check came out as it did, in numbers and in words.

use std::{fmt, time::Duration};

use limiter::rule::FallbackPolicy;
use protocol::{Mode, Unit};

use crate::{DecidedBy, Outcome, Reason, RuleId, Verdict};

/// An outcome with its reasons. Its text is one line for a log or a terminal:
///
/// ```text
/// flow rule 101 (GET:/orders): blocked, 100 used of 100 per second, again in 230ms; decided by the token server
/// flow rule 7 (db): pass, 37 used of 100 concurrent, 62 left; decided by the token server
/// param rule 5: blocked; no token server decided (timeout), so fallback policy Local did
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The rule that decided.
    pub rule: RuleId,
    /// What the rule protects; empty if neither a server nor a known rule says.
    pub resource: Box<str>,
    /// What was decided and by whom, or what would be if it had been asked in earnest.
    pub outcome: Outcome,
    /// How the rule stands; `None` when the client decided by itself or by a lease, and when the server does not
    /// say, as Sentinel's.
    pub usage: Option<Usage>,
}

/// How a rule stood when it decided. Of several parameter values, for the one with the least left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Tokens that counted before the request.
    pub used: u64,
    /// Tokens that are left after it.
    pub remaining: u64,
    /// What is allowed, in `unit`.
    pub threshold: f64,
    /// What `threshold` counts.
    pub unit: Unit,
    /// The window; zero where there is none.
    pub window: Duration,
    /// After a block: how long until the same request would pass if nobody else asked. `None`: no
    /// time does it (it asks for more than there is, or calls must end first), or it was not
    /// blocked.
    pub retry: Option<Duration>,
    /// Whether the rule is enforced.
    pub mode: Mode,
    /// Clients connected to the rule's namespace.
    pub connected: u32,
}

impl Usage {
    /// The limit in words: "100 per second", "5 per 60 s", "100 concurrent".
    #[must_use]
    pub fn limit(&self) -> String {
        let unit = match self.unit {
            Unit::PerWindow => limiter::Unit::PerWindow,
            Unit::PerSecond => limiter::Unit::PerSecond,
            Unit::InProgress => limiter::Unit::InProgress,
            Unit::Unknown(unit) => return format!("{} of unit {unit}", self.threshold),
        };
        let window_ms = u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX);
        limiter::limit_in_words(self.threshold, unit, window_ms)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name(f, self.rule, &self.resource)?;
        match self.outcome.verdict {
            Verdict::Pass => write!(f, ": pass")?,
            Verdict::Waited(wait) => write!(f, ": pass after {:?}", rounded(wait))?,
            Verdict::Block => write!(f, ": blocked")?,
        }
        if let Some(usage) = &self.usage {
            write!(f, ", {} used of {}", usage.used, usage.limit())?;
            match (self.outcome.verdict, usage.retry) {
                (Verdict::Block, Some(retry)) => write!(f, ", again in {:?}", rounded(retry))?,
                (Verdict::Block, None) if usage.unit == Unit::InProgress => {
                    write!(f, ", until calls end")?;
                }
                (Verdict::Block, None) => write!(f, ", and no waiting helps")?,
                (Verdict::Pass | Verdict::Waited(_), _) => {
                    write!(f, ", {} left", usage.remaining)?;
                }
            }
            match usage.mode {
                Mode::Enforce => {}
                Mode::Shadow => write!(f, ", shadow: nothing is refused")?,
                Mode::Pass => write!(f, ", switched to pass")?,
                Mode::Block => write!(f, ", switched to block")?,
                Mode::Unknown(mode) => write!(f, ", mode {mode}")?,
            }
        }
        match self.outcome.decided_by {
            DecidedBy::Server => write!(f, "; decided by the token server"),
            DecidedBy::Lease => write!(f, "; tokens that the token server granted in advance"),
            DecidedBy::MaxWait { wait } => {
                let wait = rounded(wait);
                write!(f, "; the token server asks for {wait:?}, over this client's longest wait")
            }
            DecidedBy::Fallback { reason, policy } => {
                write!(f, "; no token server decided ({reason}), so fallback policy {policy:?} did")
            }
        }
    }
}

/// A time as people read it: three or four digits, and not earlier than it is.
fn rounded(time: Duration) -> Duration {
    let step = match time.as_nanos() {
        0..10_000_000 => 1_000,
        10_000_000..1_000_000_000 => 1_000_000,
        1_000_000_000.. => 10_000_000,
    };
    let nanos = time.as_nanos().div_ceil(step).saturating_mul(step);
    u64::try_from(nanos).map_or(time, Duration::from_nanos)
}

/// Nobody said how a rule stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexplained {
    /// The rule.
    pub rule: RuleId,
    /// What it protects; empty if the client does not know the rule.
    pub resource: Box<str>,
    /// Why no server said.
    pub reason: Reason,
    /// What would decide a check now.
    pub policy: FallbackPolicy,
}

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name(f, self.rule, &self.resource)?;
        let Self { reason, policy, .. } = self;
        write!(f, ": no token server decides ({reason}); a check falls back to policy {policy:?}")
    }
}

impl std::error::Error for Unexplained {}

fn name(f: &mut fmt::Formatter<'_>, rule: RuleId, resource: &str) -> fmt::Result {
    if resource.is_empty() { write!(f, "{rule}") } else { write!(f, "{rule} ({resource})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_few_digits_and_are_not_too_early() {
        for (nanos, text) in [
            (0, "0ns"),
            (1, "1µs"),
            (9_999_001, "10ms"),
            (230_000_000, "230ms"),
            (495_674_194, "496ms"),
            (55_347_720_522, "55.35s"),
            (u64::MAX, "18446744073.709551615s"),
        ] {
            assert_eq!(format!("{:?}", rounded(Duration::from_nanos(nanos))), text);
        }
    }

    #[test]
    fn a_limit_is_said_with_its_unit() {
        let usage = |unit, ms| Usage {
            used: 0,
            remaining: 0,
            threshold: 2.5,
            unit,
            window: Duration::from_millis(ms),
            retry: None,
            mode: Mode::Enforce,
            connected: 0,
        };
        for (unit, ms, words) in [
            (Unit::PerSecond, 1_000, "2.5 per second"),
            (Unit::PerWindow, 60_000, "2.5 per 60 s"),
            (Unit::InProgress, 0, "2.5 concurrent"),
            (Unit::Unknown(9), 0, "2.5 of unit 9"),
        ] {
            assert_eq!(usage(unit, ms).limit(), words);
        }
        let blocked = Outcome { verdict: Verdict::Block, decided_by: DecidedBy::Server };
        let why = |usage| {
            let (rule, resource) = (RuleId::Flow(7), "db".into());
            Why { rule, resource, outcome: blocked, usage: Some(usage) }.to_string()
        };
        let full = why(usage(Unit::InProgress, 0));
        assert!(full.contains(", until calls end; "), "{full}");
        let switched = why(Usage { mode: Mode::Block, ..usage(Unit::PerSecond, 1_000) });
        assert!(switched.contains(", and no waiting helps, switched to block; "), "{switched}");
    }

    #[test]
    fn a_wait_over_the_clients_longest_is_told() {
        let decided_by = DecidedBy::MaxWait { wait: Duration::from_millis(70) };
        let outcome = Outcome { verdict: Verdict::Block, decided_by };
        let why = Why { rule: RuleId::Flow(7), resource: Box::default(), outcome, usage: None };
        assert_eq!(
            why.to_string(),
            "flow rule 7: blocked; the token server asks for 70ms, over this client's longest wait"
        );
    }
}
