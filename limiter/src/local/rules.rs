//! The rules in force, found by the resource that they are for.

use std::sync::Arc;

use foldhash::quality::RandomState;
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::resource::Name;
use crate::rule::{
    AuthorityRule, DegradeRule, FlowRule, GatewayFlowRule, ParamRule, Pattern, Strategy,
};

/// Between the texts of several patterns in one name.
const BETWEEN: &str = "\n";

/// Texts of patterns in their order. As many as mostly match one name take no allocation.
pub(super) type Patterns<'a> = SmallVec<[&'a str; 8]>;

/// One immutable set of all kinds of rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) flow: Arc<Indexed<FlowRule>>,
    pub(super) param: Arc<Indexed<ParamRule>>,
    pub(super) degrade: Arc<Indexed<DegradeRule>>,
    pub(super) authority: Arc<Indexed<AuthorityRule>>,
    pub(super) gateway: Arc<Indexed<GatewayFlowRule>>,
    pub(super) default_degrade: Arc<DefaultDegrade>,
    /// Resources that flow rules of others compare with.
    pub(super) related: Arc<HashSet<Box<str>, RandomState>>,
    /// Contexts whose calls flow rules compare.
    pub(super) entrances: Arc<HashSet<Box<str>, RandomState>>,
}

/// The breakers of resources that have no rule of their own.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DefaultDegrade {
    pub(super) rules: Vec<Arc<DegradeRule>>,
    /// Resources that have none all the same.
    pub(super) excluded: HashSet<Box<str>, RandomState>,
}

/// What is asked of every rule that is for a resource.
pub(super) trait ForResource: PartialEq {
    /// A name, or the text of a pattern.
    fn resource(&self) -> &str;
    /// Whether it is a pattern.
    fn is_pattern(&self) -> bool;
}

/// Rules of one kind, by name and by pattern, in the order of their list.
#[derive(Debug)]
pub(super) struct Indexed<R> {
    all: Vec<Arc<R>>,
    by_name: HashMap<Box<str>, Vec<Arc<R>>, RandomState>,
    by_pattern: Vec<(Pattern, Arc<R>)>,
}

impl<R> Default for Indexed<R> {
    fn default() -> Self {
        Self { all: Vec::new(), by_name: HashMap::default(), by_pattern: Vec::new() }
    }
}

impl<R: ForResource> Indexed<R> {
    /// Rules in order; of equal ones the first counts. Gives back those whose pattern cannot be
    /// read.
    pub(super) fn new(rules: Vec<R>) -> (Self, Vec<R>) {
        let (mut indexed, mut refused) = (Self::default(), Vec::new());
        for rule in rules {
            if rule.is_pattern() {
                let Ok(pattern) = Pattern::new(rule.resource()) else {
                    refused.push(rule);
                    continue;
                };
                if indexed.by_pattern.iter().all(|(_, other)| **other != rule) {
                    let rule = Arc::new(rule);
                    indexed.all.push(Arc::clone(&rule));
                    indexed.by_pattern.push((pattern, rule));
                }
            } else {
                let named = indexed.by_name.entry(rule.resource().into()).or_default();
                if named.iter().all(|other| **other != rule) {
                    let rule = Arc::new(rule);
                    indexed.all.push(Arc::clone(&rule));
                    named.push(rule);
                }
            }
        }
        (indexed, refused)
    }

    /// The rules of a resource: by its name first, then by patterns.
    pub(super) fn of<'s>(&'s self, name: &'s Name) -> impl Iterator<Item = &'s Arc<R>> {
        let named = match name {
            Name::Own(text) => self.by_name.get(&**text),
            Name::Patterns(_) | Name::EveryPattern | Name::Other => None,
        };
        let is_for = move |pattern: &Pattern, rule: &R| match name {
            Name::Own(text) => pattern.is_match(text),
            Name::Patterns(texts) => texts.split(BETWEEN).any(|text| text == rule.resource()),
            Name::EveryPattern => true,
            Name::Other => false,
        };
        let matching = self.by_pattern.iter().filter(move |(pattern, rule)| is_for(pattern, rule));
        named.into_iter().flatten().chain(matching.map(|(_, rule)| rule))
    }

