//! What a server answers to the extension frames that need more than a status.
//!
//! ```text
//! body:  | xid i32 | type i8 | status i8 | data                                            |
//!
//! ask                   18   0, 1, 2     | remaining u64, wait in nanoseconds u64,         |
//!                                        | used u64, threshold f64 (bits), window in       |
//!                                        | milliseconds u64, unit u8, mode u8,             |
//!                                        | connected clients u32, length u8, resource      |
//! acquire all           20     any       | failed u8 (255: none), wait in nanoseconds u64  |
//! lease                 21     any       | lease id i64 (0: none), granted u32,            |
//!                                        | time to live in milliseconds u32                |
//! ```
//!
//! An ask that was not decided (3, -2, -4), a bad body (-4), a renewal and an adjustment are
//! answered with a head alone: [`Response::Head`].

use std::borrow::Cow;

use bytes::{Buf, BufMut, BytesMut, TryGetError};

use crate::frame::{PREFIX_LEN, RESPONSE_HEAD_LEN};
use crate::{DecodeError, Response, Status, kind};

/// Longest text that names a resource; more is cut off.
const RESOURCE_LEN_MAX: usize = 200;
/// The index of a check that did not fail.
const NONE_FAILED: u8 = 255;

/// An answer whose data are more than [`Response`] has room for.
///
/// The client that sent the request knows to read its answer as one of these; [`Response::decode`]
/// gives the head alone.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtendedResponse<'a> {
    /// A decision about tokens, with its circumstances.
    Ask {
        /// The request's number.
        xid: i32,
        /// The outcome: [`Status::Ok`], [`Status::Blocked`] or [`Status::ShouldWait`].
        status: Status,
        /// How it came about.
        explained: Explained<'a>,
    },
    /// Tokens of several rules.
    AcquireAll {
        /// The request's number.
        xid: i32,
        /// The outcome for all of them together.
        status: Status,
        /// Which of the checks was the first that said no, from 0; `None` when all were taken.
        failed: Option<u8>,
        /// With [`Status::ShouldWait`], nanoseconds to wait before going on; with
        /// [`Status::Blocked`], nanoseconds until the check that failed would pass if nobody else
        /// asked, or [`Explained::NEVER`]; otherwise 0.
        wait_ns: u64,
    },
    /// A lease.
    Lease {
        /// The request's number.
        xid: i32,
        /// The outcome: [`Status::Ok`], [`Status::Blocked`] when there is nothing to be had,
        /// [`Status::AlreadyRelease`] when the rule grants no leases, or why nothing was decided.
        status: Status,
        /// The lease; 0 if none was given.
        lease_id: i64,
        /// Tokens that the client may spend; less than it wanted, perhaps.
        granted: u32,
        /// Milliseconds in which it may spend them, counted from when it sent the request.
        ttl_ms: u32,
    },
    /// An answer without data, whatever its type.
    Head {
        /// The request's number.
        xid: i32,
        /// The request's type.
        kind: i8,
        /// The outcome.
        status: Status,
    },
}

/// The circumstances of a decision. Where a parameter request asks about several values, they are
/// those of the value that has the least left.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained<'a> {
    /// Tokens that are left.
    pub remaining: u64,
    /// With [`Status::ShouldWait`], nanoseconds to wait before going on; with [`Status::Blocked`],
    /// nanoseconds until the request would pass if nobody else asked, or [`NEVER`](Self::NEVER);
    /// otherwise 0.
    pub wait_ns: u64,
    /// Tokens that counted before the request.
    pub used: u64,
    /// What is allowed, in `unit`. All bits are kept, also those of a NaN.
    pub threshold: f64,
    /// Length of the window in milliseconds; 0 where there is none.
    pub window_ms: u64,
    /// What `threshold` counts.
    pub unit: Unit,
    /// Whether the rule is enforced.
    pub mode: Mode,
    /// Clients connected to the rule's namespace.
    pub connected: u32,
    /// What the rule protects. Written up to 200 bytes, cut between two characters; bytes that are
    /// not UTF-8 are read as U+FFFD.
    pub resource: Cow<'a, str>,
}

