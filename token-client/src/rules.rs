//! The rules that a client knows, and what each lets pass while no server decides.

pub(crate) mod level;
pub(crate) mod share;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, Guard};
use limiter::{
    ClusterEngine, Decision, LocalFlow, LocalLimit, LocalParam, Settings, Tick,
    rule::{
        ClusterConfig, ControlBehavior, FallbackPolicy, Grade, Mode, NamespaceRules,
        OverloadPolicy, RuleErrors,
    },
};
use rustc_hash::FxHashMap;
use tracing::{info, warn};

use crate::{
    Reason, RuleId, Verdict,
    leases::{LeasedFlow, Leases, is_same},
    sync::{lock, try_lock},
};
use level::{InProgress, Level, Slot};
use share::{Local, Share};

/// `resourceTimeout` where no rule says it (`ClusterFlowConfig.java`).
const RESOURCE_TIMEOUT_MS: u32 = 2_000;

/// How long a server must have decided every call of a rule before the rule has left fallback: a
/// server that fails one call in a thousand keeps it in fallback, and writes no line a second.
const SETTLED: Duration = Duration::from_secs(5);

/// The rules in force, replaced as a whole.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    known: ArcSwap<Known>,
    sharing: Arc<Sharing>,
    /// `None`: there are none, since the engine is in this process.
    leases: Option<Arc<Leases>>,
}

/// By whom shares are divided.
#[derive(Debug, Default)]
struct Sharing {
    /// 0 before a server has said.
    clients: AtomicU32,
    /// Which set of rules is in force. Who replaces it holds the lock, and who divides a share.
    revision: Mutex<u64>,
}

/// One immutable set of rules.
#[derive(Debug, Default)]
pub(crate) struct Known {
    flows: FxHashMap<i64, Rule<LocalFlow>>,
    has_leases: bool,
    params: FxHashMap<i64, Rule<LocalParam>>,
    /// Of thread-grade rules, and of such as are gone while calls are in progress, should they come
    /// back.
    levels: FxHashMap<i64, Arc<Level>>,
    /// For all rules that are not here.
    unknown: Arc<Episode>,
    sharing: Arc<Sharing>,
    revision: u64,
}

/// One rule, with a counter for each policy that needs one.
#[derive(Debug)]
pub(crate) struct Rule<L: Local> {
    resource: Box<str>,
    fallback: FallbackPolicy,
    overload: OverloadPolicy,
    mode: Mode,
    own: Option<L>,
    share: Option<Share<L>>,
    /// For a rule that counts calls in progress.
    in_progress: Option<InProgress>,
    /// For a flow rule that grants leases, if only while its namespace is over its limit.
    leased: Option<Arc<LeasedFlow>>,
    /// Whether `controlBehavior` makes calls wait.
    paced: bool,
    resource_timeout_ms: u32,
    episode: Arc<Episode>,
}

/// Whether a rule is in fallback: the tick of its last fallback, or 0.
#[derive(Debug, Default)]
pub(crate) struct Episode(AtomicU64);

impl Rules {
    /// No rules yet, under which `leases` may be taken.
    pub(crate) fn new(leases: Option<Arc<Leases>>) -> Self {
        Self { leases, ..Self::default() }
    }

    /// Puts `rules` in force in place of all that were; what was counted locally goes on where the
    /// window stays the same. Gives their digest, 0 for none.
    pub(crate) fn replace(&self, rules: Vec<NamespaceRules>) -> Result<u64, RuleErrors> {
        let ours = rules.clone();
        // Whether the rules may stand beside each other is the engine's to say.
        let applied = ClusterEngine::new(Settings::default()).replace(rules)?;
        self.put(&ours);
        Ok(applied.hash)
    }

    /// Takes note of how many clients share the rules. A share is divided anew when it is asked for
    /// the next time.
    pub(crate) fn set_clients(&self, clients: u32) {
        // Relaxed, here and below: the number is all there is to know. Read first, since an
        // embedded client says it with each check.
        if self.clients() != clients {
            self.sharing.clients.store(clients, Ordering::Relaxed);
        }
    }

    /// The last number of clients; 0 before a server has said.
    pub(crate) fn clients(&self) -> u32 {
        self.sharing.clients.load(Ordering::Relaxed)
    }

    /// Whether the server that answered last lends shares, or the engine decides in any case.
    pub(crate) fn are_lent(&self) -> bool {
        self.leases.as_ref().is_none_or(|leases| leases.are_lent())
    }

    pub(crate) fn load(&self) -> arc_swap::Guard<Arc<Known>> {
        self.known.load()
    }

