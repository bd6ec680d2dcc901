//! Keeps a client's connections up: where to connect, when to try again, and who must know.
//!
//! The first connection leads: it tries the servers in order, is the only one that pings the
//! namespace, and so is the one that is counted as a client. The others follow it to the server
//! that it has found, since a limit is only kept when one server counts.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use protocol::{Request, kind};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use crate::{
    ConnectionState, LinkError, Pong, ServerName,
    backoff::Backoff,
    connection::Connection,
    dial::Dial,
    line::{Call, Line},
    listener::Listeners,
    metrics::Counters,
    rules::Rules,
    time::now,
};

/// A connection that lasted this long was a good one: the waits begin anew after it.
const GOOD_AFTER: Duration = Duration::from_secs(1);

/// What the connections of one client have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) servers: Vec<ServerName>,
    pub(crate) namespace: Box<str>,
    pub(crate) connect_timeout: Duration,
    pub(crate) silence: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) rules: Arc<Rules>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) listeners: Arc<Listeners>,
}

/// The connection that finds a server.
#[derive(Debug)]
pub(crate) struct Leader<D> {
    pub(crate) dial: Arc<D>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) line: Arc<Line>,
    pub(crate) backoff: Backoff,
    pub(crate) state: watch::Sender<ConnectionState>,
}

/// A further connection to the leader's server.
#[derive(Debug)]
pub(crate) struct Follower<D> {
    pub(crate) dial: Arc<D>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) line: Arc<Line>,
    pub(crate) backoff: Backoff,
    pub(crate) state: watch::Receiver<ConnectionState>,
}

impl<D: Dial> Leader<D> {
    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let errors = self.round().await;
            self.disconnected(errors);
            sleep(self.backoff.next()).await;
        }
    }

    /// Tries every server once, in order. The first that answers is used until its connection
    /// ends, which also ends the round.
    async fn round(&mut self) -> Vec<LinkError> {
        let mut errors = Vec::new();
        let shared = Arc::clone(&self.shared);
        for name in &shared.servers {
            let addresses = match self.resolve(name).await {
                Ok(addresses) => addresses,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            for server in addresses {
                match self.serve(server).await {
                    Served::Refused(error) => errors.push(error),
                    Served::Ended(error) => return vec![error],
                }
            }
        }
        errors
    }

    async fn resolve(&self, name: &ServerName) -> Result<Vec<SocketAddr>, LinkError> {
        let error = |cause: &str| LinkError::Resolve {
            server: name.to_string().into(),
            cause: cause.into(),
        };
        match timeout(self.shared.connect_timeout, self.dial.resolve(name)).await {
            Ok(Ok(addresses)) if addresses.is_empty() => Err(error("it has no address")),
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(cause)) => Err(error(&cause.to_string())),
            Err(_elapsed) => Err(error("the resolver does not answer")),
        }
    }

    /// Connects to `server` and carries calls until the connection ends.
    async fn serve(&mut self, server: SocketAddr) -> Served {
        let shared = Arc::clone(&self.shared);
        let namespace = Some(&*shared.namespace);
        let opened =
            Connection::open(&*self.dial, server, &self.line, namespace, shared.connect_timeout);
        let (mut connection, pong) = match opened.await {
            Ok(opened) => opened,
            Err(error) => {
                debug!(%error, "no connection");
                shared.counters.connect_failures.add(1);
                return Served::Refused(error);
            }
        };
        let started = now();
        let line = Arc::clone(&self.line);
        let open = line.open();
        self.connected(server, pong);
        let error = tokio::select! {
            error = connection.converse(&line, shared.silence) => error,
            error = keep_counting(&shared, &line) => match error {},
        };
        drop(open);
        shared.counters.disconnects.add(1);
        if now().saturating_duration_since(started) >= GOOD_AFTER {
            self.backoff.reset();
        }
        Served::Ended(error)
    }

    fn connected(&self, server: SocketAddr, pong: Option<Pong>) {
        self.shared.counters.connects.add(1);
        let clients = pong.and_then(|pong| pong.clients);
        match clients {
            Some(clients) => {
                info!(%server, namespace = %self.shared.namespace, clients, "connected");
                self.shared.rules.set_clients(clients);
            }
            None => warn!(%server, namespace = %self.shared.namespace,
                "connected, but the server refuses the namespace: it counts no client here"),
        }
        self.tell(ConnectionState::Connected { server });
    }

    /// Says so once an outage, and again when the reason changes.
    fn disconnected(&self, errors: Vec<LinkError>) {
        let state = ConnectionState::Disconnected { errors: errors.into() };
        let known = match (&*self.state.borrow(), &state) {
            (
                ConnectionState::Disconnected { errors: before },
                ConnectionState::Disconnected { errors: now },
            ) => before == now,
            _ => false,
        };
        if known {
            debug!(reason = %state, "still no token server");
        } else {
            warn!(reason = %state, "no token server; checks fall back");
        }
        self.tell(state);
    }

    fn tell(&self, state: ConnectionState) {
        let connected =
            |state: &ConnectionState| matches!(state, ConnectionState::Connected { .. });
        let first = matches!(&*self.state.borrow(), ConnectionState::Connecting);
        if first || connected(&self.state.borrow()) || connected(&state) {
            self.shared.listeners.connection(&state);
        }
        self.state.send_replace(state);
    }
}

