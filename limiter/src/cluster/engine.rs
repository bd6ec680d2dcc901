//! The engine: rules in force, namespaces, and the one place where rules are replaced.

use super::{
    Applied, Membership, Namespace, NamespacesFull, RuleSet, Settings, namespace::Namespaces,
};
use crate::{
    rule::{NamespaceRules, RuleErrors},
    swap::{Reader, Swap},
    sync::{Arc, Mutex, lock},
};

/// Decides for all clients of all namespaces. Shared by reference; every method takes `&self`.
///
/// ```
/// use limiter::{ClusterEngine, Decision, Settings, Tick, rule};
///
/// let engine = ClusterEngine::new(Settings::default());
/// let text = r#"[{"resource": "GET:/orders", "count": 2, "clusterMode": true,
///                 "clusterConfig": {"flowId": 101, "thresholdType": 1}}]"#;
/// let parsed = rule::parse(text, "example", "default", rule::Contents::Mixed, true)?;
/// engine.replace(rule::merge(vec![parsed])?)?;
///
/// let mut reader = engine.reader();
/// let rules = reader.load();
/// let now = Tick::from_ms(1_700_000_000_000);
/// assert_eq!(rules.acquire_flow(now, 101, 2, false), Ok(Decision::Pass { remaining: 0 }));
/// assert_eq!(rules.acquire_flow(now, 101, 1, false), Ok(Decision::Block));
/// # Ok::<(), rule::RuleErrors>(())
/// ```
#[derive(Debug)]
pub struct ClusterEngine {
    settings: Settings,
    namespaces: Namespaces,
    rules: Swap<RuleSet>,
    /// Held while a set is built from the one before, so that none is lost.
    replacing: Mutex<()>,
}

impl ClusterEngine {
    /// An engine without rules.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            namespaces: Namespaces::new(settings),
            rules: Swap::new(RuleSet::default()),
            replacing: Mutex::new(()),
        }
    }

    /// What the engine was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Puts `rules` in force in place of all that were. Flows that stay keep what they have used
    /// when their window has the same shape; a batch that is being decided finishes under the
    /// rules it began with.
    ///
    /// # Errors
    ///
    /// Every rule that cannot be in force beside the others; then nothing changes.
    pub fn replace(&self, rules: Vec<NamespaceRules>) -> Result<Applied, RuleErrors> {
        let _one_at_a_time = lock(&self.replacing);
        let next = self.rules.load().successor(rules, &self.namespaces, &self.settings)?;
        let applied = next.applied();
        self.rules.store(Arc::new(next));
        Ok(applied)
    }

    /// A view of the rules for one task.
    #[must_use]
    pub fn reader(&self) -> RuleReader {
        RuleReader(self.rules.reader())
    }

    /// The rules in force now.
    #[must_use]
    pub fn rules(&self) -> Arc<RuleSet> {
        self.rules.load()
    }

    /// Makes a connection a member of `namespace` until the membership is dropped. A connection
    /// that changes its namespace drops the old one.
    ///
    /// # Errors
    ///
    /// When the namespace does not exist and no more can be made.
    pub fn join(&self, namespace: &str) -> Result<Membership, NamespacesFull> {
        Ok(Membership::join(self.namespaces.get(namespace)?))
    }

    /// All namespaces with rules or connections, and such as had them, by name.
    #[must_use]
    pub fn namespaces(&self) -> Vec<Arc<Namespace>> {
        self.namespaces.all()
    }
}

/// One task's view of the rules in force; cheap to keep, and to read once per batch.
#[derive(Debug)]
pub struct RuleReader(Reader<RuleSet>);

impl RuleReader {
    /// The rules now. One relaxed load when they have not changed since the last call.
    #[inline]
    pub fn load(&mut self) -> &RuleSet {
        self.0.load()
    }
}