impl Explained<'_> {
    /// The `wait_ns` of a request that no waiting would let pass.
    pub const NEVER: u64 = u64::MAX;

    /// The same, independent of the frame that it was read from.
    #[must_use]
    pub fn into_owned(self) -> Explained<'static> {
        Explained { resource: Cow::Owned(self.resource.into_owned()), ..self }
    }
}

/// What a threshold counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Tokens in a window.
    PerWindow,
    /// Tokens a second, averaged over the window, as Sentinel counts.
    PerSecond,
    /// Calls in progress.
    InProgress,
    /// A unit of a later version.
    Unknown(u8),
}

/// Whether a rule is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As it decides.
    Enforce,
    /// It counts what it would have blocked, and lets it pass.
    Shadow,
    /// It lets everything pass.
    Pass,
    /// It blocks everything.
    Block,
    /// A mode of a later version.
    Unknown(u8),
}

impl From<u8> for Unit {
    fn from(byte: u8) -> Self {
        match byte {
            0 => Self::PerWindow,
            1 => Self::PerSecond,
            2 => Self::InProgress,
            byte => Self::Unknown(byte),
        }
    }
}

impl From<Unit> for u8 {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::PerWindow => 0,
            Unit::PerSecond => 1,
            Unit::InProgress => 2,
            Unit::Unknown(byte) => byte,
        }
    }
}

impl From<u8> for Mode {
    fn from(byte: u8) -> Self {
        match byte {
            0 => Self::Enforce,
            1 => Self::Shadow,
            2 => Self::Pass,
            3 => Self::Block,
            byte => Self::Unknown(byte),
        }
    }
}

impl From<Mode> for u8 {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Enforce => 0,
            Mode::Shadow => 1,
            Mode::Pass => 2,
            Mode::Block => 3,
            Mode::Unknown(byte) => byte,
        }
    }
}

impl<'a> ExtendedResponse<'a> {
    /// Appends the whole frame, prefix included.
    pub fn encode(&self, out: &mut BytesMut) {
        match *self {
            Self::Ask { xid, status, ref explained } => {
                let resource = cut(&explained.resource);
                put_head(out, xid, kind::ASK, status, EXPLAINED_LEN + resource.len());
                explained.put(resource, out);
            }
            Self::AcquireAll { xid, status, failed, wait_ns } => {
                put_head(out, xid, kind::ACQUIRE_ALL, status, 9);
                out.put_u8(failed.unwrap_or(NONE_FAILED));
                out.put_u64(wait_ns);
            }
            Self::Lease { xid, status, lease_id, granted, ttl_ms } => {
                put_head(out, xid, kind::LEASE, status, 16);
                out.put_i64(lease_id);
                out.put_u32(granted);
                out.put_u32(ttl_ms);
            }
            Self::Head { xid, kind, status } => Response::Head { xid, kind, status }.encode(out),
        }
    }

    /// Reads a frame body, which is borrowed: only text that is not UTF-8 is copied.
    ///
    /// An answer of another type, and one with too few data, is a [`Head`](Self::Head). Bytes behind
    /// the data are ignored.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] when the body is shorter than a head.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let Some((&[a, b, c, d, kind, status], data)) = body.split_first_chunk() else {
            return Err(DecodeError::Head { len: body.len() });
        };
        let xid = i32::from_be_bytes([a, b, c, d]);
        let kind = kind.cast_signed();
        let status = Status::from(status.cast_signed());
        let read = match kind {
            kind::ASK => {
                Explained::take(data).map(|explained| Self::Ask { xid, status, explained })
            }
            kind::ACQUIRE_ALL => take_all(xid, status, data),
            kind::LEASE => take_lease(xid, status, data),
            _ => return Ok(Self::Head { xid, kind, status }),
        };
        Ok(read.unwrap_or(Self::Head { xid, kind, status }))
    }

    /// The same, independent of the frame that it was read from.
    #[must_use]
    pub fn into_owned(self) -> ExtendedResponse<'static> {
        match self {
            Self::Ask { xid, status, explained } => {
                ExtendedResponse::Ask { xid, status, explained: explained.into_owned() }
            }
            Self::AcquireAll { xid, status, failed, wait_ns } => {
                ExtendedResponse::AcquireAll { xid, status, failed, wait_ns }
            }
            Self::Lease { xid, status, lease_id, granted, ttl_ms } => {
                ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms }
            }
            Self::Head { xid, kind, status } => ExtendedResponse::Head { xid, kind, status },
        }
    }

    /// The number of the request that this answers.
    #[must_use]
    pub fn xid(&self) -> i32 {
        match *self {
            Self::Ask { xid, .. }
            | Self::AcquireAll { xid, .. }
            | Self::Lease { xid, .. }
            | Self::Head { xid, .. } => xid,
        }
    }
}

