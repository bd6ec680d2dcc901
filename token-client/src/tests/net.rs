//! A network that is a script: who resolves to what, who listens, who is never reached.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{DuplexStream, ReadHalf, WriteHalf, duplex, split},
    sync::mpsc,
    time::Instant,
};

use super::{log, peer::Peer};
use crate::{Builder, Client, ServerName, dial::Dial, sync::lock, time::now};

/// Bytes that a connection holds in each direction before its writer waits.
const BUFFER: usize = 1 << 16;

/// How an address answers a connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// Accepts, with buffers of this size.
    Open(usize),
    Refuses,
    /// Never answers.
    Drops,
}

#[derive(Debug)]
pub(super) struct Net {
    state: Arc<Mutex<State>>,
    accepted: mpsc::Sender<(SocketAddr, DuplexStream)>,
}

#[derive(Debug, Default)]
struct State {
    names: HashMap<String, Vec<SocketAddr>>,
    ports: HashMap<SocketAddr, Port>,
    attempts: Vec<(Instant, SocketAddr)>,
}

/// The test's hold on the network.
#[derive(Debug)]
pub(super) struct World {
    state: Arc<Mutex<State>>,
    accepted: mpsc::Receiver<(SocketAddr, DuplexStream)>,
}

/// A network on which nobody listens.
pub(super) fn network() -> (Net, World) {
    log::keep();
    let (sender, accepted) = mpsc::channel(1_000);
    let state: Arc<Mutex<State>> = Arc::default();
    (Net { state: Arc::clone(&state), accepted: sender }, World { state, accepted })
}

/// A client whose servers are `servers`, all of them open.
pub(super) fn client(mut builder: Builder, servers: &[&str]) -> (Client, World) {
    let (net, world) = network();
    // The same waits in each run.
    builder.random = fastrand::Rng::with_seed(1);
    for server in servers {
        world.set(server, Port::Open(BUFFER));
    }
    let builder = servers.iter().fold(builder, |builder, server| builder.server(server));
    (builder.start(net).unwrap(), world)
}

impl World {
    pub(super) fn set(&self, server: &str, port: Port) {
        lock(&self.state).ports.insert(server.parse().unwrap(), port);
    }

    pub(super) fn open(&self, server: &str) {
        self.set(server, Port::Open(BUFFER));
    }

    pub(super) fn name(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        lock(&self.state).names.insert(name.into(), addresses);
    }

    /// The server's end of the next connection.
    pub(super) async fn accept(&mut self) -> (String, Peer<DuplexStream>) {
        let (address, stream) = self.accepted.recv().await.expect("the client lives");
        (address.to_string(), Peer::new(stream))
    }

    /// When and where the client tried to connect.
    pub(super) fn attempts(&self) -> Vec<(Instant, SocketAddr)> {
        lock(&self.state).attempts.clone()
    }
}

impl Dial for Net {
    type Read = ReadHalf<DuplexStream>;
    type Write = WriteHalf<DuplexStream>;

    async fn resolve(&self, server: &ServerName) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = server.to_string().parse() {
            return Ok(vec![address]);
        }
        let named = lock(&self.state).names.get(server.host()).cloned();
        named.ok_or_else(|| io::Error::other("no such name"))
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<(Self::Read, Self::Write)> {
        let port = {
            let state = &mut *lock(&self.state);
            state.attempts.push((now(), address));
            state.ports.get(&address).copied().unwrap_or(Port::Refuses)
        };
        match port {
            Port::Open(buffer) => {
                let (ours, theirs) = duplex(buffer);
                self.accepted.send((address, theirs)).await.map_err(io::Error::other)?;
                Ok(split(ours))
            }
            Port::Refuses => Err(io::ErrorKind::ConnectionRefused.into()),
            Port::Drops => std::future::pending().await,
        }
    }
}
