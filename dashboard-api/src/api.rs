//! The routes, and what they look at.

mod log_filter;
mod own_machine;
mod problem;
mod scrape;

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::get,
};
use limiter::ClusterEngine;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use self::problem::Problem;

/// Whether the server is ready, and if not, why.
pub type Readiness = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the routes look at.
#[derive(Clone)]
pub struct Api {
    /// The engine whose rules are in force.
    pub engine: Arc<ClusterEngine>,
    /// Everything that `/metrics` shows.
    pub metrics: Arc<Registry>,
    /// What `/readyz` asks, at each request.
    pub readiness: Readiness,
    /// What `/api/v1/log-filter` reads and changes.
    pub log: Arc<dyn LogControl>,
}

impl Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("log", &self.log).finish_non_exhaustive()
    }
}

/// The filter of the process's own log.
pub trait LogControl: Send + Sync + Debug {
    /// The directives in force.
    fn filter(&self) -> String;

    /// Puts `directives` in force.
    ///
    /// # Errors
    ///
    /// What is wrong with them; the old ones stay.
    fn set_filter(&self, directives: &str) -> Result<(), String>;
}

/// What every handler gets.
#[derive(Clone)]
struct Shared {
    api: Api,
    /// One permit: a scrape costs memory in the number of flows.
    scraping: Arc<Semaphore>,
}

/// Every path, the methods it takes and what it is for. `HEAD` goes with `GET`.
const PATHS: [(&str, &str, &str); 5] = [
    ("/", "GET", "this list"),
    ("/healthz", "GET", "200 while the process serves"),
    ("/readyz", "GET", "200 when rules are in force and clients are served, else 503 and why"),
    ("/metrics", "GET", "metrics for Prometheus, as OpenMetrics where that is asked for"),
    ("/api/v1/log-filter", "GET, PUT", "the log filter as text; PUT from the machine itself"),
];

/// Longest request body in bytes: the longest thing sent here is a log filter.
const BODY_LEN_MAX: usize = 4 * 1024;

/// Routes over `api`. Serve it with `into_make_service_with_connect_info::<SocketAddr>()`: without
/// a known peer, what only the machine itself may do is refused.
///
/// Every error has a body of `application/problem+json` (RFC 9457), but for `/readyz`, whose reason
/// is plain text.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape::metrics))
        .route("/api/v1/log-filter", get(log_filter::read).put(log_filter::change))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_LEN_MAX))
        .with_state(Shared { api, scraping: Arc::new(Semaphore::new(1)) })
}

async fn index(State(Shared { api, .. }): State<Shared>) -> Json<Value> {
    let rules = api.engine.rules().applied();
    let path = |(path, methods, what)| json!({"path": path, "methods": methods, "what": what});
    Json(json!({
        "name": "Tollgate token server",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": {
            "revision": rules.revision,
            "hash": format!("{:016x}", rules.hash),
            "flows": rules.flows,
            "params": rules.params,
        },
        "paths": PATHS.map(path),
    }))
}

async fn ready(State(Shared { api, .. }): State<Shared>) -> Response {
    match (api.readiness)() {
        Ok(()) => "ready".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason).into_response(),
    }
}

async fn no_such_path(uri: Uri) -> Problem {
    let detail = format!("there is no {}; / lists what there is", uri.path());
    Problem::new(StatusCode::NOT_FOUND, detail)
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} takes no {method}; see the Allow header", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}

#[cfg(test)]
mod tests;
