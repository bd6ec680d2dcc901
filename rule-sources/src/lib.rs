//! Where rules come from: one interface, [`RuleSource`], and what is behind it.
//!
//! ```
//! use rule_sources::{FileSource, RuleSource};
//!
//! let dir = tempfile::tempdir()?;
//! let rules = r#"[{"resource": "GET:/orders", "count": 10, "clusterMode": true,
//!                  "clusterConfig": {"flowId": 101}}]"#;
//! std::fs::write(dir.path().join("shop-flow-rules.json"), rules)?;
//!
//! let source = FileSource::of_server(dir.path());
//! let loaded = source.load()?;
//! assert_eq!(&*loaded.rules[0].namespace, "shop");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A source reads and checks; it puts nothing in force. Whoever holds the engine loads once, and
//! again after each [`Changes::next`]; what fails to load changes nothing.

mod changes;
mod file;

use std::{fmt, io};

use limiter::rule::{
    AuthorityRule, DegradeRule, Finding, GatewayFlowRule, NamespaceRules, RuleErrors, SystemRule,
};

pub use changes::Changes;
pub use file::{FILE_LEN_MAX, FileSource};

/// A place that rules are kept in.
pub trait RuleSource: fmt::Debug + Send + Sync {
    /// What logs call the source: a path, an address.
    fn describe(&self) -> String;

    /// Reads and checks everything the source holds now. It may block: call it where that is
    /// allowed.
    ///
    /// # Errors
    ///
    /// Every mistake of every part of the source together. The rules in force are to stay then.
    fn load(&self) -> Result<Loaded, RuleErrors>;

    /// Begins to watch the source, until the [`Changes`] are dropped. A change since the last
    /// [`load`](Self::load) counts as one that is still to be told.
    ///
    /// # Errors
    ///
    /// When nothing can watch the source; it can still be loaded.
    fn watch(&self) -> Result<Changes, WatchError>;
}

/// What a source held: a whole rule set, ready to be put in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The rules, one entry a namespace.
    pub rules: Vec<NamespaceRules>,
    /// The rules that only a service enforces; none for a server.
    pub local: LocalRules,
    /// What was odd, and what was done about it.
    pub warnings: Vec<Finding>,
    /// Rules with `clusterMode: false` that were left out.
    pub skipped: usize,
    /// Files (or keys, or documents) that were read.
    pub files: usize,
}

/// Rules that only a service enforces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalRules {
    /// Circuit breakers.
    pub degrade: Vec<DegradeRule>,
    /// Limits of all inbound calls.
    pub system: Vec<SystemRule>,
    /// Who may call which resource.
    pub authority: Vec<AuthorityRule>,
    /// Limits of requests through a gateway.
    pub gateway: Vec<GatewayFlowRule>,
}

/// Why a source cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {source_name} for changes")]
#[non_exhaustive]
pub struct WatchError {
    /// What the source is called.
    pub source_name: String,
    /// What the system said.
    #[source]
    pub cause: io::Error,
}