    fn put(&self, rules: &[NamespaceRules]) {
        let revision = &mut *lock(&self.sharing.revision);
        *revision += 1;
        let before = self.load();
        let mut next = before.successor(rules, self.clients(), self.leases.as_ref());
        next.sharing = Arc::clone(&self.sharing);
        next.revision = *revision;
        let next = Arc::new(next);
        self.known.store(Arc::clone(&next));
        for (id, rule) in &before.flows {
            let goes_on = next.flows.get(id).and_then(Rule::leased);
            if let Some(leased) = rule.leased()
                && !is_same(Some(leased), goes_on)
            {
                leased.close();
            }
        }
    }

    /// Gives all leases back. None is spent any more. False when no rule grants any.
    pub(crate) fn close_leases(&self) -> bool {
        let known = self.load();
        known.flows.values().filter_map(Rule::leased).for_each(|leased| leased.close());
        known.has_leases
    }
}

impl Known {
    /// The flow rule, its share divided by the clients that there are.
    pub(crate) fn flow(&self, id: i64) -> Option<&Rule<LocalFlow>> {
        let rule = self.flows.get(&id)?;
        if let Some(share) = &rule.share {
            self.divide(share, |clients| {
                if let Some(leased) = &rule.leased {
                    leased.divide(share.rule(), clients);
                }
            });
        }
        Some(rule)
    }

    /// As [`flow`](Self::flow), of a hot-parameter rule.
    pub(crate) fn param(&self, id: i64) -> Option<&Rule<LocalParam>> {
        let rule = self.params.get(&id)?;
        if let Some(share) = &rule.share {
            self.divide(share, |_| {});
        }
        Some(rule)
    }

    /// Divides a share anew if the number of clients has changed, and does `also` what hangs on it.
    fn divide<L: Local>(&self, share: &Share<L>, also: impl FnOnce(u32)) {
        if share.clients() == self.sharing.clients.load(Ordering::Relaxed) {
            return;
        }
        // Who does not get the lock goes on with the share before, until the next call: a call does
        // not wait until a whole set of rules is made.
        let Some(in_force) = try_lock(&self.sharing.revision) else { return };
        let clients = self.sharing.clients.load(Ordering::Relaxed);
        // A set that was replaced must not change what its successor goes on with.
        if *in_force == self.revision && share.clients() != clients {
            share.divide(clients);
            also(clients);
        }
    }

    /// How long a concurrency token of the rule lives unless it is renewed; Sentinel's default for a
    /// rule that is not here.
    pub(crate) fn resource_timeout(&self, id: i64) -> Duration {
        let ms = self.flow(id).map_or(RESOURCE_TIMEOUT_MS, |rule| rule.resource_timeout_ms);
        Duration::from_millis(ms.into())
    }

    /// What a rule protects; empty for one that is not here.
    pub(crate) fn resource(&self, rule: RuleId) -> &str {
        let resource = match rule {
            RuleId::Flow(id) => self.flow(id).map(Rule::resource),
            RuleId::Param(id) => self.param(id).map(Rule::resource),
        };
        resource.unwrap_or("")
    }

    /// What decides a check of `rule` when none comes for `reason`. Without the rule there is nothing
    /// to check; Sentinel passes what it cannot check.
    pub(crate) fn policy(&self, rule: RuleId, reason: Reason, lent: bool) -> FallbackPolicy {
        let policy = match rule {
            RuleId::Flow(id) => self.flow(id).map(|rule| rule.policy(reason, lent)),
            RuleId::Param(id) => self.param(id).map(|rule| rule.policy(reason, lent)),
        };
        policy.unwrap_or(FallbackPolicy::Pass)
    }

    /// Whether the server may tell calls of `rule` to wait, priority or not.
    pub(crate) fn is_paced(&self, rule: RuleId) -> bool {
        let paced = match rule {
            RuleId::Flow(id) => self.flow(id).map(|rule| rule.paced),
            RuleId::Param(id) => self.param(id).map(|rule| rule.paced),
        };
        paced.unwrap_or(false)
    }

    /// Whether clients go on with their shares of `rule` while the namespace is over its limit.
    pub(crate) fn shares_when_over(&self, rule: RuleId) -> bool {
        let shares = match rule {
            RuleId::Flow(id) => self.flow(id).map(Rule::shares_when_over),
            RuleId::Param(id) => self.param(id).map(Rule::shares_when_over),
        };
        shares.unwrap_or(false)
    }

    /// Whether any rule grants leases.
    pub(crate) fn has_leases(&self) -> bool {
        self.has_leases
    }

    pub(crate) fn unknown(&self) -> &Episode {
        &self.unknown
    }