/// How an attempt to use a server went.
enum Served {
    /// There was no connection.
    Refused(LinkError),
    /// There was one, and it ended.
    Ended(LinkError),
}

/// Pings now and then for the number of clients, by which shares are divided.
async fn keep_counting(shared: &Shared, line: &Arc<Line>) -> std::convert::Infallible {
    loop {
        sleep(shared.ping_interval).await;
        let lines = std::slice::from_ref(line);
        if let Ok(Pong { clients: Some(clients) }) = ping(lines, &shared.namespace).await {
            shared.rules.set_clients(clients);
        }
    }
}

/// Pings over the first of `lines`, with the namespace that its connection was greeted with.
pub(crate) async fn ping(lines: &[Arc<Line>], namespace: &str) -> Result<Pong, crate::NoAnswer> {
    let encode = |xid, out: &mut bytes::BytesMut| {
        Request::Ping { xid, namespace: namespace.into() }.encode(out)
    };
    let leader = lines.split_at_checked(1).map_or(lines, |(leader, _)| leader);
    Ok(Pong::of(&Call::new(kind::PING, encode, leader, 0).await?))
}

impl<D: Dial> Follower<D> {
    /// Runs until it is dropped, or the leader is.
    pub(crate) async fn run(mut self) {
        while let Some(server) = self.leaders_server().await {
            let within = self.shared.connect_timeout;
            let opened = Connection::open(&*self.dial, server, &self.line, None, within).await;
            match opened {
                Ok((mut connection, _)) => {
                    let started = now();
                    self.shared.counters.connects.add(1);
                    let open = self.line.open();
                    tokio::select! {
                        error = connection.converse(&self.line, self.shared.silence) => {
                            debug!(%error, "a further connection ended");
                        }
                        () = moved(&mut self.state, server) => {}
                    }
                    drop(open);
                    self.shared.counters.disconnects.add(1);
                    if now().saturating_duration_since(started) >= GOOD_AFTER {
                        self.backoff.reset();
                    }
                }
                Err(error) => {
                    self.shared.counters.connect_failures.add(1);
                    debug!(%error, "no further connection");
                }
            }
            sleep(self.backoff.next()).await;
        }
    }

    async fn leaders_server(&mut self) -> Option<SocketAddr> {
        let connected =
            |state: &ConnectionState| matches!(state, ConnectionState::Connected { .. });
        match *self.state.wait_for(connected).await.ok()? {
            ConnectionState::Connected { server } => Some(server),
            _ => None,
        }
    }
}

/// Resolves once the leader has another server.
async fn moved(state: &mut watch::Receiver<ConnectionState>, from: SocketAddr) {
    let elsewhere = |state: &ConnectionState| matches!(state, ConnectionState::Connected { server } if *server != from);
    // Without a leader there is nobody to follow either.
    let _moved = state.wait_for(elsewhere).await;
}
