//! An engine on the runtime's clock, and servers on ports of their own.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::Router;
use limiter::{
    Clock, Tick,
    local::LocalSettings,
    rule::{Contents, parse},
};
use token_client::{Engine, limiter};
use tokio::{net::TcpListener, time::Instant};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Now, on the runtime's clock.
#[expect(clippy::disallowed_methods, reason = "tests stop the runtime's clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The runtime's clock, which begins at a border of all windows.
#[derive(Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Tick {
        Tick::from_ms(1_700_000_040_000).plus(now().duration_since(self.0))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.now().since(Tick(0))
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(RuntimeClock(now()))
}

/// An engine with the flow rules of a JSON list.
pub(crate) fn engine(flow: &str) -> Engine {
    let engine = Engine::with_clock(LocalSettings::default(), clock());
    let rules = parse(flow, "test", "", Contents::Flow, false).unwrap().rules.flow;
    let given = rules.len();
    assert_eq!(engine.local().load_flow(rules).rules, given);
    engine
}

/// Serves until the handle is dropped.
pub(crate) async fn serve(router: Router) -> (SocketAddr, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let served = async move { axum::serve(listener, router).await.unwrap() };
    (addr, AbortOnDropHandle::new(TaskTracker::new().spawn(served)))
}

/// A client without proxies, which knows only the sockets of a test.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) fn request(method: &str, url: &str) -> reqwest::Request {
    reqwest::Request::new(method.parse().unwrap(), url.parse().unwrap())
}
