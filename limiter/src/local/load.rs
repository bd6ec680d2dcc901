//! Rules in place of rules.
//!
//! Each kind is loaded by itself and whole. Rules equal to those in force keep what they remember,
//! and those that only have other numbers keep what means the same with these: who waits in line,
//! how warm the service is, what hot values have used. Where several rules are for the same calls,
//! each goes on from the one that it is most like, and if that may be several from one that lets
//! less through. A rule that is not in the list is forgotten
//! there and then; when it comes back, it begins anew. The counters of nodes stay whatever is
//! loaded, and so do calls in progress. A list that is equal to the one before changes nothing.

use std::sync::Arc;

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::{
    LocalEngine,
    rules::{DefaultDegrade, ForResource, Indexed, Rules},
    system::SystemLimits,
};
use crate::{
    rule::{AuthorityRule, DegradeRule, FlowRule, GatewayFlowRule, ParamRule, SystemRule},
    sync::lock,
};

/// The resource of a rule for all resources that have none of their own.
const ALL: &str = "*";

/// What became of loaded rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// Rules in force. Of equal ones there is one.
    pub rules: usize,
    /// The resources of rules that are not in force. The parsers of [`crate::rule`] let none of
    /// them through: their pattern cannot be read, a default rule is not for `*`, or an authority
    /// rule is a further one for its resource.
    pub refused: Vec<Box<str>>,
}

impl LocalEngine {
    /// Loads flow rules. The queue of a rule and how warm it is stay while it is in force, also with
    /// another count, wait or behavior: a load lets no burst through.
    ///
    /// Of a resource that no rule names, [`Self::tidy`] forgets a queue when a call as large as all of
    /// it would go at once. A call for more tokens than that, which would be refused, then goes at
    /// once, as the first of all does whatever its size.
    ///
    /// A rule with a [`cluster`](FlowRule::cluster) configuration is checked here as one without a
    /// token server, unless [`Self::ask_servers`] is on. Its mode counts, which may shut or open it,
    /// and then its fallback policy; a share is all of the count, since nobody knows here who shares
    /// it. With `localCount`, and with neither `thresholdUnit: window` nor an algorithm, it is
    /// compared as any other rule, so many a second; or else it counts by itself what it lets
    /// through, as a [`LocalFlow`](crate::LocalFlow) does: no call borrows from it, and what a rule
    /// behind it refuses is counted.
    pub fn load_flow(&self, rules: Vec<FlowRule>) -> Loaded {
        self.load(rules, |rules| &mut rules.flow)
    }

    /// Loads hot-parameter rules; cluster rules as in [`Self::load_flow`]. What values have used
    /// stays while the rule is in force, also with another count, burst, wait or items; calls in
    /// progress stay counted in any case.
    pub fn load_param(&self, rules: Vec<ParamRule>) -> Loaded {
        self.load(rules, |rules| &mut rules.param)
    }

    /// Loads the rules of circuit breakers. The breaker of an equal rule stays as it is, others
    /// begin closed, as in Sentinel: also that of a rule with other numbers, and of one that went
    /// with an earlier load and comes back.
    pub fn load_degrade(&self, rules: Vec<DegradeRule>) -> Loaded {
        self.load(rules, |rules| &mut rules.degrade)
    }

    /// Loads the rules, of resource `*`, of breakers for each resource that has none of its own
    /// and is not `excluded`.
    pub fn load_default_degrade(&self, rules: Vec<DegradeRule>, excluded: &[&str]) -> Loaded {
        let (all, others): (Vec<_>, Vec<_>) =
            rules.into_iter().partition(|rule| &*rule.resource == ALL);
        let mut default = DefaultDegrade {
            rules: Vec::with_capacity(all.len()),
            excluded: excluded.iter().map(|name| Box::from(*name)).collect(),
        };
        for rule in all {
            if default.rules.iter().all(|other| **other != rule) {
                default.rules.push(Arc::new(rule));
            }
        }
        let loaded = Loaded {
            rules: default.rules.len(),
            refused: others.into_iter().map(|rule| rule.resource).collect(),
        };
        self.change(|old| {
            let is_new = *old.default_degrade != default;
            is_new.then(|| Rules { default_degrade: Arc::new(default), ..old.clone() })
        });
        loaded
    }

    /// Loads who may call which resource. Of several rules for the same name, or for the same
    /// pattern, the first counts; the others are refused unless they are equal to it. A name and a
    /// pattern that are spelled alike are two.
    pub fn load_authority(&self, rules: Vec<AuthorityRule>) -> Loaded {
        let mut known = HashMap::<_, usize, RandomState>::default();
        let (mut first, mut others) = (Vec::with_capacity(rules.len()), Vec::new());
        for rule in rules {
            let at = *known.entry((rule.resource.clone(), rule.regex)).or_insert(first.len());
            match first.get(at) {
                None => first.push(rule),
                Some(other) if *other == rule => {}
                Some(_) => others.push(rule.resource),
            }
        }
        let mut loaded = self.load(first, |rules| &mut rules.authority);
        loaded.refused.append(&mut others);
        loaded
    }

    /// Loads gateway rules.
    pub fn load_gateway(&self, rules: Vec<GatewayFlowRule>) -> Loaded {
        self.load(rules, |rules| &mut rules.gateway)
    }

    /// Loads the limits of all inbound calls, the smallest of each over all rules;
    /// [`Loaded::rules`] are the limits that are set.
    pub fn load_system(&self, rules: &[SystemRule]) -> Loaded {
        let limits = SystemLimits::of(rules);
        if self.shared.inbound.set_limits(limits) {
            self.shared.revise();
        }
        Loaded { rules: limits.len(), refused: Vec::new() }
    }

    fn load<R: ForResource>(
        &self,
        rules: Vec<R>,
        place: impl FnOnce(&mut Rules) -> &mut Arc<Indexed<R>>,
    ) -> Loaded {
        let (indexed, refused) = Indexed::new(rules);
        let loaded = Loaded {
            rules: indexed.all().len(),
            refused: refused.into_iter().map(|rule| rule.resource().into()).collect(),
        };
        self.change(|old| {
            let mut rules = old.clone();
            let place = place(&mut rules);
            if place.all() == indexed.all() {
                return None;
            }
            *place = Arc::new(indexed);
            rules.relate();
            Some(rules)
        });
        loaded
    }

    /// Changes the rules. A resource compiles them when it is next called; but one that remembers
    /// something forgets here what of it no rule has any more, or else it would depend on the calls
    /// meanwhile whether a rule that goes and comes back begins anew.
    fn change(&self, change: impl FnOnce(&Rules) -> Option<Rules>) {
        self.shared.change(change, || {
            self.resources.each(|resource| {
                let mut state = lock(&resource.state);
                if state.body.remembers() {
                    state.refresh(resource);
                }
            });
        });
    }
}
