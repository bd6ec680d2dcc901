//! What a local engine keeps at most.

/// Bounds of a [`LocalEngine`](super::LocalEngine). Above them nothing fails open: what a rule
/// names has its own counters whatever the bound, the rest shares some that are called
/// [`OVERFLOW`], so that it may be refused for what others do. Each such use is counted in
/// [`Overflow`].
///
/// When there is room again, what shared counters that a rule compares goes on to while they count,
/// but for no longer than a minute: then it begins with its own, and what it still has in progress
/// among the others is not seen any more.
///
/// A resource takes about 1.3 KB, and each further context or origin of it 0.3 KB; of any of them
/// that was called for more than half a second the minute takes 3.4 KB more. So counters take at
/// most 4.7 KB × (`resources` + `patterns`) + 3.7 KB × `nodes`, 0.85 GB by default, if all are in
/// use in the same minute: what has counted nothing for a minute is given back by
/// [`LocalEngine::tidy`](super::LocalEngine::tidy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalSettings {
    /// Resources with counters of their own, 100 000 by default.
    pub resources: usize,
    /// Of the resources above that, those that match the same patterns share counters that are held
    /// to these patterns' rules: so many sets of patterns have some, 1 000 by default. What matches
    /// another set is held to the rules of all patterns.
    pub patterns: usize,
    /// Contexts with counters of their own, 2 000 by default. Their names are kept for good.
    pub contexts: usize,
    /// Origins with counters of their own in one resource, 1 000 by default.
    pub origins: usize,
    /// Counters by context and by origin in all resources together, 100 000 by default. The one
    /// context that most resources have is not among them.
    pub nodes: usize,
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
            patterns: 1_000,
            contexts: 2_000,
            origins: 1_000,
            nodes: 100_000,
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
    /// Those of them that are held to the rules of all patterns.
    pub patterns: u64,
    /// Contexts that share counters, each time that one was asked for, and calls in a context that
    /// shares them in the called resource.
    pub contexts: u64,
    /// Calls from origins that share counters.
    pub origins: u64,
}
