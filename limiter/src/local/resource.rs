//! One resource: everything that is known of it, behind one lock.

use std::sync::Arc;

use super::{
    OVERFLOW, Shared,
    breakers::{Breakers, Turned},
    chain::{Chain, Link},
    flow::{FlowGuards, RelatedReading},
    hot::{self, Gateway, HeldList},
    node::Nodes,
    open::OpenList,
    param::HotRules,
    rules::Rules,
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
    pub(super) authority: Option<Arc<AuthorityRule>>,
    pub(super) gateway: Option<Gateway>,
    pub(super) hot: Option<HotRules>,
    pub(super) held: HeldList,
    pub(super) flow: FlowGuards,
    pub(super) breakers: Breakers,
}

impl Name {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Own(text) | Self::Patterns(text) => text,
            Self::Other => OVERFLOW,
        }
    }
}

impl Resource {
    pub(super) fn new(name: Name, hash: u64, resource_type: u8, shared: Arc<Shared>) -> Self {
        Self { name, hash, resource_type, shared, state: Mutex::default() }
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
    /// Whether a link looks at more than a call that nothing limits.
    fn has_work_for(&self, link: &Link) -> bool {
        match link {
            Link::Authority => self.authority.is_some(),
            Link::Gateway => self.gateway.is_some(),
            Link::Param => self.hot.is_some(),
            Link::DefaultBreaker => self.breakers.has_work(true),
            Link::Breaker => self.breakers.has_work(false),
            // The limits of the system are not this resource's; and where flow is, all is counted.
            Link::System | Link::Flow | Link::User(_) => true,
        }
    }

    fn compile(&mut self, rules: &Rules, resource: &Resource) {
        let (name, room) = (&resource.name, &resource.shared.room);
        self.authority = rules.authority.of(name).next().cloned();
        let gateway: Vec<GatewayFlowRule> =
            rules.gateway.of(name).map(|rule| GatewayFlowRule::clone(rule)).collect();
        hot::replace_gateway(&mut self.gateway, &gateway, room);
        let param: Vec<_> = rules.param.of(name).filter_map(hot::without_server).collect();
        hot::replace(&mut self.hot, &param, room);
        self.flow.replace(name.text(), rules.flow.of(name).cloned().collect());
        let own: Vec<_> = rules.degrade.of(name).cloned().collect();
        let default = &rules.default_degrade;
        if own.is_empty() && !default.excluded.contains(name.text()) {
            self.breakers.replace(default.rules.clone(), true);
        } else {
            self.breakers.replace(own, false);
        }
    }
}

impl Resource {
    /// Tells whoever wants to know what breakers did.
    pub(super) fn tell(&self, now: Tick, turned: &mut Turned) {
        if turned.is_empty() {
            return;
        }
        let observers = self.shared.observers();
        for (rule, from, to) in turned.drain(..) {
            for observer in observers.iter() {
                observer.turned(now, self.name.text(), &rule, from, to);
            }
        }
    }
}
