//! Redis commands that answer with an integer: INCR, and a token bucket as a script.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
};

use anyhow::{Result, bail, ensure};

use crate::wire::{Tally, Wire};

/// A token bucket that takes one token: what is in use where Redis limits rates, with one read and
/// one write, and time taken from the server.
const TOKEN_BUCKET: &str = r"
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(bucket[1]) or burst
local at = tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate)
local allowed = 0
if tokens >= 1 then
    tokens = tokens - 1
    allowed = 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], 2000)
return allowed
";

/// Tokens a second, and the bucket's size: never empty.
const RATE: &str = "1000000000000";

/// One command, `depth` times.
#[derive(Debug)]
pub(crate) struct Command {
    requests: Vec<u8>,
    /// The integer that is expected; `None`: any.
    expected: Option<i64>,
}

impl Command {
    /// Counts one key up.
    pub(crate) fn incr(depth: usize) -> Self {
        Self { requests: encode(&["INCR", "bench:counter"]).repeat(depth), expected: None }
    }

    /// Takes a token with the script of that digest.
    pub(crate) fn token_bucket(digest: &str, depth: usize) -> Self {
        let request = encode(&["EVALSHA", digest, "1", "bench:bucket", RATE, RATE]);
        Self { requests: request.repeat(depth), expected: Some(1) }
    }
}

impl Wire for Command {
    fn batches(&self) -> usize {
        1
    }

    fn batch(&self, _batch: usize) -> &[u8] {
        &self.requests
    }

    #[inline]
    fn check(
        &self,
        _batch: usize,
        _first: usize,
        bytes: &[u8],
        tally: &mut Tally,
    ) -> Result<(usize, usize)> {
        let (mut answers, mut taken, mut ok) = (0, 0, 0);
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let Some(line_without_end) = line.strip_suffix(b"\r\n") else { break };
            let value = integer(line_without_end)?;
            if self.expected.is_none_or(|expected| value == expected) {
                ok += 1;
            } else {
                tally.other(value);
            }
            answers += 1;
            taken += line.len();
        }
        tally.expected += ok;
        Ok((answers, taken))
    }
}

/// Reads an integer answer that is not negative.
#[inline]
fn integer(line: &[u8]) -> Result<i64> {
    match line {
        [b':', digits @ ..] if (1..=18).contains(&digits.len()) => {
            let mut value = 0;
            for digit in digits {
                let digit = digit.wrapping_sub(b'0');
                ensure!(digit < 10, "no integer: {:?}", String::from_utf8_lossy(line));
                value = value * 10 + i64::from(digit);
            }
            Ok(value)
        }
        _ => bail!("no integer: {:?}", String::from_utf8_lossy(line)),
    }
}

fn encode(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len());
    for word in words {
        out.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    out.into_bytes()
}

/// Gives the server the token bucket, and returns its digest.
pub(crate) fn load_script(addr: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(addr)?;
    stream.write_all(&encode(&["SCRIPT", "LOAD", TOKEN_BUCKET]))?;
    let mut lines = BufReader::new(stream).lines();
    let head = lines.next().transpose()?.unwrap_or_default();
    ensure!(head == "$40", "answer {head:?}");
    Ok(lines.next().transpose()?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_counted_and_a_cut_line_is_left() {
        let mut tally = Tally::default();
        let checked = Command::incr(4).check(0, 0, b":1\r\n:22\r\n:3\r", &mut tally).unwrap();
        assert_eq!(checked, (2, 9));
        assert_eq!((tally.expected, tally.others.len()), (2, 0));
    }

    #[test]
    fn a_refused_token_is_told_from_a_granted_one() {
        let mut tally = Tally::default();
        let command = Command::token_bucket("digest", 4);
        assert_eq!(command.check(0, 0, b":1\r\n:0\r\n:1\r\n", &mut tally).unwrap(), (3, 12));
        assert_eq!((tally.expected, tally.others.into_iter().collect()), (2, vec![(0, 1)]));
    }

    #[test]
    fn an_error_answer_is_an_error() {
        let check = |bytes| Command::incr(1).check(0, 0, bytes, &mut Tally::default());
        assert!(check(b"-ERR unknown command\r\n").is_err());
        assert!(check(b":12x\r\n").is_err());
        assert!(check(b":\r\n").is_err());
    }

    #[test]
    fn commands_are_arrays_of_strings() {
        assert_eq!(encode(&["INCR", "k"]), b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n");
    }
}
