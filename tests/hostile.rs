//! Peers that mean harm or know no better: each costs little, and the next honest client is
//! served at once.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use limiter::Settings;
use support::{
    InProcess, Wire, eventually, flow_request, flow_rule, hex, parsed, ping_request, server,
    status::*, unhex,
};

fn honest(addr: SocketAddr) {
    assert_eq!(Wire::connect(addr).status(1), OK);
}

/// An honest client of a server without rules.
fn honest_without_rules(addr: SocketAddr) {
    assert_eq!(Wire::connect(addr).status(1), NO_RULE_EXISTS);
}

fn in_process() -> InProcess {
    let server = InProcess::start(Settings::default());
    server.engine.replace(parsed(&[flow_rule(1, 1e6, "")])).unwrap();
    server
}

#[test]
fn http_and_other_protocols_on_the_port_are_closed() {
    let server = in_process();
    for first in
        ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x02"]
    {
        let mut wire = Wire::connect(server.addr);
        wire.send(first.as_bytes());
        assert!(wire.is_closed(), "{first:?}");
    }
    honest(server.addr);
}

/// TC-08: a DNS query over TCP, whose bytes read as a ping of number 00060100 that announces a name
/// of 16 MB.
#[test]
fn a_thousand_probes_of_a_port_scanner_cost_nothing_and_a_live_client_is_served_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    fs::write(&path, format!("[{}]", flow_rule(1, 1e6, ""))).unwrap();
    let server = server(&["--rules", path.to_str().unwrap()]);
    let probe = unhex("001e0006010000010000000000000776657273696f6e0462696e640000100003");
    let mut live = Wire::connect(server.token.unwrap());
    let mut probes = |n: u32| {
        for _ in 0..n {
            let mut scanner = Wire::connect(server.token.unwrap());
            scanner.send(&probe);
            assert_eq!(scanner.receive(8), unhex("00060006010000ff"));
            assert_eq!(live.status(1), OK);
            scanner.send(&ping_request("ns1"));
            assert_eq!(hex(&scanner.receive(12)[..7]), "000a0000000000", "it may stay");
        }
    };
    let malformed = || server.metric("tollgate_malformed_total{what=\"body\"} ");
    probes(50);
    let before = server.resident_kb();
    assert_eq!(malformed(), Some(50.0));
    probes(1_000);
    assert_eq!(malformed(), Some(1_050.0));
    let after = server.resident_kb();
    assert!(after < before + 1_024, "{after} kB after {before} kB");
}

/// TC-08, the other inputs.
#[test]
fn lying_lengths_are_bad_requests_and_allocate_nothing() {
    let server = in_process();
    let mut wire = Wire::connect(server.addr);
    for (bad, answer) in [
        // ping: namespace length −1, one more than is there, and 2^31 − 1
        ("000c00000001 00 ffffffff 6e7331", "0006 00000001 00 ff"),
        ("000c00000002 00 00000004 6e7331", "0006 00000002 00 ff"),
        ("000c00000003 00 7fffffff 6e7331", "0006 00000003 00 ff"),
        // One less than is there is a good ping of another namespace: what is left over in a frame
        // is nothing.
        ("000c00000009 00 00000002 6e7331", "000a 00000009 00 00 00000001"),
        // hot parameters: amount −1 and 2^31 − 1, string length −1 and 2^31 − 1
        (
            "0015 00000004 02 0000000000000001 00000001 ffffffff",
            "000e 00000004 02 fc 0000000000000000",
        ),
        (
            "0017 00000005 02 0000000000000001 00000001 7fffffff 0601",
            "000e 00000005 02 fc 0000000000000000",
        ),
        (
            "001a 00000006 02 0000000000000001 00000001 00000001 07 ffffffff",
            "000e 00000006 02 fc 0000000000000000",
        ),
        (
            "001a 00000007 02 0000000000000001 00000001 00000001 07 7fffffff",
            "000e 00000007 02 fc 0000000000000000",
        ),
    ] {
        let compact = |text: &str| unhex(&text.replace(' ', ""));
        wire.send(&compact(bad));
        let expected = compact(answer);
        assert_eq!(wire.receive(expected.len()), expected, "{bad}");
    }
    honest(server.addr);
}

