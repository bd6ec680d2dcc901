//! What a check came to, and who decided.

use std::{fmt, time::Duration};

use limiter::rule::FallbackPolicy;
use protocol::Status;

use crate::{Answer, NoAnswer};

/// The outcome of [`Client::check`](crate::Client::check).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the caller is to do.
    pub verdict: Verdict,
    /// Who said so.
    pub decided_by: DecidedBy,
}

impl Outcome {
    /// Whether the caller may go on, after a wait or at once.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        !self.is_block()
    }

    /// Whether the caller must not go on.
    #[must_use]
    pub fn is_block(&self) -> bool {
        self.verdict == Verdict::Block
    }

    /// Why no server decided; `None` when one did.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<Reason> {
        self.decided_by.fallback_reason()
    }
}

/// What the caller of a check is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Pass,
    /// Go on: the wait that the server asked for is over, or the one that a rule which paces asks
    /// for while no server decides.
    Waited(Duration),
    /// Refuse.
    Block,
}

/// Who decided a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// The token server, or the embedded engine.
    Server,
    /// The client, by tokens that the server had granted it in advance: a lease.
    Lease,
    /// The client's `max_wait`: the server asked for a longer wait. The tokens stay booked.
    MaxWait {
        /// The wait that the server asked for.
        wait: Duration,
    },
    /// The client, by the rule's policy.
    Fallback {
        /// Why no server's decision was to be had.
        reason: Reason,
        /// What the rule says to do then.
        policy: FallbackPolicy,
    },
}

impl DecidedBy {
    /// Why no server decided; `None` when one did.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<Reason> {
        match *self {
            Self::Fallback { reason, .. } => Some(reason),
            Self::Server | Self::Lease | Self::MaxWait { .. } => None,
        }
    }
}

/// Why a client decides by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No server is connected.
    Unreachable,
    /// The server did not answer in time.
    TimedOut,
    /// More calls wait for the server than the client allows.
    Busy,
    /// The namespace asks more than its server lets it.
    TooManyRequests,
    /// The server could not decide.
    Fail,
    /// The request makes no sense to the server, or does not fit into a frame.
    BadRequest,
    /// The server has no rule of that id.
    NoRule,
    /// A status that is no decision: one that is not assigned, or a wait where none can be.
    UnknownStatus,
    /// The server does not know such requests: Sentinel's holds no concurrency tokens.
    Unsupported,
}

impl Reason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 9] = [
        Self::Unreachable,
        Self::TimedOut,
        Self::Busy,
        Self::TooManyRequests,
        Self::Fail,
        Self::BadRequest,
        Self::NoRule,
        Self::UnknownStatus,
        Self::Unsupported,
    ];

    /// The name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timeout",
            Self::Busy => "busy",
            Self::TooManyRequests => "too_many_requests",
            Self::Fail => "fail",
            Self::BadRequest => "bad_request",
            Self::NoRule => "no_rule",
            Self::UnknownStatus => "unknown_status",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server's word on a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    Pass,
    /// It passes by tokens that it has lent.
    Lent,
    Wait(Duration),
    Block,
    /// It is none; the client decides.
    None(Reason),
}

impl Ruling {
    /// What an answer that may tell to wait means. Follows `FlowRuleChecker.applyTokenResult`, except that a status without a meaning is no
    /// decision here, as Sentinel has it for hot parameters.
    pub(crate) fn waiting(answer: Result<Answer, NoAnswer>) -> Self {
        match answer {
            Ok(Answer { status: Status::ShouldWait, wait, .. }) => Self::Wait(wait),
            other => Self::at_once(other),
        }
    }

    /// The same where a wait means nothing. Follows `ParamFlowChecker.applyTokenResult`.
    pub(crate) fn at_once(answer: Result<Answer, NoAnswer>) -> Self {
        let status = match answer {
            Ok(answer) => answer.status,
            Err(NoAnswer::Unreachable) => return Self::None(Reason::Unreachable),
            Err(NoAnswer::TimedOut) => return Self::None(Reason::TimedOut),
            Err(NoAnswer::Busy) => return Self::None(Reason::Busy),
            Err(NoAnswer::Unsupported) => return Self::None(Reason::Unsupported),
            Err(NoAnswer::BadRequest(_)) => return Self::None(Reason::BadRequest),
        };
        match status {
            Status::Ok => Self::Pass,
            Status::Blocked => Self::Block,
            Status::TooManyRequest => Self::None(Reason::TooManyRequests),
            Status::Fail => Self::None(Reason::Fail),
            Status::BadRequest => Self::None(Reason::BadRequest),
            Status::NoRuleExists => Self::None(Reason::NoRule),
            Status::ShouldWait
            | Status::NoRefRuleExists
            | Status::NotAvailable
            | Status::ReleaseOk
            | Status::AlreadyRelease
            | Status::Unknown(_) => Self::None(Reason::UnknownStatus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_a_decision_or_a_reason_to_fall_back() {
        let wait = Duration::from_millis(40);
        for code in i8::MIN..=i8::MAX {
            let status = Status::from(code);
            let wait_ms = if code == 2 { 40 } else { 0 };
            let answer = Ok(Answer::new(status, 0, wait_ms));
            let (flow, param) = match code {
                0 => (Ruling::Pass, Ruling::Pass),
                1 => (Ruling::Block, Ruling::Block),
                2 => (Ruling::Wait(wait), Ruling::None(Reason::UnknownStatus)),
                _ => {
                    let reason = match code {
                        -4 => Reason::BadRequest,
                        -2 => Reason::TooManyRequests,
                        -1 => Reason::Fail,
                        3 => Reason::NoRule,
                        _ => Reason::UnknownStatus,
                    };
                    (Ruling::None(reason), Ruling::None(reason))
                }
            };
            assert_eq!((Ruling::waiting(answer), Ruling::at_once(answer)), (flow, param), "{code}");
        }
    }

    #[test]
    fn reasons_have_names_of_their_own_and_stand_in_their_places() {
        for (i, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
            let same = Reason::ALL.iter().filter(|other| other.as_str() == reason.as_str());
            assert_eq!(same.count(), 1);
        }
    }
}
