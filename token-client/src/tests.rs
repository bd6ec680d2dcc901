//! A client against servers that are scripts: on real sockets where bytes matter, on a stopped
//! clock where time does.

mod embedded;
mod fallback;
mod link;
mod log;
mod many;
mod net;
mod peer;
mod time;
mod wire;
