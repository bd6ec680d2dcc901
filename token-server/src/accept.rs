//! The accept loop: who may connect, how many at once, and what happens when the system says no.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use limiter::Tick;
use tokio::{
    net::{TcpListener, TcpSocket},
    time::sleep,
};
use tracing::{debug, warn};

use crate::connections::Connections;

/// Pause after an accept that failed for want of descriptors or memory. Short, since the next
/// connection that ends makes room.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Such failures are logged once in this time.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// Connections that the kernel keeps ready while the loop is busy or full.
const BACKLOG: u32 = 1024;

/// Who may connect.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    /// Connections at once; further ones wait in the kernel's queue.
    pub(crate) connections_max: usize,
    /// Addresses that may connect; empty: all.
    pub(crate) clients: Vec<IpNet>,
}

impl Admission {
    /// An IPv4 address that came in through an IPv6 socket is looked at as IPv4.
    fn allows(&self, peer: SocketAddr) -> bool {
        let ip = peer.ip().to_canonical();
        self.clients.is_empty() || self.clients.iter().any(|net| net.contains(&ip))
    }
}

/// Listens at `addr`, also while connections of an earlier process are in their last wait.
///
/// # Errors
///
/// The system's: in use, not ours, or not allowed.
pub(crate) fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until `shutdown` ends; no failure ends the loop. The listener is closed
/// then, so that the kernel refuses further ones.
pub(crate) async fn accept(
    listener: TcpListener,
    admission: &Admission,
    connections: &mut Connections,
    shutdown: impl Future<Output = ()>,
) {
    let service = Arc::clone(&connections.service);
    let telemetry = &service.telemetry;
    let mut shutdown = std::pin::pin!(shutdown);
    let mut logged = None;
    let mut was_full = false;
    loop {
        let full = connections.len() >= admission.connections_max;
        if full && !was_full {
            telemetry.limit_reached.add_one();
            debug!(connections = connections.len(), "connection limit reached");
        }
        was_full = full;
        tokio::select! {
            biased;
            () = shutdown.as_mut() => return,
            Some(()) = connections.ended() => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((stream, peer)) if admission.allows(peer) => connections.open(stream, peer),
                Ok((_, peer)) => {
                    telemetry.refused.add_one();
                    debug!(%peer, "address is not allowed");
                }
                // The peer was gone before it was accepted.
                Err(error) if is_of_peer(&error) => {}
                Err(error) => {
                    telemetry.accept_errors.add_one();
                    failed(&error, &mut logged, service.now());
                    sleep(BACK_OFF).await;
                }
            },
        }
    }
}

fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn failed(error: &io::Error, logged: &mut Option<Tick>, now: Tick) {
    if logged.is_none_or(|at| now.since(at) >= LOG_EVERY) {
        warn!(%error, "accept failed, trying again");
        *logged = Some(now);
    }
}
