//! `token-cli` as a user runs it, against a server that is a script.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects, in its helpers too"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Output, Stdio},
    thread::{self, JoinHandle},
};

use bytes::{Buf, BytesMut};
use protocol::{
    Adjustment, Deframer, Explained, ExtendedResponse, HELLO_VERSION, Mode, Request, Response,
    Status, Unit, What, feature, kind,
};
use socket2::{Domain, Socket, Type};

enum Answer {
    Plain(Response),
    Extended(ExtendedResponse<'static>),
}

/// Answers the requests of one connection with `answer`, until the client closes.
fn serve(
    mut stream: TcpStream,
    mut answer: impl FnMut(Request<'_>) -> Option<Answer>,
) -> std::io::Result<()> {
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    let mut deframer = Deframer::requests();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..read]);
        let mut rest = &input[..];
        while let Some(body) = deframer.next(&mut rest).unwrap() {
            let response = answer(Request::decode(body).unwrap());
            match response {
                Some(Answer::Plain(response)) => response.encode(&mut output),
                Some(Answer::Extended(response)) => response.encode(&mut output),
                None => {}
            }
        }
        let used = input.len() - rest.len();
        input.advance(used);
        stream.write_all(&output)?;
        output.clear();
    }
}

/// A server of plain Sentinel and HELLO for one client, and its address.
fn server(
    mut answer: impl FnMut(Request<'_>) -> Option<Response> + Send + 'static,
) -> (String, JoinHandle<std::io::Result<()>>) {
    extended(move |request| answer(request).map(Answer::Plain))
}

/// A server for one client, and its address.
fn extended(
    answer: impl FnMut(Request<'_>) -> Option<Answer> + Send + 'static,
) -> (String, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = thread::spawn(move || serve(listener.accept()?.0, answer));
    (address, served)
}

/// Like the real one, with two tokens of flow 101 and a wait for those who have priority.
fn two_tokens() -> impl FnMut(Request<'_>) -> Option<Response> + Send {
    let mut left = 2;
    move |request| {
        Some(match request {
            Request::Ping { xid, namespace } => {
                Response::Ping { xid, connected: if namespace == "orders" { 3 } else { 1 } }
            }
            Request::Hello { xid } => {
                Response::Hello { xid, version: HELLO_VERSION, features: 5, revision: 7 }
            }
            Request::Flow { xid, flow_id: 101, count, priority } => {
                left -= count;
                let (status, remaining, wait_ms) = match (left, priority) {
                    (0.., _) => (Status::Ok, left, 0),
                    (_, true) => (Status::ShouldWait, 0, 3),
                    (_, false) => (Status::Blocked, 0, 0),
                };
                Response::Flow { xid, status, remaining, wait_ms }
            }
            Request::Flow { xid, .. } => {
                let status = Status::NoRuleExists;
                Response::Flow { xid, status, remaining: 0, wait_ms: 0 }
            }
            Request::Param { xid, params, .. } => {
                let wanted = [protocol::Param::Str("vip".into()), protocol::Param::Int(7)];
                let status = if params.iter().eq(wanted) { Status::Ok } else { Status::BadRequest };
                Response::Param { xid, status, remaining: 4, wait_ms: 0 }
            }
            other => panic!("{other:?}"),
        })
    }
}

/// Like the real one: flow 101 has two of ten tokens left, 7 has one call in progress of one at
/// most, and others are no rules. `peeks` says whether nothing is to be taken.
fn ours(peeks: bool) -> impl FnMut(Request<'_>) -> Option<Answer> + Send {
    let mut free = true;
    move |request| {
        let head = |xid, kind, status| Answer::Plain(Response::Head { xid, kind, status });
        Some(match request {
            Request::Ping { xid, .. } => Answer::Plain(Response::Ping { xid, connected: 1 }),
            Request::Hello { xid } => {
                let (version, features) = (HELLO_VERSION, feature::CONCURRENCY | feature::ASK);
                Answer::Plain(Response::Hello { xid, version, features, revision: 7 })
            }
            Request::Ask { xid, peek, what: What { flow_id: 101, count, .. }, .. } => {
                assert_eq!(peek, peeks);
                let fits = count <= 2;
                let explained = Explained {
                    remaining: if fits { u64::from(2 - count.unsigned_abs()) } else { 2 },
                    wait_ns: if fits { 0 } else { 400_000_000 },
                    used: 8,
                    threshold: 10.0,
                    window_ms: 1_000,
                    unit: Unit::PerSecond,
                    mode: Mode::Enforce,
                    connected: 1,
                    resource: "GET:/orders".into(),
                };
                let status = if fits { Status::Ok } else { Status::Blocked };
                Answer::Extended(ExtendedResponse::Ask { xid, status, explained })
            }
            Request::Adjust { xid, op, age_ms, what } => {
                let known = what.flow_id == 101;
                assert_eq!(age_ms, if op == Adjustment::GiveBack { 70 } else { 0 });
                let status = if known { Status::Ok } else { Status::NoRuleExists };
                head(xid, kind::ADJUST, status)
            }
            Request::ConcurrentAcquire { xid, flow_id: 7, count: 1 } => {
                let status = if free { Status::Ok } else { Status::Blocked };
                let token_id = if std::mem::take(&mut free) { 55 } else { 0 };
                Answer::Plain(Response::ConcurrentAcquire { xid, status, token_id })
            }
            // Forgotten before it is renewed, and not to be had again.
            Request::Renew { xid, token_id: 55 } => head(xid, kind::RENEW, Status::AlreadyRelease),
            Request::ConcurrentAcquire { xid, flow_id: 7, .. } => {
                Answer::Plain(Response::ConcurrentAcquire {
                    xid,
                    status: Status::Blocked,
                    token_id: 0,
                })
            }
            other => head(other.xid(), other.kind(), Status::NoRuleExists),
        })
    }
}

/// A port that nobody listens on, nor can while the socket lives.
fn closed_port() -> (String, Socket) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap().to_string();
    (address, socket)
}

fn cli(arguments: &[&str]) -> (Option<i32>, Vec<String>, String) {
    let command = Command::new(env!("CARGO_BIN_EXE_token-cli")).args(arguments).output();
    let Output { status, stdout, stderr } = command.unwrap();
    // The times differ from run to run.
    let without_time = |line: &str| line.split(" (").next().unwrap_or(line).to_owned();
    let lines = String::from_utf8(stdout).unwrap().lines().map(without_time).collect();
    (status.code(), lines, String::from_utf8(stderr).unwrap())
}

#[test]
fn decisions_are_printed_and_the_worst_one_is_the_exit_code() {
    for (more, code, lines) in [
        (&[][..], 0, &["pass, 1 left"][..]),
        (&["--count", "2"], 0, &["pass, 0 left"]),
        (&["-n", "3"], 1, &["1: pass, 1 left", "2: pass, 0 left", "3: blocked"]),
        (
            &["-n", "3", "--priority"],
            0,
            &["1: pass, 1 left", "2: pass, 0 left", "3: pass after 3.00 ms"],
        ),
        (&["--param", "string:vip", "--param", "int:7"], 0, &["pass, 4 left"]),
    ] {
        let (address, served) = server(two_tokens());
        let base = ["acquire", "--server", &address, "--flow-id", "101"];
        let (exit, printed, errors) = cli(&[&base, more].concat());
        assert_eq!(
            (exit, printed, &*errors),
            (Some(code), lines.iter().map(|l| (*l).into()).collect(), "")
        );
        served.join().unwrap().unwrap();
    }
}

#[test]
fn no_decision_says_what_to_do() {
    let (address, _served) = server(two_tokens());
    let (exit, printed, _) = cli(&["acquire", "--server", &address, "--flow-id", "9"]);
    assert_eq!(exit, Some(3));
    assert!(printed[0].starts_with("no decision: the server has no such rule"), "{printed:?}");
    assert!(printed[0].contains("--param"), "{printed:?}");
}

#[test]
fn a_ping_shows_who_is_there() {
    let (address, served) = server(two_tokens());
    let (exit, printed, errors) = cli(&["ping", "--server", &address, "--namespace", "orders"]);
    served.join().unwrap().unwrap();
    assert_eq!((exit, &*errors), (Some(0), ""));
    assert!(printed[0].starts_with(&format!("{address} answered in ")), "{printed:?}");
    assert!(printed[0].ends_with(": 3 clients of orders, with this one"), "{printed:?}");
    assert_eq!(printed[1], "speaks the extension, version 1, features 0x5, rule revision 7");
}

/// The same from a server that does not answer HELLO.
fn two_tokens_of_java() -> impl FnMut(Request<'_>) -> Option<Response> + Send {
    let mut answer = two_tokens();
    move |request| match request {
        Request::Hello { .. } => None,
        other => answer(other),
    }
}

#[test]
fn a_java_server_is_plain_sentinel() {
    let (address, served) = server(two_tokens_of_java());
    let (exit, printed, _) = cli(&["ping", "--server", &address]);
    served.join().unwrap().unwrap();
    assert_eq!((exit, &*printed[1]), (Some(0), "speaks plain Sentinel"));
}

#[test]
fn without_a_server_the_error_names_it_and_the_remedy() {
    let (address, _reserved) = closed_port();
    for command in [&["ping"][..], &["acquire", "--flow-id", "1"]] {
        let (exit, printed, errors) = cli(&[command, &["--server", &address]].concat());
        assert_eq!((exit, printed), (Some(3), Vec::new()));
        let start = format!("error: {address}: cannot connect: ");
        assert!(errors.starts_with(&start) && errors.contains("--server"), "{errors}");
    }
}

#[test]
fn the_second_server_is_asked_when_the_first_is_gone() {
    let (gone, _reserved) = closed_port();
    let (address, served) = server(two_tokens());
    let (exit, printed, _) =
        cli(&["ping", "--server", &gone, "--server", &address, "--timeout", "5000"]);
    served.join().unwrap().unwrap();
    assert_eq!(exit, Some(0));
    assert!(printed[0].starts_with(&address), "{printed:?}");
}

#[test]
fn why_says_how_a_rule_stands() {
    let rule = "flow rule 101 (GET:/orders)";
    for (more, code, line) in [
        (&["--count", "2"][..], 0, "pass, 8 used of 10 per second, 0 left"),
        (&["--count", "3"], 1, "blocked, 8 used of 10 per second, again in 400ms"),
        (&["--take"], 0, "pass, 8 used of 10 per second, 1 left"),
    ] {
        let (address, served) = extended(ours(!more.contains(&"--take")));
        let base = ["why", "101", "--server", &address];
        let output = Command::new(env!("CARGO_BIN_EXE_token-cli")).args(base).args(more).output();
        let output = output.unwrap();
        served.join().unwrap().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, format!("{rule}: {line}; decided by the token server\n"));
        assert_eq!(output.status.code(), Some(code));
    }
    for (answer, flow_id, start) in [
        (true, "9", "no decision: the server has no such rule"),
        (false, "101", "no decision: the server does not know the request"),
    ] {
        let (address, _served) =
            if answer { extended(ours(true)) } else { server(two_tokens_of_java()) };
        let (exit, printed, _) = cli(&["why", flow_id, "--server", &address]);
        assert_eq!(exit, Some(3));
        assert!(printed[0].starts_with(start), "{printed:?}");
    }
}

