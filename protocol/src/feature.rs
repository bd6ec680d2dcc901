//! The feature bits of HELLO: what the server can do beyond the version.

/// Concurrency tokens: types 3, 4 and 17.
pub const CONCURRENCY: u32 = 1;
/// Questions, corrections and several rules at once: types 18, 19 and 20.
pub const ASK: u32 = 2;
/// Leases: type 21.
pub const LEASE: u32 = 4;
/// The rules that a client enforces: type 22.
pub const RULES: u32 = 8;
