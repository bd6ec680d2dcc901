//! From options to a running server, and back to a quiet one.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use dashboard_api::{Api, LogControl, register_engine, router};
use ipnet::IpNet;
use limiter::{Clock, ClusterEngine, MonotonicClock};
use prometheus_client::registry::Registry;
use tokio::{
    net::TcpListener,
    task::{JoinSet, spawn_blocking},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    Rules, Service, Snapshots,
    accept::{Admission, accept, listen},
    connections::{Connections, Served},
    http,
    io::Patience,
    log::HostsLog,
    snapshot, switches,
    telemetry::metrics,
};

/// How long HTTP requests may still take once the token connections have gone.
const HTTP_PATIENCE: Duration = Duration::from_secs(1);

/// How long a disk may take for the last snapshot.
const DISK_PATIENCE: Duration = Duration::from_secs(60);

/// How a server serves. The engine has settings of its own.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the token protocol is served; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where HTTP is served; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// Connections at once; further ones wait in the kernel's queue.
    pub connections_max: usize,
    /// Answers that wait on one connection to be written; until they are, nothing more is read
    /// from it. At least 1.
    pub answers_max: usize,
    /// How long connections wait for their peers.
    pub patience: Patience,
    /// Silence after which the kernel asks whether the peer is there; a peer that gives no sign of
    /// life for twice as long is gone. `None`: never asked.
    pub keep_alive: Option<Duration>,
    /// How long a shutdown waits for connections.
    pub drain: Duration,
    /// Addresses that may connect; empty: all.
    pub allowed_clients: Vec<IpNet>,
    /// Namespaces that a ping may name; empty: all.
    pub allowed_namespaces: Vec<Box<str>>,
}

impl Default for Options {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            listen: (Ipv4Addr::LOCALHOST, protocol::DEFAULT_PORT).into(),
            http: Some((Ipv4Addr::LOCALHOST, 8719).into()),
            connections_max: 10_000,
            answers_max: 256,
            patience: Patience { frame: 10 * second, write: 10 * second, idle: None },
            keep_alive: Some(30 * second),
            drain: 10 * second,
            allowed_clients: Vec::new(),
            allowed_namespaces: Vec::new(),
        }
    }
}

/// A server before it has a port.
#[derive(Debug)]
pub struct Server {
    options: Options,
    engine: Arc<ClusterEngine>,
    clock: Arc<dyn Clock>,
    rules: Option<Arc<Rules>>,
    snapshots: Option<Arc<Snapshots>>,
    log: Arc<dyn LogControl>,
}

/// A server that has its ports and does not accept yet; what connects waits.
#[derive(Debug)]
pub struct Bound {
    token: TcpListener,
    token_addr: SocketAddr,
    http: Option<(TcpListener, Router)>,
    http_addr: Option<SocketAddr>,
    options: Options,
    pub(crate) service: Arc<Service>,
    rules: Option<Arc<Rules>>,
    pub(crate) snapshots: Option<Arc<Snapshots>>,
    accepting: Arc<AtomicBool>,
}

/// A port that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {addr}, which is the value of {key}")]
pub struct BindError {
    /// The option that holds the address.
    pub key: &'static str,
    /// The address.
    pub addr: SocketAddr,
    /// Why not.
    #[source]
    pub source: io::Error,
}

impl Server {
    /// A server that decides with `engine`, which others may use at the same time.
    #[must_use]
    pub fn new(options: Options, engine: Arc<ClusterEngine>) -> Self {
        let clock = Arc::new(MonotonicClock::start());
        let log = Arc::new(HostsLog);
        Self { options, engine, clock, rules: None, snapshots: None, log }
    }

    /// Reads `clock` instead of the system's. Whoever decides on the same engine reads the same.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Watches the source of `rules` while it serves. They are loaded already.
    #[must_use]
    pub fn with_rules(self, rules: Arc<Rules>) -> Self {
        Self { rules: Some(rules), ..self }
    }

    /// Writes `snapshots` while it serves, and a last one at the end.
    #[must_use]
    pub fn with_snapshots(self, snapshots: Arc<Snapshots>) -> Self {
        Self { snapshots: Some(snapshots), ..self }
    }

    /// Lets HTTP change what is logged.
    #[must_use]
    pub fn with_log(self, log: Arc<dyn LogControl>) -> Self {
        Self { log, ..self }
    }

