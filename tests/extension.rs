//! Frames 17 to 22 as bytes on a socket: what goes in, and what comes out.
//!
//! In the scripts a frame begins with its type; the length and the number before it are put there
//! by [`Peer::says`]. Spaces are for the reader.

use limiter::{Settings, Tick};
use support::{InProcess, Wire, flow_rule, hex, param_rule, parsed, unhex};

const START_MS: u64 = 1_700_000_000_000;

/// Ten a second.
const FLOW: &str = "00 0000000000000001";
/// Two calls in progress.
const CALLS: &str = "00 0000000000000002";
/// A hundred a second, on lease by ten for half a second.
const LEASED: &str = "0000000000000004";
/// No rule has it.
const NOBODY: &str = "00 0000000000000063";
/// The value 7 (an int) under the hot-parameter rule 3, five a second: what follows is the count.
const HOT: &str = "01 0000000000000003";
const SEVEN: &str = "00000001 00 00000007";

/// A server with those rules.
fn server() -> InProcess {
    let server = InProcess::start(Settings::default());
    let calls = flow_rule(2, 2.0, "").replacen(r#""count""#, r#""grade":0,"count""#, 1);
    let leased = flow_rule(4, 100.0, r#","lease":{"maxTokens":10,"ttlMs":500}"#);
    let rules = [flow_rule(1, 10.0, ""), calls, param_rule(3, 5.0, ""), leased];
    server.engine.replace(parsed(&rules)).unwrap();
    server
}

/// A frame with its prefix and its number.
fn frame(xid: u32, from_type: &str) -> Vec<u8> {
    let body = unhex(&from_type.replace(' ', ""));
    unhex(&format!("{:04x}{xid:08x}{}", body.len() + 4, hex(&body)))
}

/// A connection that pinged, and numbers its requests.
struct Peer {
    wire: Wire,
    xid: u32,
}

impl Peer {
    fn of(server: &InProcess) -> Self {
        let mut wire = Wire::connect(server.addr);
        assert_eq!(wire.ping("default"), 1);
        Self { wire, xid: 0xfe }
    }

    /// Sends a request and gives its answer from the type on, in hexadecimal digits.
    fn asks(&mut self, request: &str) -> String {
        self.xid += 1;
        self.wire.send(&frame(self.xid, request));
        let prefix = hex(&self.wire.receive(2));
        let len = usize::from_str_radix(&prefix, 16).unwrap();
        let body = hex(&self.wire.receive(len));
        body.strip_prefix(&format!("{:08x}", self.xid)).expect("its own number").to_owned()
    }

    /// Sends a request, whose answer must be these bytes.
    fn says(&mut self, request: &str, answer: &str) {
        assert_eq!(self.asks(request), answer.replace(' ', ""), "{request}");
    }

    /// Sends a request in whose answer a token or a lease, drawn at random, stands between these
    /// bytes; gives that.
    fn draws(&mut self, request: &str, before: &str, behind: &str) -> String {
        let answer = self.asks(request);
        let (before, behind) = (before.replace(' ', ""), behind.replace(' ', ""));
        let drawn = answer.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&behind));
        let drawn = drawn.filter(|drawn| drawn.len() == 16);
        drawn.expect(&answer).to_owned()
    }
}

/// What stands in an answer to 18 for flow 1 after the wait: tokens used, the threshold of 10, the
/// window of 1 000 ms, per second, enforced, one client, and the resource.
fn of_flow_1(used: u8) -> String {
    format!(
        "00000000000000{used:02x} 4024000000000000 00000000000003e8 01 00 00000001 06 {}",
        hex(b"flow-1")
    )
}

