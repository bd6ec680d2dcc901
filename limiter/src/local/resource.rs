//! One resource: everything that is known of it, behind one lock.

use std::{sync::Arc, thread};

use super::{
    OVERFLOW, Shared,
    breakers::{Breakers, Turned},
    chain::{Chain, Link},
    flow::{FlowGuards, RelatedReading},
    hot::{self, Gateway, HeldList},
    node::Nodes,
    observer::Telling,
    open::OpenList,
    param::HotRules,
    rules::Rules,
    stay::Stay,
};
use crate::{
    Tick,
    rule::{AuthorityRule, GatewayFlowRule},
    sync::{Mutex, lock},
};

/// A protected name.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) name: Name,
    /// Hash of the name, by which the engine finds it.
    pub(super) hash: u64,
    /// Classification, of the first call.
    pub(super) resource_type: u8,
    pub(super) shared: Arc<Shared>,
    pub(super) state: Mutex<State>,
}

/// Which rules a resource has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// Those of its name, and those whose pattern it matches.
    Own(Arc<str>),
    /// Those with these patterns, one a line: it stands for all resources above the bound that
    /// match them and no others.
    Patterns(Arc<str>),
    /// Those with any pattern: it stands for resources above the bound when there are too many
    /// sets of patterns that they match.
    EveryPattern,
    /// None: it stands for all other resources above the bound.
    Other,
}

/// What calls of a resource change. The whole chain of a call runs under its lock, so that check
/// and take are one step.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The revision of the rules that are compiled here.
    revision: u64,
    /// The slots in force, without those that have nothing to do with this resource.
    pub(super) chain: Chain,
    pub(super) body: Body,
}

/// The rules of a resource with what they remember, and its counters.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// The latest tick seen. An older one counts as it.
    pub(super) latest: Tick,
    pub(super) nodes: Nodes,
    pub(super) open: OpenList,
    /// The one that counts, or those of all patterns.
    pub(super) authority: Vec<Arc<AuthorityRule>>,
    pub(super) gateway: Option<Gateway>,
    pub(super) hot: Option<HotRules>,
    pub(super) held: HeldList,
    pub(super) flow: FlowGuards,
    pub(super) breakers: Breakers,
    /// Of a resource that stands for others.
    stay: Stay,
}

impl Name {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Own(text) | Self::Patterns(text) => text,
            Self::EveryPattern | Self::Other => OVERFLOW,
        }
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        let body = &lock(&self.state).body;
        self.shared.release_nodes(body.nodes.extra());
        body.each_hot().for_each(|hot| self.shared.keep(hot.counted()));
    }
}

impl Resource {
    pub(super) fn new(name: Name, hash: u64, resource_type: u8, shared: Arc<Shared>) -> Self {
        Self { name, hash, resource_type, shared, state: Mutex::default() }
    }

    /// Gives back what is idle, and says whether that is all of it. Of many hot values it takes
    /// part after part, as many as are left of `parts`.
    pub(super) fn rest(&self, now: Tick, parts: &mut u32) -> bool {
        loop {
            let mut state = lock(&self.state);
            let body = &mut state.body;
            if body.tidy_values(now) && *parts > 0 {
                *parts -= 1;
                drop(state);
                // Or calls that wait for the lock would find it taken again.
                thread::yield_now();
                continue;
            }
            let before = body.nodes.extra();
            let is_all = body.rest(now);
            self.shared.release_nodes(before - body.nodes.extra());
            return is_all;
        }
    }

    /// Names share this since there is no room for their own.
    pub(super) fn share(&self) {
        lock(&self.state).body.stay.begin();
    }

    /// Whether names go on to share this, now that there is room for their own.
    pub(super) fn stays_shared(&self, now: Tick) -> bool {
        let mut state = lock(&self.state);
        state.refresh(self);
        let body = &mut state.body;
        let now = body.see(now);
        // Where no rule remembers anything nobody has a limit twice.
        let is_seen = body.remembers() && (body.nodes.cluster.is_seen(now) || !body.forgot(now));
        is_seen && body.stay.goes_on(now)
    }

    /// What a rule of another resource compares with.
    pub(super) fn read_related(&self, now: Tick) -> RelatedReading {
        let body = &mut lock(&self.state).body;
        let now = body.see(now);
        body.nodes.cluster.advance(now);
        RelatedReading::of(&body.nodes.cluster)
    }
}