/// TC-09.
#[test]
fn bytes_left_over_in_a_frame_are_never_read_as_requests() {
    let server = in_process();
    let mut wire = Wire::connect(server.addr);
    let string = "78".repeat(996);
    wire.send(&unhex(
        &format!("03fe0000000b02000000000000006500000001000000000700 0003e4{string}")
            .replace(' ', ""),
    ));
    wire.send(&unhex("00120000000c0100000000000000010000000100"));
    assert_eq!(wire.receive(16), unhex("000e0000000b02fc0000000000000000"));
    assert_eq!(wire.receive(8), unhex("000e0000000c0100"));
}

#[test]
fn bytes_that_come_one_by_one_are_put_together() {
    let server = in_process();
    let mut wire = Wire::connect(server.addr);
    for byte in ping_request("ns1") {
        wire.send(&[byte]);
    }
    assert_eq!(wire.receive(12), unhex("000a00000000000000000001"));
}

#[test]
fn sixteen_frames_without_a_head_end_the_connection() {
    let server = in_process();
    let mut wire = Wire::connect(server.addr);
    assert_eq!(wire.ping("ns1"), 1);
    wire.send(&unhex(&"000101".repeat(16)));
    assert!(wire.is_closed());
    honest(server.addr);
}

#[test]
fn a_thousand_connections_that_reset_leave_nothing_behind() {
    let server = server(&[]);
    let addr = server.token.unwrap();
    let reset = || {
        let stream = socket2::Socket::from(TcpStream::connect(addr).unwrap());
        stream.set_linger(Some(Duration::ZERO)).unwrap();
        drop((&stream).write_all(&ping_request("ns1")));
    };
    (0..100).for_each(|_| reset());
    let before = server.resident_kb();
    (0..1_000).for_each(|_| reset());
    honest_without_rules(addr);
    let after = server.resident_kb();
    assert!(after < before + 2_048, "{after} kB after {before} kB");
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    eventually("descriptors are given back", || descriptors() < 40);
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

#[test]
fn a_peer_that_never_reads_costs_a_bounded_amount_and_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.toml");
    fs::write(&config, "write_timeout_ms = 1000\n").unwrap();
    let server = server(&["--config", config.to_str().unwrap()]);
    let addr = server.token.unwrap();
    let slow_readers =
        || server.metric("tollgate_connections_closed_total{reason=\"slow_reader\"} ");
    honest_without_rules(addr);
    assert_eq!(slow_readers(), Some(0.0));
    let before = server.resident_kb();
    let mut peer = Wire::connect(addr);
    // Until the server no longer reads: then the kernel's buffers are full on both sides.
    peer.stuff(&flow_request(1, 1, 1, false).repeat(5_000));
    honest_without_rules(addr);
    let after = server.resident_kb();
    assert!(after < before + 4_096, "{after} kB after {before} kB");
    eventually("the connection is closed", || slow_readers() == Some(1.0));
    assert!(peer.ends());
    honest_without_rules(addr);
}

#[test]
fn with_no_descriptors_left_it_waits_and_recovers() {
    let mut server = server(&[]);
    let addr = server.token.unwrap();
    server.limit_descriptors(40);
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(addr).unwrap()).collect();
    server.has_logged("accept");
    drop(crowd);
    honest_without_rules(addr);
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
}

/// TC-11, as far as clients close their connections; the rest is in `vanished.rs`.
#[test]
fn members_are_counted_exactly_over_both_address_families() {
    let v4 = in_process();
    let v6 = InProcess::with_options(Settings::default(), |options| {
        options.listen = "[::1]:0".parse().unwrap();
    });
    for server in [&v4, &v6] {
        let (mut a, mut b) = (Wire::connect(server.addr), Wire::connect(server.addr));
        let counts = [a.ping("ns1"), b.ping("ns1"), a.ping("ns1"), a.ping("ns1")];
        assert_eq!(counts, [1, 2, 2, 2]);
        // A second namespace is left for the first.
        assert_eq!((a.ping("ns2"), b.ping("ns1"), a.ping("ns1")), (1, 1, 2));
        drop(a);
        eventually("the closed connection has left", || b.ping("ns1") == 1);
    }
}
