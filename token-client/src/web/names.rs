//! Names of resources that come from requests, and their bound.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use tracing::warn;

use crate::Engine;

/// The resource of all requests that match no route, so that whoever tries paths fills nothing.
pub const UNMATCHED: &str = "__unmatched__";

/// The resource of all requests whose names are above the bound.
pub const SHARED: &str = "__shared__";

/// Names longer than that share [`SHARED`].
const LENGTH_MAX: usize = 256;

/// The names that were seen. They are read by each request and added to a few times in all.
#[derive(Debug)]
pub(super) struct Names {
    max: usize,
    known: ArcSwap<HashSet<Box<str>>>,
    /// Held by who adds, with whether the bound was warned of.
    adding: Mutex<bool>,
    shared: AtomicU64,
}

impl Names {
    pub(super) fn new(max: usize) -> Self {
        Self { max, known: ArcSwap::default(), adding: Mutex::default(), shared: AtomicU64::new(0) }
    }

    /// The name itself, or the shared one if there are too many. What a rule is for keeps its name,
    /// so that nobody gets around a rule by using up the names.
    pub(super) fn bounded(&self, name: String, engine: &Engine) -> String {
        if self.known.load().contains(&*name) || self.add(&name) {
            return name;
        }
        if name.len() <= LENGTH_MAX && engine.local().has_rules(&name) {
            return name;
        }
        // Relaxed: the count is the whole state.
        self.shared.fetch_add(1, Ordering::Relaxed);
        SHARED.to_owned()
    }

    /// Requests that shared a name.
    pub(super) fn shared(&self) -> u64 {
        // Relaxed: as in `bounded`.
        self.shared.load(Ordering::Relaxed)
    }

    /// Whether the name is known now.
    fn add(&self, name: &str) -> bool {
        if name.len() > LENGTH_MAX || self.known.load().len() >= self.max {
            return false;
        }
        let mut warned = crate::sync::lock(&self.adding);
        let mut names = HashSet::clone(&self.known.load());
        names.insert(name.into());
        if names.len() > self.max {
            return false;
        }
        if names.len() == self.max && !*warned {
            warn!(max = self.max, "further resources share the name {SHARED}");
            *warned = true;
        }
        self.known.store(names.into());
        true
    }
}

#[cfg(test)]
mod tests {
    use limiter::{
        local::LocalSettings,
        rule::{Contents, parse},
    };

    use super::*;

    #[test]
    fn names_above_the_bound_share_one_but_for_those_that_rules_are_for() {
        let engine = Engine::new(LocalSettings::default());
        let rules = r#"[{"resource": "GET:/c", "count": 1},
            {"resource": "GET:/d.*", "count": 1, "regex": true}]"#;
        let rules = parse(rules, "test", "", Contents::Flow, false).unwrap().rules;
        engine.local().load_flow(rules.flow);
        let names = Names::new(2);
        let long = "x".repeat(LENGTH_MAX + 1);
        let asked = ["GET:/a", &long, "GET:/b", "GET:/other", "GET:/c", "GET:/d1", "GET:/a"];
        let given = asked.map(|name| names.bounded(name.to_owned(), &engine));
        let expected = ["GET:/a", SHARED, "GET:/b", SHARED, "GET:/c", "GET:/d1", "GET:/a"];
        assert_eq!((given, names.shared()), (expected.map(str::to_owned), 2));
        assert_eq!(names.known.load().len(), 2);
    }
}
