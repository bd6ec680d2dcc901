//! The connection loop: read, let a [`Handler`] answer, write.
//!
//! ```text
//!   socket ──read──► input ──Handler::batch──► out ──write──► socket
//!             ▲                                          │
//!             └── only when every answer has been taken ─┘
//! ```
//!
//! One read is answered with one write, or with a few when the handler bounds its batches. Nothing
//! more is read while answers wait for the peer to take them, so a connection never holds more
//! than one read and one batch of answers, whatever its peer does.

use std::{pin::Pin, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Sleep, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::Close;

/// Bytes of a connection's read buffer: some two hundred flow requests, after which the system
/// call is a small part of the cost, and little enough to keep for an idle connection.
const READ_LEN: usize = 4096;

/// How long a closing connection waits for its peer to close too. Closing with unread bytes makes
/// the kernel send a reset, which can take answers away that the peer has not read yet.
const LINGER: Duration = Duration::from_secs(1);

/// What a connection does with the bytes that come in.
pub trait Handler: Send {
    /// Takes whole frames off the front of `input` and appends their answers to `out`.
    ///
    /// A call may stop early to bound `out`: it is called again, after `out` was written, until it
    /// takes nothing. What it leaves then is the start of a frame, and stands in front of the next
    /// bytes.
    ///
    /// # Errors
    ///
    /// Why the connection is to be closed. What is in `out` is written first.
    fn batch(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<(), Close>;

    /// Whether the stream stands inside a frame of which nothing is left in `input`.
    fn is_skipping(&self) -> bool {
        false
    }
}

/// How long a connection waits for its peer.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the rest of a started frame.
    pub frame: Duration,
    /// For the peer to take a batch of answers.
    pub write: Duration,
    /// For the next bytes between frames; `None`: for ever, as Sentinel's clients ping but once.
    pub idle: Option<Duration>,
}

/// Serves one connection until it ends, and says why it did.
///
/// When `stop` is cancelled, what has been read is answered and the connection is closed.
pub async fn serve_connection(
    mut stream: TcpStream,
    handler: &mut impl Handler,
    patience: Patience,
    stop: &CancellationToken,
) -> Close {
    let Err(close) = converse(&mut stream, handler, patience, stop).await;
    if close == Close::Draining {
        linger(&mut stream).await;
    }
    close
}

async fn converse(
    stream: &mut TcpStream,
    handler: &mut impl Handler,
    patience: Patience,
    stop: &CancellationToken,
) -> Result<std::convert::Infallible, Close> {
    let mut input = BytesMut::with_capacity(READ_LEN);
    let mut out = BytesMut::new();
    let mut stopped = std::pin::pin!(stop.cancelled());
    let mut timer = std::pin::pin!(patience.idle.map(sleep));
    let mut in_frame = false;
    loop {
        // Never moves more than the start of a frame, and never allocates: half of the buffer is
        // free as soon as what was consumed is reused.
        if input.capacity() - input.len() < READ_LEN / 2 {
            input.reserve(READ_LEN / 2);
        }
        let read = tokio::select! {
            biased;
            read = stream.read_buf(&mut input) => read?,
            () = stopped.as_mut() => return Err(Close::Draining),
            () = expired(timer.as_mut()) => {
                return Err(if in_frame { Close::SlowFrame } else { Close::Idle });
            }
        };
        if read == 0 {
            return Err(Close::PeerClosed);
        }
        let was_skipping = handler.is_skipping();
        let passed_border = answer(stream, handler, patience.write, &mut input, &mut out).await?;
        if stop.is_cancelled() {
            return Err(Close::Draining);
        }
        let now_in_frame = !input.is_empty() || handler.is_skipping();
        if now_in_frame {
            // The time runs from the start of the frame, however its bytes drip in.
            if !in_frame || (passed_border && !was_skipping) {
                timer.set(Some(sleep(patience.frame)));
            }
        } else if in_frame || patience.idle.is_some() {
            timer.set(patience.idle.map(sleep));
        }
        in_frame = now_in_frame;
    }
}

/// Answers every whole frame of `input`. True when bytes were taken from it.
#[inline]
async fn answer(
    stream: &mut TcpStream,
    handler: &mut impl Handler,
    patience: Duration,
    input: &mut BytesMut,
    out: &mut BytesMut,
) -> Result<bool, Close> {
    let read = input.len();
    loop {
        let before = input.len();
        let verdict = handler.batch(input, out);
        if !out.is_empty() {
            write(stream, out, patience).await?;
            out.clear();
        }
        verdict?;
        if input.is_empty() || input.len() == before {
            return Ok(input.len() < read);
        }
    }
}

/// Writes all of `out`. A timer is made only when the socket has no room.
#[inline]
async fn write(stream: &mut TcpStream, out: &[u8], patience: Duration) -> Result<(), Close> {
    let written = match stream.try_write(out) {
        Ok(written) if written == out.len() => return Ok(()),
        Ok(written) => written,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error.into()),
    };
    let (_, rest) = out.split_at(written);
    match timeout(patience, stream.write_all(rest)).await {
        Ok(done) => Ok(done?),
        Err(_elapsed) => Err(Close::SlowReader),
    }
}

/// Ends when the timer does; never without one.
async fn expired(timer: Pin<&mut Option<Sleep>>) {
    match timer.as_pin_mut() {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

/// Says goodbye and throws away what still comes, until the peer has closed too.
async fn linger(stream: &mut TcpStream) {
    let until_closed = async {
        stream.shutdown().await?;
        let mut unread = [0; 512];
        while stream.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whatever goes wrong now, all answers were handed over.
    drop(timeout(LINGER, until_closed).await);
}
