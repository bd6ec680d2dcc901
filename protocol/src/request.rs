//! What a client asks.
//!
//! ```text
//! body:  | xid i32 | type i8 | data                                                   |
//!
//! ping                   0   | length i32, namespace                                  |
//! flow                   1   | flow id i64, count i32, priority u8 (may be absent)    |
//! parameter flow         2   | flow id i64, count i32, amount i32, parameters         |
//! concurrency acquire    3   | flow id i64, count i32                                 |
//! concurrency release    4   | token id i64                                           |
//! hello                 16   |                                                        |
//!
//! renew                 17   | token id i64                                           |
//! ask                   18   | flags u8, longest wait in milliseconds u32, what       |
//! adjust                19   | op u8, age in milliseconds u32, what                   |
//! acquire all           20   | amount u8, that many of: flags u8, what                |
//! lease                 21   | flow id i64, want u32, returned lease i64, used u32    |
//! ```
//!
//! [`What`] has the layout of what is asked about. The flags are 1, priority, and in an ask also 2,
//! peek; a body with any other is a bad one.
//!
//! Sentinel: `DefaultRequestEntityWriter.java`, `DefaultRequestEntityDecoder.java` and the
//! `codec/data` classes beside them. Bytes behind the data are ignored.

mod encode;
mod extension;

use std::borrow::Cow;

use crate::{BadRequest, Checks, Malformed, Params, What, kind};

pub use encode::{EncodeError, encode_param_request};
pub use extension::{ANY_WAIT, Adjustment};

/// Bytes of flow id and count.
pub(crate) const FLOW_FIELDS_LEN: usize = 12;
/// Bytes of flow id, count and amount in front of the parameters.
const PARAM_FIELDS_LEN: usize = FLOW_FIELDS_LEN + 4;

/// One request of a client.
///
/// `xid` is the client's number for it, which the answer repeats. Ids and counts are read as they
/// come; whether they make sense is for the engine to say.
#[derive(Debug, Clone, PartialEq)]
pub enum Request<'a> {
    /// The client belongs to a namespace.
    Ping {
        /// The client's number for the request; Sentinel's clients send 0 here.
        xid: i32,
        /// Not blank when decoded. Bytes that are not UTF-8 are read as U+FFFD.
        namespace: Cow<'a, str>,
    },
    /// Tokens of a flow rule.
    Flow {
        /// The client's number for the request.
        xid: i32,
        /// The rule.
        flow_id: i64,
        /// How many tokens (Sentinel's `acquireCount`).
        count: i32,
        /// Whether tokens of the next bucket may be booked when this one is used up.
        priority: bool,
    },
    /// Tokens of a parameter rule for each of some values.
    Param {
        /// The client's number for the request.
        xid: i32,
        /// The rule.
        flow_id: i64,
        /// How many tokens for each value (Sentinel's `acquireCount`).
        count: i32,
        /// The values.
        params: Params<'a>,
    },
    /// A concurrency token, which lasts until it is released or ends by itself.
    ConcurrentAcquire {
        /// The client's number for the request.
        xid: i32,
        /// The rule.
        flow_id: i64,
        /// How many of the rule's slots the token takes.
        count: i32,
    },
    /// Gives a concurrency token back.
    ConcurrentRelease {
        /// The client's number for the request.
        xid: i32,
        /// The token, as the answer to its acquire named it.
        token_id: i64,
    },
    /// Asks for the extension frames.
    Hello {
        /// The client's number for the request.
        xid: i32,
    },
    /// Holds a concurrency token for another time-out, counted from now.
    Renew {
        /// The client's number for the request.
        xid: i32,
        /// The token, as the answer to its acquire named it.
        token_id: i64,
    },
    /// Tokens of a rule, answered with everything about the decision.
    Ask {
        /// The client's number for the request.
        xid: i32,
        /// Whether tokens of a later time may be booked when there are none now.
        priority: bool,
        /// Whether nothing is to be taken or booked, only told.
        peek: bool,
        /// The longest wait in milliseconds that the client would sit out; a request that would
        /// have to wait longer is blocked and books nothing. [`ANY_WAIT`]: it waits for anything.
        max_wait_ms: u32,
        /// The rule, and how many tokens.
        what: What<'a>,
    },
    /// Corrects what a rule counted.
    Adjust {
        /// The client's number for the request.
        xid: i32,
        /// How.
        op: Adjustment,
        /// Milliseconds since the tokens were taken, at most; for [`Adjustment::GiveBack`] alone.
        age_ms: u32,
        /// The rule, and how many tokens.
        what: What<'a>,
    },
    /// Tokens of several rules: of all or of none.
    AcquireAll {
        /// The client's number for the request.
        xid: i32,
        /// The rules, and how many tokens of each.
        checks: Checks<'a>,
    },
    /// Tokens of a flow rule in advance, or back.
    Lease {
        /// The client's number for the request.
        xid: i32,
        /// The rule.
        flow_id: i64,
        /// How many tokens; 0 when a lease is only to be returned.
        want: u32,
        /// The lease that ends with this request; 0: none.
        returned: i64,
        /// Tokens of the returned lease that were spent.
        used: u32,
    },
    /// Which rules the client enforces.
    Rules {
        /// The client's number for the request.
        xid: i32,
        /// What tells one rule set from another; 0: none are known.
        digest: u64,
    },
}

