//! One connection with one batch in flight.

use std::{
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
};

use anyhow::{Context, Result, bail, ensure};
use limiter::Tick;
use mio::net::TcpStream;

use crate::wire::{Tally, Wire};

/// Bytes of the longest answer to expect, per request.
const ANSWER_LEN_MAX: usize = 24;

/// A connection and its batch.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    depth: usize,
    batch: usize,
    /// Bytes of the batch that were written.
    written: usize,
    /// Requests of the batch that were answered.
    answered: usize,
    /// When the batch was begun.
    pub(crate) began: Tick,
    input: Vec<u8>,
    /// Bytes in `input`.
    filled: usize,
}

impl Connection {
    /// Connects, and begins nothing.
    pub(crate) fn open(addr: SocketAddr, depth: usize) -> Result<Self> {
        let stream = std::net::TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream),
            depth,
            batch: 0,
            written: 0,
            answered: 0,
            began: Tick(0),
            input: vec![0; depth * ANSWER_LEN_MAX],
            filled: 0,
        })
    }

    /// Begins a batch; the one before must be complete.
    pub(crate) fn begin(&mut self, wire: &impl Wire, batch: usize, now: Tick) -> Result<()> {
        (self.batch, self.written, self.answered, self.began) = (batch, 0, 0, now);
        self.write(wire)
    }

    /// Writes what is left of the batch, as far as the socket takes it.
    pub(crate) fn write(&mut self, wire: &impl Wire) -> Result<()> {
        while let Some(rest) = wire.batch(self.batch).get(self.written..).filter(|r| !r.is_empty())
        {
            match self.stream.write(rest) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("write"),
            }
        }
        Ok(())
    }

    /// Reads and checks answers until the batch is complete (true) or the socket is empty.
    pub(crate) fn read(&mut self, wire: &impl Wire, tally: &mut Tally) -> Result<bool> {
        loop {
            let free = self.input.get_mut(self.filled..).unwrap_or_default();
            let room = free.len();
            let read = match self.stream.read(free) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("read"),
            };
            self.filled += read;
            let bytes = self.input.get(..self.filled).unwrap_or_default();
            let (answers, taken) = wire.check(self.batch, self.answered, bytes, tally)?;
            self.answered += answers;
            self.input.copy_within(taken..self.filled, 0);
            self.filled -= taken;
            if self.answered == self.depth {
                ensure!(self.filled == 0, "more bytes than {} answers", self.depth);
                return Ok(true);
            }
            ensure!(self.answered < self.depth, "more answers than {} requests", self.depth);
            // A read that left room has emptied the socket: the next bytes are told by an event.
            if read < room {
                return Ok(false);
            }
        }
    }
}
