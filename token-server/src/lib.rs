//! Sentinel-compatible cluster token server.

pub mod io;

mod close;
mod dispatch;
mod telemetry;

pub use close::Close;
pub use dispatch::{Service, Session};
