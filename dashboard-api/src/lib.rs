//! The HTTP side of a token server: health, metrics and the log filter, as one [`axum::Router`].
//! It binds no port and decides nothing.

mod api;
mod metrics;

pub use api::{Api, LogControl, router};
pub use metrics::register_engine;
