//! The engine: rules in, calls through.

use super::{
    Call, ContextHandle, Entry, LocalSettings, Observer, Overflow, Shared, Slot, Step,
    SystemStatus,
    passage::{Ended, Passage},
    resource::{Name, Resource},
    resources::Resources,
    shared::Above,
};
use crate::{
    Tick,
    sync::{Arc, lock},
};

/// Sentinel's local engine: resources, their rules, and what is counted for them.
///
/// Made to be shared as an `Arc`. It reads no clock and never blocks for longer than it takes to
/// decide: a call that must wait is told so, and goes on when it says.
#[derive(Debug)]
pub struct LocalEngine {
    pub(super) shared: Arc<Shared>,
    pub(super) resources: Resources,
}

impl LocalEngine {
    /// An engine without rules, which counts and lets everything pass.
    #[must_use]
    pub fn new(settings: LocalSettings) -> Self {
        Self { shared: Arc::new(Shared::new(settings)), resources: Resources::default() }
    }

    /// Asks for a call at `now`.
    pub fn enter<'a>(self: &Arc<Self>, now: Tick, call: Call<'a>) -> Step<'a> {
        if !self.shared.is_enabled() {
            return Step::Passed(Entry::unguarded());
        }
        let hash = self.resources.hash(call.resource);
        let found = self.resources.get(hash, call.resource);
        let resource = found.unwrap_or_else(|| self.add(hash, call.resource, call.resource_type));
        let mut passage = Passage::new(resource, now, call);
        match passage.run(self, now) {
            // Nothing but the entry is moved.
            Ended::Through => Step::Passed(passage.admit()),
            ended => passage.step(self, ended),
        }
    }

    /// The context of that name, to make calls in. Of contexts above the bound the calls count
    /// together, while rules for one of them know it by its name.
    #[must_use]
    pub fn context(&self, name: &str) -> ContextHandle {
        self.shared.context(name)
    }

    /// Switches all checks and counting on or off; on at first.
    pub fn set_enabled(&self, enabled: bool) {
        self.shared.set_enabled(enabled);
    }

    /// Whether calls are checked and counted.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.shared.is_enabled()
    }

    /// Puts a slot into the chain: before the built-in ones of a higher order, behind all of the
    /// same. Built-in orders: authority -6000, system -5000, gateway -4000, hot parameters -3000,
    /// flow -2000, default breakers -1500, breakers -1000. Refusals of slots below -7000, where
    /// Sentinel's statistics stand, are not counted. It can not be taken out again.
    ///
    /// A call that borrowed from the next half second skips the built-in slots behind flow, not the
    /// user's.
    pub fn insert_slot(&self, order: i32, slot: Arc<dyn Slot>) {
        self.shared.change_chain(|chain| chain.with(order, slot));
    }

    /// Tells `observer` of refusals and breakers from now on.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.shared.observe(observer);
    }

    /// Says how busy the machine is, for system rules. Not known at first.
    pub fn set_status(&self, status: SystemStatus) {
        self.shared.inbound.set_status(status);
    }

    /// How busy the machine is, as it was last said.
    #[must_use]
    pub fn status(&self) -> SystemStatus {
        self.shared.inbound.status()
    }

    /// Gives back the memory of hot values that count no more at `now`. To be called now and then,
    /// once a second is enough.
    pub fn tidy(&self, now: Tick) {
        self.resources.each(|resource| {
            let body = &mut lock(&resource.state).body;
            if body.hot.is_none() && body.gateway.is_none() {
                return;
            }
            let now = body.see(now);
            let gateway = body.gateway.as_mut().map(|gateway| &mut gateway.hot);
            for hot in body.hot.iter_mut().chain(gateway) {
                hot.tidy(now);
            }
        });
    }

    /// How often something above a bound was asked for.
    #[must_use]
    pub fn overflow(&self) -> Overflow {
        self.shared.overflow()
    }

    /// The resource that a name counts as, if it was ever called.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Resource>> {
        self.resources.get(self.resources.hash(name), name)
    }

    /// Reads the resources that rules of `resource` compare with.
    pub(super) fn read_related(&self, resource: &Resource, names: &Arc<[Box<str>]>, now: Tick) {
        for (at, name) in names.iter().enumerate() {
            let reading = self.find(name).map(|other| other.read_related(now));
            lock(&resource.state).body.flow.related().put(names, at, reading);
        }
    }

    #[inline(never)]
    fn add(&self, hash: u64, name: &str, resource_type: u8) -> Arc<Resource> {
        let most = u64::try_from(self.shared.settings.resources).unwrap_or(u64::MAX);
        let rules = self.shared.rules();
        let own = || (hash, Name::Own(name.into()));
        let (hash, name) = if self.resources.len() < most || rules.names(name) {
            own()
        } else {
            self.shared.note(Above::Resources);
            match rules.patterns_of(name) {
                Some(texts) => (self.resources.hash(&texts), Name::Patterns(texts.into())),
                None => (0, Name::Other),
            }
        };
        let make = || Resource::new(name.clone(), hash, resource_type, Arc::clone(&self.shared));
        self.resources.get_or_add(hash, &name, make)
    }
}
