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
//! ```
//!
//! Sentinel: `DefaultRequestEntityWriter.java`, `DefaultRequestEntityDecoder.java` and the
//! `codec/data` classes beside them. Bytes behind the data are ignored.

use std::borrow::Cow;

use bytes::{Buf, BufMut, BytesMut};

use crate::frame::{MAX_BODY_LEN, PREFIX_LEN, REQUEST_HEAD_LEN, put_frame};
use crate::{BadRequest, Malformed, Param, Params, kind};

/// Bytes of flow id, count and amount in front of the parameters.
const PARAM_FIELDS_LEN: usize = 16;

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
}

/// Why a request cannot be written. Nothing has been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// No Sentinel peer would read a body of this length.
    #[error("request of {len} bytes, limit {MAX_BODY_LEN}")]
    TooLong {
        /// Bytes of the body.
        len: usize,
    },
    /// A parameter request without parameters, which Sentinel's server never answers.
    #[error("no parameters")]
    NoParams,
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
        let Some((mut head, data)) = body.split_at_checked(REQUEST_HEAD_LEN) else {
            return Err(BadRequest {
                xid: 0,
                kind: -1,
                reason: Malformed::Head { len: body.len() },
            });
        };
        let xid = head.get_i32();
        let kind = head.get_i8();
        let request = match kind {
            kind::FLOW => Self::decode_flow(xid, data),
            kind::PARAM => Self::decode_param(xid, data),
            kind::PING => Self::decode_ping(xid, data),
            kind::CONCURRENT_ACQUIRE => fields::<12>(data).map(|(mut fields, _)| {
                Self::ConcurrentAcquire { xid, flow_id: fields.get_i64(), count: fields.get_i32() }
            }),
            kind::CONCURRENT_RELEASE => fields::<8>(data)
                .map(|(mut fields, _)| Self::ConcurrentRelease { xid, token_id: fields.get_i64() }),
            kind::HELLO => Ok(Self::Hello { xid }),
            _ => Err(Malformed::Type),
        };
        request.map_err(|reason| BadRequest { xid, kind, reason })
    }

    #[inline]
    fn decode_flow(xid: i32, data: &'a [u8]) -> Result<Self, Malformed> {
        let (mut fields, behind) = fields::<12>(data)?;
        Ok(Self::Flow {
            xid,
            flow_id: fields.get_i64(),
            count: fields.get_i32(),
            priority: behind.first().is_some_and(|&byte| byte != 0),
        })
    }

    fn decode_param(xid: i32, data: &'a [u8]) -> Result<Self, Malformed> {
        let (mut fields, behind) = fields::<PARAM_FIELDS_LEN>(data)?;
        let flow_id = fields.get_i64();
        let count = fields.get_i32();
        let params = Params::check(fields.get_i32(), behind)?;
        Ok(Self::Param { xid, flow_id, count, params })
    }

    fn decode_ping(xid: i32, data: &'a [u8]) -> Result<Self, Malformed> {
        let (mut fields, behind) = fields::<4>(data)?;
        let len = fields.get_i32();
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

    /// Appends the whole frame, prefix included.
    ///
    /// A ping with a blank namespace is written without data, as Sentinel's client does
    /// (`PingRequestDataWriter.java`); every server refuses it.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLong`] when no peer would read the frame, and then nothing is written.
    /// Only pings can be too long: parameters that were decoded fit.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        match *self {
            Self::Flow { xid, flow_id, count, priority } => put_frame::<20>(out, |body| {
                body.put_i32(xid);
                body.put_i8(kind::FLOW);
                body.put_i64(flow_id);
                body.put_i32(count);
                body.put_u8(u8::from(priority));
            }),
            Self::Param { xid, flow_id, count, params } => {
                put_param_fields(out, xid, flow_id, count, params.len(), params.as_bytes().len())?;
                out.put_slice(params.as_bytes());
            }
            Self::Ping { xid, ref namespace } => return encode_ping(xid, namespace, out),
            Self::ConcurrentAcquire { xid, flow_id, count } => put_frame::<19>(out, |body| {
                body.put_i32(xid);
                body.put_i8(kind::CONCURRENT_ACQUIRE);
                body.put_i64(flow_id);
                body.put_i32(count);
            }),
            Self::ConcurrentRelease { xid, token_id } => put_frame::<15>(out, |body| {
                body.put_i32(xid);
                body.put_i8(kind::CONCURRENT_RELEASE);
                body.put_i64(token_id);
            }),
            Self::Hello { xid } => put_frame::<7>(out, |body| {
                body.put_i32(xid);
                body.put_i8(kind::HELLO);
            }),
        }
        Ok(())
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
            | Self::Hello { xid } => xid,
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
        }
    }
}

/// Appends the whole frame of a [`Request::Param`], prefix included, from values.
///
/// Sentinel's client drops the parameters beyond a budget of 1024 bytes
/// (`ParamFlowRequestDataWriter.java`), so that tokens are taken for some of the values, or the
/// frame is still over what its server reads. Here it is all of them or an error.
///
/// # Errors
///
/// [`EncodeError::NoParams`] and [`EncodeError::TooLong`]; nothing is written then.
pub fn encode_param_request(
    xid: i32,
    flow_id: i64,
    count: i32,
    params: &[Param<'_>],
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let len = params.iter().map(Param::wire_len).fold(0, usize::saturating_add);
    put_param_fields(out, xid, flow_id, count, params.len(), len)?;
    for param in params {
        param.put(out);
    }
    Ok(())
}

fn put_param_fields(
    out: &mut BytesMut,
    xid: i32,
    flow_id: i64,
    count: i32,
    amount: usize,
    params_len: usize,
) -> Result<(), EncodeError> {
    if amount == 0 {
        return Err(EncodeError::NoParams);
    }
    put_head(out, xid, kind::PARAM, PARAM_FIELDS_LEN.saturating_add(params_len))?;
    out.put_i64(flow_id);
    out.put_i32(count);
    out.put_uint(amount as u64, 4);
    Ok(())
}

fn encode_ping(xid: i32, namespace: &str, out: &mut BytesMut) -> Result<(), EncodeError> {
    if is_blank(namespace) {
        return put_head(out, xid, kind::PING, 0);
    }
    put_head(out, xid, kind::PING, namespace.len().saturating_add(4))?;
    out.put_uint(namespace.len() as u64, 4);
    out.put_slice(namespace.as_bytes());
    Ok(())
}

/// Starts a frame with `data_len` bytes behind the head, and makes room for all of it.
fn put_head(out: &mut BytesMut, xid: i32, kind: i8, data_len: usize) -> Result<(), EncodeError> {
    let len = data_len.saturating_add(REQUEST_HEAD_LEN);
    if len > MAX_BODY_LEN {
        return Err(EncodeError::TooLong { len });
    }
    out.reserve(PREFIX_LEN + len);
    out.put_uint(len as u64, PREFIX_LEN);
    out.put_i32(xid);
    out.put_i8(kind);
    Ok(())
}

/// Cuts `data` behind its first `N` bytes.
#[inline]
fn fields<const N: usize>(data: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    data.split_at_checked(N).ok_or(Malformed::Fields { need: N, have: data.len() })
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