#[test]
fn a_token_is_held_on_until_it_is_given_back() {
    let server = server();
    let peer = &mut Peer::of(&server);
    let token = peer.draws("03 0000000000000002 00000001", "03 00", "");
    peer.says(&format!("11 {token}"), "11 00");
    // What is behind the fields of a frame is nothing.
    peer.says(&format!("11 {token} 0102"), "11 00");
    peer.says(&format!("04 {token}"), "04 06");
    peer.says(&format!("11 {token}"), "11 07");
    for unknown in ["0000000000000000", "0000000000003039", "ffffffffffffffff"] {
        peer.says(&format!("11 {unknown}"), "11 07");
    }
}

#[test]
fn asking_says_why_in_exactly_these_bytes() {
    let server = server();
    let peer = &mut Peer::of(&server);
    let (any, nothing) = ("ffffffff", "0000000000000000");
    // Four of ten are taken, then peeked at.
    peer.says(
        &format!("12 00 {any} {FLOW} 00000004"),
        &format!("12 00 0000000000000006 {nothing} {}", of_flow_1(0)),
    );
    peer.says(
        &format!("12 02 {any} {FLOW} 00000006"),
        &format!("12 00 0000000000000000 {nothing} {}", of_flow_1(4)),
    );
    // Seven more pass in a second, and eleven never.
    peer.says(
        &format!("12 00 {any} {FLOW} 00000007"),
        &format!("12 01 {nothing} 000000003b9aca00 {}", of_flow_1(4)),
    );
    peer.says(
        &format!("12 03 {any} {FLOW} 0000000b"),
        &format!("12 01 {nothing} ffffffffffffffff {}", of_flow_1(4)),
    );
    // In the last bucket of that second seven may be booked, by who is ready to wait 100 ms. Who
    // is ready for 99 may book them a millisecond later.
    server.clock.set(Tick::from_ms(START_MS + 900));
    peer.says(
        &format!("12 01 00000063 {FLOW} 00000007"),
        &format!("12 01 {nothing} 00000000000f4240 {}", of_flow_1(4)),
    );
    peer.says(
        &format!("12 01 00000064 {FLOW} 00000007"),
        &format!("12 02 {nothing} 0000000005f5e100 {}", of_flow_1(4)),
    );
    // A value, with its rule's resource.
    peer.says(
        &format!("12 00 {any} {HOT} 00000002 {SEVEN}"),
        &format!(
            "12 00 0000000000000003 {nothing} {nothing} 4014000000000000 00000000000003e8 01 00 \
             00000001 07 {}",
            hex(b"param-3")
        ),
    );
    // Calls in progress are only looked at.
    peer.says(
        &format!("12 02 {any} {CALLS} 00000001"),
        &format!(
            "12 00 0000000000000001 {nothing} {nothing} 4000000000000000 00000000000003e8 02 00 \
             00000001 06 {}",
            hex(b"flow-2")
        ),
    );
    peer.says(&format!("12 00 {any} {CALLS} 00000001"), "12 fc");
    peer.says(&format!("12 00 {any} {NOBODY} 00000001"), "12 03");
    peer.says(&format!("12 00 {any} {FLOW} 00000000"), "12 fc");
}

#[test]
fn counts_are_corrected_and_a_status_is_all_that_is_said() {
    let server = server();
    let peer = &mut Peer::of(&server);
    let used = |peer: &mut Peer, expected: &str| {
        let answer = peer.asks(&format!("12 02 ffffffff {FLOW} 00000001"));
        assert_eq!(answer[36..52], *expected, "{answer}");
    };
    peer.says("01 0000000000000001 00000006 00", "01 00 00000004 00000000");
    peer.says(&format!("13 00 00000000 {FLOW} 00000004"), "13 00");
    used(peer, "0000000000000002");
    peer.says(&format!("13 01 00000000 {FLOW} 00000010"), "13 00");
    used(peer, "0000000000000012");
    peer.says(&format!("13 02 00000000 {FLOW} 00000000"), "13 00");
    used(peer, "0000000000000000");
    peer.says(&format!("13 01 00000000 {HOT} 00000005 {SEVEN}"), "13 00");
    peer.says(&format!("02 0000000000000003 00000001 {SEVEN}"), "02 01 00000000 00000000");
    for op in ["00", "01", "02"] {
        peer.says(&format!("13 {op} 00000000 {NOBODY} 00000001"), "13 03");
        peer.says(&format!("13 {op} 00000000 00 0000000000000000 00000001"), "13 fc");
    }
}

