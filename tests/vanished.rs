//! Clients whose link breaks without a word (TC-11). Only TCP itself can find out: by asking the
//! silent (keep-alive), or by giving up on those who take no answers (user time-out).

use std::{fs, net::SocketAddr};

use support::{
    Cable, Family, Process, Relay, eventually, flow_answers, flow_request, flow_rule, ping_request,
    status::*, unhex,
};

/// How many clients the namespace has, as the server tells `relay`, one of them.
fn ping(relay: &mut Relay) -> u8 {
    relay.send(&ping_request("default"));
    counted(relay)
}

fn counted(relay: &mut Relay) -> u8 {
    let answer = relay.receive(12);
    assert_eq!(answer[..11], unhex("000a000000000000000000"));
    answer[11]
}

/// A server that asks a client after a second of silence, and gives it up after two. Its flow 101
/// has ten tokens for each client.
fn server(cable: &Cable, family: Family, port: u16) -> Process {
    let folder = tempfile::tempdir().unwrap();
    let (config, rules) = (folder.path().join("server.toml"), folder.path().join("rules.json"));
    fs::write(&config, "keep_alive_seconds = 1\nlog = \"info,token_server=debug\"\n").unwrap();
    let each = flow_rule(101, 10.0, "").replace(r#""thresholdType":1"#, r#""thresholdType":0"#);
    fs::write(&rules, format!("[{each}]")).unwrap();
    let files = ["--config", config.to_str().unwrap(), "--rules", rules.to_str().unwrap()];
    cable.server(family, port, &files)
}

/// The whole of TC-11.
fn members_are_counted_through_a_cut_and_a_restart(family: Family) {
    let Some(cable) = Cable::plug() else { return };
    let first = server(&cable, family, 0);
    let addr = first.token.unwrap();
    let (mut a, mut b) = (cable.client(addr), cable.neighbour(addr));
    assert_eq!((ping(&mut a), ping(&mut b), ping(&mut a), ping(&mut a)), (1, 2, 2, 2));

    cable.cut();
    assert_eq!(ping(&mut b), 2, "nobody can know yet");
    eventually("the vanished client is no longer counted", || ping(&mut b) == 1);
    first.has_logged("connection lost");
    let requests = (1..=30).flat_map(|xid| flow_request(xid, 101, 1, false));
    b.send(&requests.collect::<Vec<u8>>());
    let answers = flow_answers(&b.receive(30 * 16), 1);
    let with = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((with(OK), with(BLOCKED)), (10, 20), "the tokens of one client");

    cable.mend();
    let mut returned = cable.client(addr);
    assert_eq!((ping(&mut returned), ping(&mut b)), (2, 2));
    assert!(!first.log().contains("ERROR"), "{}", first.log());

    drop(first);
    let second = server(&cable, family, addr.port());
    eight_at_the_same_moment(&cable, addr);
    assert!(!second.log().contains("ERROR"), "{}", second.log());
}

fn eight_at_the_same_moment(cable: &Cable, addr: SocketAddr) {
    let connect = |i| if i % 2 == 0 { cable.client(addr) } else { cable.neighbour(addr) };
    let mut all: Vec<Relay> = (0..8).map(connect).collect();
    all.iter_mut().for_each(|relay| relay.send(&ping_request("default")));
    let mut counts: Vec<u8> = all.iter_mut().map(counted).collect();
    counts.sort_unstable();
    assert_eq!(counts.last(), Some(&8), "{counts:?}");
    assert!(all.iter_mut().all(|relay| ping(relay) == 8));
}

#[test]
fn a_client_behind_a_cut_cable_is_no_longer_counted_over_ipv4() {
    members_are_counted_through_a_cut_and_a_restart(Family::V4);
}

#[test]
fn a_client_behind_a_cut_cable_is_no_longer_counted_over_ipv6() {
    members_are_counted_through_a_cut_and_a_restart(Family::V6);
}

/// Its requests still arrive, so that it is not silent; but no answer reaches it.
#[test]
fn a_client_that_no_answer_reaches_is_no_longer_counted() {
    let Some(cable) = Cable::plug() else { return };
    let server = server(&cable, Family::V4, 0);
    let addr = server.token.unwrap();
    let (mut a, mut b) = (cable.client(addr), cable.neighbour(addr));
    assert_eq!((ping(&mut a), ping(&mut b)), (1, 2));
    cable.cut_answers();
    a.send(&flow_request(1, 101, 1, false));
    eventually("the deaf client is no longer counted", || ping(&mut b) == 1);
    server.has_logged("connection lost");
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}
