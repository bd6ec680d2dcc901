//! A client against servers that are scripts: on real sockets where bytes matter, on a stopped
//! clock where time does.

mod ask;
mod embedded;
mod engine;
mod fallback;
mod hold;
mod hold_leaks;
mod lease;
mod link;
pub(crate) mod log;
mod many;
mod net;
mod peer;
mod time;
mod wire;
