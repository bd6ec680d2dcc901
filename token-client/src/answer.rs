//! What a token server said, or why it said nothing.

use std::time::Duration;

use protocol::{EncodeError, Response, Status};

use crate::reply::Reply;

/// A server's answer to a request for tokens, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The outcome.
    pub status: Status,
    /// Tokens that are left. 0 where the server does not say, and -1 from a Java server that was
    /// asked about several values.
    pub remaining: i32,
    /// With [`Status::ShouldWait`], how long to wait before going on; otherwise zero. A negative
    /// wait is read as none at all, and its status as [`Status::Fail`].
    pub wait: Duration,
}

impl Answer {
    pub(crate) fn new(status: Status, remaining: i32, wait_ms: i32) -> Self {
        match u64::try_from(wait_ms) {
            Ok(ms) => Self { status, remaining, wait: Duration::from_millis(ms) },
            Err(_negative) => Self { status: Status::Fail, remaining: 0, wait: Duration::ZERO },
        }
    }

    /// The answer in `reply`, which answers a request for tokens.
    pub(crate) fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Plain(
                Response::Flow { status, remaining, wait_ms, .. }
                | Response::Param { status, remaining, wait_ms, .. },
            ) => Self::new(*status, *remaining, *wait_ms),
            // What carries no tokens is no decision, whatever it says.
            other => match other.status() {
                Some(Status::Ok | Status::Blocked | Status::ShouldWait) | None => {
                    Self::new(Status::Fail, 0, 0)
                }
                Some(status) => Self::new(status, 0, 0),
            },
        }
    }
}

/// A server's answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// Clients of the namespace, this one included; `None` when the server refused the namespace.
    pub clients: Option<u32>,
}

impl Pong {
    pub(crate) fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Plain(Response::Ping { connected, .. }) => {
                Self { clients: u32::try_from(*connected).ok() }
            }
            _ => Self { clients: None },
        }
    }
}

/// What a server said about the extension frames when it was greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Version of the frames.
    pub version: u16,
    /// What the server can do beyond the version, a bit each.
    pub features: u32,
    /// Revision of the server's rules when the connection was made.
    pub revision: u64,
}

/// Why a call got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// No server is connected, or the connection ended while the call waited.
    #[error("no token server is connected")]
    Unreachable,
    /// The time-out passed. The server may have taken the tokens all the same.
    #[error("the token server did not answer in time")]
    TimedOut,
    /// As many calls wait, or as many bytes are to be sent, as the client allows.
    #[error("too many calls wait for the token server")]
    Busy,
    /// A server is connected, but has not said that it knows requests of this kind; Sentinel's never
    /// does, and ours does with its greeting. Nothing was sent.
    #[error("the token server does not know such requests")]
    Unsupported,
    /// The request makes no sense, so nothing was sent.
    #[error("not a request: {0}")]
    BadRequest(#[from] BadCall),
}

/// What is wrong with a call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCall {
    /// Flow ids are positive.
    #[error("a flow id is positive")]
    FlowId,
    /// The count is 0, or more than the wire can carry.
    #[error("a count is from 1 to {}", i32::MAX)]
    Count,
    /// There are no parameters, or they do not fit into one frame.
    #[error("{0}")]
    Params(#[from] EncodeError),
}

impl From<EncodeError> for NoAnswer {
    fn from(error: EncodeError) -> Self {
        Self::BadRequest(BadCall::Params(error))
    }
}

/// The count as the wire carries it.
pub(crate) fn check_tokens(flow_id: i64, count: u32) -> Result<i32, BadCall> {
    if flow_id <= 0 {
        return Err(BadCall::FlowId);
    }
    i32::try_from(count).ok().filter(|&count| count > 0).ok_or(BadCall::Count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_wait_is_a_failure_of_the_server() {
        let answer = Answer::new(Status::ShouldWait, 3, -1);
        assert_eq!((answer.status, answer.wait), (Status::Fail, Duration::ZERO));
    }

    #[test]
    fn ids_and_counts_that_no_server_serves_are_not_sent() {
        assert_eq!(check_tokens(1, 1), Ok(1));
        assert_eq!(check_tokens(1, i32::MAX.unsigned_abs()), Ok(i32::MAX));
        for (flow_id, count, bad) in [
            (0, 1, BadCall::FlowId),
            (-1, 1, BadCall::FlowId),
            (1, 0, BadCall::Count),
            (1, i32::MAX.unsigned_abs() + 1, BadCall::Count),
        ] {
            assert_eq!(check_tokens(flow_id, count), Err(bad), "{flow_id} {count}");
        }
    }
}
