//! The type byte of a request, which its response repeats.
//!
//! Sentinel's are in `ClusterConstants.java`; [`HELLO`] is ours. A Java server drops what it does
//! not know without an answer. Types from 17 up are kept for further extension frames.

/// A client tells its namespace; the server answers how many clients the namespace has.
pub const PING: i8 = 0;
/// Tokens of a flow rule.
pub const FLOW: i8 = 1;
/// Tokens of a parameter rule, for each of some parameter values.
pub const PARAM: i8 = 2;
/// A concurrency token. Sentinel has the number but no layout; the layout is ours.
pub const CONCURRENT_ACQUIRE: i8 = 3;
/// Gives a concurrency token back. Sentinel has the number but no layout; the layout is ours.
pub const CONCURRENT_RELEASE: i8 = 4;
/// Asks whether the server speaks the extension frames, and in which version.
pub const HELLO: i8 = 16;
