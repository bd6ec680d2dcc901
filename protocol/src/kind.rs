//! The type byte of a request, which its response repeats.
//!
//! Sentinel's are in `ClusterConstants.java`; those from [`HELLO`] up are ours. A Java server drops
//! what it does not know without an answer, so a client sends nothing above HELLO, and neither of
//! the concurrency types, before HELLO was answered with the [feature bit](crate::feature).

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
/// Holds a concurrency token for another time-out.
pub const RENEW: i8 = 17;
/// Tokens of a flow or parameter rule, answered with everything about the decision.
pub const ASK: i8 = 18;
/// Corrects what a flow or parameter rule counted, without a decision.
pub const ADJUST: i8 = 19;
/// Tokens of several rules: of all or of none.
pub const ACQUIRE_ALL: i8 = 20;
/// Tokens of a flow rule in advance, to be spent by the client.
pub const LEASE: i8 = 21;
/// A client tells which rules it enforces; the answer is a head.
pub const RULES: i8 = 22;
