//! The service: orders, and a probe, out of a database with ten connections.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use token_client::Engine;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

pub(crate) const CONNECTIONS: usize = 10;
/// How long a query takes, so that the pool serves a hundred a second.
pub(crate) const QUERY: Duration = Duration::from_millis(100);
/// How long a request waits for a connection before it fails.
pub(crate) const POOL_TIMEOUT: Duration = Duration::from_secs(1);
/// Eight orders at a time: two connections are left for others.
pub(crate) const RULES: &str = r#"[{"resource": "GET:/orders", "grade": 0, "count": 8}]"#;

/// A pool of connections, as databases have them: whoever finds none waits, in order.
#[derive(Debug)]
pub(crate) struct Pool {
    connections: Semaphore,
    waiting: AtomicUsize,
    most_waiting: AtomicUsize,
    orders: AtomicUsize,
    most_orders: AtomicUsize,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            connections: Semaphore::new(CONNECTIONS),
            waiting: AtomicUsize::new(0),
            most_waiting: AtomicUsize::new(0),
            orders: AtomicUsize::new(0),
            most_orders: AtomicUsize::new(0),
        }
    }

    async fn query(&self) -> StatusCode {
        let Some(_connection) = self.connection().await else {
            return StatusCode::SERVICE_UNAVAILABLE;
        };
        sleep(QUERY).await;
        StatusCode::OK
    }

    async fn connection(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        if let Ok(connection) = self.connections.try_acquire() {
            return Some(connection);
        }
        let _waiting = Counted::new(&self.waiting, &self.most_waiting);
        timeout(POOL_TIMEOUT, self.connections.acquire()).await.ok()?.ok()
    }

    /// Most requests that ever waited for a connection together.
    pub(crate) fn most_waiting(&self) -> usize {
        self.most_waiting.load(Ordering::Relaxed)
    }

    /// Most orders that were ever in progress together.
    pub(crate) fn most_orders(&self) -> usize {
        self.most_orders.load(Ordering::Relaxed)
    }
}

/// Counts one more until it is dropped. Relaxed: counts for people, which publish nothing.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize, most: &AtomicUsize) -> Self {
        let now = count.fetch_add(1, Ordering::Relaxed) + 1;
        most.fetch_max(now, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Service {
    pool: Arc<Pool>,
    engine: Option<Engine>,
}

/// `/orders`, guarded if there is an engine, and `/probe`, which nobody guards.
pub(crate) fn router(pool: Arc<Pool>, engine: Option<Engine>) -> Router {
    Router::new()
        .route("/orders", get(orders))
        .route("/probe", get(async |State(service): State<Service>| service.pool.query().await))
        .with_state(Service { pool, engine })
}

async fn orders(State(Service { pool, engine }): State<Service>) -> StatusCode {
    let guard = match &engine {
        Some(engine) => engine.entry("GET:/orders").inbound().acquire().await.map(Some),
        None => Ok(None),
    };
    let Ok(_guard) = guard else { return StatusCode::TOO_MANY_REQUESTS };
    let _order = Counted::new(&pool.orders, &pool.most_orders);
    pool.query().await
}
