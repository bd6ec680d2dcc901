//! The example of a service that is the token server for its siblings.

use std::{fs, process::Command};

use support::{Process, Wire, example, flow_rule, status::*};

#[test]
fn calls_in_process_and_calls_over_the_port_take_from_one_window() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.json");
    // Thirty for a day: whoever takes them, the rest is refused.
    let day = r#","thresholdUnit":"window","windowIntervalMs":86400000,"sampleCount":1"#;
    fs::write(&rules, format!("[{}]", flow_rule(101, 30.0, day))).unwrap();
    let mut command = Command::new(example("embedded"));
    let mut process = Process::start(command.args([rules.to_str().unwrap(), "127.0.0.1:0", "12"]));
    let line = process.line();
    let addr = line.strip_prefix("token ").unwrap_or_else(|| panic!("{line}: {}", process.log()));
    let mut wire = Wire::connect(addr.parse().unwrap());
    // Twenty-five at once from the sibling: at most thirty less those that the process has taken.
    assert_eq!(wire.ask(101, 25, 1)[0].status, OK);
    let calls: Vec<String> = (0..12).map(|_| process.line()).collect();
    let passed = calls.iter().filter(|line| line.ends_with("go on")).count();
    assert_eq!(passed, 5, "{calls:?}");
    assert!(process.ended().success());
}
