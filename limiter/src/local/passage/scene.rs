//! One turn: the links that a call comes to while everything is locked.

use std::{sync::Arc, time::Duration};

use super::{Place, Turn, mark};
use crate::{
    Tick,
    local::{
        Arg, Block, Call, Said, SlotName,
        authority::allows,
        block::By,
        breakers::Turned,
        chain::{Key, Link},
        context::Context,
        entry::Ticket,
        flow::{Ask, FlowVerdict},
        param::{HotRules, ParamPlace, ParamVerdict},
        resource::Body,
        shared::Shared,
        stat::Stat,
    },
    rule::ParamRule,
    sync::MutexGuard,
};

/// Why a link does not let a call through.
enum Stop {
    Wait(Duration),
    Borrow(Duration),
    Block(By),
}

/// What a turn works with, all of it locked.
pub(super) struct Scene<'t, 'a> {
    pub(super) body: &'t mut Body,
    pub(super) shared: &'t Shared,
    /// The other inbound nodes, if limits on them are to be checked.
    pub(super) others: Option<Stat>,
    pub(super) inbound: Option<MutexGuard<'t, Stat>>,
    pub(super) ticket: &'t mut Ticket,
    pub(super) call: &'t mut Call<'a>,
    pub(super) context: &'t Context,
    pub(super) now: Tick,
    pub(super) place: &'t mut Place,
    pub(super) gateway_args: &'t [Arg<'a>],
    pub(super) turned: &'t mut Turned,
}

impl Scene<'_, '_> {
    /// Asks one link; `None` when it lets the call through.
    #[inline]
    pub(super) fn play(&mut self, key: Key, link: &Link) -> Option<Turn> {
        let (name, stop) = match link {
            Link::User(slot) => {
                self.place.was_unlocked = true;
                return Some(Turn::User(key, Arc::clone(slot), self.now));
            }
            Link::Authority => (SlotName::Authority, self.authority()),
            Link::System => (SlotName::System, self.system()),
            Link::Gateway => (SlotName::Gateway, self.gateway()),
            Link::Param => (SlotName::Param, self.param()),
            Link::Flow => (SlotName::Flow, self.flow()),
            Link::DefaultBreaker => (SlotName::DefaultBreaker, self.breakers(true)),
            Link::Breaker => (SlotName::Breaker, self.breakers(false)),
        };
        let Some(stop) = stop else {
            mark(self.call, name, Said::Pass);
            return None;
        };
        self.place.was_unlocked |= matches!(stop, Stop::Wait(_));
        let (said, turn) = match stop {
            Stop::Wait(wait) => (Said::Wait(wait), Turn::Wait(wait)),
            Stop::Borrow(wait) => (Said::Borrow(wait), Turn::Wait(wait)),
            Stop::Block(by) => {
                let inbound = self.inbound.as_deref_mut();
                self.ticket.refuse(self.body, inbound, self.now, key, self.turned);
                (Said::Block, Turn::Refused(Block(by)))
            }
        };
        mark(self.call, name, said);
        Some(turn)
    }

    fn authority(&self) -> Option<Stop> {
        match &self.body.authority {
            Some(rule) if !allows(rule, self.call.origin) => {
                Some(Stop::Block(By::Authority(Arc::clone(rule), self.call.origin.into())))
            }
            _ => None,
        }
    }

    fn system(&mut self) -> Option<Stop> {
        let (others, own) = (self.others.take()?, self.inbound.as_ref()?);
        let checked = self.shared.inbound.check(others, own, self.ticket.count);
        checked.err().map(|kind| Stop::Block(By::System(kind)))
    }

    fn gateway(&mut self) -> Option<Stop> {
        let Some(gateway) = &mut self.body.gateway else { return None };
        self.call.gateway?;
        let (place, count) = (&mut self.place.gateway, self.ticket.count);
        ask_hot(&mut gateway.hot, self.now, self.gateway_args, count, place, By::Gateway)
    }

    fn param(&mut self) -> Option<Stop> {
        let Some(hot) = &mut self.body.hot else { return None };
        let (place, count) = (&mut self.place.param, self.ticket.count);
        ask_hot(hot, self.now, self.call.args, count, place, By::Param)
    }

    /// Holds a call once more to what compares counters and takes nothing, since others may have
    /// been counted after it was compared.
    #[inline(never)]
    fn compare_again(&mut self) -> Option<Stop> {
        if let Some(stop) = self.system() {
            return Some(stop);
        }
        let Body { gateway, hot, .. } = self.body;
        let gateway = gateway.as_mut().filter(|_| self.call.gateway.is_some());
        if let Some(gateway) = gateway
            && let Err(rule) = gateway.hot.check_threads(self.now, self.gateway_args)
        {
            return gateway.hot.rule(rule).cloned().map(|rule| Stop::Block(By::Gateway(rule)));
        }
        let hot = hot.as_mut()?;
        let rule = hot.check_threads(self.now, self.call.args).err()?;
        hot.rule(rule).cloned().map(|rule| Stop::Block(By::Param(rule)))
    }

    #[inline]
    fn breakers(&mut self, at_default: bool) -> Option<Stop> {
        // What was borrowed is promised (`PriorityWaitException` leaves the chain).
        if self.place.is_borrowed {
            return None;
        }
        let Self { ticket, turned, now, .. } = self;
        match self.body.breakers.gate(at_default, *now, &mut ticket.probe, turned) {
            Ok(()) => None,
            Err(rule) => Some(Stop::Block(By::Breaker(rule))),
        }
    }

    /// Asks the flow rules, and counts what passes them.
    #[inline]
    fn flow(&mut self) -> Option<Stop> {
        if self.place.was_unlocked
            && !self.place.is_borrowed
            && let Some(stop) = self.compare_again()
        {
            return Some(stop);
        }
        let ask = Ask {
            now: self.now,
            seat: self.ticket.seat,
            origin: self.call.origin,
            context: &self.context.name,
            n: self.ticket.n(),
            prioritized: self.call.prioritized,
        };
        if !self.place.is_borrowed {
            let Body { flow, nodes, .. } = self.body;
            match flow.check(nodes, &ask, self.place.rule) {
                FlowVerdict::Pass => {}
                FlowVerdict::Wait { wait, next } => {
                    self.place.rule = next;
                    return Some(Stop::Wait(wait));
                }
                FlowVerdict::Borrow(wait) => {
                    self.place.is_borrowed = true;
                    return Some(Stop::Borrow(wait));
                }
                FlowVerdict::Block(rule) => {
                    return Some(Stop::Block(By::Flow(rule)));
                }
            }
        }
        let (inbound, is_borrowed) = (self.inbound.as_deref_mut(), self.place.is_borrowed);
        self.ticket.take(self.body, inbound, is_borrowed, self.call.args, self.gateway_args);
        None
    }
}

fn ask_hot(
    hot: &mut HotRules,
    now: Tick,
    args: &[Arg<'_>],
    count: u32,
    place: &mut ParamPlace,
    by: fn(Arc<ParamRule>) -> By,
) -> Option<Stop> {
    match hot.check(now, args, count, *place) {
        ParamVerdict::Pass => None,
        ParamVerdict::Wait { wait, next } => {
            *place = next;
            Some(Stop::Wait(wait))
        }
        ParamVerdict::Block { rule } => {
            hot.rule(rule).map(|rule| Stop::Block(by(Arc::clone(rule))))
        }
    }
}
