//! All rules in force: one immutable value, replaced as a whole.

use std::time::Duration;

use rustc_hash::FxHashMap;

use super::{
    Ask, Explained, Flow, LeaseId, LeaseRefused, Leased, Namespace, Param, ParamFlow, What,
};
use crate::{Decision, OwnerId, Tick, TokenId, Undecided, sync::Arc};

/// The rules in force, found by flow id. Flow rules and hot-parameter rules are two id spaces, as
/// in Sentinel.
///
/// A rule that is the same in two sets is one object in both, with its counter.
#[derive(Debug, Default)]
pub struct RuleSet {
    pub(super) flows: FxHashMap<i64, Arc<Flow>>,
    pub(super) params: FxHashMap<i64, Arc<ParamFlow>>,
    /// The flows among them that keep a sliding log, whose memory is given back.
    pub(super) logs: Vec<Arc<Flow>>,
    pub(super) applied: Applied,
}

/// Which rules are in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Rises by one with every set that differs from the one before; 0 before the first.
    pub revision: u64,
    /// The same for equal sets, wherever they are in force.
    pub hash: u64,
    /// Flow rules in force.
    pub flows: usize,
    /// Hot-parameter rules in force.
    pub params: usize,
}

impl RuleSet {
    /// Decides about `count` tokens of `flow_id` at `now`. A prioritized request that finds no
    /// room may be told to wait for the next bucket.
    ///
    /// # Errors
    ///
    /// [`Undecided`] in Sentinel's order: bad request, no rule, namespace over its limit
    /// (`DefaultTokenService.requestToken`). Only the last was counted by the namespace's guard.
    #[inline]
    pub fn acquire_flow(
        &self,
        now: Tick,
        flow_id: i64,
        count: i32,
        prioritized: bool,
    ) -> Result<Decision, Undecided> {
        let count = tokens(flow_id, count)?;
        let flow = self.flows.get(&flow_id).ok_or(Undecided::NoRule)?;
        if !flow.guard().admit(now) {
            return Err(Undecided::TooManyRequests);
        }
        Ok(flow.acquire(now, count, prioritized))
    }