/// Bytes of an explanation with an empty resource.
const EXPLAINED_LEN: usize = 47;

impl<'a> Explained<'a> {
    fn put(&self, resource: &str, out: &mut BytesMut) {
        out.put_u64(self.remaining);
        out.put_u64(self.wait_ns);
        out.put_u64(self.used);
        out.put_u64(self.threshold.to_bits());
        out.put_u64(self.window_ms);
        out.put_u8(self.unit.into());
        out.put_u8(self.mode.into());
        out.put_u32(self.connected);
        out.put_uint(resource.len() as u64, 1);
        out.put_slice(resource.as_bytes());
    }

    fn take(mut data: &'a [u8]) -> Result<Self, TryGetError> {
        Ok(Self {
            remaining: data.try_get_u64()?,
            wait_ns: data.try_get_u64()?,
            used: data.try_get_u64()?,
            threshold: f64::from_bits(data.try_get_u64()?),
            window_ms: data.try_get_u64()?,
            unit: data.try_get_u8()?.into(),
            mode: data.try_get_u8()?.into(),
            connected: data.try_get_u32()?,
            resource: {
                let len = usize::from(data.try_get_u8()?);
                let short = TryGetError { requested: len, available: data.len() };
                String::from_utf8_lossy(data.get(..len).ok_or(short)?)
            },
        })
    }
}

fn take_all(
    xid: i32,
    status: Status,
    mut data: &[u8],
) -> Result<ExtendedResponse<'_>, TryGetError> {
    let failed = Some(data.try_get_u8()?).filter(|&index| index != NONE_FAILED);
    Ok(ExtendedResponse::AcquireAll { xid, status, failed, wait_ns: data.try_get_u64()? })
}

fn take_lease(
    xid: i32,
    status: Status,
    mut data: &[u8],
) -> Result<ExtendedResponse<'_>, TryGetError> {
    let (lease_id, granted, ttl_ms) =
        (data.try_get_i64()?, data.try_get_u32()?, data.try_get_u32()?);
    Ok(ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms })
}

fn put_head(out: &mut BytesMut, xid: i32, kind: i8, status: Status, data_len: usize) {
    let len = RESPONSE_HEAD_LEN + data_len;
    out.reserve(PREFIX_LEN + len);
    out.put_uint(len as u64, PREFIX_LEN);
    out.put_i32(xid);
    out.put_i8(kind);
    out.put_i8(status.into());
}

