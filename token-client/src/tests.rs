//! A client against servers that are scripts: on real sockets where bytes matter, on a stopped
//! clock where time does.

#[cfg(feature = "actix")]
mod actix;
mod ask;
mod embedded;
mod enforced;
mod engine;
mod fallback;
mod hold;
mod hold_leaks;
mod lease;
mod lent;
mod link;
pub(crate) mod log;
#[cfg(feature = "macros")]
mod macros;
mod many;
mod net;
mod peer;
mod share;
mod time;
#[cfg(feature = "tower")]
mod web;
mod wire;
