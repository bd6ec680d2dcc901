//! The HTTP side of a token server: health, metrics and the log filter, as one [`axum::Router`].
//! It binds no port and decides nothing; who serves it, and to whom, is the server's.

mod api;
mod metrics;

pub use api::{Api, LogControl, Readiness, router};
pub use metrics::{FLOWS_SHOWN_MAX, register_engine};
