//! The `token-server` program as an operator meets it: flags, files, signals, logs, HTTP.

use std::{fs, path::Path, process::Command};

use support::{Process, Wire, binary, eventually, flow_rule, server, unhex};

/// A flow request for one token with `xid`.
fn flow(xid: u32, id: u64) -> Vec<u8> {
    unhex(&format!("0012{xid:08x}01{id:016x}0000000100"))
}

/// The status that the server at `wire` answers to a request for one token of `id`.
fn status(wire: &mut Wire, id: u64) -> i8 {
    wire.send(&flow(7, id));
    let answer = wire.receive(16);
    assert_eq!(answer[..7], unhex("000e0000000701"), "{answer:02x?}");
    answer[7].cast_signed()
}

fn connect(server: &Process) -> Wire {
    Wire::connect(server.token.unwrap())
}

/// The value of the series that starts with `series` on `/metrics`.
fn metric(server: &Process, series: &str) -> Option<f64> {
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200);
    let line = text.lines().find(|line| line.starts_with(series))?;
    line.rsplit(' ').next()?.parse().ok()
}

const OK: i8 = 0;
const BLOCKED: i8 = 1;
const NO_RULE: i8 = 3;

fn write(path: &Path, rules: &[String]) {
    fs::write(path, format!("[{}]", rules.join(",\n"))).unwrap();
}

#[test]
fn without_rules_and_configuration_it_starts_says_so_and_knows_no_rule() {
    let server = server(&[]);
    server.has_logged("no rules");
    assert_eq!(status(&mut connect(&server), 101), NO_RULE);
    assert_eq!(server.get("/healthz").0, 200);
    assert_eq!(server.get("/readyz").0, 200);
}

#[test]
fn a_rule_file_is_in_force_soon_after_a_write_a_rename_and_a_symlink_swap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    write(&path, &[flow_rule(101, 1e6, "")]);
    let server = server(&["--rules", path.to_str().unwrap()]);
    let mut wire = connect(&server);
    assert_eq!((status(&mut wire, 101), status(&mut wire, 102)), (OK, NO_RULE));

    write(&path, &[flow_rule(101, 1e6, ""), flow_rule(102, 1e6, "")]);
    eventually("a write in place is seen", || status(&mut wire, 102) == OK);

    let other = folder.path().join("other");
    write(&other, &[flow_rule(103, 1e6, "")]);
    fs::rename(&other, &path).unwrap();
    eventually("a rename is seen", || status(&mut wire, 103) == OK);
    assert_eq!(status(&mut wire, 102), NO_RULE);

    let target = folder.path().join("target");
    write(&target, &[flow_rule(104, 1e6, "")]);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("target", &link).unwrap();
    fs::rename(&link, &path).unwrap();
    eventually("a symlink swap is seen", || status(&mut wire, 104) == OK);
}

#[test]
fn a_bad_file_keeps_the_old_rules_and_says_file_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    write(&path, &[flow_rule(101, 1e6, "")]);
    let server = server(&["--rules", path.to_str().unwrap()]);
    let mut wire = connect(&server);
    assert_eq!(metric(&server, "tollgate_rules_revision "), Some(1.0));

    write(&path, &[flow_rule(102, 1e6, ""), flow_rule(103, -1.0, "")]);
    server.has_logged("rules.json:3");
    server.has_logged("count = -1");
    assert_eq!((status(&mut wire, 101), status(&mut wire, 102)), (OK, NO_RULE));
    assert_eq!(metric(&server, "tollgate_rules_revision "), Some(1.0));

    write(&path, &[flow_rule(102, 1e6, "")]);
    eventually("the mended file is in force", || status(&mut wire, 102) == OK);
    assert_eq!(metric(&server, "tollgate_rules_revision "), Some(2.0));
}

#[test]
fn a_hangup_signal_reads_the_rules_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    write(&path, &[flow_rule(101, 1e6, "")]);
    let server = server(&["--rules", path.to_str().unwrap()]);
    let mut wire = connect(&server);
    write(&path, &[flow_rule(102, 1e6, "")]);
    server.signal("HUP");
    eventually("the file is read again", || status(&mut wire, 102) == OK);
}

