//! A peer as a script: bytes in, bytes out.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// How long a test waits for bytes before it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// Length of an answer about a flow rule, its prefix included.
const FLOW_ANSWER_LEN: usize = 16;

/// What the server answers about a flow rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status on the wire.
    pub status: i8,
    /// What is left of the rule's tokens, as plain Sentinel says it.
    pub remaining: i32,
    /// Milliseconds to wait.
    pub wait_ms: i32,
}

/// Statuses on the wire.
pub mod status {
    #![expect(missing_docs, reason = "the names are Sentinel's")]
    pub const TOO_MANY_REQUEST: i8 = -2;
    pub const OK: i8 = 0;
    pub const BLOCKED: i8 = 1;
    pub const SHOULD_WAIT: i8 = 2;
    pub const NO_RULE_EXISTS: i8 = 3;
}

/// A request for `count` tokens of the flow rule `id`.
#[must_use]
pub fn flow_request(xid: u32, id: u64, count: u32, priority: bool) -> Vec<u8> {
    unhex(&format!("0012{xid:08x}01{id:016x}{count:08x}{:02x}", u8::from(priority)))
}

/// A ping of `namespace` with number 0.
#[must_use]
pub fn ping_request(namespace: &str) -> Vec<u8> {
    let len = namespace.len();
    unhex(&format!("{:04x}0000000000{len:08x}{}", 9 + len, hex(namespace.as_bytes())))
}

/// The answers in `bytes`, which must be whole, and to requests numbered from `first` on.
#[must_use]
pub fn flow_answers(bytes: &[u8], first: u32) -> Vec<Answer> {
    assert_eq!(bytes.len() % FLOW_ANSWER_LEN, 0, "the last answer is cut: {}", hex(bytes));
    let one = |(answer, xid): (&[u8], u32)| {
        assert_eq!(hex(&answer[..7]), format!("000e{xid:08x}01"), "in its turn");
        let int = |at: usize| i32::from_be_bytes(answer[at..at + 4].try_into().unwrap());
        Answer { status: answer[7].cast_signed(), remaining: int(8), wait_ms: int(12) }
    };
    bytes.chunks(FLOW_ANSWER_LEN).zip(first..).map(one).collect()
}

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

    /// Writes `bytes` over and over without reading, until the server has taken nothing for half a
    /// second: it waits for this peer to read.
    pub fn stuff(&mut self, bytes: &[u8]) {
        self.0.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut written = 0;
        while let Ok(n) = self.0.write(&bytes[written..]) {
            written = (written + n) % bytes.len();
        }
        self.0.set_write_timeout(Some(PATIENCE)).unwrap();
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

    /// Asks for `count` tokens of the flow rule `id`, `times` times in one write.
    pub fn ask(&mut self, id: u64, count: u32, times: u32) -> Vec<Answer> {
        let requests = (1..=times).flat_map(|xid| flow_request(xid, id, count, false));
        self.send(&requests.collect::<Vec<u8>>());
        let answers = flow_answers(&self.receive(times as usize * FLOW_ANSWER_LEN), 1);
        assert_eq!(answers.len(), times as usize);
        answers
    }

    /// Asks for one token of the flow rule `id` as a prioritized caller.
    pub fn ask_with_priority(&mut self, id: u64) -> Answer {
        self.send(&flow_request(1, id, 1, true));
        flow_answers(&self.receive(FLOW_ANSWER_LEN), 1)[0]
    }

    /// The status of a request for one token of the flow rule `id`.
    pub fn status(&mut self, id: u64) -> i8 {
        self.ask(id, 1, 1)[0].status
    }

    /// How many of `times` requests for one token of the flow rule `id` pass.
    pub fn passes(&mut self, id: u64, times: u32) -> usize {
        let answers = self.ask(id, 1, times);
        answers.iter().filter(|answer| answer.status == status::OK).count()
    }

    /// How many connections `namespace` has, this one included from now on.
    pub fn ping(&mut self, namespace: &str) -> u32 {
        self.send(&ping_request(namespace));
        let answer = self.receive(12);
        assert_eq!(hex(&answer[..8]), "000a000000000000", "{}", hex(&answer));
        u32::from_be_bytes(answer[8..].try_into().unwrap())
    }

    /// Whether the peer closes the connection, without another byte.
    pub fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(n) => n == 0,
            Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Reads away what still comes; whether the connection ends behind it.
    pub fn ends(&mut self) -> bool {
        let mut rest = [0; 4096];
        loop {
            match self.0.read(&mut rest) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(e) => return e.kind() == std::io::ErrorKind::ConnectionReset,
            }
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
