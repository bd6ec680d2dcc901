//! Requests as a client writes them.

use bytes::{BufMut, BytesMut};

use super::{
    FLOW_FIELDS_LEN, PARAM_FIELDS_LEN, Request,
    extension::{ADJUST_FIELDS_LEN, ASK_FIELDS_LEN, LEASE_FIELDS_LEN, PEEK},
    is_blank,
};
use crate::frame::{MAX_BODY_LEN, PREFIX_LEN, REQUEST_HEAD_LEN};
use crate::{Param, kind, what::PRIORITY};

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
    /// No rule is asked, or more than may be at once.
    #[error("{amount} rules, from 1 to {max} may be asked at once", max = crate::CHECKS_MAX)]
    CheckAmount {
        /// How many.
        amount: usize,
    },
}

impl Request<'_> {
    /// Appends the whole frame, prefix included.
    ///
    /// A ping with a blank namespace is written without data, as Sentinel's client does
    /// (`PingRequestDataWriter.java`); every server refuses it.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLong`] when no peer would read the frame, and then nothing is written. A
    /// request that was decoded fits, except for a ping whose name was not UTF-8.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        match *self {
            Self::Ping { xid, ref namespace } => encode_ping(xid, namespace, out)?,
            Self::Flow { xid, flow_id, count, priority } => {
                out.put_slice(&flow_frame(xid, flow_id, count, priority));
            }
            Self::Param { xid, flow_id, count, params } => {
                put_head(out, xid, kind::PARAM, FLOW_FIELDS_LEN + params.as_bytes().len())?;
                out.put_i64(flow_id);
                out.put_i32(count);
                out.put_slice(params.as_bytes());
            }
            Self::ConcurrentAcquire { xid, flow_id, count } => {
                put_head(out, xid, kind::CONCURRENT_ACQUIRE, FLOW_FIELDS_LEN)?;
                out.put_i64(flow_id);
                out.put_i32(count);
            }
            Self::ConcurrentRelease { xid, token_id } => {
                put_head(out, xid, kind::CONCURRENT_RELEASE, 8)?;
                out.put_i64(token_id);
            }
            Self::Hello { xid } => put_head(out, xid, kind::HELLO, 0)?,
            Self::Renew { xid, token_id } => {
                put_head(out, xid, kind::RENEW, 8)?;
                out.put_i64(token_id);
            }
            Self::Ask { xid, priority, peek, max_wait_ms, what } => {
                put_head(out, xid, kind::ASK, ASK_FIELDS_LEN + what.wire_len())?;
                out.put_u8((u8::from(priority) * PRIORITY) | (u8::from(peek) * PEEK));
                out.put_u32(max_wait_ms);
                what.put(out);
            }
            Self::Adjust { xid, op, age_ms, what } => {
                put_head(out, xid, kind::ADJUST, ADJUST_FIELDS_LEN + what.wire_len())?;
                out.put_u8(op as u8);
                out.put_u32(age_ms);
                what.put(out);
            }
            Self::AcquireAll { xid, checks } => {
                put_head(out, xid, kind::ACQUIRE_ALL, checks.as_bytes().len())?;
                out.put_slice(checks.as_bytes());
            }
            Self::Lease { xid, flow_id, want, returned, used } => {
                put_head(out, xid, kind::LEASE, LEASE_FIELDS_LEN)?;
                out.put_i64(flow_id);
                out.put_u32(want);
                out.put_i64(returned);
                out.put_u32(used);
            }
            Self::Rules { xid, digest } => {
                put_head(out, xid, kind::RULES, 8)?;
                out.put_u64(digest);
            }
        }
        Ok(())
    }
}

