//! What a server or the engine tells about tokens beyond an answer.

use std::time::Duration;

use limiter::{Decision, Undecided};
use protocol::{Explained, Mode, Status, Unit};

use crate::{
    Answer, Usage,
    reply::{Extended, Reply},
};

/// How tokens are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) priority: bool,
    /// Take nothing.
    pub(crate) peek: bool,
    /// A longer wait is a block; `None`: any wait will do.
    pub(crate) max_wait: Option<Duration>,
}

/// An answer with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) answer: Answer,
    pub(crate) usage: Option<Usage>,
    /// Empty when it was not told.
    pub(crate) resource: Box<str>,
}

impl From<Answer> for Told {
    fn from(answer: Answer) -> Self {
        Self { answer, usage: None, resource: Box::default() }
    }
}

impl From<Reply> for Told {
    fn from(reply: Reply) -> Self {
        let Reply::Extended(extended) = reply else { return Answer::of(&reply).into() };
        match &*extended {
            Extended::Ask { status, explained, .. } => Self::of_wire(*status, explained),
            // Never completes a request of the other type.
            Extended::AcquireAll { .. } | Extended::Lease { .. } => {
                Answer::new(Status::Fail, 0, 0).into()
            }
        }
    }
}

impl Told {
    fn of_wire(status: Status, explained: &Explained<'_>) -> Self {
        let time = Duration::from_nanos(explained.wait_ns);
        let told = (explained.wait_ns != Explained::NEVER).then_some(time);
        let usage = Usage {
            used: explained.used,
            remaining: explained.remaining,
            threshold: explained.threshold,
            unit: explained.unit,
            window: Duration::from_millis(explained.window_ms),
            retry: told.filter(|_| status == Status::Blocked),
            mode: explained.mode,
            connected: explained.connected,
        };
        let answer = Answer {
            status,
            remaining: clamped(explained.remaining),
            wait: if status == Status::ShouldWait { time } else { Duration::ZERO },
        };
        Self { answer, usage: Some(usage), resource: (*explained.resource).into() }
    }

    pub(crate) fn of_engine(explained: limiter::Explained) -> Self {
        let answer = decided(Ok(explained.decision));
        let remaining = match explained.decision {
            Decision::Pass { remaining } => remaining,
            Decision::Wait { .. } | Decision::Block => 0,
        };
        let usage = Usage {
            used: explained.used,
            remaining,
            threshold: explained.threshold,
            unit: match explained.unit {
                limiter::Unit::PerWindow => Unit::PerWindow,
                limiter::Unit::PerSecond => Unit::PerSecond,
                limiter::Unit::InProgress => Unit::InProgress,
            },
            window: Duration::from_millis(explained.window_ms),
            retry: explained.retry,
            mode: match explained.mode {
                limiter::rule::Mode::Enforce => Mode::Enforce,
                limiter::rule::Mode::Shadow => Mode::Shadow,
                limiter::rule::Mode::Pass => Mode::Pass,
                limiter::rule::Mode::Block => Mode::Block,
            },
            connected: explained.connected,
        };
        Self { answer, usage: Some(usage), resource: explained.resource }
    }
}

/// The engine's decision as a server would write it, but with the wait as it is.
pub(crate) fn decided(decided: Result<Decision, Undecided>) -> Answer {
    match decided {
        Ok(Decision::Pass { remaining }) => Answer::new(Status::Ok, clamped(remaining), 0),
        Ok(Decision::Wait { wait }) => Answer { status: Status::ShouldWait, remaining: 0, wait },
        Ok(Decision::Block) => Answer::new(Status::Blocked, 0, 0),
        Err(undecided) => Answer::new(status(undecided), 0, 0),
    }
}

/// The status that a server would answer.
pub(crate) fn status(undecided: Undecided) -> Status {
    match undecided {
        Undecided::BadRequest => Status::BadRequest,
        Undecided::NoRule => Status::NoRuleExists,
        Undecided::TooManyRequests => Status::TooManyRequest,
    }
}

fn clamped(remaining: u64) -> i32 {
    i32::try_from(remaining).unwrap_or(i32::MAX)
}
