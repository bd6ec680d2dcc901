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
use token_client::{Client, Verdict};
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

/// A call as the partner sees it.
struct Call {
    /// Its turn was not before this: when it was asked for, and the wait where the service knows it.
    turn_from: Tick,
    /// Nobody comes before its turn.
    came: Tick,
}

/// The calls that came, until nobody has called for two seconds.
fn partner(socket: UdpSocket, clock: MonotonicClock) -> thread::JoinHandle<Vec<Call>> {
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    thread::spawn(move || {
        let (mut calls, mut from) = (Vec::new(), [0; 8]);
        while socket.recv(&mut from).is_ok() {
            calls.push(Call { turn_from: Tick(u64::from_be_bytes(from)), came: clock.now() });
        }
        calls
    })
}

/// Whether the turns of all calls can have been at least an interval apart, and so no more than a
/// hundred in any second: of the turns from any moment on, the nth is n intervals after it or later,
/// and so is the nth call.
fn are_an_interval_apart(calls: &[Call]) -> Result<(), String> {
    for Call { turn_from, .. } in calls {
        let later = calls.iter().filter(|call| call.turn_from >= *turn_from);
        let mut came: Vec<Tick> = later.map(|call| call.came).collect();
        came.sort_unstable();
        for (n, came) in (0..).zip(came) {
            let since = came.since(*turn_from);
            if since < INTERVAL * n {
                return Err(format!("{n} turns within {since:?}"));
            }
        }
    }
    Ok(())
}

/// One Rust service: callers in a closed loop, until the time is over. Gives its calls.
fn rust_service(
    server: SocketAddr,
    partner: SocketAddr,
    clock: MonotonicClock,
) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::builder().server(&server.to_string()).timeout(TIMEOUT);
            let client = client.build().unwrap();
            client.ready(Duration::from_secs(10)).await.unwrap();
            let until = clock.now().plus(Duration::from_secs(SECONDS));
            let mut callers = JoinSet::new();
            for _ in 0..CALLERS {
                let client = client.clone();
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                callers.spawn(async move {
                    let mut calls = 0;
                    while clock.now() < until {
                        let asked = clock.now();
                        let outcome = client.check(1, 1, false).await;
                        let wait = match outcome.verdict {
                            Verdict::Waited(wait) => wait.saturating_sub(ROUNDED_BY),
                            Verdict::Pass | Verdict::Block => Duration::ZERO,
                        };
                        if outcome.is_pass() && outcome.fallback_reason().is_none() {
                            socket.send_to(&asked.plus(wait).0.to_be_bytes(), partner).unwrap();
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

/// Waits are answered in whole milliseconds.
const ROUNDED_BY: Duration = Duration::from_millis(1);
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
    let clock = MonotonicClock::start();
    let partner = partner(socket, clock);
    let services = [(); 2].map(|()| rust_service(token, address, clock));
    let in_java = java.ask(&format!("paced partner {SECONDS} {CALLERS} {}", address.port()));
    let in_rust = services.map(|service| service.join().unwrap());
    let calls = partner.join().unwrap();

    let java_calls = in_java["passed"].as_u64().unwrap();
    assert!(java_calls > 100 && in_rust.iter().all(|calls| *calls > 100), "{in_java} {in_rust:?}");
    let sum = usize::try_from(java_calls).unwrap() + in_rust.iter().sum::<usize>();
    assert_eq!(calls.len(), sum, "each call that passed came, and no other");

    // What the partner sees are the turns, each as late as this machine is at that moment.
    assert_eq!(are_an_interval_apart(&calls), Ok(()));
    assert!(calls.len() > 900, "{} of about {} calls", calls.len(), 100 * SECONDS);
}

#[test]
fn turns_that_are_too_many_or_too_close_are_noticed() {
    let calls = |every_ms: u64, late_ms: u64| -> Vec<Call> {
        let call = |n: u64| Call {
            turn_from: Tick::from_ms(n * every_ms),
            came: Tick::from_ms(n * every_ms + n % 7 * late_ms),
        };
        (0..900).map(call).collect()
    };
    assert_eq!(are_an_interval_apart(&calls(10, 0)), Ok(()));
    assert_eq!(are_an_interval_apart(&calls(10, 30)), Ok(()), "late, and in another order");
    assert!(are_an_interval_apart(&calls(9, 0)).is_err());
    assert!(are_an_interval_apart(&calls(9, 30)).is_err(), "too many in all");
    let mut two = calls(10, 0);
    two[500].turn_from = Tick::from_ms(5_004);
    two[500].came = Tick::from_ms(5_004);
    assert!(are_an_interval_apart(&two).is_err(), "the next one is 6 ms later");
}