#[test]
fn corrections_are_said_to_have_been_made_or_not() {
    for (arguments, code, line) in [
        (&["give-back", "101", "--count", "3", "--age", "70"][..], 0, "given back"),
        (&["charge", "101", "--count", "731"], 0, "charged"),
        (&["reset", "101", "--param", "string:vip"], 0, "reset"),
        (&["reset", "9"], 3, "not reset: the server has no such rule;"),
    ] {
        let (address, _served) = extended(ours(true));
        let (exit, printed, _) = cli(&[arguments, &["--server", &address]].concat());
        assert_eq!(exit, Some(code), "{arguments:?}");
        assert!(printed[0].starts_with(line), "{printed:?}");
    }
}

#[test]
fn a_hold_lasts_until_it_is_interrupted_and_says_when_it_is_lost() {
    let (address, served) = extended(ours(true));
    let mut command = Command::new(env!("CARGO_BIN_EXE_token-cli"));
    let command = command.args(["hold", "7", "--server", &address]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "held, until this is interrupted");
    assert_eq!(next(), "lost: the server no longer holds it; asking again");
    let interrupt = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    assert_eq!(next(), "released");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    served.join().unwrap().unwrap();

    let mut full = ours(true);
    full(Request::ConcurrentAcquire { xid: 1, flow_id: 7, count: 1 });
    let (address, _served) = extended(full);
    let (exit, printed, _) = cli(&["hold", "7", "--server", &address]);
    let line = "flow rule 7: as many calls are in progress as may be";
    assert_eq!((exit, &*printed[0]), (Some(1), line));

    let (address, _served) = server(two_tokens_of_java());
    let (exit, printed, _) = cli(&["hold", "7", "--server", &address]);
    assert_eq!(exit, Some(3));
    assert!(printed[0].starts_with("no decision: the server does not know"), "{printed:?}");
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for arguments in [
        &[][..],
        &["why"],
        &["why", "0"],
        &["why", "1", "--priority", "--param", "int:1"],
        &["give-back", "1"],
        &["charge", "1", "--count", "0"],
        &["hold", "x"],
        &["acquire"],
        &["acquire", "--flow-id", "0"],
        &["acquire", "--flow-id", "1", "--count", "0"],
        &["acquire", "--flow-id", "1", "-n", "0"],
        &["acquire", "--flow-id", "1", "--param", "vip"],
        &["acquire", "--flow-id", "1", "--priority", "--param", "int:1"],
        &["ping", "--server", "http://x"],
    ] {
        let (exit, _, errors) = cli(arguments);
        assert_eq!(exit, Some(2), "{arguments:?}: {errors}");
    }
}
