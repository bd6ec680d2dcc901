//! What all resources of an engine share.

use std::{fmt, sync::Arc};

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::{
    ContextHandle, DEFAULT_CONTEXT, LocalSettings, OVERFLOW, Observer, Overflow,
    chain::Chain,
    context::{Context, Entrance},
    inbound::Inbound,
    observer::Telling,
    param::Counted,
    rules::Rules,
};
use crate::{
    cluster::values::Room,
    swap::{Held, Swap},
    sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock},
};

type ByName = HashMap<Box<str>, ContextHandle, RandomState>;

pub(super) struct Shared {
    pub(super) settings: LocalSettings,
    enabled: AtomicBool,
    asks_servers: AtomicBool,
    /// Counts up with each change of rules or slots.
    revision: AtomicU64,
    rules: Swap<Rules>,
    chain: Swap<Chain>,
    /// Held by who changes rules or slots.
    changing: Mutex<()>,
    default_context: ContextHandle,
    /// By id.
    contexts: Swap<Vec<ContextHandle>>,
    by_name: Mutex<ByName>,
    observers: Swap<Vec<Arc<dyn Observer>>>,
    overflow: [AtomicU64; 4],
    /// Nodes of all resources, as [`Nodes::extra`](super::node::Nodes::extra) counts them.
    nodes: AtomicU64,
    /// What hot-parameter rules of resources that are gone had counted: values without room, and
    /// calls without the argument.
    gone: [AtomicU64; 2],
    /// Memory for hot values.
    pub(super) room: Room,
    pub(super) inbound: Inbound,
}

/// What may be above its bound.
#[derive(Clone, Copy, Debug)]
pub(super) enum Above {
    Resources,
    Patterns,
    Contexts,
    Origins,
}

