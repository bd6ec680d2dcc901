//! The routes.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use axum::Router;
use limiter::ClusterEngine;
use prometheus_client::registry::Registry;

/// Whether the server is ready, and if not, why.
pub type Readiness = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the routes look at.
#[derive(Clone)]
pub struct Api {
    /// The engine whose rules are in force.
    pub engine: Arc<ClusterEngine>,
    /// Everything that `/metrics` shows.
    pub metrics: Arc<Registry>,
    /// What `/readyz` asks.
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

/// Routes over `api`. Serve it with `ConnectInfo<SocketAddr>`: without a known peer, what only the
/// own machine may do is refused.
pub fn router(api: Api) -> Router {
    Router::new().with_state(api)
}
