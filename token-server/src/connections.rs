//! The open connections: one task each, counted when it begins and when it ends.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{net::TcpStream, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, debug_span, error};

use crate::{
    Close, Service,
    io::{Patience, serve_connection},
};

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) service: Arc<Service>,
    patience: Patience,
    keep_alive: Option<Duration>,
    tasks: JoinSet<Close>,
    stop: CancellationToken,
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// Connections that were open when the shutdown began.
    pub draining: usize,
    /// Those of them that were cut off, since the drain time was over.
    pub cut: usize,
}

impl Connections {
    pub(crate) fn new(
        service: Arc<Service>,
        patience: Patience,
        keep_alive: Option<Duration>,
    ) -> Self {
        let stop = CancellationToken::new();
        Self { service, patience, keep_alive, tasks: JoinSet::new(), stop }
    }

    /// Connections that are open, or have ended and were not yet counted as [`ended`](Self::ended).
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Serves `stream` in a task of its own.
    pub(crate) fn open(&mut self, stream: TcpStream, peer: SocketAddr) {
        if let Err(error) = prepare(&stream, self.keep_alive) {
            // The peer is gone already, which the first read will tell.
            debug!(%peer, %error, "socket options");
        }
        self.service.telemetry.opened.add_one();
        let mut session = self.service.session();
        let (patience, stop) = (self.patience, self.stop.child_token());
        let span = debug_span!("conn", %peer, namespace = tracing::field::Empty);
        let serve = async move {
            debug!("opened");
            let close = serve_connection(stream, &mut session, patience, &stop).await;
            debug!(reason = %close, "closed");
            close
        };
        self.tasks.spawn(serve.instrument(span));
    }

    /// Waits for the next connection to end, and counts it. `None` when there is none.
    pub(crate) async fn ended(&mut self) -> Option<()> {
        let ended = self.tasks.join_next().await?;
        match ended {
            Ok(close) => self.service.telemetry.closed(close),
            Err(failed) => {
                self.service.telemetry.cut.add_one();
                if failed.is_panic() {
                    error!(error = %failed, "a connection's task panicked");
                }
            }
        }
        Some(())
    }

    /// Tells every connection to finish, and waits for that, `patience` at most.
    pub(crate) async fn drain(mut self, patience: Duration) -> Served {
        let draining = self.len();
        self.stop.cancel();
        let all_ended = async { while self.ended().await.is_some() {} };
        // Whether it was in time shows in how many are left.
        drop(timeout(patience, all_ended).await);
        let cut = self.len();
        self.tasks.abort_all();
        while self.ended().await.is_some() {}
        Served { draining, cut }
    }
}

/// Makes a socket fit for small answers and for peers that vanish.
///
/// With `keep_alive`, a peer that says nothing for so long is asked whether it is there, and a
/// connection without a sign of life for twice as long is lost. Without, a vanished peer counts as
/// connected for ever.
///
/// # Errors
///
/// The system's, when the peer is gone already.
pub fn prepare(stream: &TcpStream, keep_alive: Option<Duration>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(quiet) = keep_alive else { return Ok(()) };
    let socket = SockRef::from(stream);
    // Whole seconds, one at least: the kernel's unit.
    let probe_every = (quiet / 3).max(Duration::from_secs(1));
    let probes = TcpKeepalive::new().with_time(quiet).with_interval(probe_every).with_retries(3);
    socket.set_tcp_keepalive(&probes)?;
    // Probes stop while answers are unacknowledged; without this they would be sent again for a
    // quarter of an hour.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(quiet * 2))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    /// What makes a half-open link end is the kernel's doing: here is what it is told.
    #[tokio::test]
    async fn a_vanished_peer_is_noticed_after_twice_the_time_it_may_be_silent() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&stream, Some(Duration::from_secs(30))).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(10));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(60)));

        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&stream, None).unwrap();
        assert!(!SockRef::from(&stream).keepalive().unwrap());
        // The shortest time is one second for each probe, not none.
        prepare(&stream, Some(Duration::from_secs(1))).unwrap();
        let interval = SockRef::from(&stream).tcp_keepalive_interval().unwrap();
        assert_eq!(interval, Duration::from_secs(1));
    }
}
