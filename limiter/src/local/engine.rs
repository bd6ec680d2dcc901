//! The engine: rules in, calls through.

use std::sync::Arc;

use super::{
    Asking, Call, ContextHandle, Entry, LocalSettings, Observer, Overflow, Shared, Slot, Step,
    SystemStatus, Waiting,
    passage::{Ended, Passage},
    resource::{Name, Resource},
    resources::Resources,
    shared::Above,
};
use crate::{
    Tick,
    rule::{FlowRule, ParamRule},
    sync::lock,
};

/// Parts of hot values that one tidying gives back in addition to one of each rule. A million that
/// came once are gone after half a minute.
const PARTS: u32 = 64;

/// Hashes of the resources that stand for others, whatever these match.
const OTHER: u64 = 0;
const EVERY_PATTERN: u64 = 1;

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
        let mut passage = Passage::new(self.resource(&call, now), now, call);
        match passage.run(self, now) {
            // Nothing but the entry is moved.
            Ended::Through => Step::Passed(passage.admit()),
            Ended::Refused(block) => Step::Blocked(block),
            Ended::Wait(wait) => Step::Wait(Waiting::new(self, passage, wait)),
            Ended::Ask(rule) => Step::Ask(Asking::new(self, passage, rule)),
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

    /// Switches on or off that calls ask a token server for rules with `clusterMode`, by
    /// [`Step::Ask`]; off at first, when such rules are checked here, by their mode and their fallback
    /// policy (see [`Self::load_flow`]). What is counted stays.
    pub fn ask_servers(&self, on: bool) {
        self.shared.ask_servers(on);
    }

    /// The rules with `clusterMode` that are in force.
    #[must_use]
    pub fn cluster_rules(&self) -> (Vec<FlowRule>, Vec<ParamRule>) {
        let rules = self.shared.rules();
        let flow = rules.flow.all().iter().filter(|rule| rule.cluster.is_some());
        let param = rules.param.all().iter().filter(|rule| rule.cluster.is_some());
        (
            flow.map(|rule| FlowRule::clone(rule)).collect(),
            param.map(|rule| ParamRule::clone(rule)).collect(),
        )
    }

    /// A number that changes with each change of the rules or slots; for who keeps a copy.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.shared.revision()
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

    /// Gives back the memory of what counts no more at `now`: hot values; origins, contexts of a
    /// resource and whole resources of which nothing was counted for a minute, unless a rule names
    /// them. To be called once a second, so that names which come once do not fill the bounds; of
    /// very many resources it looks at 8 192 or some more each time, and of very many hot values it
    /// gives back some 30 000. No resource is locked for longer than 512 values of each of its
    /// rules take.
    ///
    /// A resource that is gone is like one that was never called. Rules that match it, by a pattern
    /// or by default, keep it while they remember something: a breaker that is not closed, until a
    /// time window after it would let a probe through, or a service that is not cold.
    pub fn tidy(&self, now: Tick) {
        let (rules, mut parts) = (self.shared.rules(), PARTS);
        self.resources
            .tidy(|resource| resource.rest(now, &mut parts) && !rules.need(&resource.name));
    }

    /// How often something above a bound was asked for.
    #[must_use]
    pub fn overflow(&self) -> Overflow {
        self.shared.overflow()
    }

    /// The resource that a call counts as.
    #[inline]
    pub(super) fn resource(&self, call: &Call<'_>, now: Tick) -> Arc<Resource> {
        let hash = self.resources.hash(call.resource);
        let found = self.resources.get(hash, call.resource);
        found.unwrap_or_else(|| self.add(hash, call.resource, call.resource_type, now))
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

    /// What names that match these patterns, and no others, went on to share until now, if that
    /// still counts.
    fn shared_until_now(&self, patterns: &[&str], now: Tick) -> Option<Arc<Resource>> {
        let stays = |shared: &Arc<Resource>| shared.stays_shared(now);
        if patterns.is_empty() {
            return self.resources.get_shared(OTHER, &Name::Other).filter(stays);
        }
        let hash = self.resources.hash_patterns(patterns);
        let of_these = self.resources.get_by_patterns(hash, patterns).filter(stays);
        of_these.or_else(|| self.every_pattern(now))
    }

    fn every_pattern(&self, now: Tick) -> Option<Arc<Resource>> {
        let shared = self.resources.get_shared(EVERY_PATTERN, &Name::EveryPattern)?;
        shared.stays_shared(now).then(|| {
            self.shared.note(Above::Patterns);
            shared
        })
    }

    /// The resource that stands for those which match these patterns and no others, above the
    /// bound.
    fn above(
        &self,
        patterns: &[&str],
        now: Tick,
        make: impl FnOnce(u64, Name) -> Arc<Resource>,
    ) -> Arc<Resource> {
        self.shared.note(Above::Resources);
        let shared = if patterns.is_empty() {
            make(OTHER, Name::Other)
        } else {
            let hash = self.resources.hash_patterns(patterns);
            if let Some(known) = self.resources.get_by_patterns(hash, patterns) {
                known
            } else {
                let name = Name::of_patterns(patterns);
                if !self.resources.has_room_for(hash, &name, self.shared.settings.patterns) {
                    self.shared.note(Above::Patterns);
                    make(EVERY_PATTERN, Name::EveryPattern)
                } else if let Some(shared) = self.every_pattern(now) {
                    return shared;
                } else {
                    make(hash, name)
                }
            }
        };
        shared.share();
        shared
    }

    #[inline(never)]
    fn add(&self, hash: u64, name: &str, resource_type: u8, now: Tick) -> Arc<Resource> {
        let make = |hash, name: Name| {
            let shared = Arc::clone(&self.shared);
            let new = || Resource::new(name.clone(), hash, resource_type, shared);
            self.resources.get_or_add(hash, &name, new)
        };
        let rules = self.shared.rules();
        if rules.names(name) {
            return make(hash, Name::Own(name.into()));
        }
        let patterns = rules.patterns_of(name);
        let most = u64::try_from(self.shared.settings.resources).unwrap_or(u64::MAX);
        if self.resources.len() >= most {
            return self.above(&patterns, now, make);
        }
        if let Some(shared) = self.shared_until_now(&patterns, now) {
            self.shared.note(Above::Resources);
            return shared;
        }
        make(hash, Name::Own(name.into()))
    }
}
