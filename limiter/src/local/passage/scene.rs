//! One turn: the links that a call comes to while everything is locked.

use std::{sync::Arc, time::Duration};

use super::{
    Place, Turn, add_time, mark,
    seat::{of_context, of_origin},
};
use crate::{
    Tick,
    local::{
        Arg, Block, Call, Said, SlotName,
        asking::Asked,
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
    rule::{AuthorityRule, ParamRule},
    sync::MutexGuard,
};

/// Why a link does not let a call through.
enum Stop {
    Wait(Duration),
    Ask(Asked),
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
            Link::NodeSelection => (SlotName::NodeSelection, self.node_selection()),
            Link::ClusterNode => (SlotName::ClusterNode, self.cluster_node()),
            Link::Log => (SlotName::Log, None),
            Link::Statistics => (SlotName::Statistics, None),
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
            if name == SlotName::Flow {
                self.take();
            }
            return None;
        };
        self.place.was_unlocked |= matches!(stop, Stop::Wait(_) | Stop::Ask(_));
        Some(match stop {
            Stop::Wait(wait) => {
                mark(self.call, name, Said::Wait(wait));
                Turn::Wait(wait)
            }
            Stop::Ask(rule) => {
                mark(self.call, name, Said::Ask);
                Turn::Ask(rule)
            }
            Stop::Borrow(wait) => {
                mark(self.call, name, Said::Borrow(wait));
                Turn::Wait(wait)
            }
            Stop::Block(by) => {
                mark(self.call, name, Said::Block);
                let inbound = self.inbound.as_deref_mut();
                self.ticket.refuse(self.body, inbound, self.now, key, self.turned);
                add_time(self.call, SlotName::Statistics);
                Turn::Refused(Block(by))
            }
        })
    }

    fn node_selection(&mut self) -> Option<Stop> {
        self.ticket.seat.context = of_context(self.body, self.shared, self.call, self.context);
        None
    }

    fn cluster_node(&mut self) -> Option<Stop> {
        self.ticket.seat.origin = of_origin(self.body, self.shared, self.call.origin);
        let now = self.now;
        self.body.nodes.each(self.ticket.seat, |stat| stat.advance(now));
        None
    }

    fn authority(&self) -> Option<Stop> {
        let refuses = |rule: &&Arc<AuthorityRule>| !allows(rule, self.call.origin);
        let rule = self.body.authority.iter().find(refuses)?;
        let origin = self.body.nodes.origin_name(self.ticket.seat.origin, self.call.origin);
        Some(Stop::Block(By::Authority(Arc::clone(rule), origin)))
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
        place.asks_servers = self.shared.asks_servers() && !self.place.is_alone;
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

    /// Asks the flow rules.
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
            asks_servers: self.shared.asks_servers() && !self.place.is_alone,
        };
        if !self.place.is_borrowed {
            let Body { flow, nodes, .. } = self.body;
            match flow.check(nodes, &ask, &mut self.place.flow) {
                FlowVerdict::Pass => {}
                FlowVerdict::Wait(wait) => return Some(Stop::Wait(wait)),
                FlowVerdict::Ask(rule) => return Some(Stop::Ask(Asked::Flow(rule))),
                FlowVerdict::Borrow(wait) => {
                    self.place.is_borrowed = true;
                    return Some(Stop::Borrow(wait));
                }
                FlowVerdict::Block(rule) => {
                    return Some(Stop::Block(By::Flow(rule)));
                }
            }
        }
        None
    }

    /// Counts a call that the flow rules let through.
    #[inline]
    fn take(&mut self) {
        let (inbound, is_borrowed) = (self.inbound.as_deref_mut(), self.place.is_borrowed);
        self.ticket.take(self.body, inbound, is_borrowed, self.call.args, self.gateway_args);
        add_time(self.call, SlotName::Statistics);
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
    match hot.check(now, args, count, place) {
        ParamVerdict::Pass => None,
        ParamVerdict::Wait(wait) => Some(Stop::Wait(wait)),
        ParamVerdict::Ask { rule } => {
            hot.rule(rule).map(|rule| Stop::Ask(Asked::Param(Arc::clone(rule))))
        }
        ParamVerdict::Block { rule } => {
            hot.rule(rule).map(|rule| Stop::Block(by(Arc::clone(rule))))
        }
    }
}