    fn successor(
        &self,
        rules: &[NamespaceRules],
        clients: u32,
        leases: Option<&Arc<Leases>>,
    ) -> Self {
        let levels = self.levels.iter().filter(|(_, level)| level.is_used());
        let mut next = Self {
            levels: levels.map(|(id, level)| (*id, Arc::clone(level))).collect(),
            unknown: Arc::clone(&self.unknown),
            ..Self::default()
        };
        for set in rules {
            for rule in &set.flow {
                let Some(config) = &rule.cluster else { continue };
                let before = self.flows.get(&config.flow_id);
                let mut made = Rule::new(rule, &rule.resource, config, clients, before);
                made.paced = is_paced(rule.behavior) && rule.grade == Grade::Qps;
                let level = self.levels.get(&config.flow_id).map(Arc::clone).unwrap_or_default();
                made.in_progress = InProgress::new(rule, config, level);
                if let Some(calls) = &made.in_progress {
                    next.levels.insert(config.flow_id, Arc::clone(calls.level()));
                }
                let leased = before.and_then(Rule::leased);
                made.leased = leases.and_then(|leases| leases.flow(rule, config, clients, leased));
                next.has_leases |= made.leased.is_some();
                next.flows.insert(config.flow_id, made);
            }
            for rule in &set.param {
                let Some(config) = &rule.cluster else { continue };
                let before = self.params.get(&config.flow_id);
                let mut made = Rule::new(rule, &rule.resource, config, clients, before);
                made.paced = is_paced(rule.behavior);
                next.params.insert(config.flow_id, made);
            }
        }
        next
    }
}

fn is_paced(behavior: ControlBehavior) -> bool {
    matches!(behavior, ControlBehavior::Pacing | ControlBehavior::WarmUpPacing)
}

impl<L: Local> Rule<L> {
    fn new(
        rule: &L::Rule,
        resource: &str,
        config: &ClusterConfig,
        clients: u32,
        before: Option<&Self>,
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
            mode: config.mode,
            own: if own { L::of(rule, LocalLimit::Own, old_own) } else { None },
            share: if share { Share::new(rule, clients, old_share) } else { None },
            in_progress: None,
            leased: None,
            paced: false,
            resource_timeout_ms: config.resource_timeout_ms(),
            episode: before.map(|before| Arc::clone(&before.episode)).unwrap_or_default(),
        }
    }

    /// What to do for `reason`. A rule that is not enforced refuses nothing here either, and a kill
    /// switch needs no server. Where shares are `lent`, what is not lent is refused: no client may
    /// count a share by itself beside what the server has given to all of them.
    pub(crate) fn policy(&self, reason: Reason, lent: bool) -> FallbackPolicy {
        match self.mode {
            Mode::Shadow | Mode::Pass => return FallbackPolicy::Pass,
            Mode::Block => return FallbackPolicy::Block,
            Mode::Enforce => {}
        }
        match (reason, self.overload) {
            (Reason::TooManyRequests, OverloadPolicy::Reject) => FallbackPolicy::Block,
            (Reason::TooManyRequests, OverloadPolicy::Share) if lent => FallbackPolicy::Block,
            (Reason::TooManyRequests, OverloadPolicy::Share) => FallbackPolicy::Share,
            _ => self.fallback,
        }
    }

    /// What `policy` makes of a call; `take` asks the counter that it needs.
    pub(crate) fn verdict(
        &self,
        policy: FallbackPolicy,
        take: impl FnOnce(&L) -> Decision,
    ) -> Verdict {
        let decision = match policy {
            FallbackPolicy::Local => self.own.as_ref().map(take),
            FallbackPolicy::Share => self.share().map(|share| take(&**share)),
            FallbackPolicy::Pass => None,
            FallbackPolicy::Block => return Verdict::Block,
        };
        match decision {
            None | Some(Decision::Pass { .. }) => Verdict::Pass,
            Some(Decision::Wait { wait }) => Verdict::Waited(wait),
            Some(Decision::Block) => Verdict::Block,
        }
    }

    /// What `policy` makes of a call that asks to be in progress, and its part of the level.
    pub(crate) fn enters(&self, policy: FallbackPolicy, count: u32) -> (bool, Option<Slot>) {
        let Some(calls) = &self.in_progress else { return (policy != FallbackPolicy::Block, None) };
        let slot = match policy {
            FallbackPolicy::Local => calls.enter_own(count),
            FallbackPolicy::Share => {
                calls.enter_share(count, self.share.as_ref().map_or(0, Share::clients))
            }
            FallbackPolicy::Pass => Some(calls.enter(count)),
            FallbackPolicy::Block => None,
        };
        (slot.is_some(), slot)
    }

    /// Counts a call that a server let be in progress.
    pub(crate) fn entered(&self, count: u32) -> Option<Slot> {
        self.in_progress.as_ref().map(|calls| calls.enter(count))
    }

    /// The counter that also holds what the server grants.
    pub(crate) fn share(&self) -> Option<Guard<Arc<L>>> {
        self.share.as_ref().map(Share::part)
    }

    /// Whether a client goes on with its share while the namespace is over its limit.
    pub(crate) fn shares_when_over(&self) -> bool {
        self.mode == Mode::Enforce && self.overload == OverloadPolicy::Share
    }

    /// The leases that the client has, if the rule grants any.
    pub(crate) fn leased(&self) -> Option<&Arc<LeasedFlow>> {
        self.leased.as_ref()
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
