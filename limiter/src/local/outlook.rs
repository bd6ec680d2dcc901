//! What a call can expect: how much is left, and when there is more.

use std::{sync::Arc, time::Duration};

use super::{
    Call, EntryType, LocalEngine,
    authority::allows,
    breaker::BreakerState,
    context::{CallContext, Context},
    flow::Ask,
    node::{NONE, Seat},
    resource::{Body, Name, Resource},
    stat::as_f64,
};
use crate::{Tick, sync::lock};

/// What rules would say to a call, without a trace that it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// When it may be made.
    pub retry: Retry,
    /// Of the flow rules and hot-parameter rules that concern it, the one that leaves least; `None`
    /// if there is none. Of several it is the one that gives more last.
    pub quota: Option<Quota>,
}

/// When a call may be made, if nobody else makes any. The latest of several is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// After exactly that time, which is zero for a call that may be made now.
    After(Duration),
    /// Nobody knows: calls in progress must end, or the machine must calm down.
    Unknown,
    /// Not under the rules in force: it asks for more than there ever is, or is not for its caller.
    Never,
}

/// How much a rule allows, and how much of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The time for which `limit` is; `None` for calls in progress.
    pub window: Option<Duration>,
    /// Whole calls, or calls in progress.
    pub limit: u64,
    /// How many more would pass at once. Of a rule that paces it is at most one, which may have to
    /// wait; one that warms up has less than its limit.
    pub remaining: u64,
    /// Time until more remains than now, to the nanosecond; `None` if all does, and where nobody
    /// knows.
    pub more_in: Option<Duration>,
}

impl Outlook {
    pub(super) const FREE: Self = Self { retry: Retry::After(Duration::ZERO), quota: None };

    pub(super) const fn of(retry: Retry, quota: Quota) -> Self {
        Self { retry, quota: Some(quota) }
    }

    /// What this rule and another say together.
    pub(super) fn and(self, other: Self) -> Self {
        let tightest = |a: Quota, b: Quota| {
            let is_tighter = (b.remaining, a.more_in) < (a.remaining, b.more_in);
            if is_tighter { b } else { a }
        };
        let quota = match (self.quota, other.quota) {
            (Some(a), Some(b)) => Some(tightest(a, b)),
            (a, b) => a.or(b),
        };
        Self { retry: self.retry.max(other.retry), quota }
    }

    fn only(retry: Retry) -> Self {
        Self { retry, quota: None }
    }
}

impl LocalEngine {
    /// What `call` can expect at `now`. Nothing is taken, counted or made.
    ///
    /// It is exact for flow rules, hot-parameter rules, breakers and a system rule on calls per
    /// second; of a rule that paces and warms up a retry may be later than need be. Gateway rules,
    /// user slots, rules on another resource and cluster rules are not looked at: who was refused
    /// by one of these finds a retry of zero. Of a resource that shares counters, since it is above
    /// the bound, only the rules are known, and what is left is all.
    #[must_use]
    pub fn outlook(&self, now: Tick, call: &Call<'_>) -> Outlook {
        if !self.shared.is_enabled() {
            return Outlook::FREE;
        }
        match self.find(call.resource) {
            Some(resource) => resource.outlook(now, call),
            None => {
                let (name, shared) = (Name::Own(call.resource.into()), Arc::clone(&self.shared));
                Resource::new(name, 0, 0, shared).outlook(now, call)
            }
        }
    }

    /// Whether a rule is for the resource, by its name or by a pattern.
    #[must_use]
    pub fn has_rules(&self, resource: &str) -> bool {
        let (rules, name) = (self.shared.rules(), Name::Own(resource.into()));
        rules.names(resource)
            || rules.flow.of(&name).next().is_some()
            || rules.param.of(&name).next().is_some()
            || rules.degrade.of(&name).next().is_some()
            || rules.authority.of(&name).next().is_some()
            || rules.gateway.of(&name).next().is_some()
    }
}

impl Resource {
    fn outlook(&self, now: Tick, call: &Call<'_>) -> Outlook {
        let context = CallContext::of(call, &self.shared);
        let mut state = lock(&self.state);
        state.refresh(self);
        let body = &mut state.body;
        let now = body.see(now);
        let of_system = match call.entry_type {
            EntryType::In => Outlook::only(self.shared.inbound.retry(now, call.count)),
            EntryType::Out => Outlook::FREE,
        };
        of_system.and(body.outlook(now, call, context.get(&self.shared)))
    }
}

impl Body {
    fn outlook(&mut self, now: Tick, call: &Call<'_>, context: &Context) -> Outlook {
        let mut outlook = self.authority(call.origin);
        if let Some(hot) = &mut self.hot {
            outlook = outlook.and(hot.outlook(now, call.args, call.count));
        }
        let seat = Seat {
            context: if self.nodes.has_context(context.node.id) { context.node.id } else { NONE },
            origin: self.nodes.origin(call.origin).unwrap_or(NONE),
        };
        let (origin, context, n) = (call.origin, &*context.name, call.count.into());
        let (prioritized, asks_servers) = (call.prioritized, false);
        let ask = Ask { now, seat, origin, context, n, prioritized, asks_servers };
        outlook = outlook.and(self.flow.outlook(&mut self.nodes, &ask));
        self.breakers.iter().fold(outlook, |outlook, breaker| {
            let retry = match (breaker.state(), breaker.retry_at()) {
                (BreakerState::Closed, _) => Retry::After(Duration::ZERO),
                (_, Some(retry_at)) => Retry::After(retry_at.since(now)),
                (_, None) => Retry::Unknown,
            };
            outlook.and(Outlook::only(retry))
        })
    }

    fn authority(&self, origin: &str) -> Outlook {
        let is_refused = self.authority.iter().any(|rule| !allows(rule, origin));
        if is_refused { Outlook::only(Retry::Never) } else { Outlook::FREE }
    }
}

/// When `n` more fit into `count` a second. `coming` is what counts from each tick on.
pub(super) fn retry_at(now: Tick, n: u64, count: f64, coming: [(Tick, u64); 3]) -> Retry {
    let fits = coming.iter().find(|(_, passed)| as_f64(passed.saturating_add(n)) <= count);
    fits.map_or(Retry::Never, |(at, _)| Retry::After(at.since(now)))
}
