//! `token-cli` as a user runs it, against a server that is a script.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects, in its helpers too"
)]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Output},
    thread::{self, JoinHandle},
};

use bytes::{Buf, BytesMut};
use protocol::{Deframer, HELLO_VERSION, Request, Response, Status};
use socket2::{Domain, Socket, Type};

/// Answers the requests of one connection with `answer`, until the client closes.
fn serve(
    mut stream: TcpStream,
    mut answer: impl FnMut(Request<'_>) -> Option<Response>,
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
            response.into_iter().for_each(|response| response.encode(&mut output));
        }
        let used = input.len() - rest.len();
        input.advance(used);
        stream.write_all(&output)?;
        output.clear();
    }
}

/// A server for one client, and its address.
fn server(
    answer: impl FnMut(Request<'_>) -> Option<Response> + Send + 'static,
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

#[test]
fn a_java_server_is_plain_sentinel() {
    let mut answer = two_tokens();
    let (address, served) = server(move |request| match request {
        Request::Hello { .. } => None,
        other => answer(other),
    });
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
fn a_wrong_command_line_is_exit_code_2() {
    for arguments in [
        &[][..],
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
