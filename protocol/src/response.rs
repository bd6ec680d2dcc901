//! What a server answers.
//!
//! ```text
//! body:  | xid i32 | type i8 | status i8 | data                                            |
//!
//! ping                   0         0     | connected clients i32                           |
//! ping refused           0        -1     |                                                 |
//! flow, parameter flow   1, 2    any     | remaining i32, wait in milliseconds i32         |
//! concurrency acquire    3       any     | token id i64 (0 if none)                        |
//! concurrency release    4       any     |                                                 |
//! hello                 16         0     | version u16, feature bits u32, revision u64     |
//! ```
//!
//! Sentinel: `DefaultResponseEntityWriter.java`, `DefaultResponseEntityDecoder.java` and the
//! `codec/data` classes beside them.

use bytes::{Buf, BufMut, BytesMut};

use crate::frame::{RESPONSE_HEAD_LEN, put_frame};
use crate::{Status, kind};

/// Version of the extension frames that [`Response::Hello`] announces.
pub const HELLO_VERSION: u16 = 1;

/// One answer of a server. `xid` is that of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// The client now belongs to its namespace.
    Ping {
        /// The request's number.
        xid: i32,
        /// Clients of the namespace, this one included. Read as -1 from data of two or three
        /// bytes, as in Java.
        connected: i32,
    },
    /// The namespace of a ping is refused.
    PingRefused {
        /// The request's number.
        xid: i32,
    },
    /// Tokens of a flow rule.
    Flow {
        /// The request's number.
        xid: i32,
        /// The outcome.
        status: Status,
        /// Tokens that are left; 0 where the server does not say.
        remaining: i32,
        /// How long to wait before going on, with [`Status::ShouldWait`]; otherwise 0.
        wait_ms: i32,
    },
    /// Tokens of a parameter rule.
    Param {
        /// The request's number.
        xid: i32,
        /// The outcome, for all values together.
        status: Status,
        /// Tokens that are left; 0 where the server does not say.
        remaining: i32,
        /// Written as 0 by every server (`ParamFlowRequestProcessor.java`).
        wait_ms: i32,
    },
    /// A concurrency token.
    ConcurrentAcquire {
        /// The request's number.
        xid: i32,
        /// The outcome.
        status: Status,
        /// The token to release; 0 if none was given.
        token_id: i64,
    },
    /// A concurrency token was given back.
    ConcurrentRelease {
        /// The request's number.
        xid: i32,
        /// [`Status::ReleaseOk`], [`Status::AlreadyRelease`], or why neither.
        status: Status,
    },
    /// The server speaks the extension frames.
    Hello {
        /// The request's number.
        xid: i32,
        /// Version of the extension; see [`HELLO_VERSION`].
        version: u16,
        /// What the server can do beyond the version, a bit each; unknown bits are to be ignored.
        features: u32,
        /// Revision of the server's rules: another value means other rules.
        revision: u64,
    },
    /// A head without data: the answer to a type that has no other, or one that came without the
    /// data of its type and cannot do without.
    Head {
        /// The request's number.
        xid: i32,
        /// The request's type.
        kind: i8,
        /// The outcome.
        status: Status,
    },
}

/// Why a frame body is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Too short for a head. [`Deframer`](crate::Deframer) gives no such body.
    #[error("body of {len} bytes, a head needs {RESPONSE_HEAD_LEN}")]
    Head {
        /// Bytes in the body.
        len: usize,
    },
}