    /// Whether a rule names the resource.
    pub(super) fn names(&self, resource: &str) -> bool {
        self.by_name.contains_key(resource)
    }

    /// The texts of the patterns that the resource matches.
    fn patterns_of(&self, resource: &str) -> impl Iterator<Item = &str> {
        let matching = self.by_pattern.iter().filter(|(pattern, _)| pattern.is_match(resource));
        matching.map(|(_, rule)| rule.resource())
    }

    /// All rules, in order.
    pub(super) fn all(&self) -> &[Arc<R>] {
        &self.all
    }
}

impl Rules {
    /// Whether any rule names the resource: as its own, as one to compare with, or as one that has
    /// no default breakers.
    pub(super) fn names(&self, resource: &str) -> bool {
        self.flow.names(resource)
            || self.param.names(resource)
            || self.degrade.names(resource)
            || self.authority.names(resource)
            || self.gateway.names(resource)
            || self.related.contains(resource)
            || self.default_degrade.excluded.contains(resource)
    }

    /// The breakers of a resource, and whether they are the default ones.
    pub(super) fn breakers_of(&self, name: &Name) -> (Vec<Arc<DegradeRule>>, bool) {
        let own: Vec<_> = self.degrade.of(name).cloned().collect();
        let default = &self.default_degrade;
        // What stands for others may be spelled like a name.
        let is_excluded = matches!(name, Name::Own(text) if default.excluded.contains(&**text));
        if own.is_empty() && !is_excluded { (default.rules.clone(), true) } else { (own, false) }
    }

    /// To be called when the flow rules are others.
    pub(super) fn relate(&mut self) {
        let names = |strategy| {
            let rules = self.flow.all().iter().filter(move |rule| rule.strategy == strategy);
            Arc::new(rules.filter_map(|rule| rule.ref_resource().map(Box::from)).collect())
        };
        (self.related, self.entrances) = (names(Strategy::Relate), names(Strategy::Chain));
    }

    /// Whether any rule [names](Self::names) what the resource is called.
    pub(super) fn need(&self, name: &Name) -> bool {
        matches!(name, Name::Own(text) if self.names(text))
    }

    /// The texts of all patterns that the resource matches, for [`Name::of_patterns`].
    pub(super) fn patterns_of(&self, resource: &str) -> Patterns<'_> {
        let of_flow = self.flow.patterns_of(resource).chain(self.param.patterns_of(resource));
        let others = self.authority.patterns_of(resource).chain(self.degrade.patterns_of(resource));
        let mut texts: Patterns<'_> = of_flow.chain(others).collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    }
}

impl Name {
    /// The name of all resources above the bound that match these patterns, and of rules no others.
    pub(super) fn of_patterns(texts: &[&str]) -> Self {
        Self::Patterns(texts.join(BETWEEN).into())
    }

    /// Whether [`Self::of_patterns`] gives it for these.
    pub(super) fn is_of_patterns(&self, texts: &[&str]) -> bool {
        match self {
            Self::Patterns(own) => own.split(BETWEEN).eq(texts.iter().copied()),
            Self::Own(_) | Self::EveryPattern | Self::Other => false,
        }
    }
}

impl ForResource for FlowRule {
    fn resource(&self) -> &str {
        &self.resource
    }

    fn is_pattern(&self) -> bool {
        self.regex
    }
}

impl ForResource for ParamRule {
    fn resource(&self) -> &str {
        &self.resource
    }

    fn is_pattern(&self) -> bool {
        self.regex
    }
}

impl ForResource for DegradeRule {
    fn resource(&self) -> &str {
        &self.resource
    }

    fn is_pattern(&self) -> bool {
        self.regex
    }
}

impl ForResource for AuthorityRule {
    fn resource(&self) -> &str {
        &self.resource
    }

    fn is_pattern(&self) -> bool {
        self.regex
    }
}

impl ForResource for GatewayFlowRule {
    fn resource(&self) -> &str {
        &self.resource
    }

    fn is_pattern(&self) -> bool {
        false
    }
}