#[test]
fn several_rules_say_which_one_refused() {
    let server = server();
    let peer = &mut Peer::of(&server);
    let nothing = "0000000000000000";
    let both = |flow: &str, hot: &str| format!("14 02 00 {FLOW} {flow} 01 {HOT} {hot} {SEVEN}");
    peer.says(&both("00000004", "00000003"), &format!("14 00 ff {nothing}"));
    peer.says(&both("00000004", "00000003"), "14 01 01 000000003b9aca00");
    peer.says(&both("00000007", "00000003"), "14 01 00 000000003b9aca00");
    peer.says(&both("00000006", "00000002"), &format!("14 00 ff {nothing}"));
    server.clock.set(Tick::from_ms(START_MS + 900));
    peer.says(&format!("14 01 01 {FLOW} 0000000a"), "14 02 ff 0000000005f5e100");
    peer.says(
        &format!("14 02 00 {FLOW} 00000001 00 {NOBODY} 00000001"),
        &format!("14 03 01 {nothing}"),
    );
    peer.says(
        &format!("14 02 00 {FLOW} 00000001 00 {FLOW} 00000001"),
        &format!("14 fc 01 {nothing}"),
    );
    // Sixteen are as many as may be.
    let sixteen = format!("00 {FLOW} 00000001").repeat(16);
    peer.says(&format!("14 10 {sixteen}"), &format!("14 fc 01 {nothing}"));
}

#[test]
fn a_lease_is_granted_with_its_time_and_comes_back() {
    let server = server();
    let peer = &mut Peer::of(&server);
    let (none, nothing) = ("0000000000000000", "0000000000000000 00000000 00000000");
    // 25 are wanted, 10 may be, for 500 ms.
    let lease =
        peer.draws(&format!("15 {LEASED} 00000019 {none} 00000000"), "15 00", "0000000a 000001f4");
    peer.says(&format!("15 {LEASED} 00000000 {lease} 00000004"), &format!("15 00 {nothing}"));
    peer.says("01 0000000000000004 00000060 00", "01 00 00000000 00000000");
    peer.says(&format!("15 {LEASED} 00000001 {none} 00000000"), &format!("15 01 {nothing}"));
    peer.says(
        &format!("15 0000000000000001 00000001 {none} 00000000"),
        &format!("15 07 {nothing}"),
    );
    peer.says(
        &format!("15 0000000000000063 00000001 {none} 00000000"),
        &format!("15 03 {nothing}"),
    );
    peer.says(
        &format!("15 0000000000000000 00000001 {none} 00000000"),
        &format!("15 fc {nothing}"),
    );
}