impl Shared {
    pub(super) fn new(settings: LocalSettings) -> Self {
        let default_context = own_context(DEFAULT_CONTEXT, 0);
        let by_name = HashMap::from_iter([(DEFAULT_CONTEXT.into(), default_context.clone())]);
        Self {
            settings,
            enabled: AtomicBool::new(true),
            asks_servers: AtomicBool::new(false),
            revision: AtomicU64::new(1),
            rules: Swap::new(Rules::default()),
            chain: Swap::new(Chain::default()),
            changing: Mutex::default(),
            contexts: Swap::new(vec![default_context.clone()]),
            default_context,
            by_name: Mutex::new(by_name),
            observers: Swap::new(Vec::new()),
            overflow: Default::default(),
            nodes: AtomicU64::new(0),
            gone: Default::default(),
            room: Room::of(settings.values, settings.values_bytes),
            inbound: Inbound::default(),
        }
    }

    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        // Relaxed: the switch is the whole state.
        self.enabled.load(Ordering::Relaxed)
    }

    pub(super) fn set_enabled(&self, enabled: bool) {
        // Relaxed: as in `is_enabled`.
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn asks_servers(&self) -> bool {
        // Relaxed: the switch is the whole state.
        self.asks_servers.load(Ordering::Relaxed)
    }

    pub(super) fn ask_servers(&self, on: bool) {
        // Relaxed: as in `asks_servers`.
        self.asks_servers.store(on, Ordering::Relaxed);
    }

    /// Acquire, with the release of [`Self::change`]: who sees a revision finds its rules.
    #[inline]
    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Something has changed: resources compile their rules once more.
    pub(super) fn revise(&self) {
        self.revision.fetch_add(1, Ordering::Release);
    }

    pub(super) fn rules(&self) -> Held<Rules> {
        self.rules.hold()
    }

    pub(super) fn chain(&self) -> Arc<Chain> {
        self.chain.load()
    }

    /// Replaces the rules by what `change` makes of them, unless that is nothing new, and then
    /// tells of it before they are changed again.
    pub(super) fn change(&self, change: impl FnOnce(&Rules) -> Option<Rules>, tell: impl FnOnce()) {
        let _changing = lock(&self.changing);
        let changed = change(&self.rules.hold());
        if let Some(rules) = changed {
            self.rules.swap(Arc::new(rules));
            self.revise();
            tell();
        }
    }

    pub(super) fn change_chain(&self, change: impl FnOnce(&Chain) -> Chain) {
        let _changing = lock(&self.changing);
        let chain = change(&self.chain.load());
        self.chain.swap(Arc::new(chain));
        self.revise();
    }

    pub(super) fn observe(&self, observer: Arc<dyn Observer>) {
        let _changing = lock(&self.changing);
        let mut observers = Vec::clone(&self.observers.hold());
        observers.push(observer);
        self.observers.swap(Arc::new(observers));
    }

    /// Tells each observer.
    pub(super) fn tell(&self, telling: &mut Telling, what: impl Fn(&dyn Observer)) {
        for observer in self.observers.hold().iter() {
            telling.tell(|| what(&**observer));
        }
    }

    pub(super) fn default_context(&self) -> &Context {
        &self.default_context.0
    }

    /// The contexts that have counters of their own, by id.
    pub(super) fn contexts(&self) -> Held<Vec<ContextHandle>> {
        self.contexts.hold()
    }

    /// The context of that name. Above the bound it counts with others, under its own name, unless
    /// a rule names it.
    pub(super) fn context(&self, name: &str) -> ContextHandle {
        let mut by_name = lock(&self.by_name);
        if let Some(context) = by_name.get(name) {
            return context.clone();
        }
        let has_room = self.contexts.hold().len() < self.settings.contexts.max(1);
        if has_room || self.rules.hold().entrances.contains(name) {
            return self.add_context(&mut by_name, name);
        }
        self.note(Above::Contexts);
        let other = self.known_context(&mut by_name, OVERFLOW);
        let node = Arc::clone(&other.0.node);
        ContextHandle(Arc::new(Context { name: name.into(), node, is_above: true }))
    }

    /// The entrance of that name, whatever the bound.
    pub(super) fn entrance(&self, name: &str) -> Arc<Entrance> {
        Arc::clone(&self.known_context(&mut lock(&self.by_name), name).0.node)
    }

    fn known_context(&self, by_name: &mut ByName, name: &str) -> ContextHandle {
        let known = by_name.get(name).cloned();
        known.unwrap_or_else(|| self.add_context(by_name, name))
    }

    fn add_context(&self, by_name: &mut ByName, name: &str) -> ContextHandle {
        let mut contexts = Vec::clone(&self.contexts.hold());
        let context = own_context(name, u32::try_from(contexts.len()).unwrap_or(u32::MAX));
        contexts.push(context.clone());
        self.contexts.swap(Arc::new(contexts));
        by_name.insert(name.into(), context.clone());
        context
    }

    /// Counts a use of what is above its bound.
    pub(super) fn note(&self, what: Above) {
        if let Some(count) = self.overflow.get(what as usize) {
            // Relaxed: the count is the whole state.
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn overflow(&self) -> Overflow {
        // Relaxed: as in `note`.
        let [resources, patterns, contexts, origins] =
            self.overflow.each_ref().map(|count| count.load(Ordering::Relaxed));
        Overflow { resources, patterns, contexts, origins }
    }

    /// Counts on what a resource had counted that is gone.
    pub(super) fn keep(&self, counted: Counted) {
        for (kept, more) in self.gone.iter().zip([counted.overflow_uses, counted.missing]) {
            // Relaxed: each count is the whole state.
            kept.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// What was counted on.
    pub(super) fn gone(&self) -> Counted {
        // Relaxed: as in `keep`.
        let [overflow_uses, missing] =
            self.gone.each_ref().map(|count| count.load(Ordering::Relaxed));
        Counted { overflow_uses, missing }
    }

    /// Counts one more node, if there is room or `must` be.
    pub(super) fn claim_node(&self, must: bool) -> bool {
        // Relaxed: the count is the whole state.
        let has_room = self.nodes.fetch_add(1, Ordering::Relaxed) < whole(self.settings.nodes);
        if !has_room && !must {
            self.release_nodes(1);
        }
        has_room || must
    }

    /// So many nodes are gone.
    pub(super) fn release_nodes(&self, nodes: usize) {
        // Relaxed: as in `claim_node`.
        self.nodes.fetch_sub(whole(nodes), Ordering::Relaxed);
    }
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn own_context(name: &str, id: u32) -> ContextHandle {
    let node = Arc::new(Entrance { name: name.into(), id });
    ContextHandle(Arc::new(Context { name: name.into(), node, is_above: false }))
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}
