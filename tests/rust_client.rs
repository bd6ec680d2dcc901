//! Our client against the real Sentinel server, and against our own server as a process.

use std::{fs, net::SocketAddr, time::Duration};

use limiter::{
    Settings, Tick,
    rule::{Contents, merge, parse},
};
use support::{InProcess, JavaServer, flow_rule, java_class_path, param_rule, parsed, server};
use token_client::{Client, Param, Reason, Status, Verdict};

const LONG: Duration = Duration::from_secs(20);

/// A client with a time-out that a cold JVM on a busy machine keeps.
fn client(server: SocketAddr) -> Client {
    let builder = Client::builder().server(&server.to_string()).namespace("rust-app");
    builder.timeout(Duration::from_secs(2)).backoff_cap(Duration::from_millis(200)).build().unwrap()
}

/// Starts the real server with these rules of namespace `default`.
fn java_server(class_path: &str, flow: &[String], param: &[String], more: &[&str]) -> JavaServer {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, rules: &[String]| {
        let path = folder.path().join(name);
        fs::write(&path, format!("[{}]", rules.join(","))).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (flow, param) = (file("flow.json", flow), file("param.json", param));
    let arguments = ["--flow-rules", &flow, "--param-rules", &param];
    JavaServer::start(class_path, &[&arguments[..], more].concat())
}

#[tokio::test]
async fn every_status_of_sentinels_server_is_understood() {
    let Some(class_path) = java_class_path() else { return };
    let minute = r#","windowIntervalMs":60000,"sampleCount":1"#;
    let flow = [
        flow_rule(1, 2.0, minute),
        flow_rule(2, 1e9, ""),
        flow_rule(3, 0.0, ""),
        flow_rule(4, 10.0, r#","windowIntervalMs":1000,"sampleCount":1"#),
    ];
    let items = r#"{"object":"vip","count":0,"classType":"String"},
                   {"object":"7","count":0,"classType":"int"}"#;
    let param = [param_rule(5, 1e6, items)];
    let java = java_server(class_path, &flow, &param, &[]);
    let client = client(java.addr);
    client.ready(LONG).await.unwrap();
    assert!(client.extension().is_none(), "Sentinel's server does not know our frames");

    // (2 - 1) × 60 + 1 in each minute; the minute may turn once.
    let mut passed = 0;
    for _ in 0..130 {
        passed += u32::from(client.acquire(1, 1, false).await.unwrap().status == Status::Ok);
    }
    assert!(passed == 61 || (62..=122).contains(&passed), "{passed}");
    let ok = client.acquire(2, 1, false).await.unwrap();
    assert_eq!(ok.status, Status::Ok);
    assert!(ok.remaining > 900_000_000, "{ok:?}");
    assert_eq!(client.acquire(3, 1, false).await.unwrap().status, Status::Blocked);
    assert_eq!(client.acquire(999, 1, false).await.unwrap().status, Status::NoRuleExists);

    // With one bucket Sentinel books as soon as the window is full, and says a whole second.
    let mut waited = None;
    for _ in 0..100 {
        let answer = client.acquire(4, 5, true).await.unwrap();
        if answer.status == Status::ShouldWait {
            waited = Some(answer.wait);
            break;
        }
    }
    assert_eq!(waited, Some(Duration::from_secs(1)));

    for (params, status) in [
        (vec![Param::Str("vip".into())], Status::Blocked),
        (vec![Param::Str("other".into())], Status::Ok),
        (vec![Param::Int(7)], Status::Blocked),
        (vec![Param::Long(7), Param::Double(7.0), Param::Bool(true)], Status::Ok),
        (vec![Param::Short(7), Param::Byte(7), Param::Float(7.0)], Status::Ok),
        (vec![Param::Str("订单".into())], Status::Ok),
    ] {
        let answer = client.acquire_param(5, 1, &params).await.unwrap();
        assert_eq!(answer.status, status, "{params:?}");
    }
    assert_eq!(client.ping().await.unwrap().clients, Some(1));
}

#[tokio::test]
async fn a_namespace_over_the_limit_of_sentinels_server_is_a_reason_to_fall_back() {
    let Some(class_path) = java_class_path() else { return };
    let rules = [flow_rule(1, 1e6, r#","overloadPolicy":"reject""#)];
    let java = java_server(class_path, &rules, &[], &["--max-allowed-qps", "5"]);
    let client = client(java.addr);
    client.ready(LONG).await.unwrap();
    client.set_rules(parsed(&rules)).unwrap();
    let mut blocked = 0;
    for _ in 0..50 {
        let outcome = client.check(1, 1, false).await;
        blocked += u32::from(outcome.is_block());
        assert_eq!(outcome.is_block(), outcome.fallback_reason() == Some(Reason::TooManyRequests));
    }
    assert!(blocked > 30, "{blocked} of 50");
}

#[tokio::test]
async fn without_sentinels_server_the_rule_decides_and_with_it_again_the_server() {
    let Some(class_path) = java_class_path() else { return };
    let rules = [flow_rule(1, 1e6, r#","localCount":0"#)];
    let java = java_server(class_path, &rules, &[], &[]);
    let port = java.addr.port().to_string();
    let client = client(java.addr);
    client.ready(LONG).await.unwrap();
    client.set_rules(parsed(&rules)).unwrap();
    assert!(client.check(1, 1, false).await.is_pass());

    java.kill();
    let outcome = client.check(1, 1, false).await;
    assert!(outcome.is_block() && outcome.fallback_reason().is_some(), "{outcome:?}");

    let _back = java_server(class_path, &rules, &[], &["--port", &port]);
    client.ready(LONG).await.unwrap();
    assert!(client.check(1, 1, false).await.is_pass());
}

#[tokio::test]
async fn our_server_greets_our_client_and_its_waits_are_kept() {
    let server = InProcess::start(Settings::default());
    server.engine.replace(parsed(&[flow_rule(1, 10.0, "")])).unwrap();
    let client = client(server.addr);
    client.ready(LONG).await.unwrap();
    let greeted = async {
        while client.extension().is_none() {
            client.ping().await.unwrap();
        }
    };
    tokio::time::timeout(LONG, greeted).await.unwrap();
    assert_eq!(client.extension().unwrap().revision, 1);

    let start = 1_700_000_000_000;
    assert_eq!(client.acquire(1, 10, false).await.unwrap().remaining, 0);
    server.clock.set(Tick::from_ms(start + 930));
    let outcome = client.check(1, 1, true).await;
    assert_eq!(outcome.verdict, Verdict::Waited(Duration::from_millis(70)));
    assert!(client.check(1, 1, false).await.is_block());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_means_fallback_and_a_new_one_means_the_server_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    let text = format!("[{}]", flow_rule(1, 1e6, r#","localCount":0"#));
    fs::write(&path, &text).unwrap();
    let rules = path.to_str().unwrap();
    let first = server(&["--rules", rules]);
    let addr = first.token.unwrap();
    let client = client(addr);
    client.ready(LONG).await.unwrap();
    let local = parse(&text, "rules", "default", Contents::Flow, true).unwrap();
    client.set_rules(merge(vec![local]).unwrap()).unwrap();
    assert!(client.check(1, 1, false).await.is_pass());

    drop(first);
    for _ in 0..100 {
        let outcome = client.check(1, 1, false).await;
        assert!(outcome.is_block() && outcome.fallback_reason().is_some(), "{outcome:?}");
    }

    let _second = server(&["--rules", rules, "--listen", &addr.to_string()]);
    client.ready(LONG).await.unwrap();
    assert!(client.check(1, 1, false).await.is_pass());
    let metrics = client.metrics();
    let fallbacks: u64 = Reason::ALL.iter().map(|&reason| metrics.fallbacks(reason)).sum();
    assert_eq!(fallbacks, 100);
}
