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

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [u8; 7] = [0, 5, 0, 0, 0, 1, 0];

    fn frame(len: u16) -> Vec<u8> {
        let mut frame = len.to_be_bytes().to_vec();
        frame.resize(PREFIX_LEN + usize::from(len), 7);
        frame
    }

    /// A deframer that has seen a good frame.
    fn started() -> Deframer {
        let mut deframer = Deframer::requests();
        assert_eq!(deframer.next(&mut &GOOD[..]), Ok(Some(&GOOD[2..])));
        deframer
    }

    #[test]
    fn the_longest_body_is_taken_and_one_more_is_skipped() {
        let mut deframer = Deframer::requests();
        let stream = [frame(1022), frame(1023), frame(5)].concat();
        let mut input = &stream[..];
        assert_eq!(deframer.next(&mut input).unwrap().map(<[u8]>::len), Some(1022));
        assert_eq!(deframer.next(&mut input).unwrap().map(<[u8]>::len), Some(5));
        assert_eq!((deframer.malformed(), input.len()), (1, 0));
    }

    #[test]
    fn an_over_long_first_frame_is_no_peer() {
        for (stream, len) in [
            (&b"GET / HTTP/1.1\r\n"[..], 0x4745),
            (&[0x16, 3, 1, 2, 0], 0x1603),
            // Empty frames are passed over, so they are not the first.
            (&[0, 0, 0, 0, 4, 0, 9, 9], 1024),
        ] {
            let mut deframer = Deframer::requests();
            let mut input = stream;
            assert_eq!(deframer.next(&mut input), Err(FrameError::NotAPeer { len }));
            assert_eq!(deframer.malformed(), 1);
            let prefix = u16::try_from(len).unwrap().to_be_bytes();
            assert!(input.starts_with(&prefix), "left at the frame that ended the stream");
        }
    }

    #[test]
    fn an_over_long_frame_behind_a_short_one_is_skipped() {
        let mut deframer = Deframer::requests();
        let stream = [frame(4), frame(1023)].concat();
        assert_eq!(deframer.next(&mut &stream[..]), Ok(None));
        assert_eq!(deframer.malformed(), 2);
    }

    #[test]
    fn an_over_long_frame_is_thrown_away_as_it_comes() {
        let mut deframer = started();
        assert_eq!(deframer.next(&mut &[0xff, 0xff][..]), Ok(None));
        for _ in 0..65 {
            let mut input = &[0; 1000][..];
            assert_eq!(deframer.next(&mut input), Ok(None));
            assert!(deframer.is_skipping() && input.is_empty(), "nothing is left to be kept");
        }
        let end = [&[0; 535][..], &GOOD].concat();
        assert_eq!(deframer.next(&mut &end[..]), Ok(Some(&GOOD[2..])));
        assert!(!deframer.is_skipping());
    }

    #[test]
    fn sixteen_frames_in_a_row_without_a_head_are_too_many() {
        let mut deframer = started();
        let bad = [frame(4), frame(1), frame(0), frame(2000)].concat();
        // Four rounds of three bad frames, then three more: fifteen, forgotten at the next head.
        let stream = [bad.repeat(5), GOOD.to_vec(), bad.repeat(5)].concat();
        let mut input = &stream[..];
        assert_eq!(deframer.next(&mut input), Ok(Some(&GOOD[2..])));
        assert_eq!(deframer.next(&mut input), Ok(None));
        assert_eq!(deframer.malformed(), 30);

        for last in [frame(4), vec![4, 0]] {
            let mut deframer = deframer.clone();
            let mut input = &last[..];
            assert_eq!(deframer.next(&mut input), Err(FrameError::TooManyBad));
            assert_eq!((input, deframer.malformed()), (&last[..], 31));
        }
    }

    #[test]
    fn a_flood_of_empty_frames_is_passed_over() {
        let mut deframer = started();
        let stream = [frame(0).repeat(10_000), GOOD.to_vec()].concat();
        assert_eq!(deframer.next(&mut &stream[..]), Ok(Some(&GOOD[2..])));
        assert_eq!(deframer.malformed(), 0);
    }

    #[test]
    fn the_head_of_a_response_is_longer_by_its_status() {
        let stream = frame(5);
        assert!(Deframer::requests().next(&mut &stream[..]).unwrap().is_some());
        assert!(Deframer::responses().next(&mut &stream[..]).unwrap().is_none());
    }

    #[test]
    fn the_start_of_a_frame_is_left_for_the_next_read() {
        let mut deframer = started();
        for cut in 0..GOOD.len() {
            let mut input = &GOOD[..cut];
            assert_eq!(deframer.next(&mut input), Ok(None));
            assert_eq!(input, &GOOD[..cut]);
        }
    }
}
