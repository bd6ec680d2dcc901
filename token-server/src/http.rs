//! Serves HTTP beside the token protocol, and never at its expense: connections are bounded, and
//! a peer that does not finish its request's head is cut off.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;
use tracing::{debug, warn};

/// What a peer may use up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once; further ones wait in the kernel's queue. Scrapers, probes and people
    /// are few, and each may hold a page of metrics.
    pub(crate) connections: usize,
    /// How long a peer may take for the head of a request, and keep a connection between two.
    pub(crate) head: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 64, head: Duration::from_secs(10) }
    }
}

/// How long one connection may last, which bounds a peer that does not read its answer.
const LONGEST: Duration = Duration::from_secs(300);

/// Pause after an accept that failed.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Serves `router` until `stop`; then lets requests that are being answered end.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let (graceful, tasks) = (GracefulShutdown::new(), TaskTracker::new());
    let accept = async {
        loop {
            // The place comes first: a connection that has none stays in the kernel's queue.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let connection =
                        connection(stream, peer, router.clone(), limits.head, &graceful);
                    tasks.spawn(hold(place, peer, connection));
                }
                Err(error) => {
                    debug!(%error, "HTTP accept failed, trying again");
                    sleep(BACK_OFF).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = stop.cancelled() => {}
    }
    graceful.shutdown().await;
    tasks.close();
    tasks.wait().await;
}

/// The conversation on one connection.
fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    head: Duration,
    graceful: &GracefulShutdown,
) -> impl Future<Output = hyper::Result<()>> + Send + 'static {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let answer = router.clone().oneshot(request.map(Body::new));
        async move { answer.await.map_err(|never: Infallible| never) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    graceful.watch(http.serve_connection(TokioIo::new(stream), service))
}

/// Keeps the place until the conversation has ended.
async fn hold(
    place: OwnedSemaphorePermit,
    peer: SocketAddr,
    connection: impl Future<Output = hyper::Result<()>>,
) {
    match timeout(LONGEST, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%peer, %error, "HTTP connection failed"),
        Err(_elapsed) => warn!(%peer, "HTTP connection lasted too long, closed"),
    }
    drop(place);
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        task::JoinSet,
    };

    use super::*;

    const LIMITS: Limits = Limits { connections: 3, head: Duration::from_millis(300) };

    async fn start(stop: &CancellationToken, running: &mut JoinSet<()>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let peer = |ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.to_string() };
        running.spawn(serve(listener, Router::new().route("/", get(peer)), LIMITS, stop.clone()));
        addr
    }

    async fn get_once(addr: SocketAddr) -> (String, SocketAddr) {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        (answer, stream.local_addr().unwrap())
    }

    #[tokio::test]
    async fn a_request_is_answered_and_its_peer_is_known() {
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        let addr = start(&stop, &mut running).await;
        let (answer, me) = get_once(addr).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with(&me.to_string()), "{answer}");
        stop.cancel();
        running.join_all().await;
    }

    #[tokio::test]
    async fn peers_that_never_finish_a_request_hold_a_bounded_number_of_places_for_a_while() {
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        let addr = start(&stop, &mut running).await;
        let mut slow = Vec::new();
        for _ in 0..LIMITS.connections * 3 {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            stream.write_all(b"GET / HT").await.unwrap();
            slow.push(stream);
        }
        // The slow ones are cut off in turn, and the honest one behind them is answered.
        let (answer, _) = timeout(Duration::from_secs(20), get_once(addr)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(slow);
        stop.cancel();
        running.join_all().await;
    }
}
