//! The real Sentinel client against our server.

use std::fs;

use limiter::{Settings, Tick};
use serde_json::Value;
use support::{
    InProcess, JavaClient, Process, flow_rule, java_class_path, param_rule, parsed, server,
};

/// The answer of one call; asked again when Sentinel's client lost it (it registers a call after
/// writing it), so only calls that a repetition does not change go through here.
fn decided(client: &mut JavaClient, command: &str) -> Value {
    let mut answers = (0..20).map(|_| client.ask(command));
    answers.find(|answer| answer["status"] != -1).unwrap()
}

/// Takes `count` single tokens out of one call each; how many passed, and how many answers the
/// client lost.
fn many(client: &mut JavaClient, command: &str) -> (i64, i64) {
    let statuses = client.ask(command)["statuses"].clone();
    let of = |status: &str| statuses[status].as_i64().unwrap_or(0);
    (of("0"), of("-1"))
}

#[test]
fn every_status_of_a_flow_rule_reaches_a_java_caller() {
    let Some(class_path) = java_class_path() else { return };
    let server = InProcess::start(Settings { max_allowed_qps: None, ..Settings::default() });
    let rules = [flow_rule(1, 10.0, ""), flow_rule(2, 1e9, ""), flow_rule(3, 0.0, "")];
    server.engine.replace(parsed(&rules)).unwrap();
    let mut client = JavaClient::start(class_path, "java-app");
    client.connect(server.addr);

    let connected = server.engine.namespaces();
    let connected = connected.iter().find(|n| n.name() == "java-app").unwrap();
    assert_eq!(connected.connected(), 1, "the client pinged with its application's name");

    // The clock stands still, so the window never turns.
    let (passed, lost) = many(&mut client, "flow-many 1 1 false 200 4");
    assert!(passed <= 10 && passed + lost >= 10, "{passed} passed, {lost} lost");
    let used = server.engine.rules().flow(1).unwrap().totals();
    assert_eq!((used.pass_requests, used.block_requests), (10, 190), "as the server counts");

    assert_eq!(decided(&mut client, "flow 2 1 false")["status"], 0);
    assert_eq!(decided(&mut client, "flow 3 1 false")["status"], 1);
    assert_eq!(decided(&mut client, "flow 999 1 false")["status"], 3);
    assert_eq!(client.ask("flow 0 1 false")["status"], -4, "refused by the client itself");
}

#[test]
fn a_prioritized_java_caller_is_told_to_wait_for_its_bucket() {
    let Some(class_path) = java_class_path() else { return };
    let server = InProcess::start(Settings::default());
    server.engine.replace(parsed(&[flow_rule(1, 1_000.0, "")])).unwrap();
    let mut client = JavaClient::start(class_path, "java-app");
    client.connect(server.addr);
    let start = 1_700_000_000_000;
    let full = server.engine.rules().acquire_flow(Tick::from_ms(start), 1, 1_000, false);
    full.unwrap();
    server.clock.set(Tick::from_ms(start + 930));
    let answer = decided(&mut client, "flow 1 1 true");
    assert_eq!((&answer["status"], &answer["wait_ms"]), (&2.into(), &70.into()));
    assert_eq!(decided(&mut client, "flow 1 1 false")["status"], 1, "a plain call is refused");
}

#[test]
fn hot_values_of_every_type_reach_their_own_counters() {
    let Some(class_path) = java_class_path() else { return };
    let server = InProcess::start(Settings { max_allowed_qps: None, ..Settings::default() });
    let items = r#"{"object":"vip","count":0,"classType":"String"},
                   {"object":"7","count":0,"classType":"int"}"#;
    server.engine.replace(parsed(&[param_rule(5, 1e6, items), param_rule(6, 0.0, "")])).unwrap();
    let mut client = JavaClient::start(class_path, "java-app");
    client.connect(server.addr);
    for (command, status) in [
        ("param 5 1 string:vip", 1),
        ("param 5 1 string:other", 0),
        ("param 5 1 int:7", 1),
        ("param 5 1 long:7", 0),
        ("param 5 1 double:7", 0),
        ("param 5 1 string:%E8%AE%A2 boolean:true short:7", 0),
        ("param 5 1 string:other string:vip", 1),
        ("param 6 1 byte:1", 1),
        ("param 999 1 int:1", 3),
    ] {
        let answer = decided(&mut client, command);
        assert_eq!(answer["status"], status, "{command}: {answer}");
    }
    let several = decided(&mut client, "param 5 1 float:1.5 int:8");
    assert_eq!(several["remaining"], -1, "{several}");
}

#[test]
fn a_namespace_over_its_request_limit_is_told_so() {
    let Some(class_path) = java_class_path() else { return };
    let server = InProcess::start(Settings { max_allowed_qps: Some(5.0), ..Settings::default() });
    server.engine.replace(parsed(&[flow_rule(1, 1e6, "")])).unwrap();
    let mut client = JavaClient::start(class_path, "java-app");
    client.connect(server.addr);
    let (passed, lost) = many(&mut client, "flow-many 1 1 false 50 2");
    assert!(passed <= 5 && passed + lost >= 5, "{passed} passed, {lost} lost");
    assert_eq!(decided(&mut client, "flow 1 1 false")["status"], -2);
}

/// The rule as the Java service itself has it: 1 per second when it has to decide alone.
const LOCAL_RULES: &str = r#"[{"resource":"orders","count":1,"grade":1,"clusterMode":true,"clusterConfig":{"flowId":101,"thresholdType":1,"fallbackToLocalWhenFail":true}}]"#;

fn restart(rules: &str, at: Option<std::net::SocketAddr>) -> Process {
    match at {
        None => server(&["--rules", rules]),
        Some(at) => server(&["--rules", rules, "--listen", &at.to_string()]),
    }
}

#[test]
fn a_java_service_is_limited_by_the_server_falls_back_without_it_and_comes_back() {
    let Some(class_path) = java_class_path() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    fs::write(&path, format!("[{}]", flow_rule(101, 1e6, ""))).unwrap();
    let rules = path.to_str().unwrap();
    let first = restart(rules, None);
    let addr = first.token.unwrap();
    let mut client = JavaClient::start(class_path, "java-app");
    client.connect(addr);
    client.ask(&format!("rules {LOCAL_RULES}"));

    // The server lets a million through, the local rule one: all pass but those whose answer the
    // client lost, which the local rule decides.
    let entries = client.ask("entry orders 200");
    assert!(entries["passed"].as_i64().unwrap() > 150, "{entries}");

    drop(first);
    client.ask("await off 10000");
    let entries = client.ask("entry orders 200");
    assert!(entries["passed"].as_i64().unwrap() <= 2, "1/s when it decides alone: {entries}");

    let _second = restart(rules, Some(addr));
    let state = client.ask("await started 30000");
    assert_eq!(state["state"], "started", "{state}");
    let entries = client.ask("entry orders 200");
    assert!(entries["passed"].as_i64().unwrap() > 150, "{entries}");
}