impl Response {
    /// Appends the whole frame, prefix included.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) {
        match *self {
            Self::Flow { xid, status, remaining, wait_ms } => {
                put_tokens(out, xid, kind::FLOW, status, remaining, wait_ms);
            }
            Self::Param { xid, status, remaining, wait_ms } => {
                put_tokens(out, xid, kind::PARAM, status, remaining, wait_ms);
            }
            Self::Ping { xid, connected } => put_frame::<12>(out, |body| {
                put_head(body, xid, kind::PING, Status::Ok);
                body.put_i32(connected);
            }),
            Self::PingRefused { xid } => put_head_only(out, xid, kind::PING, Status::Fail),
            Self::ConcurrentAcquire { xid, status, token_id } => put_frame::<16>(out, |body| {
                put_head(body, xid, kind::CONCURRENT_ACQUIRE, status);
                body.put_i64(token_id);
            }),
            Self::ConcurrentRelease { xid, status } => {
                put_head_only(out, xid, kind::CONCURRENT_RELEASE, status);
            }
            Self::Hello { xid, version, features, revision } => put_frame::<22>(out, |body| {
                put_head(body, xid, kind::HELLO, Status::Ok);
                body.put_u16(version);
                body.put_u32(features);
                body.put_u64(revision);
            }),
            Self::Head { xid, kind, status } => put_head_only(out, xid, kind, status),
        }
    }

    /// Reads a frame body, as leniently as Sentinel's client and without losing the next frame.
    ///
    /// * flow, parameter flow: data of any length but 8 is (0, 0);
    /// * ping: one byte is the count of servers before 1.7.0; two or three are -1; none, or a
    ///   status other than 0 and -1, is a [`Head`](Self::Head);
    /// * concurrency acquire: data shorter than 8 is token 0;
    /// * hello without its data, or with a status other than 0, is a [`Head`](Self::Head).
    ///
    /// Other bytes behind the data are ignored.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] when the body is shorter than a head.
    #[inline]
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let Some((mut head, data)) = body.split_at_checked(RESPONSE_HEAD_LEN) else {
            return Err(DecodeError::Head { len: body.len() });
        };
        let xid = head.get_i32();
        let kind = head.get_i8();
        let status = Status::from(head.get_i8());
        Ok(match kind {
            kind::FLOW => {
                let (remaining, wait_ms) = get_tokens(data);
                Self::Flow { xid, status, remaining, wait_ms }
            }
            kind::PARAM => {
                let (remaining, wait_ms) = get_tokens(data);
                Self::Param { xid, status, remaining, wait_ms }
            }
            kind::PING => decode_ping(xid, status, data),
            kind::CONCURRENT_ACQUIRE => {
                let token_id = data.first_chunk().map_or(0, |id| i64::from_be_bytes(*id));
                Self::ConcurrentAcquire { xid, status, token_id }
            }
            kind::CONCURRENT_RELEASE => Self::ConcurrentRelease { xid, status },
            kind::HELLO => decode_hello(xid, status, data),
            kind => Self::Head { xid, kind, status },
        })
    }

    /// The number of the request that this answers.
    #[must_use]
    #[inline]
    pub fn xid(&self) -> i32 {
        match *self {
            Self::Ping { xid, .. }
            | Self::PingRefused { xid }
            | Self::Flow { xid, .. }
            | Self::Param { xid, .. }
            | Self::ConcurrentAcquire { xid, .. }
            | Self::ConcurrentRelease { xid, .. }
            | Self::Hello { xid, .. }
            | Self::Head { xid, .. } => xid,
        }
    }
}

#[inline]
fn put_head(body: &mut &mut [u8], xid: i32, kind: i8, status: Status) {
    body.put_i32(xid);
    body.put_i8(kind);
    body.put_i8(status.into());
}

fn put_head_only(out: &mut BytesMut, xid: i32, kind: i8, status: Status) {
    put_frame::<8>(out, |body| put_head(body, xid, kind, status));
}

#[inline]
fn put_tokens(
    out: &mut BytesMut,
    xid: i32,
    kind: i8,
    status: Status,
    remaining: i32,
    wait_ms: i32,
) {
    put_frame::<16>(out, |body| {
        put_head(body, xid, kind, status);
        body.put_i32(remaining);
        body.put_i32(wait_ms);
    });
}

/// Remaining tokens and wait; zeros unless there are exactly eight bytes, as
/// `FlowResponseDataDecoder.java` has it.
#[inline]
fn get_tokens(mut data: &[u8]) -> (i32, i32) {
    if data.len() == 8 { (data.get_i32(), data.get_i32()) } else { (0, 0) }
}

fn decode_ping(xid: i32, status: Status, mut data: &[u8]) -> Response {
    let connected = match (status, data.len()) {
        (Status::Fail, _) => return Response::PingRefused { xid },
        (Status::Ok, 1) => i32::from(data.get_i8()),
        (Status::Ok, 2..=3) => -1,
        (Status::Ok, 4..) => data.get_i32(),
        _ => return Response::Head { xid, kind: kind::PING, status },
    };
    Response::Ping { xid, connected }
}

fn decode_hello(xid: i32, status: Status, mut data: &[u8]) -> Response {
    if status != Status::Ok || data.len() < 14 {
        return Response::Head { xid, kind: kind::HELLO, status };
    }
    Response::Hello {
        xid,
        version: data.get_u16(),
        features: data.get_u32(),
        revision: data.get_u64(),
    }
}
