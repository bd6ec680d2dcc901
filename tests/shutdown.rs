//! The end of a server: whatever it has read is answered, then it exits with 0.

use std::fs;

use support::{
    Process, Wire, eventually, flow_answers, flow_request, flow_rule, server, status::*,
};

const REQUESTS: &str = "tollgate_requests_total{type=\"flow\"} ";

/// A server whose flow 101 has plenty, and a connection to it.
fn scene() -> (Process, Wire) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    fs::write(&path, format!("[{}]", flow_rule(101, 1e6, ""))).unwrap();
    let rules = ["--rules", path.to_str().unwrap(), "--max-allowed-qps", "off"];
    let server = server(&rules);
    let wire = Wire::connect(server.token.unwrap());
    (server, wire)
}

/// One request after the other, numbered from 1.
fn requests(n: u32) -> Vec<u8> {
    (1..=n).flat_map(|xid| flow_request(xid, 101, 1, false)).collect()
}

#[test]
fn a_termination_signal_answers_what_was_read_and_exits_with_0() {
    let (mut server, mut wire) = scene();
    assert_eq!(wire.status(101), OK);
    wire.send(&requests(1_000));
    assert_eq!(flow_answers(&wire.receive(16), 1)[0].status, OK);
    eventually("all is read", || server.metric(REQUESTS) == Some(1_001.0));
    server.signal("TERM");
    let rest = flow_answers(&wire.finish(), 2);
    assert_eq!(rest.len(), 999);
    assert!(rest.iter().all(|answer| answer.status == OK));
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
}

/// Requests after which their numbers begin anew.
const TURN: u32 = 5_000;

/// The server is in the middle of writing answers when the signal comes, since nobody has read
/// any: it must not drop those that it still holds, nor the requests that it has read for them.
#[test]
fn a_peer_that_begins_to_read_only_after_the_signal_gets_every_answer() {
    let (mut server, mut wire) = scene();
    wire.stuff(&requests(TURN));
    let read = server.metric(REQUESTS).unwrap();
    server.signal("TERM");
    server.has_logged("no longer accepting");
    let mut answered = 0;
    for answers in wire.finish().chunks(TURN as usize * 16) {
        answered += flow_answers(answers, 1).len();
    }
    assert!(answered as f64 >= read && read > 1_000.0, "{answered} of {read} that were read");
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
}
