//! The demo itself: what happens, what is expected of each part, and the table.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use limiter::{Clock, MonotonicClock};

use crate::crowd::{CLIENTS, Crowd, Seen};

/// Tokens of the example flow per second.
const LIMIT: u64 = 1_000;
/// What each of five clients offers per second.
const EACH: u64 = 300;

/// A server process with the addresses it printed; killed when dropped.
struct Server {
    child: Child,
    token: String,
    http: String,
}

impl Server {
    fn start(program: &str, rules: &str, listen: &str) -> Self {
        let mut child = Command::new(program)
            .args(["--listen", listen, "--http", "127.0.0.1:0", "--rules", rules])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut address = |key: &str| {
            let line = lines.next().unwrap_or_default();
            line.strip_prefix(key).expect("the server says where it listens").to_owned()
        };
        let (token, http) = (address("token "), address("http "));
        Self { child, token, http }
    }

    /// Tokens that the flow admitted in the last whole second, as the server counted them.
    fn last_second(&self) -> Option<f64> {
        let mut stream = TcpStream::connect(&self.http).ok()?;
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let mut lines = text.lines().filter(|line| line.contains("\"101\""));
        let line = lines.find(|l| l.starts_with("tollgate_flow_last_second_admitted_tokens"))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Watches the clock, the server and the clients.
struct Watch {
    clock: MonotonicClock,
    crowd: Crowd,
    failed: bool,
}

impl Watch {
    /// Sleeps until `ms` into the next aligned second, and gives the number of the one before it.
    #[expect(clippy::disallowed_methods, reason = "a demo runs in the time of its watcher")]
    fn next_second(&self, ms: u64) -> u64 {
        let now = self.clock.now().ms();
        let next = now / 1_000 + 1;
        thread::sleep(Duration::from_millis(next * 1_000 + ms - now));
        next - 1
    }

    /// Changes the load at the start of a second, so that the tokens of each second are asked for
    /// early in it, and whatever a late client leaves is taken before it ends.
    fn change_rates(&mut self, rates: [u64; CLIENTS]) {
        self.next_second(0);
        self.crowd.rates(rates);
    }

    /// Prints one line, and notes when `holds` is false.
    fn row(&mut self, second: u64, server: Option<f64>, seen: Seen, expected: &str, holds: bool) {
        let own = server.map_or_else(|| "-".into(), |n| n.to_string());
        let mark = if holds { "ok" } else { "NOT SO" };
        self.failed |= !holds;
        println!(
            "  {:>4}  {:>7}  {own:>9}  {:>9}  {:>11}  {:>7}   {expected}: {mark}",
            second % 10_000,
            seen.offered,
            seen.by_server,
            seen.by_fallback,
            seen.blocked
        );
    }

    /// Watches whole seconds with the server up: it must admit the limit in each, to the token.
    fn exactly_the_limit(&mut self, server: &Server, seconds: u64) {
        self.next_second(0);
        let mut own = Vec::new();
        for _ in 0..seconds {
            let second = self.next_second(300);
            own.push((second, server.last_second()));
        }
        self.next_second(900);
        for (second, admitted) in own {
            let seen = self.crowd.seen(second);
            self.row(second, admitted, seen, "server admits 1000", admitted == Some(1_000.0));
        }
    }
}

fn headline(text: &str) {
    println!("\n{text}");
    println!("  second  offered  admitted  by server  by fallback  blocked");
    println!("                   (server)  (clients)    (clients)");
}

pub(crate) fn tell(program: &str, rules: &str) -> ExitCode {
    let server = Server::start(program, rules, "127.0.0.1:0");
    let address = server.token.clone();
    println!("Server at {address}, flow 101 has {LIMIT} tokens a second for everybody together.");
    let crowd = Crowd::start(&address, rules);
    let mut watch = Watch { clock: MonotonicClock::start(), crowd, failed: false };

    headline("Five client processes offer 300/s each:");
    watch.change_rates([EACH; CLIENTS]);
    watch.exactly_the_limit(&server, 4);

    headline("One client offers all 1500/s (200 each would be its part of a static split):");
    watch.change_rates([EACH * 5, 0, 0, 0, 0]);
    watch.exactly_the_limit(&server, 4);

    headline("Five again, and the server is killed (policy `share`: 1000 / 5 clients each):");
    watch.change_rates([EACH; CLIENTS]);
    watch.next_second(0);
    drop(server);
    let killed = watch.next_second(0);
    without_server(&mut watch, killed);

    headline("The server is back, its counters are empty:");
    let server = Server::start(program, rules, &address);
    let started = watch.clock.now().ms() / 1_000;
    after_restart(&mut watch, &server, started);

    if watch.failed {
        println!("\nFAILED: a line above is not as it must be.");
        return ExitCode::FAILURE;
    }
    println!("\nEverything was as it must be.");
    ExitCode::SUCCESS
}

/// `killed` is the second in which the server died. From the next on, the clients alone decide.
fn without_server(watch: &mut Watch, killed: u64) {
    for _ in 0..5 {
        watch.next_second(0);
    }
    watch.next_second(500);
    for second in killed..=killed + 3 {
        let seen = watch.crowd.seen(second);
        let (bound, text) = if second == killed {
            (2 * LIMIT, "at most one window more")
        } else {
            (LIMIT, "clients admit at most 1000")
        };
        let holds = seen.clients == CLIENTS && seen.passed() <= bound && seen.by_fallback > 0;
        watch.row(second, None, seen, text, holds);
    }
}

/// Clients come back one by one, by their jittered back-off. Until all have, those that decide
/// alone have their part and the server has the whole.
fn after_restart(watch: &mut Watch, server: &Server, started: u64) {
    for _ in 0..13 {
        watch.next_second(0);
    }
    watch.next_second(500);
    let mut recovered = false;
    for second in started..started + 12 {
        let seen = watch.crowd.seen(second);
        let holds = seen.passed() <= 2 * LIMIT;
        watch.row(second, None, seen, "at most one window more", holds);
        recovered = seen.by_fallback == 0 && seen.by_server > 0;
        if recovered {
            break;
        }
    }
    if !recovered {
        println!("  NOT SO: the clients did not come back within 12 s");
        watch.failed = true;
    }
    watch.change_rates([0; CLIENTS]);
    watch.change_rates([EACH; CLIENTS]);
    watch.exactly_the_limit(server, 2);
}
