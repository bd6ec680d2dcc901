//! Bodies with a head but without sense, and what they are answered.

use crate::{Response, Status, kind};

/// A frame body that is no request, although its head could be read.
///
/// Sentinel leaves most of these without an answer (`NettyRequestDecoder.java`), so that its
/// clients run into their time-out. Here each gets the answer that lets the client fall back at
/// once, and the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("bad request {xid} of type {kind}")]
pub struct BadRequest {
    /// The id that the answer repeats.
    pub xid: i32,
    /// The type byte, which the answer repeats; see [`kind`].
    pub kind: i8,
    /// What is wrong with the body.
    #[source]
    pub reason: Malformed,
}

/// What is wrong with a request's body: the field, and what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Too short for a head. [`Deframer`](crate::Deframer) gives no such body.
    #[error("body of {len} bytes has no head")]
    Head {
        /// Bytes in the body.
        len: usize,
    },
    /// The type byte stands for no request.
    #[error("unknown type")]
    Type,
    /// Too few bytes for the fixed fields of this type, or of a part of it.
    #[error("fixed fields need {need} bytes, {have} given")]
    Fields {
        /// Bytes that the fields take.
        need: usize,
        /// Bytes that follow what is in front of them.
        have: usize,
    },
    /// The length of a namespace is not positive, or more than what follows it.
    #[error("namespace length {len}, {have} bytes left")]
    NamespaceLen {
        /// The announced length.
        len: i32,
        /// Bytes that follow the length.
        have: usize,
    },
    /// A namespace of white space only.
    #[error("blank namespace")]
    NamespaceBlank,
    /// The announced number of parameters is not positive.
    #[error("{amount} parameters announced")]
    ParamAmount {
        /// The announced number.
        amount: i32,
    },
    /// The body ends inside a parameter, or before all announced ones have come.
    #[error("parameter {index} needs {need} bytes, {have} left")]
    ParamShort {
        /// Which parameter, from 0.
        index: usize,
        /// Bytes that the next part of the parameter takes.
        need: usize,
        /// Bytes that are left.
        have: usize,
    },
    /// The tag of a parameter stands for no type.
    #[error("parameter {index} has unknown tag {tag}")]
    ParamTag {
        /// Which parameter, from 0.
        index: usize,
        /// The tag.
        tag: i8,
    },
    /// The length of a text parameter is negative, or more than what follows it.
    #[error("parameter {index} has text length {len}, {have} bytes left")]
    ParamTextLen {
        /// Which parameter, from 0.
        index: usize,
        /// The announced length.
        len: i32,
        /// Bytes that follow the length.
        have: usize,
    },
    /// A flag is set that stands for nothing.
    #[error("unknown flags {flags:#04x}")]
    Flags {
        /// All flags.
        flags: u8,
    },
    /// Neither a flow nor a parameter rule is asked about.
    #[error("unknown kind of rule {kind}")]
    RuleKind {
        /// The byte that says what is asked about.
        kind: u8,
    },
    /// The correction of a count stands for nothing.
    #[error("unknown adjustment {op}")]
    Adjustment {
        /// The byte that says what to correct.
        op: u8,
    },
    /// The announced number of rules to ask is none or too many.
    #[error("{amount} rules announced, from 1 to {max} may be", max = crate::CHECKS_MAX)]
    CheckAmount {
        /// The announced number.
        amount: u8,
    },
}

impl BadRequest {
    /// The answer: in the layout of the type if it has one, so that a client reads its frame as
    /// ever, with [`Status::Fail`] for a ping, as Sentinel, and [`Status::BadRequest`] otherwise.
    #[must_use]
    pub fn answer(&self) -> Response {
        let xid = self.xid;
        let status = Status::BadRequest;
        match self.kind {
            kind::PING => Response::PingRefused { xid },
            kind::FLOW => Response::Flow { xid, status, remaining: 0, wait_ms: 0 },
            kind::PARAM => Response::Param { xid, status, remaining: 0, wait_ms: 0 },
            kind::CONCURRENT_ACQUIRE => Response::ConcurrentAcquire { xid, status, token_id: 0 },
            kind::CONCURRENT_RELEASE => Response::ConcurrentRelease { xid, status },
            kind => Response::Head { xid, kind, status },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use bytes::BytesMut;

    use super::*;
    use crate::Request;

    #[test]
    fn each_type_is_answered_in_its_own_layout() {
        for (kind, data, answer) in [
            (kind::PING, &[][..], &[0xff_u8][..]),
            (kind::FLOW, &[0; 11], &[0xfc, 0, 0, 0, 0, 0, 0, 0, 0]),
            (kind::PARAM, &[0; 15], &[0xfc, 0, 0, 0, 0, 0, 0, 0, 0]),
            (kind::CONCURRENT_ACQUIRE, &[0; 11], &[0xfc, 0, 0, 0, 0, 0, 0, 0, 0]),
            (kind::CONCURRENT_RELEASE, &[0; 7], &[0xfc]),
            (5, &[], &[0xfc]),
            (kind::RENEW, &[0; 7], &[0xfc]),
            (kind::ASK, &[0; 17], &[0xfc]),
            (kind::ADJUST, &[0; 17], &[0xfc]),
            (kind::ACQUIRE_ALL, &[0; 15], &[0xfc]),
            (kind::LEASE, &[0; 23], &[0xfc]),
            (kind::RULES, &[0; 7], &[0xfc]),
            (23, &[0; 20], &[0xfc]),
            (-1, &[], &[0xfc]),
            (i8::MIN, &[], &[0xfc]),
        ] {
            let head = [1, 2, 3, 4, kind.cast_unsigned()];
            let bad = Request::decode(&[&head, data].concat()).unwrap_err();
            let mut out = BytesMut::new();
            bad.answer().encode(&mut out);
            let len = u8::try_from(head.len() + answer.len()).unwrap();
            assert_eq!(out, [&[0, len][..], &head, answer].concat(), "type {kind}");
        }
    }

    #[test]
    fn a_body_without_a_head_harms_nothing() {
        for len in 0..5 {
            let bad = Request::decode(&[1; 5][..len]).unwrap_err();
            assert_eq!(bad.reason, Malformed::Head { len });
            assert_eq!(
                bad.answer(),
                Response::Head { xid: 0, kind: -1, status: Status::BadRequest }
            );
        }
    }

    #[test]
    fn the_reason_is_the_source_and_names_field_and_need() {
        let bad = Request::decode(&[0, 0, 0, 9, 1, 0]).unwrap_err();
        assert_eq!(bad.to_string(), "bad request 9 of type 1");
        assert_eq!(bad.source().unwrap().to_string(), "fixed fields need 12 bytes, 1 given");
    }
}