/// The text as it is written: as many whole characters as there is room for.
fn cut(resource: &str) -> &str {
    let end = resource.floor_char_boundary(RESOURCE_LEN_MAX);
    resource.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(resource: &str) -> Explained<'_> {
        Explained {
            remaining: 1,
            wait_ns: 2,
            used: 3,
            threshold: 1.5,
            window_ms: 5,
            unit: Unit::InProgress,
            mode: Mode::Shadow,
            connected: 258,
            resource: resource.into(),
        }
    }

    fn frame(response: &ExtendedResponse<'_>) -> Vec<u8> {
        let mut out = BytesMut::new();
        response.encode(&mut out);
        out.to_vec()
    }

    /// What is written of `resource`, as it is read.
    fn resource(resource: &str) -> String {
        let explained = explained(resource);
        let frame = frame(&ExtendedResponse::Ask { xid: 1, status: Status::Ok, explained });
        assert_eq!(usize::from(frame[1]), frame.len() - 2);
        match ExtendedResponse::decode(&frame[2..]) {
            Ok(ExtendedResponse::Ask { explained, .. }) => explained.resource.into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn extended_answers_have_this_layout() {
        let (xid, status) = (1, Status::Blocked);
        assert_eq!(
            frame(&ExtendedResponse::Ask { xid, status, explained: explained("né") }),
            [
                &[0, 56, 0, 0, 0, 1, 18, 1][..],
                &[0, 0, 0, 0, 0, 0, 0, 1],
                &[0, 0, 0, 0, 0, 0, 0, 2],
                &[0, 0, 0, 0, 0, 0, 0, 3],
                &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0],
                &[0, 0, 0, 0, 0, 0, 0, 5],
                &[2, 1, 0, 0, 1, 2],
                &[3, b'n', 0xc3, 0xa9],
            ]
            .concat()
        );
        for (failed, byte) in [(Some(0), 0), (Some(15), 15), (None, 255)] {
            assert_eq!(
                frame(&ExtendedResponse::AcquireAll { xid, status, failed, wait_ns: 258 }),
                [0, 15, 0, 0, 0, 1, 20, 1, byte, 0, 0, 0, 0, 0, 0, 1, 2]
            );
        }
        let lease = ExtendedResponse::Lease { xid, status, lease_id: -2, granted: 3, ttl_ms: 260 };
        assert_eq!(
            frame(&lease),
            [
                &[0, 22, 0, 0, 0, 1, 21, 1][..],
                &[255, 255, 255, 255, 255, 255, 255, 254, 0, 0, 0, 3, 0, 0, 1, 4],
            ]
            .concat()
        );
        let head = ExtendedResponse::Head { xid, kind: kind::RENEW, status };
        assert_eq!(frame(&head), [0, 6, 0, 0, 0, 1, 17, 1]);
    }

    #[test]
    fn every_byte_is_a_unit_and_a_mode_and_comes_back() {
        for byte in 0..=255 {
            assert_eq!((Unit::from(byte).into(), Mode::from(byte).into()), (byte, byte));
        }
        assert_eq!((Unit::from(3), Mode::from(4)), (Unit::Unknown(3), Mode::Unknown(4)));
    }

    #[test]
    fn a_long_resource_is_cut_between_two_characters() {
        for whole in ["", "r", &"r".repeat(200), &"é".repeat(100)] {
            assert_eq!(resource(whole), whole);
        }
        assert_eq!(resource(&"r".repeat(201)), "r".repeat(200));
        assert_eq!(resource(&format!("r{}", "é".repeat(100))), format!("r{}", "é".repeat(99)));
    }

    #[test]
    fn what_lacks_data_is_a_head() {
        let (xid, status) = (1, Status::Ok);
        let ask = ExtendedResponse::Ask { xid, status, explained: explained("r") };
        let all = ExtendedResponse::AcquireAll { xid, status, failed: None, wait_ns: 1 };
        let lease = ExtendedResponse::Lease { xid, status, lease_id: 1, granted: 1, ttl_ms: 1 };
        for whole in [ask, all, lease] {
            let body = frame(&whole).split_off(PREFIX_LEN);
            let kind = body[4].cast_signed();
            for len in 0..6 {
                let short = Err(DecodeError::Head { len });
                assert_eq!(ExtendedResponse::decode(&body[..len]), short);
            }
            let head = ExtendedResponse::Head { xid, kind, status };
            for len in 6..body.len() {
                assert_eq!(ExtendedResponse::decode(&body[..len]), Ok(head.clone()), "{len}");
            }
            let more = [&body[..], &[9, 9]].concat();
            assert_eq!(ExtendedResponse::decode(&more), Ok(whole.clone()));
            assert_eq!(whole.clone().into_owned(), whole);
            // To whoever does not know the type, it is a head.
            assert_eq!(Response::decode(&body), Ok(Response::Head { xid, kind, status }));
        }
    }

    #[test]
    fn a_resource_is_borrowed_unless_it_is_not_utf_8() {
        let ask = |explained| ExtendedResponse::Ask { xid: 1, status: Status::Ok, explained };
        let mut body = frame(&ask(explained("né"))).split_off(PREFIX_LEN);
        let resource = |body: &[u8]| match ExtendedResponse::decode(body) {
            Ok(ExtendedResponse::Ask { explained, .. }) => match explained.resource {
                Cow::Borrowed(text) => (true, text.to_owned()),
                Cow::Owned(text) => (false, text),
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(resource(&body), (true, "né".to_owned()));
        *body.last_mut().unwrap() = b'x';
        assert_eq!(resource(&body), (false, "n\u{fffd}x".to_owned()));
    }
}