/// What a client sends all day: put together on the stack, to be copied once.
#[inline]
fn flow_frame(xid: i32, flow_id: i64, count: i32, priority: bool) -> [u8; 20] {
    let mut frame = [0; 20];
    let mut rest = &mut frame[..];
    rest.put_u16(18);
    rest.put_i32(xid);
    rest.put_i8(kind::FLOW);
    rest.put_i64(flow_id);
    rest.put_i32(count);
    rest.put_u8(u8::from(priority));
    frame
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
    if params.is_empty() {
        return Err(EncodeError::NoParams);
    }
    let len = params.iter().map(Param::wire_len).fold(PARAM_FIELDS_LEN, usize::saturating_add);
    put_head(out, xid, kind::PARAM, len)?;
    out.put_i64(flow_id);
    out.put_i32(count);
    out.put_uint(params.len() as u64, 4);
    for param in params {
        param.put(out);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ANY_WAIT, Adjustment, Check, Checks, Params, What};

    fn frame(request: &Request<'_>) -> Vec<u8> {
        let mut out = BytesMut::new();
        request.encode(&mut out).unwrap();
        out.to_vec()
    }

    #[test]
    fn our_own_messages_have_this_layout() {
        assert_eq!(
            frame(&Request::ConcurrentAcquire { xid: 1, flow_id: 2, count: 3 }),
            [0, 17, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3]
        );
        assert_eq!(
            frame(&Request::ConcurrentRelease { xid: 1, token_id: -2 }),
            [0, 13, 0, 0, 0, 1, 4, 255, 255, 255, 255, 255, 255, 255, 254]
        );
        assert_eq!(frame(&Request::Hello { xid: 1 }), [0, 5, 0, 0, 0, 1, 16]);
    }

    #[test]
    fn extension_requests_have_this_layout() {
        let flow = What { flow_id: 2, count: 3, params: None };
        let flow_bytes = [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3];
        let mut values = BytesMut::new();
        let params = Params::write(&[Param::Bool(true), Param::Byte(-1)], &mut values).unwrap();
        let param = What { flow_id: 4, count: 5, params: Some(params) };
        let values_bytes = [0, 0, 0, 2, 6, 1, 2, 255];
        let param_bytes = [&[1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5][..], &values_bytes].concat();
        let xid = 1;

        assert_eq!(
            frame(&Request::Renew { xid, token_id: 258 }),
            [0, 13, 0, 0, 0, 1, 17, 0, 0, 0, 0, 0, 0, 1, 2]
        );
        let ask = |priority, peek, max_wait_ms, what| {
            frame(&Request::Ask { xid, priority, peek, max_wait_ms, what })
        };
        assert_eq!(
            ask(true, false, ANY_WAIT, flow),
            [&[0, 23, 0, 0, 0, 1, 18, 1, 255, 255, 255, 255][..], &flow_bytes].concat()
        );
        assert_eq!(
            ask(true, true, 258, param),
            [&[0, 31, 0, 0, 0, 1, 18, 3, 0, 0, 1, 2][..], &param_bytes].concat()
        );
        assert_eq!(ask(false, true, 0, flow)[7..12], [2, 0, 0, 0, 0]);
        for (op, byte) in
            [(Adjustment::GiveBack, 0), (Adjustment::Charge, 1), (Adjustment::Reset, 2)]
        {
            assert_eq!(
                frame(&Request::Adjust { xid, op, age_ms: 259, what: flow }),
                [&[0, 23, 0, 0, 0, 1, 19, byte, 0, 0, 1, 3][..], &flow_bytes].concat()
            );
        }
        let mut checks = BytesMut::new();
        let both = [Check { priority: true, what: param }, Check { priority: false, what: flow }];
        let checks = Checks::write(&both, &mut checks).unwrap();
        assert_eq!(
            frame(&Request::AcquireAll { xid, checks }),
            [&[0, 42, 0, 0, 0, 1, 20, 2, 1][..], &param_bytes, &[0], &flow_bytes].concat()
        );
        let lease = Request::Lease { xid, flow_id: 2, want: 3, returned: -2, used: 4 };
        assert_eq!(
            frame(&lease),
            [
                &[0, 29, 0, 0, 0, 1, 21, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3][..],
                &[255, 255, 255, 255, 255, 255, 255, 254, 0, 0, 0, 4],
            ]
            .concat()
        );
    }

    #[test]
    fn a_question_that_no_frame_holds_is_not_written() {
        let (mut values, mut out) = (BytesMut::new(), BytesMut::from(&b"before"[..]));
        for (len, fits) in [(990, true), (991, false)] {
            let text = [Param::Str("s".repeat(len).into())];
            let params = Some(Params::write(&text, &mut values).unwrap());
            let what = What { flow_id: 1, count: 1, params };
            out.truncate(6);
            let ask = Request::Ask { xid: 1, priority: false, peek: false, max_wait_ms: 0, what };
            assert_eq!(ask.encode(&mut out).is_ok(), fits);
            assert_eq!(out.len(), if fits { 6 + 1024 } else { 6 });
        }
    }

    #[test]
    fn the_longest_request_is_written_and_one_more_byte_is_not() {
        for (len, fits) in [(1013, true), (1014, false)] {
            let mut out = BytesMut::from(&b"before"[..]);
            let namespace = "n".repeat(len).into();
            let written = Request::Ping { xid: 1, namespace }.encode(&mut out);
            assert_eq!(written.is_ok(), fits);
            assert_eq!(out.len(), if fits { 6 + 1024 } else { 6 });
        }
        for (len, fits) in [(996, true), (997, false)] {
            let mut out = BytesMut::from(&b"before"[..]);
            let text = Param::Str("s".repeat(len).into());
            let written = encode_param_request(1, 2, 3, &[text], &mut out);
            assert_eq!(written.is_ok(), fits);
            assert_eq!(out.len(), if fits { 6 + 1024 } else { 6 });
        }
    }
}
