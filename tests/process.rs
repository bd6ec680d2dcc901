//! The `token-server` program as an operator meets it: flags, files, signals, logs, HTTP.

use std::{fs, path::Path};

use support::{Process, Wire, eventually, flow_rule, server, status::*, token_server};

fn connect(server: &Process) -> Wire {
    Wire::connect(server.token.unwrap())
}

fn write(path: &Path, rules: &[String]) {
    fs::write(path, format!("[{}]", rules.join(",\n"))).unwrap();
}

#[test]
fn without_rules_and_configuration_it_starts_says_so_and_knows_no_rule() {
    let server = server(&[]);
    server.has_logged("no rules");
    assert_eq!(connect(&server).status(101), NO_RULE_EXISTS);
    assert_eq!(server.get("/healthz").0, 200);
    assert_eq!(server.get("/readyz").0, 200);
}

#[test]
fn check_says_every_mistake_of_configuration_and_rules_on_a_line_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.toml");
    fs::write(&config, "listen = \"nowhere\"\nno_such_key = 1\n").unwrap();
    let rules = folder.path().join("rules.json");
    write(&rules, &[flow_rule(1, -1.0, ""), flow_rule(0, 1.0, "")]);
    let run = |arguments: &[&str]| {
        let mut command = token_server();
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
    let printed = token_server().arg("--print-config").output().unwrap();
    assert!(printed.status.success());
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.toml");
    fs::write(&config, &printed.stdout).unwrap();
    let again = token_server()
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
        let output = token_server().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let first = server(&[]);
    let taken = first.token.unwrap().to_string();
    let output = token_server().args(["--listen", &taken, "--http", "off"]).output().unwrap();
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
    let statuses: Vec<i8> = (0..50).map(|_| wire.status(101)).collect();
    assert!(statuses.contains(&TOO_MANY_REQUEST), "{statuses:?}");
    let open = server(&["--rules", path, "--max-allowed-qps", "off"]);
    let mut wire = connect(&open);
    assert!((0..50).all(|_| wire.status(101) == OK));
}

#[test]
fn logs_can_be_json_and_their_level_is_set_at_run_time() {
    let server = server(&["--log-format", "json"]);
    let opened = || server.log().matches(r#""opened""#).count();
    let set = |filter: &str| server.request("PUT", "/api/v1/log-filter", filter);
    assert_eq!(connect(&server).status(1), NO_RULE_EXISTS);
    assert_eq!(set("info,token_server=debug\n"), (200, "info,token_server=debug".into()));
    assert_eq!(connect(&server).status(1), NO_RULE_EXISTS);
    server.has_logged(r#""opened""#);
    assert_eq!(set("loud=very").0, 400);
    assert_eq!(server.get("/api/v1/log-filter"), (200, "info,token_server=debug".into()));
    assert_eq!(set("info").0, 200);
    assert_eq!(connect(&server).status(1), NO_RULE_EXISTS);
    assert_eq!(set("debug").0, 200);
    assert_eq!(connect(&server).status(1), NO_RULE_EXISTS);
    // Lines come in their order: had the first or the third connection been logged, there were more.
    eventually("the fourth connection is logged", || opened() >= 2);
    assert_eq!(opened(), 2, "{}", server.log());
    let log = server.log();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
    assert!(log.contains(r#""level":"DEBUG""#), "{log}");
}

#[test]
fn metrics_show_what_was_decided() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    write(&path, &[flow_rule(101, 2.0, r#","windowIntervalMs":60000,"sampleCount":1"#)]);
    let server = server(&["--rules", path.to_str().unwrap()]);
    let mut wire = connect(&server);
    // 2 per second as a one-minute average is (2 - 1) × 60 + 1 single tokens, as Sentinel counts.
    let statuses: Vec<i8> = (0..130).map(|_| wire.status(101)).collect();
    let passed = statuses.iter().filter(|&&status| status == OK).count();
    assert!((61..=122).contains(&passed), "{passed}: more than 61 only if the minute turned");
    assert!(statuses.contains(&BLOCKED));
    let (_, text) = server.get("/metrics");
    let series = text.lines().find(|line| {
        line.contains("pass") && line.contains("\"101\"") && line.ends_with(&format!(" {passed}"))
    });
    assert!(series.is_some(), "{text}");
}
