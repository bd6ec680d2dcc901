//! A server's answer of any kind, as it waits for its caller.

use protocol::{DecodeError, Explained, ExtendedResponse, Response, Status, kind};

/// An answer: small, or one that says more and is kept apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Plain(Response),
    Extended(Box<Extended>),
}

/// What an extended answer says beyond a head.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Extended {
    Ask { xid: i32, status: Status, explained: Explained<'static> },
    AcquireAll { xid: i32, status: Status, failed: Option<u8>, wait_ns: u64 },
    Lease { xid: i32, status: Status, lease_id: i64, granted: u32, ttl_ms: u32 },
}

impl Reply {
    pub(crate) fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let response = Response::decode(body)?;
        let Response::Head { kind: kind::ASK | kind::ACQUIRE_ALL | kind::LEASE, .. } = response
        else {
            return Ok(Self::Plain(response));
        };
        Ok(match ExtendedResponse::decode(body)? {
            ExtendedResponse::Ask { xid, status, explained } => {
                let explained = explained.into_owned();
                Self::Extended(Box::new(Extended::Ask { xid, status, explained }))
            }
            ExtendedResponse::AcquireAll { xid, status, failed, wait_ns } => {
                Self::Extended(Box::new(Extended::AcquireAll { xid, status, failed, wait_ns }))
            }
            ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms } => {
                Self::Extended(Box::new(Extended::Lease { xid, status, lease_id, granted, ttl_ms }))
            }
            ExtendedResponse::Head { .. } => Self::Plain(response),
        })
    }

    pub(crate) fn xid(&self) -> i32 {
        match self {
            Self::Plain(response) => response.xid(),
            Self::Extended(extended) => match **extended {
                Extended::Ask { xid, .. }
                | Extended::AcquireAll { xid, .. }
                | Extended::Lease { xid, .. } => xid,
            },
        }
    }

    /// The request type that is answered.
    pub(crate) fn kind(&self) -> i8 {
        match self {
            Self::Plain(response) => match response {
                Response::Ping { .. } | Response::PingRefused { .. } => kind::PING,
                Response::Flow { .. } => kind::FLOW,
                Response::Param { .. } => kind::PARAM,
                Response::ConcurrentAcquire { .. } => kind::CONCURRENT_ACQUIRE,
                Response::ConcurrentRelease { .. } => kind::CONCURRENT_RELEASE,
                Response::Hello { .. } => kind::HELLO,
                Response::Head { kind, .. } => *kind,
            },
            Self::Extended(extended) => match **extended {
                Extended::Ask { .. } => kind::ASK,
                Extended::AcquireAll { .. } => kind::ACQUIRE_ALL,
                Extended::Lease { .. } => kind::LEASE,
            },
        }
    }

    /// The outcome; `None` where the answer has none.
    pub(crate) fn status(&self) -> Option<Status> {
        match self {
            Self::Plain(response) => match response {
                Response::Flow { status, .. }
                | Response::Param { status, .. }
                | Response::ConcurrentAcquire { status, .. }
                | Response::ConcurrentRelease { status, .. }
                | Response::Head { status, .. } => Some(*status),
                Response::Ping { .. } | Response::PingRefused { .. } | Response::Hello { .. } => {
                    None
                }
            },
            Self::Extended(extended) => match **extended {
                Extended::Ask { status, .. }
                | Extended::AcquireAll { status, .. }
                | Extended::Lease { status, .. } => Some(status),
            },
        }
    }

    /// Whether it answers what only gave something back, or said something.
    pub(crate) fn is_receipt(&self) -> bool {
        match self {
            Self::Plain(response) => {
                matches!(response, Response::ConcurrentRelease { .. })
                    || matches!(self.kind(), kind::LEASE | kind::RULES)
            }
            Self::Extended(extended) => matches!(**extended, Extended::Lease { lease_id: 0, .. }),
        }
    }

    /// The concurrency token that is granted.
    pub(crate) fn granted(&self) -> Option<i64> {
        match self {
            Self::Plain(Response::ConcurrentAcquire { status: Status::Ok, token_id, .. }) => {
                Some(*token_id).filter(|&id| id != 0)
            }
            Self::Plain(_) | Self::Extended(_) => None,
        }
    }
}
