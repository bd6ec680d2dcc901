//! What an engine tells of its resources.

use std::{sync::Arc, time::Duration};

use super::{
    BreakerState, LocalEngine, NodeReading, Second, WarmUpReading,
    breaker::Breaker,
    param::HotRules,
    resource::{Body, Name, Resource},
};
use crate::{
    Tick,
    rule::{DegradeRule, ParamRule},
    sync::lock,
};

/// The name that Sentinel gives the node of all inbound calls.
pub const TOTAL_INBOUND: &str = "__total_inbound_traffic__";

/// Entries of a resource that are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReading {
    /// The resource.
    pub resource: Box<str>,
    /// How long the oldest of them has been open.
    pub oldest: Duration,
}

/// One circuit breaker of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerReading {
    /// Its rule.
    pub rule: Arc<DegradeRule>,
    /// Its state.
    pub state: BreakerState,
    /// When it lets a probe through, or another one, if it refuses calls.
    pub retry_at: Option<Tick>,
}

/// The hot parameters of a resource, with the parts of requests that its gateway rules look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParamReading {
    /// Values with a counter of their own, but for those that a rule's items name.
    pub values: usize,
    /// How often a value found no room and was counted with others.
    pub overflow_uses: u64,
    /// How often a rule did not find its argument in a call, each rule by itself, and behind them
    /// the gateway rules as the hot-parameter rules that they are checked as; rules that are gone
    /// are not among them. A gateway rule misses nothing in calls that are not of its mode.
    pub missing: Vec<(Arc<ParamRule>, u64)>,
    /// How often any rule did not find its argument.
    pub param_missing: u64,
}

/// What one resource shows, all of it at the same moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceReading {
    /// Its name. A resource that stands for others above the bound is called as their patterns or
    /// [`OVERFLOW`](super::OVERFLOW), and so may be another.
    pub name: Box<str>,
    /// Its counters over all its calls.
    pub node: NodeReading,
    /// How long the oldest of its open entries has been open.
    pub oldest: Option<Duration>,
    /// Its circuit breakers, in the order of checking.
    pub breakers: Vec<BreakerReading>,
    /// Its hot parameters.
    pub params: ParamReading,
}

impl BreakerReading {
    fn of(breaker: &Breaker) -> Self {
        Self {
            rule: Arc::clone(breaker.rule()),
            state: breaker.state(),
            retry_at: breaker.retry_at(),
        }
    }
}

impl ParamReading {
    fn of(body: &Body) -> Self {
        let mut all = Self::default();
        for hot in body.each_hot() {
            let counted = hot.counted();
            all.values += hot.values();
            all.overflow_uses += counted.overflow_uses;
            all.missing.extend(hot.missing().map(|(rule, times)| (Arc::clone(rule), times)));
            all.param_missing += counted.missing;
        }
        all
    }
}

impl LocalEngine {
    /// What every resource shows, in order of their names.
    #[must_use]
    pub fn resources(&self, now: Tick) -> Vec<ResourceReading> {
        self.each(now, |name, body| ResourceReading {
            name: name.into(),
            node: body.nodes.cluster.reading(),
            oldest: body.open.oldest().map(|oldest| now.since(oldest)),
            breakers: body.breakers.iter().map(BreakerReading::of).collect(),
            params: ParamReading::of(body),
        })
    }

    /// The circuit breakers of a resource, in the order of checking.
    #[must_use]
    pub fn breakers(&self, now: Tick, resource: &str) -> Vec<BreakerReading> {
        self.look_at_rules(now, resource, |body| {
            body.breakers.iter().map(BreakerReading::of).collect()
        })
    }

    /// What the hot-parameter rules and the gateway rules of a resource have counted.
    #[must_use]
    pub fn params(&self, now: Tick, resource: &str) -> ParamReading {
        let reading = self.find(resource).map(|resource| resource.look(now, ParamReading::of));
        reading.unwrap_or_default()
    }

    /// What rules counted for resources that are gone since, so that sums never go back: the uses
    /// without room, and the calls without the argument.
    #[must_use]
    pub fn params_gone(&self) -> ParamReading {
        let gone = self.shared.gone();
        ParamReading {
            overflow_uses: gone.overflow_uses,
            param_missing: gone.missing,
            ..ParamReading::default()
        }
    }

