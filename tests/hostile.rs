//! Peers that mean harm or know no better: each costs little, and the next honest client is
//! served at once.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use limiter::Settings;
use support::{InProcess, Process, Wire, eventually, flow_rule, parsed, server, unhex};

const PING: &str = "000c0000000000000000036e7331";

fn honest(addr: SocketAddr) {
    let mut wire = Wire::connect(addr);
    wire.send(&unhex("0012000000090100000000000000010000000100"));
    assert_eq!(wire.receive(8), unhex("000e000000090100"));
}

fn in_process() -> InProcess {
    let server = InProcess::start(Settings::default());
    server.engine.replace(parsed(&[flow_rule(1, 1e6, "")])).unwrap();
    server
}

/// Resident memory in kB.
fn rss_kb(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
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

#[test]
fn a_name_query_of_a_port_scanner_is_answered_and_the_connection_stays() {
    let server = in_process();
    let probe = "001E0006010000010000000000000776657273696F6E0462696E640000100003";
    let mut wire = Wire::connect(server.addr);
    for _ in 0..1_000 {
        wire.send(&unhex(&probe.to_lowercase()));
        assert_eq!(wire.receive(8), unhex("00060006010000ff"));
    }
    wire.send(&unhex(PING));
    assert_eq!(wire.receive(12), unhex("000a00000000000000000001"));
}

#[test]
fn lying_lengths_are_bad_requests_and_allocate_nothing() {
    let server = in_process();
    let mut wire = Wire::connect(server.addr);
    for (bad, answer) in [
        // ping: namespace length −1, one more than is there, and 2^31 − 1
        ("000c00000001 00 ffffffff 6e7331", "0006 00000001 00 ff"),
        ("000c00000002 00 00000004 6e7331", "0006 00000002 00 ff"),
        ("000c00000003 00 7fffffff 6e7331", "0006 00000003 00 ff"),
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
    for byte in unhex(PING) {
        wire.send(&[byte]);
    }
    assert_eq!(wire.receive(12), unhex("000a00000000000000000001"));
}

#[test]
fn sixteen_frames_without_a_head_end_the_connection() {
    let server = in_process();
    let mut wire = Wire::connect(server.addr);
    wire.send(&unhex(PING));
    assert_eq!(wire.receive(12).len(), 12);
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
        drop((&stream).write_all(&unhex(PING)));
    };
    (0..100).for_each(|_| reset());
    let before = rss_kb(&server);
    (0..1_000).for_each(|_| reset());
    assert_no_rule(addr);
    assert!(rss_kb(&server) < before + 2_048, "{} kB after {before} kB", rss_kb(&server));
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    eventually("descriptors are given back", || descriptors() < 40);
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

/// An honest client of a server without rules.
fn assert_no_rule(addr: SocketAddr) {
    let mut wire = Wire::connect(addr);
    wire.send(&unhex("0012000000090100000000000000010000000100"));
    assert_eq!(wire.receive(8), unhex("000e000000090103"));
}

#[test]
fn a_peer_that_never_reads_costs_a_bounded_amount_and_is_cut_off() {
    let server = server(&[]);
    let addr = server.token.unwrap();
    assert_no_rule(addr);
    let before = rss_kb(&server);
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let requests = unhex(&"0012000000090100000000000000010000000100".repeat(5_000));
    // Until the server no longer reads: then the kernel's buffers are full on both sides.
    while stream.write_all(&requests).is_ok() {}
    assert_no_rule(addr);
    assert!(rss_kb(&server) < before + 4_096, "{} kB after {before} kB", rss_kb(&server));
}

#[test]
fn with_no_descriptors_left_it_waits_and_recovers() {
    let mut server = server(&[]);
    let addr = server.token.unwrap();
    server.limit_descriptors(40);
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(addr).unwrap()).collect();
    server.has_logged("accept");
    drop(crowd);
    assert_no_rule(addr);
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
}

#[test]
fn members_are_counted_exactly_over_both_address_families() {
    let v4 = in_process();
    let v6 = InProcess::with_options(Settings::default(), |options| {
        options.listen = "[::1]:0".parse().unwrap();
    });
    for server in [&v4, &v6] {
        let ping = |wire: &mut Wire| {
            wire.send(&unhex(PING));
            wire.receive(12)[11]
        };
        let (mut a, mut b) = (Wire::connect(server.addr), Wire::connect(server.addr));
        assert_eq!((ping(&mut a), ping(&mut b), ping(&mut a), ping(&mut a)), (1, 2, 2, 2));
        drop(a);
        eventually("the closed connection has left", || ping(&mut b) == 1);
    }
}
