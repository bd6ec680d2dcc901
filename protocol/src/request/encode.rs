//! Requests as a client writes them.

use bytes::{BufMut, BytesMut};

use super::{FLOW_FIELDS_LEN, PARAM_FIELDS_LEN, Request, is_blank};
use crate::frame::{MAX_BODY_LEN, PREFIX_LEN, REQUEST_HEAD_LEN};
use crate::{Param, kind};

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

impl Request<'_> {
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
            Self::Ping { xid, ref namespace } => encode_ping(xid, namespace, out)?,
            Self::Flow { xid, flow_id, count, priority } => {
                // What a client sends all day is put together on the stack and copied once.
                let mut frame = [0; 20];
                let mut rest = &mut frame[..];
                rest.put_u16(18);
                rest.put_i32(xid);
                rest.put_i8(kind::FLOW);
                rest.put_i64(flow_id);
                rest.put_i32(count);
                rest.put_u8(u8::from(priority));
                out.put_slice(&frame);
            }
            Self::Param { xid, flow_id, count, params } => {
                put_param_fields(out, xid, flow_id, count, params.len(), params.as_bytes().len())?;
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
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

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
