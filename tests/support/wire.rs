//! A peer as a script: bytes in, bytes out.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// How long a test waits for bytes before it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// One connection to a token server, without any protocol of its own.
#[derive(Debug)]
pub struct Wire(TcpStream);

impl Wire {
    /// Connects.
    #[must_use]
    pub fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Writes all of `bytes`; a peer that closed meanwhile is no mistake of the script.
    pub fn send(&mut self, bytes: &[u8]) {
        drop(self.0.write_all(bytes));
    }

    /// Reads `len` bytes, or what came before the end or the time-out.
    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut read = 0;
        while read < len {
            match self.0.read(&mut bytes[read..]) {
                Ok(0) | Err(_) => break,
                Ok(n) => read += n,
            }
        }
        bytes.truncate(read);
        bytes
    }

    /// Whether the peer closes the connection, without another byte.
    pub fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(n) => n == 0,
            Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Says that no more is coming, and gives what the peer still sends until it closes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        drop(self.0.shutdown(Shutdown::Write));
        let mut rest = Vec::new();
        drop(self.0.read_to_end(&mut rest));
        rest
    }
}

/// Bytes from hexadecimal digits.
#[must_use]
pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).unwrap();
    let byte = |pair: &[u8]| u8::try_from(digit(pair[0]) * 16 + digit(pair[1])).unwrap();
    text.as_bytes().chunks_exact(2).map(byte).collect()
}

/// Hexadecimal digits of bytes.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
