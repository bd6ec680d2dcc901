//! Concurrency tokens over the wire: what is in use is exact, whatever becomes of its holders.
#![expect(clippy::panic, reason = "a test says what it expects, in its helpers too")]

use std::{
    fs,
    io::Read,
    net::SocketAddr,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use bytes::BytesMut;
use limiter::{
    Settings, Tick,
    rule::{Contents, merge, parse},
};
use protocol::{Request, Response, Status, feature, kind};
use support::{InProcess, Wire, eventually, flow_rule, parsed, server, status, within};

/// A rule on calls in progress, whose tokens end after `timeout_ms`, and `offline_ms` after their
/// connection.
fn calls(id: i64, level: f64, timeout_ms: u64, offline_ms: u64) -> String {
    let more = format!(r#","resourceTimeout":{timeout_ms},"clientOfflineTime":{offline_ms}"#);
    flow_rule(id, level, &more).replacen(r#""count""#, r#""grade":0,"count""#, 1)
}

fn bytes(request: &Request<'_>) -> BytesMut {
    let mut frame = BytesMut::new();
    request.encode(&mut frame).unwrap();
    frame
}

/// A client that takes concurrency tokens.
struct Client(Wire);

impl Client {
    fn of(server: &InProcess) -> Self {
        Self(Wire::connect(server.addr))
    }

    fn ask(&mut self, request: &Request<'_>, answer_len: usize) -> Response {
        self.0.send(&bytes(request));
        let answer = self.0.receive(answer_len);
        let answer = Response::decode(answer.get(2..).unwrap_or_default()).unwrap();
        assert_eq!(answer.xid(), request.xid());
        answer
    }

    fn acquire(&mut self, flow_id: i64, count: i32) -> (Status, i64) {
        match self.ask(&Request::ConcurrentAcquire { xid: 1, flow_id, count }, 16) {
            Response::ConcurrentAcquire { status, token_id, .. } => (status, token_id),
            other => panic!("{other:?}"),
        }
    }

    /// A token, which there must be.
    fn take(&mut self, flow_id: i64, count: i32) -> i64 {
        let (status, token) = self.acquire(flow_id, count);
        assert!(status == Status::Ok && token > 0, "{status:?} {token}");
        token
    }

    fn is_full(&mut self, flow_id: i64) -> bool {
        match self.acquire(flow_id, 1) {
            (Status::Blocked, 0) => true,
            (Status::Ok, token) => {
                assert_eq!(self.release(token), Status::ReleaseOk);
                false
            }
            other => panic!("{other:?}"),
        }
    }

    fn release(&mut self, token_id: i64) -> Status {
        match self.ask(&Request::ConcurrentRelease { xid: 2, token_id }, 8) {
            Response::ConcurrentRelease { status, .. } => status,
            other => panic!("{other:?}"),
        }
    }

    /// Closes the connection and waits until the server has seen it: its place in the namespace is
    /// then free again. Gives the connection that saw it.
    fn leave(mut self, server: &InProcess) -> Self {
        self.0.ping("default");
        drop(self);
        let mut witness = Self::of(server);
        eventually("the server has seen the end", || witness.0.ping("default") == 1);
        witness
    }

    fn renew(&mut self, token_id: i64) -> Status {
        match self.ask(&Request::Renew { xid: 3, token_id }, 8) {
            Response::Head { kind: kind::RENEW, status, .. } => status,
            other => panic!("{other:?}"),
        }
    }
}

/// A server in this process with `rules`.
fn in_process(rules: &[String]) -> InProcess {
    let server = InProcess::start(Settings::default());
    server.engine.replace(parsed(rules)).unwrap();
    server
}

const MS: u64 = 1_000_000;

/// Where the clock of a server in this process stands at first.
const START: u64 = 1_700_000_000_000 * MS;

/// Sets the clock to `nanoseconds` after the start.
fn at(server: &InProcess, nanoseconds: u64) {
    server.clock.set(Tick(START + nanoseconds));
}

#[test]
fn hello_tells_that_concurrency_tokens_are_served() {
    let server = in_process(&[]);
    match Client::of(&server).ask(&Request::Hello { xid: 5 }, 22) {
        Response::Hello { features, .. } => assert_ne!(features & feature::CONCURRENCY, 0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_level_is_one_for_all_connections() {
    let server = in_process(&[calls(1, 3.0, 2_000, 2_000)]);
    let (mut a, mut b) = (Client::of(&server), Client::of(&server));
    let (two, one) = (a.take(1, 2), b.take(1, 1));
    assert_eq!((a.acquire(1, 1), b.acquire(1, 1)), ((Status::Blocked, 0), (Status::Blocked, 0)));
    // Anybody may give a token back: the id is the right to it.
    assert_eq!(b.release(two), Status::ReleaseOk);
    assert_eq!(b.acquire(1, 3), (Status::Blocked, 0), "one is still in use");
    b.take(1, 2);
    assert_eq!(a.release(one), Status::ReleaseOk);
    assert!(!a.is_full(1));
}

#[test]
fn however_many_ask_at_once_no_more_calls_are_in_progress_than_may_be() {
    const LEVEL: u32 = 3;
    let server = in_process(&[calls(1, f64::from(LEVEL), 60_000, 60_000)]);
    let (inside, most, refused) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::of(&server);
                for _ in 0..500 {
                    let (status, token) = client.acquire(1, 1);
                    if status == Status::Blocked {
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::Relaxed);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(client.release(token), Status::ReleaseOk);
                }
            });
        }
    });
    assert!(most.into_inner() <= LEVEL);
    assert!(refused.into_inner() > 0, "they were at it at once");
    assert_eq!(server.engine.concurrency().live(), 0);
}

#[test]
fn a_second_and_a_late_release_change_nothing() {
    let server = in_process(&[calls(1, 2.0, 1_000, 1_000)]);
    let (mut a, mut b) = (Client::of(&server), Client::of(&server));
    let first = a.take(1, 1);
    assert_eq!(a.release(first), Status::ReleaseOk);
    assert_eq!([a.release(first), b.release(first)], [Status::AlreadyRelease; 2]);
    let (late, _other) = (a.take(1, 1), a.take(1, 1));
    assert!(b.is_full(1));
    at(&server, 1_000 * MS);
    let successors = [b.take(1, 1), b.take(1, 1)];
    assert_eq!(a.release(late), Status::AlreadyRelease);
    assert!(a.is_full(1), "the late release took nothing from the successors");
    assert_eq!(successors.map(|token| b.release(token)), [Status::ReleaseOk; 2]);
    for never in [0, -1, 1, i64::MIN, i64::MAX] {
        assert_eq!(a.release(never), Status::AlreadyRelease);
        assert_eq!(a.renew(never), Status::AlreadyRelease);
    }
}

#[test]
fn a_token_that_nobody_renews_ends_to_the_nanosecond() {
    let server = in_process(&[calls(1, 1.0, 700, 60_000)]);
    let mut client = Client::of(&server);
    at(&server, 5);
    let token = client.take(1, 1);
    at(&server, 700 * MS + 4);
    assert!(client.is_full(1));
    at(&server, 700 * MS + 5);
    assert_eq!(client.renew(token), Status::AlreadyRelease);
    assert!(!client.is_full(1));
}

#[test]
fn renewals_hold_a_token_over_any_number_of_time_outs_and_over_another_connection() {
    let server = in_process(&[calls(1, 1.0, 900, 100)]);
    let (mut first, mut second) = (Client::of(&server), Client::of(&server));
    let token = first.take(1, 1);
    for third in 1..=30 {
        at(&server, third * 300 * MS);
        assert_eq!(first.renew(token), Status::Ok);
    }
    assert_eq!(second.renew(token), Status::Ok);
    let mut third = first.leave(&server);
    at(&server, 9_900 * MS - 1);
    assert!(third.is_full(1));
    assert_eq!(second.release(token), Status::ReleaseOk);
    assert!(!third.is_full(1));
}

#[test]
fn tokens_of_a_closed_connection_come_back_after_its_offline_time_and_not_before() {
    let server = in_process(&[calls(1, 3.0, 60_000, 500), calls(2, 1.0, 60_000, 200)]);
    let (mut dies, mut lives) = (Client::of(&server), Client::of(&server));
    at(&server, 100 * MS);
    let (_two, ends_earlier) = (dies.take(1, 2), dies.take(2, 1));
    let kept = lives.take(1, 1);
    at(&server, 1_000 * MS);
    dies.leave(&server);
    at(&server, 1_200 * MS - 1);
    assert!(lives.is_full(2));
    at(&server, 1_200 * MS);
    assert_eq!(lives.release(ends_earlier), Status::AlreadyRelease);
    assert!(!lives.is_full(2));
    at(&server, 1_500 * MS - 1);
    assert!(lives.is_full(1));
    at(&server, 1_500 * MS);
    lives.take(1, 2);
    assert!(lives.is_full(1), "the token of the connection that lives is still held");
    assert_eq!(lives.release(kept), Status::ReleaseOk);
}

/// More tokens than the thread of a connection lets go of by itself.
#[test]
fn a_connection_that_held_a_great_many_tokens_leaves_none_behind() {
    const MANY: usize = 5_000;
    let server = in_process(&[calls(1, 1e9, 1_000_000_000, 500)]);
    let mut dies = Client::of(&server);
    let acquire = bytes(&Request::ConcurrentAcquire { xid: 1, flow_id: 1, count: 1 });
    for _ in 0..MANY / 100 {
        dies.0.send(&acquire.repeat(100));
        assert_eq!(dies.0.receive(1_600).len(), 1_600);
    }
    let tokens = server.engine.concurrency();
    assert_eq!(tokens.live(), MANY as u64);
    drop(dies);
    // Whenever the server gets to a token, it ends half a second later, not after eleven days.
    let mut now = 0;
    eventually("all of them end", || {
        now += 500;
        at(&server, now * MS);
        tokens.expire(Tick(START + now * MS));
        tokens.live() == 0
    });
}

#[test]
fn above_the_bound_on_tokens_a_client_is_told_to_fall_back() {
    let server = InProcess::start(Settings { tokens_max: 4, ..Settings::default() });
    server.engine.replace(parsed(&[calls(1, 9.0, 1_000, 1_000)])).unwrap();
    let mut client = Client::of(&server);
    let tokens = [client.take(1, 1), client.take(1, 1)];
    assert_eq!(client.acquire(1, 1), (Status::TooManyRequest, 0));
    assert_eq!(client.release(tokens[0]), Status::ReleaseOk);
    client.take(1, 1);
}

#[test]
fn a_connection_that_takes_all_tokens_it_can_leaves_some_for_another_namespaces() {
    let server = InProcess::start(Settings { tokens_max: 1_000, ..Settings::default() });
    // One has a level beyond all bounds, the other refuses nobody by its mode.
    let shadow = calls(2, 0.0, 60_000, 60_000).replacen(
        r#""clusterConfig":{"#,
        r#""clusterConfig":{"mode":"shadow","#,
        1,
    );
    let set = |namespace, rule: String| {
        parse(&format!("[{rule}]"), "test", namespace, Contents::Flow, true).unwrap()
    };
    let rules = vec![
        set("greedy", calls(1, 1e9, 60_000, 60_000)),
        set("shadowed", shadow),
        set("honest", calls(3, 9.0, 60_000, 60_000)),
    ];
    server.engine.replace(merge(rules).unwrap()).unwrap();
    let (mut greedy, mut honest) = (Client::of(&server), Client::of(&server));
    for (flow_id, most) in [(1, 500), (2, 250)] {
        let mut taken = 0;
        loop {
            match greedy.acquire(flow_id, 1) {
                (Status::Ok, _) => taken += 1,
                refused => break assert_eq!(refused, (Status::TooManyRequest, 0)),
            }
        }
        assert_eq!(taken, most);
        for _ in 0..9 {
            let token = honest.take(3, 1);
            assert_eq!(greedy.acquire(flow_id, 1), (Status::TooManyRequest, 0));
            assert_eq!(honest.release(token), Status::ReleaseOk);
        }
    }
    for _ in 0..9 {
        honest.take(3, 1);
    }
    assert_eq!(honest.acquire(3, 1), (Status::Blocked, 0), "its own level");
}

#[test]
fn what_is_no_concurrency_rule_says_so() {
    let server = in_process(&[calls(1, 9.0, 1_000, 1_000), flow_rule(2, 9.0, "")]);
    let mut client = Client::of(&server);
    assert_eq!(client.acquire(99, 1), (Status::NoRuleExists, 0));
    for (flow_id, count) in [(2, 1), (1, 0), (1, -1), (0, 1), (-1, 1)] {
        assert_eq!(client.acquire(flow_id, count), (Status::BadRequest, 0), "{flow_id} {count}");
    }
}

/// A client that is a process of its own, so that it can be killed: it writes `request` and shows
/// what is answered.
struct Victim(std::process::Child);

impl Victim {
    fn connect(to: SocketAddr, request: &[u8]) -> Self {
        let script = r#"exec 3<>"/dev/tcp/$0/$1"; printf "$2" >&3; exec cat <&3"#;
        let escaped: String = request.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let (ip, port) = (to.ip().to_string(), to.port().to_string());
        let child = Command::new("bash")
            .args(["-c", script, &ip, &port, &escaped])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn answer(&mut self, len: usize) -> Response {
        let mut answer = vec![0; len];
        self.0.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
        Response::decode(&answer[2..]).unwrap()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn what_a_killed_process_held_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    fs::write(&path, format!("[{}]", calls(1, 3.0, 600_000, 300))).unwrap();
    let server = server(&["--rules", path.to_str().unwrap()]);
    let addr = server.token.unwrap();
    let mut other = Client(Wire::connect(addr));
    let kept = other.take(1, 1);
    let acquire = Request::ConcurrentAcquire { xid: 1, flow_id: 1, count: 2 };
    let mut victim = Victim::connect(addr, &bytes(&acquire));
    let Response::ConcurrentAcquire { status: Status::Ok, .. } = victim.answer(16) else {
        panic!("no token");
    };
    assert!(other.is_full(1));
    let labels = r#"{flow_id="1",namespace="default",resource="flow-1"} "#;
    let in_progress = format!("tollgate_flow_calls_in_progress{labels}");
    assert_eq!(server.metric(&in_progress), Some(3.0));

    drop(victim);
    within(Duration::from_secs(5), "long before the time-out of ten minutes", || !other.is_full(1));
    other.take(1, 2);
    assert!(other.is_full(1), "what the other client holds is not lost");
    assert_eq!(other.release(kept), Status::ReleaseOk);
    assert_eq!(server.metric(&in_progress), Some(2.0));
    let acquired = server.metric(r#"tollgate_concurrency_tokens_total{event="acquired"} "#);
    assert!(acquired >= Some(3.0), "{acquired:?}");
}

#[test]
fn a_token_is_given_back_after_its_rule_was_taken_out_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    let write = |rules: &[String]| fs::write(&path, format!("[{}]", rules.join(","))).unwrap();
    let (rule, other) = (calls(1, 2.0, 600_000, 600_000), flow_rule(2, 1e6, ""));
    write(&[rule.clone(), other.clone()]);
    let server = server(&["--rules", path.to_str().unwrap()]);
    let mut client = Client(Wire::connect(server.token.unwrap()));
    let (first, second) = (client.take(1, 1), client.take(1, 1));

    write(std::slice::from_ref(&other));
    eventually("the rule is gone", || client.acquire(1, 1) == (Status::NoRuleExists, 0));
    assert_eq!(client.0.status(2), status::OK);
    assert_eq!(client.renew(second), Status::Ok);
    assert_eq!(client.release(first), Status::ReleaseOk);
    assert_eq!(client.release(first), Status::AlreadyRelease);

    write(&[rule, other]);
    eventually("the rule is back", || client.acquire(1, 2).0 != Status::NoRuleExists);
    assert_eq!(client.acquire(1, 2), (Status::Blocked, 0), "the second call is still in progress");
    client.take(1, 1);
    assert!(client.is_full(1));
    assert_eq!(client.release(second), Status::ReleaseOk);
}

#[test]
fn a_token_of_another_server_names_nothing() {
    let rules = [calls(1, 1.0, 60_000, 60_000)];
    let (before, after) = (in_process(&rules), in_process(&rules));
    let old = Client::of(&before).take(1, 1);
    let mut client = Client::of(&after);
    let new = client.take(1, 1);
    assert_eq!([client.release(old), client.renew(old)], [Status::AlreadyRelease; 2]);
    assert_eq!(client.release(new), Status::ReleaseOk);
}
