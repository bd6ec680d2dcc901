//! What all resources of an engine share.

use std::{fmt, sync::Arc};

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::{
    ContextHandle, DEFAULT_CONTEXT, LocalSettings, OVERFLOW, Observer, Overflow,
    chain::Chain,
    context::{Context, Entrance},
    inbound::Inbound,
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
    overflow: [AtomicU64; 3],
    /// Memory for hot values.
    pub(super) room: Room,
    pub(super) inbound: Inbound,
}

/// What may be above its bound.
#[derive(Clone, Copy, Debug)]
pub(super) enum Above {
    Resources,
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
            revision: AtomicU64::new(1),
            rules: Swap::new(Rules::default()),
            chain: Swap::new(Chain::default()),
            changing: Mutex::default(),
            contexts: Swap::new(vec![default_context.clone()]),
            default_context,
            by_name: Mutex::new(by_name),
            observers: Swap::new(Vec::new()),
            overflow: Default::default(),
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

    /// Acquire, with the release of [`Self::change`]: who sees a revision finds its rules.
    #[inline]
    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    pub(super) fn rules(&self) -> Held<Rules> {
        self.rules.hold()
    }

    pub(super) fn chain(&self) -> Arc<Chain> {
        self.chain.load()
    }

    /// Replaces the rules by what `change` makes of them, unless that is nothing new.
    pub(super) fn change(&self, change: impl FnOnce(&Rules) -> Option<Rules>) {
        let _changing = lock(&self.changing);
        if let Some(rules) = change(&self.rules.hold()) {
            self.rules.swap(Arc::new(rules));
            self.revision.fetch_add(1, Ordering::Release);
        }
    }

    pub(super) fn change_chain(&self, change: impl FnOnce(&Chain) -> Chain) {
        let _changing = lock(&self.changing);
        let chain = change(&self.chain.load());
        self.chain.swap(Arc::new(chain));
        self.revision.fetch_add(1, Ordering::Release);
    }

    pub(super) fn observe(&self, observer: Arc<dyn Observer>) {
        let _changing = lock(&self.changing);
        let mut observers = Vec::clone(&self.observers.hold());
        observers.push(observer);
        self.observers.swap(Arc::new(observers));
    }

    /// Who is to be told of what happens.
    pub(super) fn observers(&self) -> Held<Vec<Arc<dyn Observer>>> {
        self.observers.hold()
    }

    pub(super) fn default_context(&self) -> &Context {
        &self.default_context.0
    }

    /// The contexts that have counters of their own, by id.
    pub(super) fn contexts(&self) -> Held<Vec<ContextHandle>> {
        self.contexts.hold()
    }

    /// The context of that name. Above the bound it counts with others, under its own name.
    pub(super) fn context(&self, name: &str) -> ContextHandle {
        let mut by_name = lock(&self.by_name);
        if let Some(context) = by_name.get(name) {
            return context.clone();
        }
        if self.contexts.hold().len() < self.settings.contexts.max(1) {
            return self.add_context(&mut by_name, name);
        }
        self.note(Above::Contexts);
        let other = match by_name.get(OVERFLOW) {
            Some(other) => other.clone(),
            None => self.add_context(&mut by_name, OVERFLOW),
        };
        ContextHandle(Arc::new(Context { name: name.into(), node: Arc::clone(&other.0.node) }))
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
        let [resources, contexts, origins] =
            self.overflow.each_ref().map(|count| count.load(Ordering::Relaxed));
        Overflow { resources, contexts, origins }
    }
}

fn own_context(name: &str, id: u32) -> ContextHandle {
    let node = Arc::new(Entrance { name: name.into(), id });
    ContextHandle(Arc::new(Context { name: name.into(), node }))
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}
