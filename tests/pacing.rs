//! A partner that may be called 100 times a second by all services together: calls wait for their
//! turn, those of an unmodified Java service, too.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

use limiter::{Clock, MonotonicClock, Tick};
use support::{JavaClient, Process, java_class_path, server};
use token_client::Client;
use tokio::{runtime::Builder, task::JoinSet};

const INTERVAL: Duration = Duration::from_millis(10);
const SECONDS: u64 = 10;
/// Callers of each of the three services: together they wait for less than the queue allows.
const CALLERS: u32 = 8;

const RULE: &str = r#"[{"resource": "partner", "count": 100, "clusterMode": true,
    "controlBehavior": 2, "maxQueueingTimeMs": 500,
    "clusterConfig": {"flowId": 1, "thresholdType": 1}}]"#;

/// The rule as the Java service has it: a call whose answer is lost does not go to the partner.
const LOCAL_RULE: &str = r#"[{"resource":"partner","count":0,"grade":1,"clusterMode":true,"clusterConfig":{"flowId":1,"thresholdType":1,"fallbackToLocalWhenFail":true}}]"#;

/// When calls came, until nobody has called for two seconds.
fn partner(socket: UdpSocket) -> thread::JoinHandle<Vec<Tick>> {
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    thread::spawn(move || {
        let clock = MonotonicClock::start();
        let mut calls = Vec::new();
        while socket.recv(&mut [0; 8]).is_ok() {
            calls.push(clock.now());
        }
        calls
    })
}

/// One Rust service: callers in a closed loop, until the time is over. Gives its calls.
fn rust_service(server: SocketAddr, partner: SocketAddr) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::builder().server(&server.to_string()).timeout(TIMEOUT);
            let client = client.build().unwrap();
            client.ready(Duration::from_secs(10)).await.unwrap();
            let clock = MonotonicClock::start();
            let until = clock.now().plus(Duration::from_secs(SECONDS));
            let mut callers = JoinSet::new();
            for _ in 0..CALLERS {
                let client = client.clone();
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                callers.spawn(async move {
                    let mut calls = 0;
                    while clock.now() < until {
                        let outcome = client.check(1, 1, false).await;
                        if outcome.is_pass() && outcome.fallback_reason().is_none() {
                            socket.send_to(&[1], partner).unwrap();
                            calls += 1;
                        }
                    }
                    calls
                });
            }
            callers.join_all().await.into_iter().sum()
        })
    })
}

const TIMEOUT: Duration = Duration::from_millis(400);

#[test]
fn a_partner_is_called_at_even_distances_by_all_services_together() {
    let Some(class_path) = java_class_path() else { return };
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.json");
    fs::write(&rules, RULE).unwrap();
    let server: Process = server(&["--rules", rules.to_str().unwrap()]);
    let token = server.token.unwrap();
    let mut java = JavaClient::start(class_path, "default");
    java.connect(token);
    java.ask(&format!("rules {LOCAL_RULE}"));
    java.ask("entry partner 20");

    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    let partner = partner(socket);
    let services = [rust_service(token, address), rust_service(token, address)];
    let in_java = java.ask(&format!("paced partner {SECONDS} {CALLERS} {}", address.port()));
    let in_rust = services.map(|service| service.join().unwrap());
    let calls = partner.join().unwrap();

    let java_calls = in_java["passed"].as_u64().unwrap();
    assert!(java_calls > 100 && in_rust.iter().all(|calls| *calls > 100), "{in_java} {in_rust:?}");
    let sum = usize::try_from(java_calls).unwrap() + in_rust.iter().sum::<usize>();
    assert_eq!(calls.len(), sum, "each call that passed came, and no other");

    let first = calls[0];
    // Nobody is early: the nth call comes n intervals after the first one's turn or later. The
    // first itself may be late by what this machine needs to get there.
    let ahead = |n: usize| INTERVAL * u32::try_from(n).unwrap();
    let earliest = calls.iter().enumerate().map(|(n, call)| {
        let since = call.since(first);
        ahead(n).saturating_sub(since)
    });
    let earliest = earliest.max().unwrap();
    assert!(earliest < Duration::from_millis(100), "a call {earliest:?} before its turn");
    // A call that is late by that much falls into a later second.
    let late = calls
        .iter()
        .enumerate()
        .map(|(n, call)| (call.since(first) + earliest).saturating_sub(ahead(n)));
    let latest = late.max().unwrap();
    let fullest = calls
        .iter()
        .enumerate()
        .map(|(n, call)| {
            let end = call.plus(Duration::from_secs(1));
            calls.iter().skip(n).take_while(|other| **other < end).count()
        })
        .max()
        .unwrap();
    let allowed = 100 + usize::try_from(latest.as_millis().div_ceil(10)).unwrap();
    assert!(fullest <= allowed, "{fullest} in a second, latest {latest:?}");
    assert!(calls.len() > 900, "{} of about {} calls", calls.len(), 100 * SECONDS);
}
