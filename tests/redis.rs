//! What the guide to choosing says of limits in Redis, against a real one: commands of several
//! clients mix, those of a script do not. And the same of ours.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    process::{Child, Command, Stdio},
};

use limiter::{Settings, Tick};
use support::{InProcess, Wire, eventually, flow_rule, parsed, skip, status::*};
use tempfile::TempDir;

/// Counts and compares in one step, as every script that limits a rate should.
const SCRIPT: &str = "local n = redis.call('INCR', KEYS[1]) \
                      if n == 1 then redis.call('PEXPIRE', KEYS[1], 60000) end \
                      return n <= tonumber(ARGV[1]) and 1 or 0";

/// A server without a port, which ends with the test.
struct Redis {
    child: Child,
    folder: TempDir,
}

impl Redis {
    /// `None`, said loudly, where there is none.
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--unixsocket", "redis.sock", "--save", ""]);
        command.args(["--appendonly", "no"]).current_dir(folder.path()).stdout(Stdio::null());
        let Ok(child) = command.spawn() else {
            skip("redis-server");
            return None;
        };
        let redis = Self { child, folder };
        eventually("Redis listens", || {
            UnixStream::connect(redis.folder.path().join("redis.sock")).is_ok()
        });
        Some(redis)
    }

    fn client(&self) -> Client {
        let stream = UnixStream::connect(self.folder.path().join("redis.sock")).unwrap();
        Client(BufReader::new(stream))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Client(BufReader<UnixStream>);

impl Client {
    /// Sends a command, and gives the integer that it answers: 0 for nothing at all.
    fn ask(&mut self, words: &[&str]) -> i64 {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let head = self.line();
        if let Some(number) = head.strip_prefix(':') {
            return number.parse().unwrap();
        }
        assert!(head.starts_with('$'), "{words:?}: {head}");
        if head == "$-1" { 0 } else { self.line().parse().unwrap() }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

#[test]
fn who_reads_compares_and_counts_with_commands_lets_more_pass_than_the_limit() {
    let Some(redis) = Redis::start() else { return };
    let mut clients = [redis.client(), redis.client(), redis.client()];
    // Each looks before any has counted, which nothing prevents.
    let seen = clients.each_mut().map(|client| client.ask(&["GET", "calls"]));
    let admitted = seen.iter().filter(|&&count| count < 1).count();
    let counts = clients.each_mut().map(|client| client.ask(&["INCR", "calls"]));
    assert_eq!((admitted, counts), (3, [1, 2, 3]), "the limit is 1");
}

#[test]
fn who_dies_between_counting_and_setting_the_end_leaves_a_counter_that_never_ends() {
    let Some(redis) = Redis::start() else { return };
    let mut dies = redis.client();
    assert_eq!(dies.ask(&["INCR", "calls"]), 1);
    drop(dies);
    let mut next = redis.client();
    assert_eq!(next.ask(&["INCR", "calls"]), 2, "refused, and sets no end");
    assert_eq!(next.ask(&["TTL", "calls"]), -1, "there is none, so all are refused for ever");
}

#[test]
fn a_script_counts_and_compares_in_one_step_and_so_do_we() {
    let server = InProcess::start(Settings::default());
    server.clock.set(Tick::from_ms(1_700_000_040_000));
    server.engine.replace(parsed(&[flow_rule(101, 1.0, "")])).unwrap();
    let mut wires = [(); 3].map(|()| Wire::connect(server.addr));
    let said = wires.each_mut().map(|wire| wire.status(101));
    assert_eq!(said, [OK, BLOCKED, BLOCKED]);
    drop(wires);

    let Some(redis) = Redis::start() else { return };
    let mut clients = [redis.client(), redis.client(), redis.client()];
    let ask = |client: &mut Client| client.ask(&["EVAL", SCRIPT, "1", "calls", "1"]);
    assert_eq!(clients.each_mut().map(ask), [1, 0, 0]);
    assert!((1..=60_000).contains(&clients[0].ask(&["PTTL", "calls"])), "the end is set, too");
    assert_eq!(clients[0].ask(&["GET", "calls"]), 3, "what is refused is counted as well");
}
