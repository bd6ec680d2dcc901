//! All rules in force: one immutable value, replaced as a whole.

use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::{Flow, Param, ParamFlow, Settings, namespace::Namespaces, values::Room};
use crate::{
    Concurrency, Decision, Level, OwnerId, Tick, TokenId, Undecided,
    rule::{ClusterConfig, Finding, Grade, NamespaceRules, RuleErrors, duplicate_ids},
    sync::Arc,
};

/// The rules in force, found by flow id. Flow rules and hot-parameter rules are two id spaces, as
/// in Sentinel.
#[derive(Debug, Default)]
pub struct RuleSet {
    flows: FxHashMap<i64, Flow>,
    params: FxHashMap<i64, ParamFlow>,
    /// Levels of rules that are gone while calls are still in progress, should they come back.
    orphans: FxHashMap<i64, Arc<Level>>,
    applied: Applied,
}

/// Which rules are in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Rises by one with every set that differs from the one before; 0 before the first.
    pub revision: u64,
    /// The same for equal sets, wherever they are in force: the first eight bytes of a SHA-256.
    pub hash: u64,
    /// Flow rules in force.
    pub flows: usize,
    /// Hot-parameter rules in force.
    pub params: usize,
}

impl RuleSet {
    /// Decides about `count` tokens of `flow_id` at `now`. A prioritized request that finds no
    /// room may be told to wait for the next bucket.
    ///
    /// # Errors
    ///
    /// [`Undecided`] in Sentinel's order: bad request, no rule, namespace over its limit
    /// (`DefaultTokenService.requestToken`). Only the last was counted by the namespace's guard.
    #[inline]
    pub fn acquire_flow(
        &self,
        now: Tick,
        flow_id: i64,
        count: i32,
        prioritized: bool,
    ) -> Result<Decision, Undecided> {
        let count = tokens(flow_id, count)?;
        let flow = self.flows.get(&flow_id).ok_or(Undecided::NoRule)?;
        if !flow.guard().admit(now) {
            return Err(Undecided::TooManyRequests);
        }
        Ok(flow.acquire(now, count, prioritized))
    }

    /// Decides about `count` tokens of each of `params` under the hot-parameter rule `flow_id`:
    /// all are taken or none.
    ///
    /// # Errors
    ///
    /// As [`acquire_flow`](Self::acquire_flow); no value at all is a bad request.
    pub fn acquire_param<'a>(
        &self,
        now: Tick,
        flow_id: i64,
        count: i32,
        params: impl IntoIterator<Item = Param<'a>>,
    ) -> Result<Decision, Undecided> {
        let count = tokens(flow_id, count)?;
        let mut params = params.into_iter();
        let first = params.next().ok_or(Undecided::BadRequest)?;
        let flow = self.params.get(&flow_id).ok_or(Undecided::NoRule)?;
        if !flow.guard().admit(now) {
            return Err(Undecided::TooManyRequests);
        }
        flow.acquire(now, count, std::iter::once(first).chain(params))
    }

    /// Takes a concurrency token of the thread-grade flow rule `flow_id` for `count` calls in
    /// progress, held by `owner`; `None` when the level is full. `tokens` are the engine's.
    ///
    /// # Errors
    ///
    /// [`Undecided::BadRequest`] also for a rule that counts a rate, and
    /// [`Undecided::TooManyRequests`] when as many tokens are held as the engine allows. The
    /// namespace's guard counts rates and is not asked, as in Sentinel.
    pub fn acquire_concurrent(
        &self,
        now: Tick,
        flow_id: i64,
        count: i32,
        owner: OwnerId,
        tokens: &Concurrency,
    ) -> Result<Option<TokenId>, Undecided> {
        let count = self::tokens(flow_id, count)?;
        let flow = self.flows.get(&flow_id).ok_or(Undecided::NoRule)?;
        flow.acquire_concurrent(now, count, owner, tokens)
    }

    /// The level of a flow id: of its rule, or of one that is gone.
    fn level(&self, flow_id: i64) -> Option<Arc<Level>> {
        let level = self.flows.get(&flow_id).and_then(Flow::level);
        level.or_else(|| self.orphans.get(&flow_id)).map(Arc::clone)
    }

    /// Levels of this set that still have calls in progress and no rule in `next`.
    fn orphans_of(&self, next: &Self) -> FxHashMap<i64, Arc<Level>> {
        let of_rules = self.flows.iter().filter_map(|(id, flow)| Some((id, flow.level()?)));
        let all = of_rules.chain(&self.orphans);
        let gone = all.filter(|(id, level)| {
            let taken_over = next.flows.get(id).is_some_and(|flow| flow.level().is_some());
            !taken_over && level.in_use() > 0
        });
        gone.map(|(id, level)| (*id, Arc::clone(level))).collect()
    }

    /// The flow rule with that id.
    #[must_use]
    pub fn flow(&self, flow_id: i64) -> Option<&Flow> {
        self.flows.get(&flow_id)
    }

    /// The hot-parameter rule with that id.
    #[must_use]
    pub fn param(&self, flow_id: i64) -> Option<&ParamFlow> {
        self.params.get(&flow_id)
    }

    /// All flow rules with their ids, in no order.
    pub fn flows(&self) -> impl Iterator<Item = (i64, &Flow)> {
        self.flows.iter().map(|(id, flow)| (*id, flow))
    }

    /// All hot-parameter rules with their ids, in no order.
    pub fn params(&self) -> impl Iterator<Item = (i64, &ParamFlow)> {
        self.params.iter().map(|(id, flow)| (*id, flow))
    }

    /// Revision, hash and size of this set.
    #[must_use]
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// The set that follows `self`: counters of flows whose window has the same shape go on.
    ///
    /// # Errors
    ///
    /// Every rule that cannot be in force beside the others; `self` stays what it is.
    pub(crate) fn successor(
        &self,
        rules: Vec<NamespaceRules>,
        namespaces: &Namespaces,
        tokens: &Concurrency,
        room: &Room,
        settings: &Settings,
    ) -> Result<Self, RuleErrors> {
        fits(&rules, settings.rules_max)?;
        let hash = hash(&rules);
        let mut next = Self::default();
        for set in rules {
            let namespace = namespaces.of_rules(&set.namespace);
            for rule in set.flow {
                let Some(config) = rule.cluster else { continue };
                let old = self.flows.get(&config.flow_id);
                let counter = old.and_then(|flow| flow.counter_for(config.window));
                let counter = counter.unwrap_or_default();
                let level = (rule.grade == Grade::Thread)
                    .then(|| self.level(config.flow_id).unwrap_or_else(|| tokens.level()));
                let namespace = Arc::clone(&namespace);
                let flow = Flow::new(rule, &config, namespace, counter, level);
                next.flows.insert(config.flow_id, flow);
            }
            for rule in set.param {
                let Some(config) = rule.cluster else { continue };
                let old = self.params.get(&config.flow_id);
                let counter = old.and_then(|flow| flow.counter_for(config.window));
                let counter = counter.unwrap_or_default();
                let (namespace, room) = (Arc::clone(&namespace), room.clone());
                let flow = ParamFlow::new(rule, &config, room, namespace, counter);
                next.params.insert(config.flow_id, flow);
            }
        }
        next.orphans = self.orphans_of(&next);
        let changed = self.applied.revision == 0 || hash != self.applied.hash;
        next.applied = Applied {
            revision: self.applied.revision + u64::from(changed),
            hash,
            flows: next.flows.len(),
            params: next.params.len(),
        };
        Ok(next)
    }
}

