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
//! renew                 17     0, 7, -4  |                                                 |
//! adjust                19     0, 3, -4  |                                                 |
//! ```
//!
//! [`ExtendedResponse`](crate::ExtendedResponse) has the layouts of the types 18, 20 and 21.
//!
//! Sentinel: `DefaultResponseEntityWriter.java`, `DefaultResponseEntityDecoder.java` and the
//! `codec/data` classes beside them.

use bytes::{Buf, BufMut, BytesMut};

use crate::frame::{PREFIX_LEN, RESPONSE_HEAD_LEN};
use crate::{Status, kind};

/// Version of the extension frames that [`Response::Hello`] announces.
pub const HELLO_VERSION: u16 = 1;

/// Bytes of version, feature bits and revision.
const HELLO_DATA_LEN: usize = 14;

/// One answer of a server. `xid` is that of the request.
// Small, since every answer is made and moved as one; what needs more room is an ExtendedResponse.
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
        /// What the server can do beyond the version, a bit each of [`feature`](crate::feature);
        /// unknown bits are to be ignored.
        features: u32,
        /// Revision of the server's rules: another value means other rules.
        revision: u64,
    },
    /// A head without data: the answer to a type that has no other (a renewal, an adjustment), the
    /// head of an [`ExtendedResponse`](crate::ExtendedResponse), or an answer that came without the
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
            Self::Ping { xid, connected } => {
                out.put_slice(&head(10, xid, kind::PING, Status::Ok));
                out.put_i32(connected);
            }
            Self::PingRefused { xid } => {
                out.put_slice(&head(6, xid, kind::PING, Status::Fail));
            }
            Self::ConcurrentAcquire { xid, status, token_id } => {
                out.put_slice(&head(14, xid, kind::CONCURRENT_ACQUIRE, status));
                out.put_i64(token_id);
            }
            Self::ConcurrentRelease { xid, status } => {
                out.put_slice(&head(6, xid, kind::CONCURRENT_RELEASE, status));
            }
            Self::Hello { xid, version, features, revision } => {
                out.put_slice(&head(20, xid, kind::HELLO, Status::Ok));
                out.put_u16(version);
                out.put_u32(features);
                out.put_u64(revision);
            }
            Self::Head { xid, kind, status } => out.put_slice(&head(6, xid, kind, status)),
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
        let Some((&[a, b, c, d, kind, status], data)) = body.split_first_chunk() else {
            return Err(DecodeError::Head { len: body.len() });
        };
        let xid = i32::from_be_bytes([a, b, c, d]);
        let kind = kind.cast_signed();
        let status = Status::from(status.cast_signed());
        Ok(match kind {
            kind::FLOW => {
                let (remaining, wait_ms) = tokens(data);
                Self::Flow { xid, status, remaining, wait_ms }
            }
            kind::PARAM => {
                let (remaining, wait_ms) = tokens(data);
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

/// Prefix and head of a frame; `body_len` counts the head and what is to follow it.
#[inline]
fn head(body_len: u8, xid: i32, kind: i8, status: Status) -> [u8; PREFIX_LEN + RESPONSE_HEAD_LEN] {
    let [a, b, c, d] = xid.to_be_bytes();
    let status = i8::from(status);
    [0, body_len, a, b, c, d, kind.cast_unsigned(), status.cast_unsigned()]
}

/// The answer that a server writes all day, as one copy of sixteen bytes.
#[inline]
fn put_tokens(
    out: &mut BytesMut,
    xid: i32,
    kind: i8,
    status: Status,
    remaining: i32,
    wait_ms: i32,
) {
    let head = u64::from_be_bytes(head(14, xid, kind, status));
    let data = u64::from(remaining.cast_unsigned()) << 32 | u64::from(wait_ms.cast_unsigned());
    out.put_slice(&(u128::from(head) << 64 | u128::from(data)).to_be_bytes());
}

/// Remaining tokens and wait; zeros unless there are exactly eight bytes, as
/// `FlowResponseDataDecoder.java` has it.
#[inline]
fn tokens(data: &[u8]) -> (i32, i32) {
    let &[a, b, c, d, e, f, g, h] = data else { return (0, 0) };
    (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]))
}

fn decode_ping(xid: i32, status: Status, data: &[u8]) -> Response {
    let connected = match (status, data) {
        (Status::Fail, _) => return Response::PingRefused { xid },
        (Status::Ok, &[count]) => i32::from(count.cast_signed()),
        (Status::Ok, &[a, b, c, d, ..]) => i32::from_be_bytes([a, b, c, d]),
        (Status::Ok, &[_, ..]) => -1,
        _ => return Response::Head { xid, kind: kind::PING, status },
    };
    Response::Ping { xid, connected }
}

fn decode_hello(xid: i32, status: Status, mut data: &[u8]) -> Response {
    if status != Status::Ok || data.len() < HELLO_DATA_LEN {
        return Response::Head { xid, kind: kind::HELLO, status };
    }
    Response::Hello {
        xid,
        version: data.get_u16(),
        features: data.get_u32(),
        revision: data.get_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(response: Response) -> Vec<u8> {
        let mut out = BytesMut::new();
        response.encode(&mut out);
        out.to_vec()
    }

    #[test]
    fn our_own_messages_have_this_layout() {
        let acquired = Response::ConcurrentAcquire { xid: 1, status: Status::Ok, token_id: 258 };
        assert_eq!(frame(acquired), [0, 14, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        let released = Response::ConcurrentRelease { xid: 1, status: Status::AlreadyRelease };
        assert_eq!(frame(released), [0, 6, 0, 0, 0, 1, 4, 7]);
        let hello = Response::Hello { xid: 1, version: 2, features: 3, revision: 4 };
        assert_eq!(
            frame(hello),
            [0, 20, 0, 0, 0, 1, 16, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4]
        );
    }

    #[test]
    fn what_another_server_leaves_out_is_read_as_nothing() {
        let head = |kind, status| Response::Head { xid: 1, kind, status };
        for (body, expected) in [
            (&[0, 0, 0, 1, 0, 0][..], head(kind::PING, Status::Ok)),
            (&[0, 0, 0, 1, 0, 3, 0, 0, 0, 9], head(kind::PING, Status::NoRuleExists)),
            (&[0, 0, 0, 1, 0, 255, 0, 0, 0, 9], Response::PingRefused { xid: 1 }),
            (
                &[0, 0, 0, 1, 3, 252, 0, 0],
                Response::ConcurrentAcquire { xid: 1, status: Status::BadRequest, token_id: 0 },
            ),
            (&[0, 0, 0, 1, 16, 252], head(kind::HELLO, Status::BadRequest)),
            (&[0, 0, 0, 1, 16, 0, 0, 1], head(kind::HELLO, Status::Ok)),
            (&[0, 0, 0, 1, 17, 0, 1, 2, 3], head(17, Status::Ok)),
        ] {
            assert_eq!(Response::decode(body), Ok(expected), "{body:?}");
        }
    }

    #[test]
    fn an_answer_stays_small() {
        assert_eq!(size_of::<Response>(), 24);
    }

    #[test]
    fn a_later_hello_may_say_more() {
        let hello = Response::Hello { xid: 1, version: 2, features: 3, revision: 4 };
        let mut body = frame(hello).split_off(PREFIX_LEN);
        body.extend([9; 20]);
        assert_eq!(Response::decode(&body), Ok(hello));
    }

    #[test]
    fn a_body_without_a_head_is_no_response() {
        for len in 0..6 {
            assert_eq!(Response::decode(&[0; 6][..len]), Err(DecodeError::Head { len }));
        }
    }
}