    /// The hot-parameter rules in force that did not find their argument in some call, each with the
    /// resource that was called, in order of the resources. Once a second is not too often.
    #[must_use]
    pub fn missing_args(&self) -> Vec<(Box<str>, Arc<ParamRule>)> {
        let mut all: Vec<(Box<str>, Arc<ParamRule>)> = Vec::new();
        self.resources.each(|resource| {
            let mut state = lock(&resource.state);
            state.refresh(resource);
            let hot = state.body.hot.iter();
            let missing = hot.flat_map(HotRules::missing).filter(|(_, times)| *times > 0);
            all.extend(missing.map(|(rule, _)| (resource.name.text().into(), Arc::clone(rule))));
        });
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// The counters of a resource over all its calls; `None` for one that was never called.
    #[must_use]
    pub fn node(&self, now: Tick, resource: &str) -> Option<NodeReading> {
        Some(self.find(resource)?.look(now, |body| body.nodes.cluster.reading()))
    }

    /// The counters of all resources over all their calls, in order of their names.
    #[must_use]
    pub fn nodes(&self, now: Tick) -> Vec<(Box<str>, NodeReading)> {
        self.each(now, |name, body| (name.into(), body.nodes.cluster.reading()))
    }

    /// The counters of a resource by the origin of its calls.
    #[must_use]
    pub fn origins(&self, now: Tick, resource: &str) -> Vec<(Box<str>, NodeReading)> {
        let read = |body: &Body| {
            let origins = body.nodes.origins();
            origins.map(|(origin, stat)| (origin.into(), stat.reading())).collect()
        };
        self.find(resource).map(|resource| resource.look(now, read)).unwrap_or_default()
    }

    /// The counters of all inbound calls.
    #[must_use]
    pub fn inbound(&self, now: Tick) -> NodeReading {
        self.shared.inbound.sum(now).reading()
    }

    /// The ended seconds of each resource and of all inbound calls, [`TOTAL_INBOUND`], after the
    /// second that holds `since`, with the resource's classification; what the metric log writes.
    /// Those in which nothing happened are left out, and nothing older than a minute is kept.
    #[must_use]
    pub fn seconds(&self, now: Tick, since: Tick) -> Vec<(Box<str>, u8, Vec<Second>)> {
        let resources = self.resources.all();
        let mut seconds: Vec<(Box<str>, u8, Vec<Second>)> = resources
            .iter()
            .map(|resource| {
                let read = |body: &Body| body.nodes.cluster.seconds_after(since);
                (resource.name.text().into(), resource.resource_type, resource.look(now, read))
            })
            .collect();
        let inbound = self.shared.inbound.sum(now).seconds_after(since);
        seconds.push((TOTAL_INBOUND.into(), 0, inbound));
        seconds.retain(|(_, _, seconds)| !seconds.is_empty());
        seconds
    }

    /// The resources that have open entries, each with the age of the oldest: one that grows and
    /// grows is a guard that nobody dropped.
    #[must_use]
    pub fn open_entries(&self, now: Tick) -> Vec<OpenReading> {
        let read = |name: &str, body: &Body| {
            let oldest = now.since(body.open.oldest()?);
            Some(OpenReading { resource: name.into(), oldest })
        };
        self.each(now, read).into_iter().flatten().collect()
    }

    /// How warm the flow rules of a resource are that warm up, in the order of checking, as its
    /// last call left them.
    #[must_use]
    pub fn warm_ups(&self, now: Tick, resource: &str) -> Vec<WarmUpReading> {
        self.look_at_rules(now, resource, |body| body.flow.warm_ups().collect())
    }

    /// Reads the rules of a resource with what they remember, which is nothing if it was never
    /// called.
    fn look_at_rules<T>(&self, now: Tick, name: &str, read: impl FnOnce(&Body) -> T) -> T {
        let found = self.find(name).unwrap_or_else(|| {
            let shared = Arc::clone(&self.shared);
            Arc::new(Resource::new(Name::Own(name.into()), 0, 0, shared))
        });
        found.look(now, read)
    }

    pub(super) fn each<T>(&self, now: Tick, mut read: impl FnMut(&str, &Body) -> T) -> Vec<T> {
        let all = self.resources.all();
        all.iter()
            .map(|resource| resource.look(now, |body| read(resource.name.text(), body)))
            .collect()
    }
}

impl Resource {
    /// Reads it at `now`, with the rules in force.
    pub(super) fn look<T>(&self, now: Tick, read: impl FnOnce(&Body) -> T) -> T {
        let mut state = lock(&self.state);
        state.refresh(self);
        let now = state.body.see(now);
        state.body.nodes.advance(now);
        read(&state.body)
    }
}
