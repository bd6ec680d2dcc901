//! What clients get of one engine that lends to them, over a network that takes its time.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use limiter::{ClusterEngine, Decision, LeaseId, Membership, Settings, Tick, Undecided};
use protocol::{ExtendedResponse, Status, feature};
use tokio::{
    io::DuplexStream,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    fallback::rules,
    net::{World, client},
    peer::{Asked, Peer, status},
};
use crate::{Builder, Client, time::now};

const A: &str = "10.0.0.1:18730";
const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3_600);

/// A server of one engine, which answers so long after it was asked.
#[derive(Clone)]
struct Server {
    engine: Arc<ClusterEngine>,
    start: Instant,
    delay: Duration,
    /// It refuses each call, as if the namespace had made all its requests; not those for leases.
    over: bool,
    /// Requests that it was sent.
    requests: Arc<AtomicU64>,
}

impl Server {
    async fn serve(self, mut peer: Peer<DuplexStream>) {
        while let Some(asked) = peer.asked().await {
            sleep(self.delay).await;
            self.requests.fetch_add(1, Ordering::Relaxed);
            let now = Tick::from_ms(1_700_000_000_000).plus(self.start.elapsed());
            let rules = self.engine.rules();
            match asked {
                Asked::Flow { xid, flow_id, count, priority } => {
                    let decided = if self.over {
                        Err(Undecided::TooManyRequests)
                    } else {
                        rules.acquire_flow(now, flow_id, count, priority)
                    };
                    let answer = match decided {
                        Ok(Decision::Pass { .. }) => Status::Ok,
                        Ok(_) => Status::Blocked,
                        Err(_) => Status::TooManyRequest,
                    };
                    peer.send(&[status(xid, answer)]).await;
                }
                Asked::Lease { xid, flow_id, want, returned, used } => {
                    let back = (returned != 0).then_some((LeaseId(returned), used));
                    let leased = rules.lease(now, flow_id, want, back).map(Result::unwrap);
                    let (status, lease_id, granted, ttl) = match leased {
                        Ok(it) => match it.id {
                            Some(LeaseId(id)) => (Status::Ok, id, it.granted, it.ttl),
                            None => (Status::Blocked, 0, 0, Duration::ZERO),
                        },
                        Err(_) => (Status::TooManyRequest, 0, 0, Duration::ZERO),
                    };
                    let ttl_ms = u32::try_from(ttl.as_millis()).unwrap();
                    let lease = ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms };
                    peer.send_extended(lease).await;
                }
                _ => {}
            }
        }
    }
}

/// Clients of it.
struct Scene {
    server: Server,
    clients: Vec<Client>,
    _tasks: JoinSet<()>,
    _members: Vec<Membership>,
    _worlds: Vec<World>,
}

/// A rule of 1 to `rules` each, of `count` and with `config`.
fn rule(count: u32, flows: u32, config: &str) -> String {
    let rule = |id| {
        format!(
            r#"{{"resource": "hot{id}", "count": {count}, "clusterMode": true, "clusterConfig":
                {{"flowId": {id}, "thresholdType": 1{config}}}}}"#
        )
    };
    let rules: Vec<_> = (1..=flows).map(rule).collect();
    format!("[{}]", rules.join(","))
}

const SHARE: &str = r#", "overloadPolicy": "share""#;
const OWN: &str = r#", "lease": {"maxTokens": 100, "ttlMs": 200}"#;

impl Scene {
    /// So many clients of a server that refuses each call, and lends.
    async fn over(json: &str, clients: i32, delay: Duration) -> Self {
        Self::new(json, None, true, (clients, delay), |builder| builder).await
    }

    async fn new(
        json: &str,
        max_allowed_qps: Option<f64>,
        over: bool,
        (number, delay): (i32, Duration),
        build: impl Fn(Builder) -> Builder,
    ) -> Self {
        let settings = Settings { max_allowed_qps, ..Settings::default() };
        let engine = Arc::new(ClusterEngine::new(settings));
        engine.replace(rules(json)).unwrap();
        let namespace = rules(json)[0].namespace.clone();
        let members = (0..number).map(|_| engine.join(&namespace).unwrap()).collect();
        let server = Server { engine, start: now(), delay, over, requests: Arc::default() };
        let (mut clients, mut worlds, mut tasks) = (Vec::new(), Vec::new(), JoinSet::new());
        for _ in 0..number {
            let builder = Client::builder().ping_interval(LONG).timeout(500 * MS);
            let (client, mut world) = client(build(builder), &[A]);
            client.set_rules(rules(json)).unwrap();
            let (_, mut peer) = world.accept().await;
            peer.greet_as_ours(number, feature::LEASE).await;
            client.ready(LONG).await.unwrap();
            tasks.spawn(server.clone().serve(peer));
            clients.push(client);
            worlds.push(world);
        }
        Self { server, clients, _tasks: tasks, _members: members, _worlds: worlds }
    }

