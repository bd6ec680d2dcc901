//! One connection with its batches in flight.

use std::{
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
};

use anyhow::{Context, Result, bail, ensure};
use limiter::Tick;
use mio::{Interest, Poll, Token, net::TcpStream};

use crate::{
    Args,
    wire::{Tally, Wire},
};

/// Bytes of the longest answer to expect, per request.
const ANSWER_LEN_MAX: usize = 24;
/// Least bytes to read at once.
const INPUT_LEN_MIN: usize = 4096;

/// A connection and its batches, which are written, and answered, in the order in which they were
/// begun.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    depth: usize,
    /// The wire's number of the first batch; the next ones follow it.
    first: usize,
    /// Batches begun, and of those the ones that were written whole.
    pub(crate) begun: usize,
    written: usize,
    /// Bytes of the next one that were written.
    part: usize,
    /// Requests that were answered.
    answered: usize,
    /// When the last batch was begun; for who begins one at a time.
    pub(crate) began: Tick,
    input: Vec<u8>,
    /// Bytes in `input`.
    filled: usize,
}

impl Connection {
    /// Connects, and begins nothing. Its batches are those of `wire` from `first` on.
    pub(crate) fn open(addr: SocketAddr, depth: usize, first: usize) -> Result<Self> {
        let stream = std::net::TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream),
            depth,
            first,
            begun: 0,
            written: 0,
            part: 0,
            answered: 0,
            began: Tick(0),
            input: vec![0; (depth * ANSWER_LEN_MAX).max(INPUT_LEN_MIN)],
            filled: 0,
        })
    }

    /// Opens all connections. Each has a part of the wire's batches to itself until it goes on with
    /// the next one's.
    pub(crate) fn open_all(args: &Args, wire: &impl Wire, poll: &Poll) -> Result<Vec<Self>> {
        let count = usize::from(args.connections);
        let share = wire.batches().div_ceil(count);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let open = |number| {
            let mut connection = Self::open(args.addr, args.depth.into(), number * share)?;
            poll.registry().register(&mut connection.stream, Token(number), interest)?;
            Ok(connection)
        };
        (0..count).map(open).collect::<Result<_>>().context("connect")
    }

    /// Begins the next batch.
    pub(crate) fn begin(&mut self, wire: &impl Wire, now: Tick) -> Result<()> {
        self.begun += 1;
        self.began = now;
        self.write(wire)
    }

    /// Writes what is left of the batches that were begun, as far as the socket takes it.
    pub(crate) fn write(&mut self, wire: &impl Wire) -> Result<()> {
        while self.written < self.begun {
            let batch = wire.batch(self.first + self.written);
            match self.stream.write(batch.get(self.part..).unwrap_or_default()) {
                Ok(written) => self.part += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("write"),
            }
            if self.part == batch.len() {
                (self.written, self.part) = (self.written + 1, 0);
            }
        }
        Ok(())
    }

    /// Reads and checks answers until the socket is empty, and says how many batches are complete,
    /// of all that were ever begun.
    pub(crate) fn read(&mut self, wire: &impl Wire, tally: &mut Tally) -> Result<usize> {
        loop {
            let free = self.input.get_mut(self.filled..).unwrap_or_default();
            let room = free.len();
            let read = match self.stream.read(free) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("read"),
            };
            self.filled += read;
            let bytes = self.input.get(..self.filled).unwrap_or_default();
            let batch = self.first + self.complete();
            let (answers, taken) = wire.check(batch, self.answered % self.depth, bytes, tally)?;
            self.answered += answers;
            self.input.copy_within(taken..self.filled, 0);
            self.filled -= taken;
            let asked = self.begun * self.depth;
            ensure!(self.answered <= asked, "more answers than {asked} requests");
            ensure!(
                self.answered < asked || self.filled == 0,
                "more bytes than the answers to {asked} requests"
            );
            // A read that left room has emptied the socket: the next bytes are told by an event.
            if read < room {
                break;
            }
        }
        Ok(self.complete())
    }

    /// Batches of which every request was answered.
    pub(crate) fn complete(&self) -> usize {
        self.answered / self.depth
    }
}