/// Bodies that are no requests.
fn malformed() -> Vec<String> {
    let one = format!("00 {FLOW} 00000001");
    let seventeen = one.repeat(17);
    let mut bodies: Vec<String> = vec![
        "11".into(),
        "11 00000000000001".into(),
        // 18: flags that stand for nothing, kinds that stand for no rule.
        format!("12 04 ffffffff {FLOW} 00000001"),
        format!("12 80 ffffffff {FLOW} 00000001"),
        "12 00 ffffffff 02 0000000000000001 00000001".into(),
        "12 00 ffffffff ff 0000000000000001 00000001".into(),
        // 18: cut in the fields, after the kind, in the count, before and in the values.
        "12".into(),
        "12 00 ffffff".into(),
        "12 00 ffffffff 00".into(),
        format!("12 00 ffffffff {FLOW} 000001"),
        format!("12 00 ffffffff {HOT} 00000001"),
        format!("12 00 ffffffff {HOT} 00000001 000000"),
        format!("12 00 ffffffff {HOT} 00000001 00000002 00 00000007"),
        format!("12 00 ffffffff {HOT} 00000001 00000001 00 000007"),
        // 18: no values, less than none, a type that is none, texts longer than the frame.
        format!("12 00 ffffffff {HOT} 00000001 00000000"),
        format!("12 00 ffffffff {HOT} 00000001 ffffffff"),
        format!("12 00 ffffffff {HOT} 00000001 00000001 09 00000007"),
        format!("12 00 ffffffff {HOT} 00000001 00000001 07 00000003 6161"),
        format!("12 00 ffffffff {HOT} 00000001 00000001 07 7fffffff 61"),
        format!("12 00 ffffffff {HOT} 00000001 00000001 07 ffffffff"),
        // 19: ops that are none, and the same of what it is about.
        format!("13 03 00000000 {FLOW} 00000001"),
        format!("13 ff 00000000 {FLOW} 00000001"),
        "13 00".into(),
        "13 00 00000000 02 0000000000000001 00000001".into(),
        format!("13 02 00000000 {FLOW}"),
        format!("13 01 00000000 {HOT} 00000001 00000001 00 0007"),
        // 20: no rule, one too many, fewer than announced; to look is no flag here.
        "14".into(),
        "14 00".into(),
        format!("14 11 {seventeen}"),
        format!("14 ff {one}"),
        format!("14 02 {one}"),
        format!("14 02 {one} 00 {FLOW} 000001"),
        format!("14 01 02 {FLOW} 00000001"),
        "14 01 00 02 0000000000000001 00000001".into(),
        // 21: a byte too few.
        format!("15 {LEASED} 00000001 0000000000000000 000000"),
        "15".into(),
    ];
    bodies.iter_mut().for_each(|body| body.retain(|c| c != ' '));
    bodies
}

#[test]
fn what_is_malformed_is_a_bad_request_in_its_turn_and_the_connection_goes_on() {
    let server = server();
    let peer = &mut Peer::of(&server);
    let bodies = malformed();
    // Each by itself, then all in one write, with good ones in between.
    for body in &bodies {
        peer.says(body, &format!("{} fc", &body[..2]));
    }
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for (body, xid) in bodies.iter().zip((1..).step_by(2)) {
        sent.extend(frame(xid, body));
        expected.extend(frame(xid, &format!("{} fc", &body[..2])));
        sent.extend(frame(xid + 1, &format!("13 00 00000000 {NOBODY} 00000001")));
        expected.extend(frame(xid + 1, "13 03"));
    }
    sent.extend(frame(0x7fff_ffff, "01 0000000000000001 00000001 00"));
    expected.extend(frame(0x7fff_ffff, "01 00 00000009 00000000"));
    peer.wire.send(&sent);
    assert_eq!(hex(&peer.wire.receive(expected.len())), hex(&expected));
    // Nothing of them was counted but the last, and nothing was left on the connection.
    assert_eq!(server.engine.rules().flow(1).unwrap().usage(Tick::from_ms(START_MS)), (1, 0));
    assert_eq!(peer.wire.ping("default"), 1);
}

#[test]
fn a_client_may_say_which_rules_it_enforces() {
    let server = server();
    let peer = &mut Peer::of(&server);
    peer.says("16 00000000000000ff", "16 00");
    peer.says("16 0000000000000000 ff", "16 00");
    peer.says("16 00000000000000", "16 fc");
}

#[test]
fn frames_that_come_byte_by_byte_are_the_same_frames() {
    let server = server();
    let peer = &mut Peer::of(&server);
    let hot = format!("14 02 00 {FLOW} 00000001 00 {HOT} 00000001 {SEVEN}");
    for byte in [frame(1, &hot), frame(2, "11 0000000000000001")].concat() {
        peer.wire.send(&[byte]);
    }
    let expected = [frame(1, "14 00 ff 0000000000000000"), frame(2, "11 07")].concat();
    assert_eq!(hex(&peer.wire.receive(expected.len())), hex(&expected));
}