    /// Takes the ports.
    ///
    /// # Errors
    ///
    /// [`BindError`] for the first port that cannot be had; none is held then.
    pub fn bind(self) -> Result<Bound, BindError> {
        let Self { options, engine, clock, rules, snapshots, log } = self;
        let (token, token_addr) = bind("listen", options.listen)?;
        let http = options.http.map(|addr| bind("http", addr)).transpose()?;
        let http_addr = http.as_ref().map(|(_, addr)| *addr);
        let service = Arc::new(Service::new(Arc::clone(&engine), Arc::clone(&clock), &options));
        let accepting = Arc::new(AtomicBool::new(false));
        let http = http.map(|(listener, _)| {
            let mut registry = Registry::default();
            register_engine(&mut registry, Arc::clone(&engine), clock);
            metrics::register(&mut registry, Arc::clone(&service.telemetry), rules.clone());
            switches::register(&mut registry, Arc::clone(&engine));
            if let Some(snapshots) = &snapshots {
                snapshot::register(&mut registry, Arc::clone(snapshots));
            }
            let readiness = readiness(Arc::clone(&accepting));
            let metrics = Arc::new(registry);
            (listener, router(Api { engine, metrics, readiness, log }))
        });
        Ok(Bound {
            token,
            token_addr,
            http,
            http_addr,
            options,
            service,
            rules,
            snapshots,
            accepting,
        })
    }
}

impl Bound {
    /// Where the token protocol is served.
    #[must_use]
    pub fn token_addr(&self) -> SocketAddr {
        self.token_addr
    }

    /// Where HTTP is served, if it is.
    #[must_use]
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http_addr
    }

    /// Serves until `shutdown` ends; then stops accepting, answers what has been read, and waits
    /// for the connections to end, for the drain time at most. Then the last snapshot is written.
    /// HTTP ends last, so that this can be watched.
    ///
    /// Dropping the future ends everything at once, without that snapshot.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Served {
        let Self { token, http, options, service, rules, snapshots, accepting, .. } = self;
        let mut background = JoinSet::new();
        background.spawn(tidy(Arc::clone(&service)));
        if let Some(rules) = rules {
            background.spawn(rules.keep());
        }
        if let Some(snapshots) = &snapshots {
            background.spawn(Arc::clone(snapshots).keep());
        }
        let http_stop = CancellationToken::new();
        let mut http_task = JoinSet::new();
        if let Some((listener, router)) = http {
            http_task.spawn(http::serve(
                listener,
                router,
                http::Limits::default(),
                http_stop.clone(),
            ));
        }
        let (patience, keep_alive) = (options.patience, options.keep_alive);
        let mut connections = Connections::new(service, patience, keep_alive);
        let admission = Admission {
            connections_max: options.connections_max,
            clients: options.allowed_clients,
        };

        // Relaxed: readiness is told to people; nothing is published with it.
        accepting.store(true, Ordering::Relaxed);
        accept(token, &admission, &mut connections, shutdown).await;
        accepting.store(false, Ordering::Relaxed);

        info!(connections = connections.len(), "shutting down, no longer accepting");
        let served = connections.drain(options.drain).await;
        if served.cut > 0 {
            warn!(connections = served.cut, "drain time is over, connections were cut off");
        }
        info!(connections = served.draining - served.cut, "connections have finished");
        if let Some(snapshots) = snapshots {
            snapshots.finish(DISK_PATIENCE).await;
        }
        http_stop.cancel();
        // What HTTP does not finish now ends with the task.
        drop(timeout(HTTP_PATIENCE, http_task.join_next()).await);
        served
    }
}

fn bind(key: &'static str, addr: SocketAddr) -> Result<(TcpListener, SocketAddr), BindError> {
    let bound = listen(addr).and_then(|listener| {
        let addr = listener.local_addr()?;
        Ok((listener, addr))
    });
    bound.map_err(|source| BindError { key, addr, source })
}

fn readiness(accepting: Arc<AtomicBool>) -> Arc<dyn Fn() -> Result<(), String> + Send + Sync> {
    Arc::new(move || {
        // Relaxed: as where it is set.
        let ready = accepting.load(Ordering::Relaxed);
        if ready { Ok(()) } else { Err("not accepting token connections".into()) }
    })
}