    /// Tokens that each client gets in `seconds` if it calls for so many each `gap`, one call after
    /// the other.
    async fn run(&self, sizes: &[u32], gap: Duration, seconds: u32) -> Vec<u32> {
        let mut calls = JoinSet::new();
        let end = now() + Duration::from_secs(seconds.into());
        for (client, sizes) in std::iter::zip(self.clients.iter().cloned(), sizes.iter().cycle()) {
            let (tokens, n) = (*sizes, u32::try_from(calls.len()).unwrap());
            calls.spawn(async move {
                let mut passed = 0;
                sleep(gap * n / 8).await;
                while now() < end {
                    passed +=
                        if client.check(1, tokens, false).await.is_pass() { tokens } else { 0 };
                    sleep(gap).await;
                }
                (n, passed)
            });
        }
        let mut passed = calls.join_all().await;
        passed.sort_unstable();
        passed.into_iter().map(|(_, passed)| passed).collect()
    }
}

/// (clients, count, tokens of a call)
const SIZES: [(i32, u32, u32); 7] =
    [(1, 100, 60), (2, 100, 40), (4, 100, 20), (8, 100, 10), (4, 100, 3), (1, 10, 6), (1, 3, 3)];

/// 10/11 of as many calls as fit into a window.
#[tokio::test(start_paused = true)]
async fn calls_of_any_size_up_to_a_share_get_hardly_less_by_what_is_lent() {
    for own in ["", OWN] {
        for (clients, count, size) in SIZES {
            let json = rule(count, 1, &format!("{SHARE}{own}"));
            let scene = Scene::over(&json, clients, MS).await;
            let passed: u32 = scene.run(&[size], 5 * MS, 4).await.iter().sum();
            let most = 4 * (count / size * size);
            assert!(
                passed <= most && passed * 11 >= most * 10,
                "{clients} {count} {size}: {passed}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn leases_of_the_rule_s_own_cost_large_calls_nothing() {
    for (clients, count, size) in SIZES {
        let scene = Scene::new(&rule(count, 1, OWN), None, false, (clients, MS), |it| it).await;
        let passed: u32 = scene.run(&[size], 5 * MS, 4).await.iter().sum();
        let most = 4 * (count / size * size);
        assert!(passed * 11 >= most * 10, "{clients} {count} {size}: {passed} of {most}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_calls_and_small_ones_leave_each_other_some() {
    let scene = Scene::over(&rule(100, 1, SHARE), 8, MS).await;
    let passed = scene.run(&[13, 1, 1, 1, 1, 1, 1, 1], 3 * MS, 6).await;
    assert!((545..=600).contains(&passed.iter().sum::<u32>()), "{passed:?}");
    assert!(passed.iter().all(|&tokens| tokens >= 13), "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn leases_of_a_fixed_size_are_as_large_as_a_call_needs() {
    let five = |builder: Builder| builder.lease_tokens(NonZeroU32::new(5).unwrap());
    let json = rule(100, 1, &format!("{SHARE}{OWN}"));
    let scene = Scene::new(&json, None, true, (1, MS), five).await;
    let passed = scene.run(&[8], 5 * MS, 5).await;
    assert!((384..=400).contains(&passed[0]), "one in each half of a lease's life: {passed:?}");
}

/// With a lease for each call that is refused, at least.
#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_most_of_a_lease_s_life_is_of_use_to_who_waits_for_it() {
    for (window, delay) in [(100, 6), (100, 9), (200, 12), (400, 30), (1_000, 52), (1_000, 90)] {
        let config = format!(
            r#"{SHARE}, "thresholdUnit": "window", "windowIntervalMs": {window}, "sampleCount": 10"#
        );
        let scene = Scene::over(&rule(20, 1, &config), 1, delay * MS).await;
        let passed = scene.run(&[1], MS, 4).await[0];
        let requests = scene.server.requests.load(Ordering::Relaxed);
        assert!(u64::from(passed) * 4 >= requests, "{window} {delay}: {passed} by {requests}");
    }
}

/// A lease for one call would be one request more for each that is refused.
#[tokio::test(start_paused = true)]
async fn calls_that_come_now_and_then_cost_no_more_requests_over_the_limit_than_under_it() {
    let json = rule(100, 200, SHARE);
    let scene = Scene::new(&json, Some(100.0), false, (2, MS), |it| it).await;
    let mut calls = JoinSet::new();
    for (client, id) in
        scene.clients.iter().flat_map(|it| (1..=200).map(move |id| (it.clone(), id)))
    {
        calls.spawn(async move {
            for _ in 0..20 {
                client.check(id, 1, false).await;
                sleep(110 * MS).await;
            }
        });
    }
    calls.join_all().await;
    assert_eq!(scene.server.requests.load(Ordering::Relaxed), 2 * 200 * 20);
}
