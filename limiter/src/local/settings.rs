//! What a local engine keeps at most.

/// Bounds of a [`LocalEngine`](super::LocalEngine). Above them nothing fails open: what a rule
/// names has its own counters whatever the bound, the rest shares some that are called
/// [`OVERFLOW`].
///
/// A resource takes about 1.3 KB, and each further context or origin of it 0.2 KB; of any of them
/// whose calls last for more than half a second the minute takes 3.4 KB more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalSettings {
    /// Resources with counters of their own, 100 000 by default.
    pub resources: usize,
    /// Contexts with counters of their own, 2 000 by default.
    pub contexts: usize,
    /// Origins with counters of their own in one resource, 1 000 by default.
    pub origins: usize,
    /// Live hot values of one rule, 1 000 000 by default.
    pub values: usize,
    /// Bytes of memory for the live hot values of all rules together, 256 MiB by default.
    pub values_bytes: u64,
}

/// The name of counters that are shared by what is above a bound.
pub const OVERFLOW: &str = "__other__";

impl Default for LocalSettings {
    fn default() -> Self {
        Self {
            resources: 100_000,
            contexts: 2_000,
            origins: 1_000,
            values: 1_000_000,
            values_bytes: 256 << 20,
        }
    }
}

/// How often something above a bound was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflow {
    /// Calls of resources that share counters.
    pub resources: u64,
    /// Contexts that share counters, each time that one was asked for.
    pub contexts: u64,
    /// Calls from origins that share counters.
    pub origins: u64,
}
