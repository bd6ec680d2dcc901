//! What a client is made with.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use bytes::BytesMut;
use limiter::{Clock, ClusterEngine, MonotonicClock, NamespacesFull};
use protocol::Request;
use tokio::{runtime::Handle, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Client, ConnectionState, Listener, ServerName, ServerNameError,
    backoff::Backoff,
    client::{Backend, Inner, Remote},
    decide::Decider,
    dial::{Dial, Tcp},
    embedded::Embedded,
    holds::{Desk, Holds, Keeper},
    leases::{self, Leases},
    line::Line,
    link::{Follower, Leader, Shared},
    listener::Listeners,
    metrics::{Counters, Meters},
    rules::Rules,
};

/// Configures a [`Client`]; made by [`Client::builder`].
#[derive(Debug)]
pub struct Builder {
    servers: Vec<Result<ServerName, ServerNameError>>,
    namespace: Box<str>,
    timeout: Duration,
    max_wait: Option<Duration>,
    connections: NonZeroUsize,
    pending_max: NonZeroUsize,
    connect_timeout: Duration,
    silence: Duration,
    ping_interval: Duration,
    backoff_cap: Duration,
    lease_tokens: Option<NonZeroU32>,
    clock: Option<Arc<dyn Clock>>,
    listeners: Listeners,
    pub(crate) random: fastrand::Rng,
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No server was named.
    #[error("a client needs a server: call `server(\"HOST:PORT\")`, or `embedded`")]
    NoServer,
    /// A text names no server.
    #[error(transparent)]
    ServerName(#[from] ServerNameError),
    /// The namespace is blank, or too long for a frame.
    #[error("namespace {0:?} is blank or longer than 1013 bytes")]
    Namespace(Box<str>),
    /// A time that must not be zero is.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// There is no runtime to run the client's tasks on.
    #[error("a client must be built inside a tokio runtime")]
    NoRuntime,
    /// The embedded engine takes no further namespace.
    #[error(transparent)]
    NamespacesFull(#[from] NamespacesFull),
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            namespace: "default".into(),
            timeout: Duration::from_millis(20),
            max_wait: None,
            connections: NonZeroUsize::MIN,
            pending_max: NonZeroUsize::MIN.saturating_add(65_535),
            connect_timeout: Duration::from_secs(1),
            silence: Duration::from_secs(1),
            ping_interval: Duration::from_secs(30),
            backoff_cap: Duration::from_secs(10),
            lease_tokens: None,
            clock: None,
            listeners: Listeners::default(),
            random: fastrand::Rng::new(),
        }
    }
}

impl Builder {
    /// Adds a server: `HOST`, `HOST:PORT` or `[IPV6]:PORT`; the port is 18730 unless it is given.
    /// Servers are tried in the order in which they are added, and every address of a name in the
    /// order of the resolver, which is asked again at each attempt. The first that answers is used
    /// until its connection ends; then the first server comes first again.
    #[must_use]
    pub fn server(mut self, server: &str) -> Self {
        self.servers.push(server.parse());
        self
    }

