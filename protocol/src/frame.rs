//! Length-prefixed frames: a two-byte big-endian length, then that many bytes.
//!
//! ```text
//! +-----------+---------------------+
//! | length(2) | body (length bytes) |
//! +-----------+---------------------+
//! ```
//!
//! Sentinel's pipelines (`NettyTransportServer.java`, `NettyTransportClient.java`) put a second
//! cumulating decoder behind the frame decoder and so lose the borders; here a body is read for
//! itself and its border kept, whatever is in it.

use bytes::{BufMut, BytesMut};

/// Bytes of the length in front of a body. It does not count itself.
pub const PREFIX_LEN: usize = 2;

/// Longest body that a Sentinel peer accepts.
///
/// Sentinel builds its decoder with a limit of 1024 (`NettyTransportServer.java`), and Netty counts
/// the two prefix bytes against it, so a body has 1022 at most.
pub const MAX_BODY_LEN: usize = 1024 - PREFIX_LEN;

/// Frames without a usable head, one after the other, that end a connection.
pub const BAD_FRAMES_MAX: u8 = 16;

/// Bytes of a request's head: xid and type.
pub(crate) const REQUEST_HEAD_LEN: usize = 5;
/// Bytes of a response's head: xid, type and status.
pub(crate) const RESPONSE_HEAD_LEN: usize = 6;

/// Why the stream of a peer is lost. The connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The first frame is over-long: this is no Sentinel peer, but HTTP, TLS or a scanner.
    #[error("first frame announces {len} bytes, limit {MAX_BODY_LEN}: not a Sentinel peer")]
    NotAPeer {
        /// The announced length of the body.
        len: usize,
    },
    /// [`BAD_FRAMES_MAX`] frames in a row were over-long or too short for a head.
    #[error("{BAD_FRAMES_MAX} frames in a row without a usable head")]
    TooManyBad,
}

/// Cuts a stream of bytes into frame bodies.
///
/// One value serves one direction of one connection. It holds no bytes: the caller keeps what
/// [`next`](Self::next) leaves, which is less than one frame, so 1023 bytes at most.
#[derive(Debug, Clone)]
pub struct Deframer {
    head_len: usize,
    /// Bytes of an over-long frame that are still to be thrown away.
    skip: usize,
    /// Whether a frame that is not empty has been seen.
    started: bool,
    bad_in_a_row: u8,
    malformed: u64,
}

impl Deframer {
    /// Reads what clients send: a usable body holds a head of 5 bytes.
    #[must_use]
    pub fn requests() -> Self {
        Self::new(REQUEST_HEAD_LEN)
    }

    /// Reads what servers send: a usable body holds a head of 6 bytes.
    #[must_use]
    pub fn responses() -> Self {
        Self::new(RESPONSE_HEAD_LEN)
    }

    fn new(head_len: usize) -> Self {
        Self { head_len, skip: 0, started: false, bad_in_a_row: 0, malformed: 0 }
    }

    /// Takes the next whole body off the front of `input`, and moves `input` behind it.
    ///
    /// The body is at least as long as a head and at most [`MAX_BODY_LEN`]. `None` says that more
    /// bytes are needed: what is then left in `input` is the start of a frame, to be kept and
    /// given again in front of the bytes that follow it.
    ///
    /// Empty frames are passed over, as Sentinel does. Frames too short for a head are passed over
    /// and counted. Over-long frames are thrown away as they come, over several calls if need be,
    /// and counted.
    ///
    /// # Errors
    ///
    /// [`FrameError`] when the stream is lost. `input` is left at the frame that ended it.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, FrameError> {
        loop {
            if self.skip > 0 {
                let (skipped, rest) = input.split_at(self.skip.min(input.len()));
                self.skip -= skipped.len();
                *input = rest;
            }
            let Some((&prefix, rest)) = input.split_first_chunk::<PREFIX_LEN>() else {
                return Ok(None);
            };
            let len = usize::from(u16::from_be_bytes(prefix));
            if len > MAX_BODY_LEN {
                self.over_long(len)?;
                *input = rest;
                continue;
            }
            let Some((body, rest)) = rest.split_at_checked(len) else { return Ok(None) };
            if len >= self.head_len {
                self.started = true;
                self.bad_in_a_row = 0;
                *input = rest;
                return Ok(Some(body));
            }
            if len > 0 {
                self.bad()?;
            }
            *input = rest;
        }
    }

    /// Frames so far that were over-long or too short for a head. Empty frames are neither.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether the stream stands inside an over-long frame, the rest of which will be thrown away.
    #[must_use]
    pub fn is_skipping(&self) -> bool {
        self.skip > 0
    }

    #[cold]
    fn over_long(&mut self, len: usize) -> Result<(), FrameError> {
        if !self.started {
            self.malformed += 1;
            return Err(FrameError::NotAPeer { len });
        }
        self.bad()?;
        self.skip = len;
        Ok(())
    }

    #[cold]
    fn bad(&mut self) -> Result<(), FrameError> {
        self.started = true;
        self.malformed += 1;
        self.bad_in_a_row = self.bad_in_a_row.saturating_add(1);
        if self.bad_in_a_row >= BAD_FRAMES_MAX { Err(FrameError::TooManyBad) } else { Ok(()) }
    }
}

/// Writes a frame of `N` bytes, prefix included, with one copy; `write` fills the body.
#[inline]
pub(crate) fn put_frame<const N: usize>(out: &mut BytesMut, write: impl FnOnce(&mut &mut [u8])) {
    let mut frame = [0; N];
    let mut body = &mut frame[..];
    body.put_uint((N - PREFIX_LEN) as u64, PREFIX_LEN);
    write(&mut body);
    debug_assert!(body.is_empty(), "a frame of {N} bytes has {} left over", body.len());
    out.put_slice(&frame);
}