#[test]
fn check_says_every_mistake_of_configuration_and_rules_on_a_line_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.toml");
    fs::write(&config, "listen = \"nowhere\"\nno_such_key = 1\n").unwrap();
    let rules = folder.path().join("rules.json");
    write(&rules, &[flow_rule(1, -1.0, ""), flow_rule(0, 1.0, "")]);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(binary("token-server", "token-server"));
        command.args(["--check", "--rules", rules.to_str().unwrap()]).args(arguments);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&["--config", config.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{said}");
    for part in ["listen", "no_such_key", "count = -1", "clusterConfig.flowId = 0"] {
        assert!(said.lines().any(|line| line.contains(part)), "{part} in {said}");
    }
    write(&rules, &[flow_rule(1, 1.0, "")]);
    let (code, said) = run(&[]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn the_printed_configuration_is_a_configuration() {
    let printed = Command::new(binary("token-server", "token-server"))
        .arg("--print-config")
        .output()
        .unwrap();
    assert!(printed.status.success());
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.toml");
    fs::write(&config, &printed.stdout).unwrap();
    let again = Command::new(binary("token-server", "token-server"))
        .args(["--config", config.to_str().unwrap(), "--print-config"])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(printed.stdout).unwrap(),
        String::from_utf8(again.stdout).unwrap(),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
}

#[test]
fn a_wrong_command_line_is_exit_code_2_before_a_port_is_bound() {
    for arguments in [
        &["--listen", "nowhere"][..],
        &["--no-such-flag"],
        &["--max-allowed-qps", "-1"],
        &["--rules", "/no/such/file.json"],
    ] {
        let output =
            Command::new(binary("token-server", "token-server")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let first = server(&[]);
    let taken = first.token.unwrap().to_string();
    let output = Command::new(binary("token-server", "token-server"))
        .args(["--listen", &taken, "--http", "off"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains(&taken));
}

#[test]
fn the_request_guard_of_a_namespace_can_be_set_and_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    write(&path, &[flow_rule(101, 1e6, "")]);
    let path = path.to_str().unwrap();
    let guarded = server(&["--rules", path, "--max-allowed-qps", "1"]);
    let mut wire = connect(&guarded);
    let statuses: Vec<i8> = (0..50).map(|_| status(&mut wire, 101)).collect();
    assert!(statuses.contains(&-2), "{statuses:?}");
    let open = server(&["--rules", path, "--max-allowed-qps", "off"]);
    let mut wire = connect(&open);
    assert!((0..50).all(|_| status(&mut wire, 101) == OK));
}

#[test]
fn a_termination_signal_answers_what_was_read_and_exits_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    write(&path, &[flow_rule(101, 1e6, "")]);
    let mut server = server(&["--rules", path.to_str().unwrap()]);
    let mut wire = connect(&server);
    assert_eq!(status(&mut wire, 101), OK);
    // A thousand requests are under way when the signal comes: each answer arrives whole, in
    // order, and the last is followed by the end of the connection.
    let requests: Vec<u8> = (1..=1_000).flat_map(|xid| flow(xid, 101)).collect();
    wire.send(&requests);
    let first = wire.receive(16);
    assert_eq!(first[..7], unhex("000e0000000101"));
    server.signal("TERM");
    let rest = wire.finish();
    assert_eq!(rest.len() % 16, 0);
    for (i, answer) in rest.chunks(16).enumerate() {
        assert_eq!(answer[..7], unhex(&format!("000e{:08x}01", i + 2)), "answer {i}");
    }
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
}

#[test]
fn logs_can_be_json_and_their_level_is_set_at_run_time() {
    let server = server(&["--log-format", "json"]);
    server.has_logged("{\"");
    assert!(server.log().lines().all(|line| line.starts_with('{')), "{}", server.log());
}

#[test]
fn metrics_show_what_was_decided() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    write(&path, &[flow_rule(101, 2.0, r#","windowIntervalMs":60000,"sampleCount":1"#)]);
    let server = server(&["--rules", path.to_str().unwrap()]);
    let mut wire = connect(&server);
    // 2 per second as a one-minute average is (2 - 1) × 60 + 1 single tokens, as Sentinel counts.
    let statuses: Vec<i8> = (0..130).map(|_| status(&mut wire, 101)).collect();
    let passed = statuses.iter().filter(|&&status| status == OK).count();
    assert!((61..=122).contains(&passed), "{passed}: more than 61 only if the minute turned");
    assert!(statuses.contains(&BLOCKED));
    let (_, text) = server.get("/metrics");
    let series = text.lines().find(|line| {
        line.contains("pass") && line.contains("\"101\"") && line.ends_with(&format!(" {passed}"))
    });
    assert!(series.is_some(), "{text}");
}
