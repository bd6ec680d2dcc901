//! The rules that a client knows, and what each lets pass while no server decides.

use std::{
    collections::hash_map::Values,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use limiter::{
    ClusterEngine, LocalFlow, LocalLimit, LocalParam, Settings, Tick,
    rule::{ClusterConfig, FallbackPolicy, NamespaceRules, OverloadPolicy, RuleErrors},
};
use rustc_hash::FxHashMap;
use tracing::{info, warn};

use crate::{Reason, RuleId, sync::lock};

/// How long a server must have decided every call of a rule before the rule has left fallback: a
/// server that fails one call in a thousand keeps it in fallback, and writes no line a second.
const SETTLED: Duration = Duration::from_secs(5);

/// The rules in force, replaced as a whole.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    known: ArcSwap<Known>,
    given: Mutex<Given>,
}

/// What the rules in force were made from.
#[derive(Debug, Default)]
struct Given {
    rules: Vec<NamespaceRules>,
    /// 0 before a server has said.
    clients: u32,
}

/// One immutable set of rules.
#[derive(Debug, Default)]
pub(crate) struct Known {
    flows: FxHashMap<i64, Rule<LocalFlow>>,
    params: FxHashMap<i64, Rule<LocalParam>>,
    /// For all rules that are not here.
    unknown: Arc<Episode>,
}

/// One rule, with a counter for each policy that needs one.
#[derive(Debug)]
pub(crate) struct Rule<L> {
    resource: Box<str>,
    fallback: FallbackPolicy,
    overload: OverloadPolicy,
    own: Option<L>,
    share: Option<L>,
    episode: Arc<Episode>,
}

/// Whether a rule is in fallback: the tick of its last fallback, or 0.
#[derive(Debug, Default)]
pub(crate) struct Episode(AtomicU64);

impl Rules {
    /// Puts `rules` in force in place of all that were; what was counted locally goes on where the
    /// window stays the same.
    pub(crate) fn replace(&self, rules: Vec<NamespaceRules>) -> Result<(), RuleErrors> {
        // Whether the rules may stand beside each other is the engine's to say.
        ClusterEngine::new(Settings::default()).replace(rules.clone())?;
        let given = &mut *lock(&self.given);
        given.rules = rules;
        self.make(given);
        Ok(())
    }

    /// Takes note of how many clients share the rules.
    pub(crate) fn set_clients(&self, clients: u32) {
        let given = &mut *lock(&self.given);
        if given.clients == clients {
            return;
        }
        given.clients = clients;
        if self.load().has_shares() {
            self.make(given);
        }
    }

    /// The last number of clients; 0 before a server has said.
    pub(crate) fn clients(&self) -> u32 {
        lock(&self.given).clients
    }

    pub(crate) fn load(&self) -> arc_swap::Guard<Arc<Known>> {
        self.known.load()
    }

    fn make(&self, given: &Given) {
        self.known.store(Arc::new(self.load().successor(given)));
    }
}

impl Known {
    pub(crate) fn flow(&self, id: i64) -> Option<&Rule<LocalFlow>> {
        self.flows.get(&id)
    }

    pub(crate) fn param(&self, id: i64) -> Option<&Rule<LocalParam>> {
        self.params.get(&id)
    }

    pub(crate) fn unknown(&self) -> &Episode {
        &self.unknown
    }

    fn has_shares(&self) -> bool {
        fn any<L>(mut rules: Values<'_, i64, Rule<L>>) -> bool {
            rules.any(|rule| rule.share.is_some())
        }
        any(self.flows.values()) || any(self.params.values())
    }

    fn successor(&self, given: &Given) -> Self {
        let mut next = Self { unknown: Arc::clone(&self.unknown), ..Self::default() };
        for set in &given.rules {
            for rule in &set.flow {
                let Some(config) = &rule.cluster else { continue };
                let before = self.flow(config.flow_id);
                let made =
                    Rule::new(&rule.resource, config, given.clients, before, |limit, old| {
                        LocalFlow::new(rule, limit, old)
                    });
                next.flows.insert(config.flow_id, made);
            }
            for rule in &set.param {
                let Some(config) = &rule.cluster else { continue };
                let before = self.param(config.flow_id);
                let made =
                    Rule::new(&rule.resource, config, given.clients, before, |limit, old| {
                        LocalParam::new(rule, limit, old)
                    });
                next.params.insert(config.flow_id, made);
            }
        }
        next
    }
}

impl<L> Rule<L> {
    fn new(
        resource: &str,
        config: &ClusterConfig,
        clients: u32,
        before: Option<&Self>,
        make: impl Fn(LocalLimit, Option<&L>) -> Option<L>,
    ) -> Self {
        let own = config.fallback == FallbackPolicy::Local;
        let share =
            config.fallback == FallbackPolicy::Share || config.overload == OverloadPolicy::Share;
        let old_own = before.and_then(|before| before.own.as_ref());
        let old_share = before.and_then(|before| before.share.as_ref());
        Self {
            resource: resource.into(),
            fallback: config.fallback,
            overload: config.overload,
            own: if own { make(LocalLimit::Own, old_own) } else { None },
            share: if share { make(LocalLimit::Share { clients }, old_share) } else { None },
            episode: before.map(|before| Arc::clone(&before.episode)).unwrap_or_default(),
        }
    }

    /// What to do for `reason`.
    pub(crate) fn policy(&self, reason: Reason) -> FallbackPolicy {
        match (reason, self.overload) {
            (Reason::TooManyRequests, OverloadPolicy::Reject) => FallbackPolicy::Block,
            (Reason::TooManyRequests, OverloadPolicy::Share) => FallbackPolicy::Share,
            _ => self.fallback,
        }
    }

    /// Whether `policy` lets a call pass; `take` asks the counter that it needs.
    pub(crate) fn passes(&self, policy: FallbackPolicy, take: impl Fn(&L) -> bool) -> bool {
        match policy {
            FallbackPolicy::Local => self.own.as_ref().is_none_or(take),
            FallbackPolicy::Share => self.share.as_ref().is_none_or(take),
            FallbackPolicy::Pass => true,
            FallbackPolicy::Block => false,
        }
    }

    /// The counter that also holds what the server grants.
    pub(crate) fn share(&self) -> Option<&L> {
        self.share.as_ref()
    }

    pub(crate) fn resource(&self) -> &str {
        &self.resource
    }

    pub(crate) fn episode(&self) -> &Episode {
        &self.episode
    }
}

impl Episode {
    /// A call fell back; says so if it is the first.
    pub(crate) fn enter(
        &self,
        now: Tick,
        rule: RuleId,
        resource: &str,
        reason: Reason,
        policy: FallbackPolicy,
    ) {
        // Relaxed, here and below: the tick is the whole state.
        if self.0.swap(now.0.max(1), Ordering::Relaxed) == 0 {
            warn!(%rule, resource, %reason, ?policy, "rule fell back");
        }
    }

    /// Whether the rule is in fallback, for a look at the clock to be worth it.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// A server decided; says so if it ends the fallback.
    pub(crate) fn leave(&self, now: Tick, rule: RuleId, resource: &str) {
        let last = self.0.load(Ordering::Relaxed);
        if last == 0 || now.since(Tick(last)) < SETTLED {
            return;
        }
        let left = self.0.compare_exchange(last, 0, Ordering::Relaxed, Ordering::Relaxed);
        if left.is_ok() {
            info!(%rule, resource, "rule left fallback; the token server decides again");
        }
    }
}