    /// The namespace that this client belongs to (`default`): it is counted there, and the
    /// servers' rules for an average per client go by that count.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// How long a call may take (20 ms, as Sentinel's client), to the millisecond of the runtime's
    /// timer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The longest wait that a check keeps (none: any, as Sentinel's client). A check that is told
    /// to wait for longer, by a server or by its rule while no server decides, is refused at once.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = Some(max_wait);
        self
    }

    /// Connections to the server (1). More than one helps only when a single task that reads and
    /// writes is the bottleneck. Only one of them is counted as a client.
    #[must_use]
    pub fn connections(mut self, connections: NonZeroUsize) -> Self {
        self.connections = connections;
        self
    }

    /// Calls that may wait for an answer at once, for each connection (65 536); further ones are
    /// [`Busy`](crate::NoAnswer::Busy).
    #[must_use]
    pub fn pending_max(mut self, pending_max: NonZeroUsize) -> Self {
        self.pending_max = pending_max;
        self
    }

    /// How long it may take to resolve a name, and how long to connect to an address and have its
    /// first ping answered (1 s each).
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// How long a connected server may send nothing while calls run out of time before the client
    /// leaves it (1 s).
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// How often the number of clients is asked for (30 s).
    #[must_use]
    pub fn ping_interval(mut self, ping_interval: Duration) -> Self {
        self.ping_interval = ping_interval;
        self
    }

    /// The longest wait between two rounds of attempts to connect (10 s).
    #[must_use]
    pub fn backoff_cap(mut self, backoff_cap: Duration) -> Self {
        self.backoff_cap = backoff_cap;
        self
    }

    /// Tokens of each lease, or as many as a single call needs, under rules with `lease`, whose
    /// `maxTokens` is the most all the same
    /// (by demand: what was asked for in half of a lease's life, or in a second if that is less).
    #[must_use]
    pub fn lease_tokens(mut self, tokens: NonZeroU32) -> Self {
        self.lease_tokens = Some(tokens);
        self
    }

    /// The clock of the local counters (the system's). An embedded client must have the one that
    /// the engine's server reads.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Adds a listener.
    #[must_use]
    pub fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.listeners.0.push(Box::new(listener));
        self
    }

    /// Makes the client, and begins to connect.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; nothing has been started then.
    pub fn build(self) -> Result<Client, BuildError> {
        self.start(Tcp)
    }

    /// Makes a client that asks `engine` in this process, which is counted as one client of the
    /// namespace. Servers that were named are not connected to.
    ///
    /// # Errors
    ///
    /// [`BuildError`] when the engine takes no further namespace, and outside of a runtime.
    pub fn embedded(mut self, engine: Arc<ClusterEngine>) -> Result<Client, BuildError> {
        self.check_namespace()?;
        let runtime = Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let membership = engine.join(&self.namespace)?;
        let decider = self.decider(Rules::default(), Arc::default());
        let clock = Arc::clone(&decider.clock);
        let owner = engine.owner();
        let (engine_too, clock_too) = (Arc::clone(&engine), Arc::clone(&clock));
        let desk = Desk::Embedded { engine: engine_too, clock: clock_too, owner };
        let embedded = Embedded { engine, clock, membership, owner };
        decider.rules.set_clients(embedded.clients());
        let tasks = Tasks { stop: CancellationToken::new(), tasks: TaskTracker::new(), runtime };
        Ok(client(Backend::Embedded(embedded), decider, Holds::new(desk), Arc::new([]), tasks))
    }

    /// Makes the client over the network that `dial` is.
    pub(crate) fn start<D: Dial>(mut self, dial: D) -> Result<Client, BuildError> {
        let servers = std::mem::take(&mut self.servers);
        let servers: Vec<ServerName> = servers.into_iter().collect::<Result<_, _>>()?;
        if servers.is_empty() {
            return Err(BuildError::NoServer);
        }
        self.check_namespace()?;
        self.check_times()?;
        let runtime = Handle::try_current().map_err(|_| BuildError::NoRuntime)?;

        let line = || Arc::new(Line::new(self.timeout, self.pending_max.get()));
        let leader = line();
        let followers = (1..self.connections.get()).map(|_| line());
        let lines: Arc<[Arc<Line>]> =
            std::iter::once(Arc::clone(&leader)).chain(followers).collect();
        let counters: Arc<Counters> = Arc::default();
        let leases = Leases::new(
            Arc::clone(&leader),
            Arc::clone(&counters),
            self.lease_tokens,
            self.random.fork(),
        );
        let rules = Rules::new(Some(Arc::clone(&leases)));
        let decider = self.decider(rules, counters);
        let shared = Arc::new(Shared {
            servers,
            namespace: self.namespace.clone(),
            connect_timeout: self.connect_timeout,
            silence: self.silence,
            ping_interval: self.ping_interval,
            rules: Arc::clone(&decider.rules),
            counters: Arc::clone(&decider.counters),
            listeners: Arc::clone(&decider.listeners),
        });
        let (told, state) = watch::channel(ConnectionState::Connecting);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let dial = Arc::new(dial);
        let mut leads = Some(told);
        for line in &*lines {
            let (dial, shared, line) = (Arc::clone(&dial), Arc::clone(&shared), Arc::clone(line));
            let backoff = Backoff::new(self.backoff_cap, self.random.fork());
            let stop = stop.clone();
            // The first one leads.
            if let Some(told) = leads.take() {
                let state = told.clone();
                let leader = Leader { dial, shared, line, backoff, state };
                let run = async move {
                    stop.run_until_cancelled(leader.run()).await;
                    told.send_replace(ConnectionState::Closed);
                };
                tasks.spawn_on(run, &runtime);
            } else {
                let follower = Follower { dial, shared, line, backoff, state: state.clone() };
                let run = async move { stop.run_until_cancelled(follower.run()).await };
                tasks.spawn_on(run, &runtime);
            }
        }
        let (turn, namespace) = (AtomicUsize::new(0), self.namespace);
        let keeper = leases::Keeper::new(leases);
        let stopped = stop.clone();
        let keep = async move { stopped.run_until_cancelled(keeper.run()).await };
        tasks.spawn_on(keep, &runtime);
        let holds = Holds::new(Desk::Remote(leader));
        let remote = Remote { lines: Arc::clone(&lines), turn, namespace, state };
        let tasks = Tasks { stop, tasks, runtime };
        Ok(client(Backend::Remote(remote), decider, holds, lines, tasks))
    }

    fn decider(&mut self, rules: Rules, counters: Arc<Counters>) -> Decider {
        Decider {
            rules: Arc::new(rules),
            clock: self.clock.take().unwrap_or_else(|| Arc::new(MonotonicClock::start())),
            counters,
            listeners: Arc::new(std::mem::take(&mut self.listeners)),
            max_wait: self.max_wait,
        }
    }

    fn check_namespace(&self) -> Result<(), BuildError> {
        let encoded = |request: Request<'_>| {
            let mut frame = BytesMut::new();
            request.encode(&mut frame).map(|()| frame.len())
        };
        // A blank name is written as none at all, which is as short as a bare head.
        let bare = encoded(Request::Hello { xid: 0 });
        let ping = encoded(Request::Ping { xid: 0, namespace: (&*self.namespace).into() });
        match (ping, bare) {
            (Ok(ping), Ok(bare)) if ping > bare => Ok(()),
            _ => Err(BuildError::Namespace(self.namespace.clone())),
        }
    }

    fn check_times(&self) -> Result<(), BuildError> {
        for (name, time) in [
            ("timeout", self.timeout),
            ("connect_timeout", self.connect_timeout),
            ("silence", self.silence),
            ("ping_interval", self.ping_interval),
            ("backoff_cap", self.backoff_cap),
        ] {
            if time.is_zero() {
                return Err(BuildError::Zero(name));
            }
        }
        Ok(())
    }
}

