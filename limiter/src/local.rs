//! The local engine: Sentinel's chain of checks for one process, without a server.

mod arg;
#[cfg_attr(not(test), expect(dead_code, reason = "what calls it is not part of this module yet"))]
mod param;

pub use arg::Arg;
