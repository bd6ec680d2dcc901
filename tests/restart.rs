//! What a restart costs: counters start empty, so around it at most one window more is admitted.

use std::fs;

use limiter::{Settings, Tick};
use support::{InProcess, Wire, flow_rule, parsed, server};

const START: u64 = 1_700_000_000_000;

/// Tokens of the flow per second.
const COUNT: u32 = 100;

/// How often, and how many calls at a time, in milliseconds.
const EVERY: u64 = 10;
const CALLS: u32 = 5;

/// Three seconds of more load than the flow has tokens, the server restarted at `restart` ms: what
/// was admitted at each step.
fn admitted(restart: u64) -> Vec<usize> {
    let start = || {
        let server = InProcess::start(Settings::default());
        server.engine.replace(parsed(&[flow_rule(1, f64::from(COUNT), "")])).unwrap();
        let wire = Wire::connect(server.addr);
        (wire, server)
    };
    let mut scene = start();
    let step = |ms| {
        if ms == restart {
            scene = start();
        }
        let (wire, server) = &mut scene;
        server.clock.set(Tick::from_ms(START + ms));
        wire.passes(1, CALLS)
    };
    (0..3_000).step_by(EVERY.try_into().unwrap()).map(step).collect()
}

#[test]
fn in_no_second_around_a_restart_more_than_two_windows_pass_and_in_some_exactly_two() {
    let mut most = Vec::new();
    for restart in [0, 1_000, 1_050, 1_100, 1_200, 1_500, 1_800, 1_990] {
        let admitted = admitted(restart);
        let seconds = admitted.windows(usize::try_from(1_000 / EVERY).unwrap());
        most.push(seconds.map(|second| second.iter().sum::<usize>()).max().unwrap());
    }
    // The window fills in the first 200 ms of a second. A restart after that, and so early that the
    // new window fills within the second too, is the worst; one at its start changes nothing.
    assert_eq!(most, [100, 100, 125, 150, 200, 200, 200, 105]);
}

#[test]
fn a_killed_and_restarted_server_process_admits_one_window_more_and_no_token_beyond() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    // Thirty a day, so that the test takes no part of a window.
    let day = r#","thresholdUnit":"window","windowIntervalMs":86400000,"sampleCount":1"#;
    fs::write(&path, format!("[{}]", flow_rule(1, 30.0, day))).unwrap();
    let rules = path.to_str().unwrap();
    let first = server(&["--rules", rules]);
    let addr = first.token.unwrap();
    let before = Wire::connect(addr).passes(1, 100);
    drop(first);
    let _second = server(&["--rules", rules, "--listen", &addr.to_string()]);
    let after = Wire::connect(addr).passes(1, 100);
    assert_eq!((before, after), (30, 30));
}
