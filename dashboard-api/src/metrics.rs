//! The engine's metrics.

use std::sync::Arc;

use limiter::{Clock, ClusterEngine};
use prometheus_client::registry::Registry;

/// Registers what the engine knows. `registry` has no prefix of its own. `clock` is the one that
/// the engine is asked with: another one could be ahead of it, and reading a window turns it over.
pub fn register_engine(registry: &mut Registry, engine: Arc<ClusterEngine>, clock: Arc<dyn Clock>) {
    let _ = (registry, engine, clock);
}
