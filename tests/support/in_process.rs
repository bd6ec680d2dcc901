//! A token server in this process, on a clock that the test moves.

use std::{net::SocketAddr, sync::Arc, thread};

use limiter::{ClusterEngine, ManualClock, Settings, Tick};
use token_server::{Options, Server};
use tokio::{runtime, sync::oneshot};

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct InProcess {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its engine, to load rules and to look at counters.
    pub engine: Arc<ClusterEngine>,
    /// Its clock, which stands at a whole second of 2023.
    pub clock: Arc<ManualClock>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl InProcess {
    /// Starts one on a free port of the loopback interface, without HTTP.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        Self::with_options(settings, |_| {})
    }

    /// The same, with other options.
    #[must_use]
    pub fn with_options(settings: Settings, change: impl FnOnce(&mut Options)) -> Self {
        let engine = Arc::new(ClusterEngine::new(settings));
        let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
        let mut options = Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            http: None,
            ..Options::default()
        };
        change(&mut options);
        let server = Server::new(options, Arc::clone(&engine)).with_clock(clock.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, addr) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime =
                runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(async {
                let bound = server.bind().unwrap();
                started.send(bound.token_addr()).unwrap();
                bound.serve(async { drop(stopped.await) }).await;
            });
        });
        let addr = addr.recv().unwrap();
        Self { addr, engine, clock, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