impl<'a> Request<'a> {
    /// Reads a frame body, which is borrowed: only text that is not UTF-8 is copied.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] when the body is no request; its [answer](BadRequest::answer) is to be sent,
    /// and the connection goes on.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Self, BadRequest> {
        let Some((&[a, b, c, d, kind], data)) = body.split_first_chunk() else {
            return Err(BadRequest {
                xid: 0,
                kind: -1,
                reason: Malformed::Head { len: body.len() },
            });
        };
        let xid = i32::from_be_bytes([a, b, c, d]);
        let kind = kind.cast_signed();
        // What a server reads all day stays small enough to be inlined.
        if kind == kind::FLOW
            && let Some((fields, behind)) = data.split_first_chunk()
        {
            let (flow_id, count) = flow_fields(fields);
            let priority = behind.first().is_some_and(|&byte| byte != 0);
            return Ok(Self::Flow { xid, flow_id, count, priority });
        }
        Self::decode_other(xid, kind, data).map_err(|reason| BadRequest { xid, kind, reason })
    }

    fn decode_other(xid: i32, kind: i8, data: &'a [u8]) -> Result<Self, Malformed> {
        match kind {
            kind::FLOW => Err(Malformed::Fields { need: FLOW_FIELDS_LEN, have: data.len() }),
            kind::PARAM => Self::decode_param(xid, data),
            kind::PING => Self::decode_ping(xid, data),
            kind::CONCURRENT_ACQUIRE => {
                let (flow_id, count) = flow_fields(fields(data)?.0);
                Ok(Self::ConcurrentAcquire { xid, flow_id, count })
            }
            kind::CONCURRENT_RELEASE => {
                let token_id = i64::from_be_bytes(*fields(data)?.0);
                Ok(Self::ConcurrentRelease { xid, token_id })
            }
            kind::HELLO => Ok(Self::Hello { xid }),
            kind => Self::decode_extension(xid, kind, data),
        }
    }

    fn decode_param(xid: i32, data: &'a [u8]) -> Result<Self, Malformed> {
        fields::<PARAM_FIELDS_LEN>(data)?;
        let (flow, params) = fields(data)?;
        let (flow_id, count) = flow_fields(flow);
        let (params, _surplus) = Params::cut(params)?;
        Ok(Self::Param { xid, flow_id, count, params })
    }

    fn decode_ping(xid: i32, data: &'a [u8]) -> Result<Self, Malformed> {
        let (&len, behind) = fields(data)?;
        let len = i32::from_be_bytes(len);
        let name = usize::try_from(len).ok().filter(|&len| len > 0);
        let Some(name) = name.and_then(|len| behind.get(..len)) else {
            return Err(Malformed::NamespaceLen { len, have: behind.len() });
        };
        let namespace = String::from_utf8_lossy(name);
        if is_blank(&namespace) {
            return Err(Malformed::NamespaceBlank);
        }
        Ok(Self::Ping { xid, namespace })
    }

    /// The client's number for the request, which the answer repeats.
    #[must_use]
    pub fn xid(&self) -> i32 {
        match *self {
            Self::Ping { xid, .. }
            | Self::Flow { xid, .. }
            | Self::Param { xid, .. }
            | Self::ConcurrentAcquire { xid, .. }
            | Self::ConcurrentRelease { xid, .. }
            | Self::Hello { xid }
            | Self::Renew { xid, .. }
            | Self::Ask { xid, .. }
            | Self::Adjust { xid, .. }
            | Self::AcquireAll { xid, .. }
            | Self::Lease { xid, .. }
            | Self::Rules { xid, .. } => xid,
        }
    }

    /// The type byte, which the answer repeats; see [`kind`].
    #[must_use]
    pub fn kind(&self) -> i8 {
        match self {
            Self::Ping { .. } => kind::PING,
            Self::Flow { .. } => kind::FLOW,
            Self::Param { .. } => kind::PARAM,
            Self::ConcurrentAcquire { .. } => kind::CONCURRENT_ACQUIRE,
            Self::ConcurrentRelease { .. } => kind::CONCURRENT_RELEASE,
            Self::Hello { .. } => kind::HELLO,
            Self::Renew { .. } => kind::RENEW,
            Self::Ask { .. } => kind::ASK,
            Self::Adjust { .. } => kind::ADJUST,
            Self::AcquireAll { .. } => kind::ACQUIRE_ALL,
            Self::Lease { .. } => kind::LEASE,
            Self::Rules { .. } => kind::RULES,
        }
    }
}

