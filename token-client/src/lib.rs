//! The client of a token server: it asks whether a call may go on, and knows what to do when
//! nobody answers.
//!
//! ```no_run
//! use std::time::Duration;
//! use token_client::Client;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::builder().server("127.0.0.1:18730").namespace("orders").build()?;
//!     client.ready(Duration::from_secs(3)).await?;
//!     let outcome = client.check(101, 1, false).await;
//!     println!("{}", if outcome.is_pass() { "go on" } else { "too many requests" });
//!     Ok(())
//! }
//! ```
//!
//! * [`Client`] is the handle, made by a [`Builder`]. Make one for the process and clone it: it is
//!   counted as one client, and all its calls share its connections.
//! * [`Client::check`] and [`Client::check_param`] give an [`Outcome`]: a [`Verdict`], and who
//!   [decided](DecidedBy). [`Client::acquire`] and its siblings give a server's bare [`Answer`].
//! * [`Client::hold`] limits calls in progress: it gives a guard, [`Held`].
//! * [`Client::explain`] and [`Client::check_explained`] say [`Why`]. [`Client::give_back`],
//!   [`Client::charge`] and [`Client::reset`] correct what was counted, and [`Client::acquire_all`]
//!   asks several rules at once. These need a server of this project.
//! * [`Client::set_rules`] tells the client the rules, so that it can fall back as they say
//!   (`fallbackPolicy`, `localCount`, `overloadPolicy`). It takes what `limiter::rule` reads from
//!   Sentinel's JSON.
//! * For a flow rule with `lease` among them, [`Client::check`] spends tokens that it holds in
//!   advance, without asking. [`Builder::lease_tokens`] says how many at a time. Under
//!   `overloadPolicy: share` it is lent tokens while its namespace is over its request limit.
//! * [`Listener`] hears of refusals, fallbacks and the connection; [`Metrics`] counts them.
//! * [`Builder::embedded`] makes a client of an engine in the same process.
//!
//! [`Engine`] needs no server: it protects the process with Sentinel's local rules, by guards. With
//! the feature `tower` or `actix` it guards the requests to a service (`web`), with `macros`
//! functions by an attribute, `guard`.
//!
//! With the feature `tower` there are layers around it, for any `tower` service of HTTP requests, and
//! with `reqwest` for a `reqwest::Client`: `outgoing` makes calls entries, `retry` sends again what was
//! refused, `adaptive` finds how many a server can take, `bulkhead` keeps what one dependency does from
//! the others, and `deferral` lets writes wait that come too fast. `exchange` is what they look at.
//!
//! Servers may be ours or Sentinel's. The client does not read rule files, does not retry a call
//! (the tokens may have been taken), and does not hold a call back unless a server says so.

#[cfg(feature = "actix")]
pub mod actix;
#[cfg(feature = "tower")]
pub mod adaptive;
mod adjust;
mod all;
mod answer;
mod ask;
mod backoff;
mod builder;
#[cfg(feature = "tower")]
pub mod bulkhead;
mod client;
mod connection;
mod decide;
#[cfg(feature = "tower")]
pub mod deferral;
mod dial;
mod embedded;
mod engine;
#[cfg(feature = "tower")]
pub mod exchange;
mod hold;
mod holds;
mod leases;
mod line;
mod link;
mod listener;
mod metrics;
mod outcome;
#[cfg(feature = "tower")]
pub mod outgoing;
mod pending;
mod prometheus;
mod reply;
#[cfg(feature = "tower")]
pub mod retry;
mod rules;
mod server_name;
mod state;
mod sync;
mod time;
mod told;
#[cfg(any(feature = "tower", feature = "actix"))]
pub mod web;
mod what;
mod why;

pub use adjust::Unadjusted;
pub use all::AllAnswer;
pub use answer::{Answer, BadCall, Extension, NoAnswer, Pong};
pub use builder::{BuildError, Builder};
pub use client::Client;
pub use engine::{
    Attempt, ClusterMode, Engine, Guard, LogSettings, MetricLine, MetricSearch, NotNow, RunError,
    SystemReader,
};
pub use hold::{Held, Refused};
pub use limiter;
pub use listener::{Listener, RuleId};
pub use metrics::Metrics;
pub use outcome::{DecidedBy, Outcome, Reason, Verdict};
pub use protocol::{Mode, Param, Status, Unit};
pub use rule_sources;
pub use server_name::{ServerName, ServerNameError};
pub use state::{ConnectionState, LinkError, NotReady};
/// ```
/// use token_client::{Engine, guard, limiter::local::Block};
///
/// /// What a caller is told.
/// enum Failed {
///     Refused(Block),
///     SoldOut,
/// }
///
/// impl From<Block> for Failed {
///     fn from(block: Block) -> Self {
///         Self::Refused(block)
///     }
/// }
///
/// #[guard(resource = "create order", key = "order:create:{user_id}")]
/// async fn create(engine: &Engine, user_id: u64, left: u32) -> Result<u32, Failed> {
///     left.checked_sub(1).ok_or(Failed::SoldOut)
/// }
/// ```
#[cfg(feature = "macros")]
pub use token_client_macros::guard;
pub use what::What;
pub use why::{Unexplained, Usage, Why};

// What `#[guard]` writes names this crate from outside.
#[cfg(all(test, feature = "macros"))]
extern crate self as token_client;

#[cfg(test)]
mod tests;
