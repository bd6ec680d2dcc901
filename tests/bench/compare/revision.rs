//! The revision of a server's rules, as HELLO tells it.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use anyhow::{Result, bail};
use bytes::BytesMut;
use protocol::{Request, Response};

/// A connection on which one question is asked at a time.
#[derive(Debug)]
pub(crate) struct Asker(TcpStream);

impl Asker {
    pub(crate) fn connect(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Rises by one with each set of rules that differs from the one before.
    pub(crate) fn revision(&mut self) -> Result<u64> {
        let mut frame = BytesMut::new();
        Request::Hello { xid: 1 }.encode(&mut frame)?;
        self.0.write_all(&frame)?;
        let mut len = [0; 2];
        self.0.read_exact(&mut len)?;
        let mut body = vec![0; u16::from_be_bytes(len).into()];
        self.0.read_exact(&mut body)?;
        match Response::decode(&body)? {
            Response::Hello { revision, .. } => Ok(revision),
            other => bail!("no answer to HELLO: {other:?}"),
        }
    }
}
