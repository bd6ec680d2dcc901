//! Sentinel-compatible cluster token server.

pub mod config;
pub mod io;
pub mod log;
pub mod process;

mod accept;
mod close;
mod connections;
mod dispatch;
mod rules;
mod server;
mod session;
mod telemetry;
#[cfg(test)]
mod testing;
mod values;

pub use close::Close;
pub use connections::{Served, prepare};
pub use rules::Rules;
pub use server::{BindError, Bound, Options, Server};
pub use session::{Service, Session};
