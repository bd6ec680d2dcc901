//! A cluster token server that Sentinel's clients speak to: it takes requests over TCP, lets the
//! engine of [`limiter`] decide, and answers. The binary `token-server` is this library with a
//! command line; a service that wants the server inside itself starts one like this:
//!
//! ```
//! use std::sync::Arc;
//!
//! use limiter::{ClusterEngine, Settings};
//! use token_server::{Options, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The same engine may be asked in-process too.
//! let engine = Arc::new(ClusterEngine::new(Settings::default()));
//! let options = Options { listen: "127.0.0.1:0".parse()?, http: None, ..Options::default() };
//! let bound = Server::new(options, engine).bind()?;
//! assert_ne!(bound.token_addr().port(), 0);
//!
//! let shutdown = async { /* until the service ends */ };
//! let served = bound.serve(shutdown).await;
//! assert_eq!(served.cut, 0);
//! # Ok(())
//! # }
//! ```
//!
//! * [`Server`] with its [`Options`] takes the ports, [`Bound`] serves, [`Served`] says how it ended.
//! * [`Rules`] keeps the rules of a source in force; [`Snapshots`] lets counters outlive the process.
//! * [`io`] is the loop of one connection, for any [`Handler`](io::Handler); a [`Session`] of the
//!   [`Service`] is the one that decides.
//! * [`config`], [`descriptors`], [`log`], [`switches`] and [`process`] are what the binary adds.
//!
//! The library installs no logger, picks no runtime, reads no environment, and decides nothing
//! about tokens itself.

pub mod config;
pub mod descriptors;
pub mod io;
pub mod log;
pub mod process;
pub mod switches;

mod accept;
mod apart;
mod close;
mod connections;
mod dispatch;
mod extension;
mod http;
mod peer;
mod rules;
mod server;
mod session;
mod snapshot;
mod telemetry;
#[cfg(test)]
mod testing;
mod values;

pub use close::Close;
pub use connections::{Served, prepare};
pub use rules::Rules;
pub use server::{BindError, Bound, Options, Server};
pub use session::{Service, Session};
pub use snapshot::{SnapshotError, Snapshots};
