//! One connection: it greets the server, and then carries a line's calls until it ends.

use std::{future::poll_fn, io, net::SocketAddr, task::Waker, time::Duration};

use bytes::{Buf, BytesMut};
use protocol::{Deframer, Request, Response, kind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::yield_now,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{LinkError, Pong, dial::Dial, line::Line};

/// Room for one read: the answers to a thousand requests.
const READ_LEN: usize = 16 * 1024;

/// First bytes of a peer that are kept to be shown when it is no token server.
const SHOWN_LEN: usize = 32;

/// An open connection to `server`.
#[derive(Debug)]
pub(crate) struct Connection<R, W> {
    pub(crate) server: SocketAddr,
    read: R,
    write: W,
    /// What was read and not yet understood: less than a frame between two reads.
    input: BytesMut,
    deframer: Deframer,
}

impl<R, W> Connection<R, W>
where
    R: AsyncReadExt + Unpin,
    W: AsyncWriteExt + Unpin,
{
    /// Connects and greets: with a `namespace`, sends the ping and reads its answer, which proves
    /// that this is a token server. The greeting's second half, HELLO, is sent with it and may be
    /// answered later or, by a Java server, never.
    pub(crate) async fn open<D>(
        dial: &D,
        server: SocketAddr,
        line: &Line,
        namespace: Option<&str>,
        within: Duration,
    ) -> Result<(Self, Option<Pong>), LinkError>
    where
        D: Dial<Read = R, Write = W>,
    {
        let deadline = crate::time::now() + within;
        let (read, write) = match timeout_at(deadline, dial.connect(server)).await {
            Ok(connected) => connected.map_err(|e| connect_error(server, &e.to_string()))?,
            Err(_elapsed) => {
                return Err(connect_error(server, &format!("no answer in {within:?}")));
            }
        };
        let (input, deframer) = (BytesMut::new(), Deframer::responses());
        let mut connection = Self { server, read, write, input, deframer };
        let pong = connection.greet(line.hello(), namespace, deadline, within).await?;
        // HELLO's answer mostly came with the ping's: whoever sees the connection then knows what
        // its server can do.
        if let Some(error) =
            settle(server, &mut connection.input, &mut connection.deframer, line, &mut Vec::new())
        {
            return Err(error);
        }
        Ok((connection, pong))
    }

    async fn greet(
        &mut self,
        hello: i32,
        namespace: Option<&str>,
        deadline: Instant,
        within: Duration,
    ) -> Result<Option<Pong>, LinkError> {
        let server = self.server;
        let mut greeting = BytesMut::new();
        if let Some(namespace) = namespace {
            let ping = Request::Ping { xid: 0, namespace: namespace.into() };
            ping.encode(&mut greeting).map_err(|e| connect_error(server, &e.to_string()))?;
        }
        let hello = Request::Hello { xid: hello };
        hello.encode(&mut greeting).map_err(|e| connect_error(server, &e.to_string()))?;
        match timeout_at(deadline, self.write.write_all(&greeting)).await {
            Ok(written) => written.map_err(|e| self.broken(&e))?,
            Err(_elapsed) => return Err(LinkError::Silent { server, within }),
        }
        if namespace.is_none() {
            return Ok(None);
        }
        let mut first = Vec::new();
        let read = timeout_at(deadline, self.first_answer(&mut first)).await;
        let not_ours = || {
            let bytes = first.escape_ascii().to_string().into();
            LinkError::NotATokenServer { server, bytes }
        };
        match read {
            Ok(Ok(Some(Response::Ping { xid: 0, connected }))) => {
                Ok(Some(Pong { clients: u32::try_from(connected).ok() }))
            }
            Ok(Ok(Some(
                Response::PingRefused { xid: 0 } | Response::Head { xid: 0, kind: kind::PING, .. },
            ))) => Ok(Some(Pong { clients: None })),
            Ok(Ok(Some(_))) => Err(not_ours()),
            Ok(Ok(None)) if first.is_empty() => Err(LinkError::Closed { server }),
            Ok(Err(error)) if first.is_empty() => Err(self.broken(&error)),
            Err(_elapsed) if first.is_empty() => Err(LinkError::Silent { server, within }),
            Ok(Ok(None) | Err(_)) | Err(_) => Err(not_ours()),
        }
    }

    /// The first frame, and the bytes that the stream began with; `None` when the stream ends
    /// before, or is not one of frames.
    async fn first_answer(&mut self, first: &mut Vec<u8>) -> io::Result<Option<Response>> {
        loop {
            self.input.reserve(READ_LEN);
            let before = self.input.len();
            if self.read.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
            let room = SHOWN_LEN.saturating_sub(first.len());
            first.extend(self.input.iter().skip(before).take(room));
            let mut rest = &self.input[..];
            let body = self.deframer.next(&mut rest);
            let answer = body.map(|body| body.and_then(|body| Response::decode(body).ok()));
            let used = self.input.len() - rest.len();
            self.input.advance(used);
            match answer {
                Ok(None) => {}
                Ok(answer) => return Ok(answer),
                Err(_not_frames) => return Ok(None),
            }
        }
    }

    /// Carries the calls of `line`, which is open, until the connection ends; says why it did.
    pub(crate) async fn converse(&mut self, line: &Line, silence: Duration) -> LinkError {
        let server = self.server;
        tokio::select! {
            // Answers that are here come before the calls that run out of time.
            biased;
            error = read_answers(server, &mut self.read, &mut self.input, &mut self.deframer, line)
                => error,
            error = write_requests(&mut self.write, line) => broken(server, &error),
            silence = expire_calls(line, silence) => LinkError::Unresponsive { server, silence },
        }
    }

    fn broken(&self, error: &io::Error) -> LinkError {
        broken(self.server, error)
    }
}

async fn read_answers<R>(
    server: SocketAddr,
    read: &mut R,
    input: &mut BytesMut,
    deframer: &mut Deframer,
    line: &Line,
) -> LinkError
where
    R: AsyncReadExt + Unpin,
{
    let mut wake = Vec::new();
    loop {
        if let Some(error) = settle(server, input, deframer, line, &mut wake) {
            return error;
        }
        input.reserve(READ_LEN);
        match read.read_buf(input).await {
            Ok(0) => return LinkError::Closed { server },
            Ok(_) => {}
            Err(error) => return broken(server, &error),
        }
    }
}

/// Settles every whole frame of `input`; says what is wrong when there can be no further one.
fn settle(
    server: SocketAddr,
    input: &mut BytesMut,
    deframer: &mut Deframer,
    line: &Line,
    wake: &mut Vec<Waker>,
) -> Option<LinkError> {
    let mut rest = &input[..];
    let settled = line.settle(deframer, &mut rest, wake);
    let used = input.len() - rest.len();
    input.advance(used);
    let cause = settled.err()?.to_string().into();
    Some(LinkError::Garbage { server, cause })
}

async fn write_requests<W>(write: &mut W, line: &Line) -> io::Error
where
    W: AsyncWriteExt + Unpin,
{
    let mut batch = BytesMut::new();
    loop {
        poll_fn(|cx| line.poll_queued(cx)).await;
        // The first caller of many has woken this task. Those that are ready to run go first, so
        // that one write carries them all: six times the calls a second with 64 callers.
        yield_now().await;
        line.take_queue(&mut batch);
        if let Err(error) = write.write_all(&batch).await {
            return error;
        }
        batch.clear();
    }
}

/// Ends calls as they run out of time, and returns when the server has been silent for `limit`
/// although it was asked.
async fn expire_calls(line: &Line, limit: Duration) -> Duration {
    let mut wake = Vec::new();
    loop {
        let deadline = poll_fn(|cx| line.poll_deadline(cx)).await;
        sleep_until(deadline).await;
        let silence = line.expire(&mut wake);
        if silence >= limit {
            return silence;
        }
    }
}

fn broken(server: SocketAddr, error: &io::Error) -> LinkError {
    LinkError::Broken { server, cause: error.to_string().into() }
}

fn connect_error(server: SocketAddr, cause: &str) -> LinkError {
    LinkError::Connect { server, cause: cause.into() }
}
