//! Calls through the local engine under cluster rules: real servers, killed and started again.

use std::{fs, net::SocketAddr, time::Duration};

use limiter::{
    local::LocalSettings,
    rule::{Contents, parse},
};
use support::{JavaServer, eventually, flow_rule, java_class_path, server};
use token_client::{Client, ClusterMode, Engine};

const LONG: Duration = Duration::from_secs(20);
const DAY: &str = r#","windowIntervalMs":86400000,"sampleCount":1"#;

/// A service with these rules that asks a server.
async fn service(rules: &str, server: SocketAddr) -> Engine {
    let engine = Engine::new(LocalSettings::default());
    let parsed = parse(rules, "test", "default", Contents::Mixed, false).unwrap().rules;
    engine.local().load_flow(parsed.flow);
    let client = Client::builder().server(&server.to_string()).timeout(Duration::from_secs(2));
    let client = client.backoff_cap(Duration::from_millis(200)).build().unwrap();
    client.ready(LONG).await.unwrap();
    engine.connect(client);
    engine
}

/// How many of the calls pass.
async fn passes(engine: &Engine, resource: &str, calls: usize) -> usize {
    let mut passed = 0;
    for _ in 0..calls {
        passed += usize::from(engine.entry(resource).acquire().await.is_ok());
    }
    passed
}

#[tokio::test(flavor = "multi_thread")]
async fn services_share_a_limit_through_their_guards_and_stand_alone_when_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.json");
    let in_all = r#","thresholdUnit":"window","localCount":0"#;
    let alone = r#","fallbackPolicy":"pass""#;
    let rules = [flow_rule(1, 10.0, &format!("{DAY}{in_all}")), flow_rule(2, 1e6, alone)];
    let rules = format!("[{}]", rules.join(","));
    fs::write(&file, &rules).unwrap();
    let flags = ["--rules", file.to_str().unwrap()];
    let mut process = server(&flags);
    let addr = process.token.unwrap();
    let (first, second) = (service(&rules, addr).await, service(&rules, addr).await);
    // Both enforce what the server does, and it shows.
    let shown = |name: &str, value: &str| {
        let (_, page) = process.get("/metrics");
        let line = page.lines().find(|line| line.starts_with(name) && line.ends_with(value));
        line.map(|line| line.split('"').nth(1).unwrap().to_owned())
    };
    eventually("clients tell their rules", || shown("tollgate_client_rules{", " 2").is_some());
    assert_eq!(shown("tollgate_client_rules{", " 2"), shown("tollgate_rules_info{", " 1"));

    assert_eq!(passes(&first, "flow-1", 7).await, 7);
    assert_eq!(passes(&second, "flow-1", 7).await, 3, "ten in all");
    assert_eq!(passes(&first, "flow-2", 5).await, 5);

    process.signal("KILL");
    process.ended();
    assert_eq!(passes(&first, "flow-1", 3).await, 0, "localCount is 0");
    assert_eq!(passes(&first, "flow-2", 3).await, 3, "the policy is to pass");
    let client = first.client().unwrap();
    assert!(client.metrics().fallback_passed >= 3);

    let port = addr.to_string();
    let _again = server(&[&flags[..], &["--listen", &port]].concat());
    client.ready(LONG).await.unwrap();
    assert_eq!(passes(&first, "flow-1", 11).await, 10, "a server without snapshots begins anew");
    let asked = first.disconnect().unwrap();
    assert_eq!(first.cluster_mode(), ClusterMode::Off);
    assert_eq!(passes(&first, "flow-1", 3).await, 0, "nobody is asked: localCount is 0");
    first.connect(asked);
    assert_eq!(first.cluster_mode(), ClusterMode::Client);
}

#[tokio::test]
async fn guards_ask_sentinels_server_as_well() {
    let Some(class_path) = java_class_path() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.json");
    let rules = format!("[{}]", [flow_rule(1, 0.0, DAY), flow_rule(2, 1e6, "")].join(","));
    fs::write(&file, &rules).unwrap();
    let java = JavaServer::start(class_path, &["--flow-rules", file.to_str().unwrap()]);
    let engine = service(&rules, java.addr).await;
    assert_eq!(passes(&engine, "flow-1", 5).await, 0);
    assert_eq!(passes(&engine, "flow-2", 5).await, 5);
    let metrics = engine.client().unwrap().metrics();
    assert_eq!((metrics.passed, metrics.blocked), (5, 5), "the server decided each");
}