impl Body {
    /// `now`, or the latest tick seen if that is later.
    #[inline]
    pub(super) fn see(&mut self, now: Tick) -> Tick {
        self.latest = self.latest.max(now);
        self.latest
    }
}

impl State {
    /// Compiles the rules in force, if those here are others.
    #[inline]
    pub(super) fn refresh(&mut self, resource: &Resource) {
        let revision = resource.shared.revision();
        if self.revision != revision {
            self.compile(resource, revision);
        }
    }

    #[inline(never)]
    fn compile(&mut self, resource: &Resource, revision: u64) {
        self.body.compile(&resource.shared.rules(), resource);
        self.chain = resource.shared.chain().only(|link| self.body.has_work_for(link));
        self.revision = revision;
    }
}

impl Body {
    /// Gives back a part of the hot values that are idle at `now`; true when there may be more.
    fn tidy_values(&mut self, now: Tick) -> bool {
        let now = self.see(now);
        let of_gateway = self.gateway.as_mut().map(|gateway| &mut gateway.hot);
        let all = self.hot.iter_mut().chain(of_gateway);
        all.fold(false, |more, hot| hot.tidy(now) | more)
    }

    /// Gives back what else is idle at `now`. True when that is all, so that a new resource would
    /// show and decide the same.
    fn rest(&mut self, now: Tick) -> bool {
        let now = self.see(now);
        if !self.nodes.rest(now) || self.open.oldest().is_some() {
            return false;
        }
        (self.open, self.held) = Default::default();
        if let Some(gateway) = &mut self.gateway {
            gateway.held = HeldList::default();
        }
        self.forgot(now)
    }

    /// Whether nothing that rules remember counts any more.
    fn forgot(&self, now: Tick) -> bool {
        self.each_hot().all(|hot| hot.is_idle(now))
            && self.flow.is_idle(now)
            && self.breakers.iter().all(|breaker| breaker.is_idle(now))
    }

    /// Its hot-parameter rules, and the gateway rules as such.
    pub(super) fn each_hot(&self) -> impl Iterator<Item = &HotRules> {
        self.hot.iter().chain(self.gateway.as_ref().map(|gateway| &gateway.hot))
    }

    /// Whether rules remember something here.
    pub(super) fn remembers(&self) -> bool {
        self.each_hot().next().is_some()
            || self.flow.has_rules()
            || self.breakers.iter().next().is_some()
    }

    /// Whether a link looks at more than a call that nothing limits.
    fn has_work_for(&self, link: &Link) -> bool {
        match link {
            Link::Authority => !self.authority.is_empty(),
            Link::Gateway => self.gateway.is_some(),
            Link::Param => self.hot.is_some(),
            Link::DefaultBreaker => self.breakers.has_work(true),
            Link::Breaker => self.breakers.has_work(false),
            // Every call has nodes and is counted, and observers hear of all refusals: only a trace
            // asks when.
            Link::NodeSelection | Link::ClusterNode | Link::Log | Link::Statistics => false,
            // The limits of the system are not this resource's; and where flow is, all is counted.
            Link::System | Link::Flow | Link::User(_) => true,
        }
    }

    fn compile(&mut self, rules: &Rules, resource: &Resource) {
        let (name, room) = (&resource.name, &resource.shared.room);
        let most = if *name == Name::EveryPattern { usize::MAX } else { 1 };
        self.authority = rules.authority.of(name).take(most).cloned().collect();
        let gateway: Vec<GatewayFlowRule> =
            rules.gateway.of(name).map(|rule| GatewayFlowRule::clone(rule)).collect();
        hot::replace_gateway(&mut self.gateway, &gateway, room);
        let param: Vec<_> = rules.param.of(name).cloned().collect();
        hot::replace(&mut self.hot, &param, room);
        self.flow.replace(name.text(), rules.flow.of(name).cloned().collect());
        let (degrade, is_default) = rules.breakers_of(name);
        self.breakers.replace(degrade, is_default);
    }
}

impl Resource {
    /// Tells whoever wants to know what breakers did.
    pub(super) fn tell(&self, now: Tick, turned: &mut Turned, telling: &mut Telling) {
        if turned.is_empty() {
            return;
        }
        for (rule, from, to) in turned.drain(..) {
            self.shared.tell(telling, |observer| {
                observer.turned(now, self.name.text(), &rule, from, to);
            });
        }
    }
}