/// A request's tokens, if it can be one at all.
#[inline]
fn tokens(flow_id: i64, count: i32) -> Result<u32, Undecided> {
    match u32::try_from(count) {
        Ok(count) if count > 0 && flow_id > 0 => Ok(count),
        _ => Err(Undecided::BadRequest),
    }
}

/// Whether the rules may be in force together: not too many, and no id twice.
fn fits(rules: &[NamespaceRules], max: usize) -> Result<(), RuleErrors> {
    let flows = |set: &NamespaceRules| set.flow.iter().filter_map(|r| r.cluster).collect();
    let params = |set: &NamespaceRules| set.param.iter().filter_map(|r| r.cluster).collect();
    let mut errors = duplicates(rules, flows);
    errors.extend(duplicates(rules, params));
    let count: usize = rules.iter().map(|set| set.flow.len() + set.param.len()).sum();
    if count > max {
        errors
            .push(Finding::of_set("rules", &format!("{count} rules, of which {max} are allowed")));
    }
    if errors.is_empty() { Ok(()) } else { Err(RuleErrors(errors)) }
}

fn duplicates(
    rules: &[NamespaceRules],
    configs: impl Fn(&NamespaceRules) -> Vec<ClusterConfig>,
) -> Vec<Finding> {
    let ids = rules
        .iter()
        .flat_map(|set| configs(set).into_iter().map(|config| (config.flow_id, &*set.namespace)));
    let name = |namespace: &&str| format!("namespace {namespace}");
    duplicate_ids(ids, name, Finding::of_set)
}

/// A digest that does not depend on the order of namespaces or rules.
fn hash(rules: &[NamespaceRules]) -> u64 {
    let mut sum = 0_u64;
    let mut add = |namespace: &str, rule: &dyn std::fmt::Debug| {
        let digest = Sha256::digest(format!("{namespace:?} {rule:?}"));
        let head = digest.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        sum = sum.wrapping_add(head);
    };
    for set in rules {
        set.flow.iter().filter(|r| r.cluster.is_some()).for_each(|r| add(&set.namespace, r));
        set.param.iter().filter(|r| r.cluster.is_some()).for_each(|r| add(&set.namespace, r));
    }
    sum
}