/// Cuts `data` behind the `N` bytes of its fixed fields.
pub(crate) fn fields<const N: usize>(data: &[u8]) -> Result<(&[u8; N], &[u8]), Malformed> {
    data.split_first_chunk().ok_or(Malformed::Fields { need: N, have: data.len() })
}

/// Flow id and count, as they lie in most requests.
#[inline]
pub(crate) fn flow_fields(fields: &[u8; FLOW_FIELDS_LEN]) -> (i64, i32) {
    let &[a, b, c, d, e, f, g, h, i, j, k, l] = fields;
    (i64::from_be_bytes([a, b, c, d, e, f, g, h]), i32::from_be_bytes([i, j, k, l]))
}

/// Whether a name is none: `StringUtil.isBlank`, which goes by `Character.isWhitespace`.
fn is_blank(name: &str) -> bool {
    name.chars().all(|c| match c {
        // White to Java, not to Unicode.
        '\u{1c}'..='\u{1f}' => true,
        // White to Unicode, not to Java.
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        _ => c.is_whitespace(),
    })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::PREFIX_LEN;

    fn body(request: &Request<'_>) -> Vec<u8> {
        let mut out = BytesMut::new();
        request.encode(&mut out).unwrap();
        out.split_off(PREFIX_LEN).to_vec()
    }

    #[test]
    fn priority_may_be_absent_and_is_any_byte_but_zero() {
        let body = [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3];
        for (behind, expected) in [(&[][..], false), (&[0], false), (&[1], true), (&[0x80], true)] {
            assert_eq!(
                Request::decode(&[&body, behind].concat()),
                Ok(Request::Flow { xid: 1, flow_id: 2, count: 3, priority: expected })
            );
        }
    }

    #[test]
    fn bytes_behind_the_data_are_ignored() {
        for request in [
            Request::Ping { xid: 1, namespace: "a".into() },
            Request::Flow { xid: 1, flow_id: 2, count: 3, priority: true },
            Request::ConcurrentAcquire { xid: 1, flow_id: 2, count: 3 },
            Request::ConcurrentRelease { xid: 1, token_id: 2 },
            Request::Hello { xid: 1 },
            Request::Renew { xid: 1, token_id: 2 },
            Request::Lease { xid: 1, flow_id: 2, want: 3, returned: 4, used: 5 },
            Request::Rules { xid: 1, digest: 2 },
        ] {
            let mut body = body(&request);
            body.extend(b"more");
            assert_eq!(Request::decode(&body), Ok(request));
        }
    }

    #[test]
    fn a_request_stays_small() {
        assert_eq!(size_of::<Request<'_>>(), 48);
    }

    #[test]
    fn a_namespace_is_borrowed_from_the_body() {
        let body = [0, 0, 0, 1, 0, 0, 0, 0, 2, b'n', b's'];
        let Ok(Request::Ping { namespace: Cow::Borrowed(name), .. }) = Request::decode(&body)
        else {
            panic!("borrowed");
        };
        assert_eq!(name.as_ptr(), body[9..].as_ptr());
    }

    #[test]
    fn blank_is_what_java_calls_white() {
        // Character.isWhitespace, over the basic plane: space separators without the three that
        // do not break, line and paragraph separator, and the controls listed in its javadoc.
        let white = ('\0'..='\u{ffff}').filter(|&c| is_blank(&c.to_string()));
        let expected = ('\t'..='\r')
            .chain('\u{1c}'..='\u{20}')
            .chain(['\u{1680}'])
            .chain(('\u{2000}'..='\u{200a}').filter(|&c| c != '\u{2007}'))
            .chain(['\u{2028}', '\u{2029}', '\u{205f}', '\u{3000}']);
        assert!(white.eq(expected));
        assert!(is_blank("") && is_blank(" \u{3000}\t") && !is_blank(" a "));
    }

    #[test]
    fn a_ping_without_a_name_is_refused_for_its_reason() {
        let reason = |data: &[u8]| {
            let body = [&[0, 0, 0, 1, 0], data].concat();
            Request::decode(&body).unwrap_err().reason
        };
        assert_eq!(reason(&[]), Malformed::Fields { need: 4, have: 0 });
        assert_eq!(reason(&[0, 0, 1]), Malformed::Fields { need: 4, have: 3 });
        assert_eq!(reason(&[0, 0, 0, 0, b'a']), Malformed::NamespaceLen { len: 0, have: 1 });
        assert_eq!(reason(&[255; 4]), Malformed::NamespaceLen { len: -1, have: 0 });
        assert_eq!(reason(&[0, 0, 0, 2, b'a']), Malformed::NamespaceLen { len: 2, have: 1 });
        assert_eq!(
            reason(&[127, 255, 255, 255]),
            Malformed::NamespaceLen { len: i32::MAX, have: 0 }
        );
        assert_eq!(reason(&[0, 0, 0, 1, b' ']), Malformed::NamespaceBlank);
    }
}