/// Where a client's tasks run.
struct Tasks {
    stop: CancellationToken,
    tasks: TaskTracker,
    runtime: Handle,
}

/// Puts a client together, and has its guards looked after.
fn client(
    backend: Backend,
    decider: Decider,
    holds: Arc<Holds>,
    lines: Arc<[Arc<Line>]>,
    Tasks { stop, tasks, runtime }: Tasks,
) -> Client {
    let counters = &decider.counters;
    let keeper = Keeper {
        holds: Arc::clone(&holds),
        counters: Arc::clone(counters),
        listeners: Arc::clone(&decider.listeners),
    };
    let stopped = stop.clone();
    tasks.spawn_on(async move { stopped.run_until_cancelled(keeper.run()).await }, &runtime);
    tasks.close();
    let meters = Meters {
        counters: Arc::clone(counters),
        lines,
        rules: Arc::clone(&decider.rules),
        holds: Arc::clone(&holds),
    };
    Client::new(Inner { backend, decider, holds, meters, stop, tasks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(builder: Builder) -> BuildError {
        builder.build().expect_err("no client")
    }

    #[tokio::test]
    async fn what_cannot_work_is_refused_before_anything_starts() {
        let builder = || Client::builder().server("127.0.0.1:1");
        assert_eq!(error(Client::builder()), BuildError::NoServer);
        let bad = builder().server("http://tokens:1");
        assert!(matches!(error(bad), BuildError::ServerName(_)));
        for namespace in ["", " \t", "\u{1c}", &"n".repeat(1014)] {
            let bad = error(builder().namespace(namespace));
            assert_eq!(bad, BuildError::Namespace(namespace.into()));
        }
        assert_eq!(error(builder().timeout(Duration::ZERO)), BuildError::Zero("timeout"));
        assert_eq!(error(builder().silence(Duration::ZERO)), BuildError::Zero("silence"));
    }

    #[test]
    fn a_client_needs_a_runtime() {
        assert_eq!(error(Client::builder().server("127.0.0.1:1")), BuildError::NoRuntime);
    }
}