    /// Decides about `count` tokens of each of `params` under the hot-parameter rule `flow_id`:
    /// all are taken or none.
    ///
    /// # Errors
    ///
    /// As [`acquire_flow`](Self::acquire_flow); no value at all is a bad request.
    pub fn acquire_param<'a>(
        &self,
        now: Tick,
        flow_id: i64,
        count: i32,
        params: impl IntoIterator<Item = Param<'a>>,
    ) -> Result<Decision, Undecided> {
        self.acquire_values(now, flow_id, count, Ask::default(), params)
    }

    /// As [`acquire_param`](Self::acquire_param), for a client that cannot be told to wait: what
    /// would have to is [`Decision::Block`], and keeps no turn.
    ///
    /// # Errors
    ///
    /// As those of `acquire_param`.
    pub fn acquire_param_at_once<'a>(
        &self,
        now: Tick,
        flow_id: i64,
        count: i32,
        params: impl IntoIterator<Item = Param<'a>>,
    ) -> Result<Decision, Undecided> {
        let ask = Ask { max_wait: Some(Duration::ZERO), ..Ask::default() };
        self.acquire_values(now, flow_id, count, ask, params)
    }

    fn acquire_values<'a>(
        &self,
        now: Tick,
        flow_id: i64,
        count: i32,
        ask: Ask,
        params: impl IntoIterator<Item = Param<'a>>,
    ) -> Result<Decision, Undecided> {
        let count = tokens(flow_id, count)?;
        let mut params = params.into_iter();
        let first = params.next().ok_or(Undecided::BadRequest)?;
        let flow = self.params.get(&flow_id).ok_or(Undecided::NoRule)?;
        if !flow.guard().admit(now) {
            return Err(Undecided::TooManyRequests);
        }
        flow.acquire(now, count, ask, std::iter::once(first).chain(params))
    }

    /// Takes a concurrency token of the thread-grade flow rule `flow_id` for `count` calls in
    /// progress, held by `owner`; `None` when the level is full.
    ///
    /// # Errors
    ///
    /// [`Undecided::BadRequest`] also for a rule that counts a rate, and
    /// [`Undecided::TooManyRequests`] also when the namespace holds as many tokens as are free of
    /// all that the engine allows.
    pub fn acquire_concurrent(
        &self,
        now: Tick,
        flow_id: i64,
        count: i32,
        owner: OwnerId,
    ) -> Result<Option<TokenId>, Undecided> {
        let count = tokens(flow_id, count)?;
        let flow = self.flows.get(&flow_id).ok_or(Undecided::NoRule)?;
        flow.acquire_concurrent(now, count, owner)
    }

    /// Decides as [`acquire_flow`](Self::acquire_flow) or [`acquire_param`](Self::acquire_param)
    /// does, or only looks, and says why.
    ///
    /// # Errors
    ///
    /// As those. A thread-grade rule can be peeked at only: its tokens need an owner.
    pub fn ask(&self, now: Tick, what: &What<'_>, ask: Ask) -> Result<Explained, Undecided> {
        self.ask_guarded(now, what, ask, |guard| admitted(guard.admit(now)))
    }

    /// As [`ask`](Self::ask), of what the namespace's guard has refused and counted: for who has the
    /// engine in its own process, and spares nothing by a refusal.
    ///
    /// # Errors
    ///
    /// As those of `ask`, but for the guard's.
    pub fn ask_unguarded(
        &self,
        now: Tick,
        what: &What<'_>,
        ask: Ask,
    ) -> Result<Explained, Undecided> {
        self.ask_guarded(now, what, ask, |_| Ok(()))
    }

    fn ask_guarded(
        &self,
        now: Tick,
        what: &What<'_>,
        ask: Ask,
        admit: impl Fn(&Namespace) -> Result<(), Undecided>,
    ) -> Result<Explained, Undecided> {
        let count = tokens(what.id(), what.count())?;
        match what {
            What::Flow { id, .. } => {
                let flow = self.flows.get(id).ok_or(Undecided::NoRule)?;
                admit(flow.guard())?;
                flow.ask(now, count, ask)
            }
            What::Param { id, values, .. } => {
                let param = self.some_param(*id, values)?;
                admit(param.guard())?;
                param.ask(now, count, ask, values)
            }
        }
    }

    /// Gives back tokens that were taken at most `age` ago and not used: as many more may pass.
    ///
    /// Nobody gets a token twice: what no window holds any more, and what a bucket has refilled
    /// since, is not given back. A place in a queue is not either, since the turns behind it are
    /// promised.
    ///
    /// # Errors
    ///
    /// [`Undecided::BadRequest`], [`Undecided::NoRule`]. The namespace's guard counts the request
    /// and refuses none, here and below.
    pub fn give_back(&self, now: Tick, what: &What<'_>, age: Duration) -> Result<(), Undecided> {
        let count = tokens(what.id(), what.count())?;
        match what {
            What::Flow { id, .. } => {
                let flow = self.flows.get(id).ok_or(Undecided::NoRule)?;
                flow.guard().count(now);
                flow.give_back(now, count, age);
            }
            What::Param { id, values, .. } => {
                let param = self.some_param(*id, values)?;
                param.guard().count(now);
                param.give_back(now, count, age, values);
            }
        }
        Ok(())
    }

    /// Takes tokens whatever the limit: a cost that is known only afterwards. Who asks next waits
    /// until they are gone.
    ///
    /// # Errors
    ///
    /// As [`give_back`](Self::give_back).
    pub fn charge(&self, now: Tick, what: &What<'_>) -> Result<(), Undecided> {
        let count = tokens(what.id(), what.count())?;
        match what {
            What::Flow { id, .. } => {
                let flow = self.flows.get(id).ok_or(Undecided::NoRule)?;
                flow.guard().count(now);
                flow.charge(now, count);
            }
            What::Param { id, values, .. } => {
                let param = self.some_param(*id, values)?;
                param.guard().count(now);
                param.charge(now, count, values.iter().cloned());
            }
        }
        Ok(())
    }

    /// Forgets what the flow, or the values, have used. Tokens on lease count on.
    ///
    /// # Errors
    ///
    /// As [`give_back`](Self::give_back); the count is not looked at.
    pub fn reset(&self, now: Tick, what: &What<'_>) -> Result<(), Undecided> {
        tokens(what.id(), 1)?;
        match what {
            What::Flow { id, .. } => {
                let flow = self.flows.get(id).ok_or(Undecided::NoRule)?;
                flow.guard().count(now);
                flow.reset(now);
            }
            What::Param { id, values, .. } => {
                let param = self.some_param(*id, values)?;
                param.guard().count(now);
                param.reset(now, values);
            }
        }
        Ok(())
    }

    /// Takes back a lease of which so many tokens were spent, and grants one of up to `want`
    /// tokens of a flow rule; with `want` 0 it only takes back.
    ///
    /// # Errors
    ///
    /// [`Undecided::BadRequest`], [`Undecided::NoRule`], or [`Undecided::TooManyRequests`] from the
    /// namespace's guard, which counts one request and refuses none that only takes back. Those for
    /// rules with `overloadPolicy: share` it refuses only when they alone are too many.
    pub fn lease(
        &self,
        now: Tick,
        flow_id: i64,
        want: u32,
        returned: Option<(LeaseId, u32)>,
    ) -> Result<Result<Leased, LeaseRefused>, Undecided> {
        tokens(flow_id, 1)?;
        let flow = self.flows.get(&flow_id).ok_or(Undecided::NoRule)?;
        // What comes back is taken whatever the guard says.
        let is_admitted = if want == 0 {
            flow.guard().count(now);
            true
        } else if flow.lends_in_overload() {
            flow.guard().admit_share(now)
        } else {
            flow.guard().admit(now)
        };
        let leased = flow.lease(now, if is_admitted { want } else { 0 }, returned);
        admitted(is_admitted)?;
        Ok(leased)
    }

    pub(super) fn some_param(
        &self,
        id: i64,
        values: &[Param<'_>],
    ) -> Result<&ParamFlow, Undecided> {
        if values.is_empty() {
            return Err(Undecided::BadRequest);
        }
        self.param(id).ok_or(Undecided::NoRule)
    }

    /// The flow rule with that id.
    #[must_use]
    pub fn flow(&self, flow_id: i64) -> Option<&Flow> {
        self.flows.get(&flow_id).map(|flow| &**flow)
    }

    /// The hot-parameter rule with that id.
    #[must_use]
    pub fn param(&self, flow_id: i64) -> Option<&ParamFlow> {
        self.params.get(&flow_id).map(|param| &**param)
    }

    /// All flow rules with their ids, in no order.
    pub fn flows(&self) -> impl Iterator<Item = (i64, &Flow)> {
        self.flows.iter().map(|(id, flow)| (*id, &**flow))
    }

    /// All hot-parameter rules with their ids, in no order.
    pub fn params(&self) -> impl Iterator<Item = (i64, &ParamFlow)> {
        self.params.iter().map(|(id, param)| (*id, &**param))
    }

    /// Revision, hash and size of this set.
    #[must_use]
    pub fn applied(&self) -> Applied {
        self.applied
    }
}

/// A request's tokens, if it can be one at all.
#[inline]
pub(super) fn tokens(flow_id: i64, count: i32) -> Result<u32, Undecided> {
    match u32::try_from(count) {
        Ok(count) if count > 0 && flow_id > 0 => Ok(count),
        _ => Err(Undecided::BadRequest),
    }
}

fn admitted(is_admitted: bool) -> Result<(), Undecided> {
    if is_admitted { Ok(()) } else { Err(Undecided::TooManyRequests) }
}
