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

#[cfg(test)]
mod tests {
    use protocol::Response;

    use super::*;
    use crate::testing::*;

    #[test]
    fn networks_say_who_may_connect_in_either_notation() {
        let clients = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let admission = Admission { connections_max: 1, clients };
        for (peer, allowed) in [
            ("10.255.0.1:5", true),
            ("11.0.0.1:5", false),
            ("[fd12::1]:5", true),
            ("[fe80::1]:5", false),
            // IPv4 as a socket that listens at [::] sees it.
            ("[::ffff:10.0.0.1]:5", true),
            ("[::ffff:127.0.0.1]:5", false),
        ] {
            assert_eq!(admission.allows(peer.parse().unwrap()), allowed, "{peer}");
        }
        let admission = Admission { connections_max: 1, clients: Vec::new() };
        assert!(admission.allows("192.0.2.1:5".parse().unwrap()));
    }

    #[tokio::test]
    async fn an_address_that_is_not_allowed_is_closed_at_once() {
        let server = Running::start(|o| o.allowed_clients = vec!["10.0.0.0/8".parse().unwrap()]);
        server.connect().await.closed().await;
        let t = Arc::clone(&server.telemetry);
        assert_eq!((t.refused.get(), t.opened.get()), (1, 0));
        server.finish(&[]).await;
    }

    #[tokio::test]
    async fn beyond_the_limit_a_connection_waits_until_another_ends() {
        let server = Running::start(|o| o.connections_max = 2);
        let (mut a, mut b) = (server.connect().await, server.connect().await);
        assert_eq!(a.ping("n").await, Response::Ping { xid: 0, connected: 1 });
        assert_eq!(b.ping("n").await, Response::Ping { xid: 0, connected: 2 });
        // The kernel lets it in, and the server does not look at it.
        let mut c = server.connect().await;
        c.send(&ping_request("n")).await;
        assert_eq!(b.ping("n").await, Response::Ping { xid: 0, connected: 2 });
        assert_eq!((server.telemetry.opened.get(), server.telemetry.limit_reached.get()), (2, 1));
        drop(a);
        assert_eq!(c.answer().await, Response::Ping { xid: 0, connected: 2 });
        assert_eq!(server.finish(&[]).await.draining, 2);
    }

    #[test]
    fn failures_are_logged_once_a_second() {
        let log = Log::start();
        let mut logged = None;
        let (first, second) = (io::Error::from_raw_os_error(24), io::Error::from_raw_os_error(23));
        failed(&first, &mut logged, Tick::from_ms(5_000));
        failed(&second, &mut logged, Tick::from_ms(5_999));
        // A clock that steps back changes nothing.
        failed(&second, &mut logged, Tick::from_ms(4_000));
        failed(&second, &mut logged, Tick::from_ms(6_000));
        log.assert(&["Too many open files (os error 24)", "in system (os error 23)"]);
    }

    #[test]
    fn a_peer_that_left_before_it_was_let_in_is_no_failure() {
        for kind in [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset] {
            assert!(is_of_peer(&kind.into()));
        }
        assert!(!is_of_peer(&io::Error::from_raw_os_error(24)));
    }
}