/// Lets the engine free what it no longer needs, once a second; never ends.
async fn tidy(service: Arc<Service>) {
    let mut every_second = interval(Duration::from_secs(1));
    every_second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every_second.tick().await;
        let service = Arc::clone(&service);
        // It may take a while, which connections must not wait for.
        if let Err(failed) = spawn_blocking(move || service.tidy()).await {
            error!(error = %failed, "tidying panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::{Response, Status};
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::testing::*;

    #[tokio::test]
    async fn a_shutdown_answers_what_has_come_in_and_returns_when_all_have_gone() {
        let server = Running::start(|_| {});
        let (mut a, mut b) = (server.connect().await, server.connect().await);
        assert_eq!(a.ping("n").await, Response::Ping { xid: 0, connected: 1 });
        assert_eq!(b.ping("n").await, Response::Ping { xid: 0, connected: 2 });
        let frames: Vec<u8> = (1..=100).flat_map(|xid| flow_request(xid, 102, 1, false)).collect();
        a.send(&frames).await;
        let addr = server.addr;
        let client = async move {
            for xid in 1..=100 {
                assert_eq!(a.answer().await.xid(), xid);
            }
            a.closed().await;
            b.closed().await;
        };
        let ((), served) = tokio::join!(client, server.finish(&[]));
        assert_eq!(served, Served { draining: 2, cut: 0 });
        let refused = tokio::net::TcpStream::connect(addr).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_do_not_end_in_the_drain_time_are_cut_off() {
        let server = Running::start(|o| o.drain = Duration::from_secs(1));
        let mut peer = server.connect().await;
        assert_eq!(peer.ping("n").await, Response::Ping { xid: 0, connected: 1 });
        // It never reads, so that the server waits for it to take its answers.
        let frames = flow_request(1, 102, 1, false).repeat(1_000_000);
        let stuck = timeout(Duration::from_secs(1), peer.0.write_all(&frames)).await;
        assert!(stuck.is_err());
        let telemetry = Arc::clone(&server.telemetry);
        let served = server.finish(&["drain time is over"]).await;
        assert_eq!(served, Served { draining: 1, cut: 1 });
        assert_eq!(telemetry.cut.get(), 1);
    }

    #[tokio::test]
    async fn a_closed_connection_leaves_its_namespace() {
        let server = Running::start(|o| o.listen = "[::1]:0".parse().unwrap());
        let mut stays = server.connect().await;
        for _ in 0..50 {
            let mut leaves = server.connect().await;
            assert_eq!(stays.ping("n").await, Response::Ping { xid: 0, connected: 1 });
            assert_eq!(leaves.ping("n").await, Response::Ping { xid: 0, connected: 2 });
            assert_eq!(leaves.ping("n").await, Response::Ping { xid: 0, connected: 2 });
            leaves.0.shutdown().await.unwrap();
            leaves.closed().await;
        }
        server.finish(&[]).await;
    }

    #[tokio::test]
    async fn http_on_the_token_port_is_closed_and_the_next_client_is_served() {
        let server = Running::start(|_| {});
        let mut scanner = server.connect().await;
        scanner.send(b"GET / HTTP/1.1\r\nHost: token\r\n\r\n").await;
        scanner.closed().await;
        let mut honest = server.connect().await;
        honest.send(&flow_request(1, 102, 1, false)).await;
        let Response::Flow { status: Status::Ok, .. } = honest.answer().await else { panic!() };
        server.finish(&[]).await;
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_named_with_its_key() {
        let server = Running::start(|_| {});
        let taken = |listen, http| {
            let options = Options { listen, http, ..Options::default() };
            Server::new(options, engine(limiter::Settings::default())).bind().unwrap_err()
        };
        let free = (Ipv4Addr::LOCALHOST, 0).into();
        let error = taken(server.addr, None);
        assert_eq!((error.key, error.addr), ("listen", server.addr));
        assert_eq!(error.source.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(taken(free, Some(server.addr)).key, "http");
        server.finish(&[]).await;
    }

    #[test]
    fn readiness_follows_the_accept_loop() {
        let accepting = Arc::new(AtomicBool::new(false));
        let ready = readiness(Arc::clone(&accepting));
        assert!(ready().is_err());
        accepting.store(true, Ordering::Relaxed);
        assert_eq!(ready(), Ok(()));
    }
}
