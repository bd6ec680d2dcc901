//! One call's way through the chain.
//!
//! A turn runs under the resource's lock until the call is through, must wait, is refused, or comes
//! to a slot of the user's, during which nothing is locked. Where the flow rules have passed it,
//! the call is counted, so that check and take are one step; a slot behind that refuses takes it
//! back.

use std::time::Duration;

use super::{
    Arg, Block, Call, Entry, EntryType, LocalEngine, Outcome, Said, Seen, Slot, SlotName, Step,
    Waiting,
    authority::allows,
    block::By,
    breakers::Turned,
    chain::{Key, Link},
    context::{CallContext, Context},
    entry::{Progress, Ticket},
    flow::{Ask, FlowVerdict},
    gateway::GatewayRules,
    inbound,
    node::{NONE, Seat},
    param::{HotRules, ParamPlace, ParamVerdict},
    resource::{Body, Resource},
    shared::{Above, Shared},
    stat::Stat,
};
use crate::{
    Tick,
    rule::ParamRule,
    sync::{Arc, MutexGuard, lock},
};

/// A call on its way: what it asks for, what it has taken, and where it stands.
#[derive(Debug)]
pub(super) struct Passage<'a> {
    call: Call<'a>,
    context: CallContext<'a>,
    entry: Entry,
    place: Place,
    /// The arguments for gateway rules, and the rules that they are for.
    gateway: Option<(Arc<GatewayRules>, Vec<Arg<'a>>)>,
    turned: Turned,
}

/// Where to go on after a wait, within the slot that it was for.
#[derive(Debug, Default)]
struct Place {
    gateway: ParamPlace,
    param: ParamPlace,
    /// A flow rule.
    rule: usize,
    /// Whether the tokens are borrowed and counted, and the slots behind flow are skipped.
    is_borrowed: bool,
    /// Whether it has waited, so that what was compared before may be different now.
    has_waited: bool,
}

/// How far a turn came.
enum Turn {
    Through,
    Wait(Duration),
    /// At a slot of the user's, which is to be asked at this tick.
    User(Key, Arc<dyn Slot>, Tick),
    Refused(Block),
}

/// How far a call came.
pub(super) enum Ended {
    Through,
    Wait(Duration),
    Refused(Block),
}

/// Why a link does not let a call through.
enum Stop {
    Wait(Duration),
    Borrow(Duration),
    Block(By),
}

impl<'a> Passage<'a> {
    #[inline]
    pub(super) fn new(resource: Arc<Resource>, now: Tick, call: Call<'a>) -> Self {
        let context = CallContext::of(&call, &resource.shared);
        let inbound = match call.entry_type {
            EntryType::In => resource.shared.inbound.place(resource.hash),
            EntryType::Out => inbound::NONE,
        };
        let ticket = Ticket::new(now, call.count, inbound);
        let entry = Entry { context: context.of_entry(), resource: Some(resource), ticket };
        Self { call, context, entry, place: Place::default(), gateway: None, turned: Turned::new() }
    }

    /// Goes as far as it can at `now`.
    pub(super) fn run(&mut self, engine: &LocalEngine, now: Tick) -> Ended {
        if let Some(trace) = &mut self.call.trace {
            trace.start();
        }
        loop {
            let turn = self.turn(engine, now);
            if !self.turned.is_empty() {
                self.tell(now);
            }
            match turn {
                Turn::Through => return Ended::Through,
                Turn::Wait(wait) => return Ended::Wait(wait),
                Turn::Refused(block) => return self.refused(engine, now, block),
                Turn::User(key, slot, now) => {
                    if let Err(why) = self.ask_user(engine, key, &*slot, now) {
                        self.tell(now);
                        return self.refused(engine, now, Block(By::Custom(why)));
                    }
                }
            }
        }
    }

    /// What the caller is told.
    pub(super) fn step(mut self, engine: &Arc<LocalEngine>, ended: Ended) -> Step<'a> {
        match ended {
            Ended::Through => {
                self.entry.ticket.progress = Progress::Admitted;
                Step::Passed(self.entry)
            }
            Ended::Wait(wait) => Step::Wait(Waiting::new(engine, self, wait)),
            Ended::Refused(block) => Step::Blocked(block),
        }
    }

    fn turn(&mut self, engine: &LocalEngine, now: Tick) -> Turn {
        let Some(resource) = &self.entry.resource else { return Turn::Through };
        let mut state = lock(&resource.state);
        state.refresh(resource);
        if self.entry.ticket.progress == Progress::Coming
            && let Some(names) = state.body.flow.related().names()
        {
            // Never two resources at once.
            drop(state);
            engine.read_related(resource, &names, now);
            state = lock(&resource.state);
            state.refresh(resource);
        }
        if let (Some(call), Some(gateway)) = (self.call.gateway, &state.body.gateway)
            && self.gateway.as_ref().is_none_or(|(rules, _)| !Arc::ptr_eq(rules, &gateway.rules))
        {
            // The request is the caller's, and may be slow.
            let rules = Arc::clone(&gateway.rules);
            drop(state);
            let args = call.args(&rules);
            self.gateway = Some((rules, args));
            state = lock(&resource.state);
            state.refresh(resource);
        }
        let state = &mut *state;
        let now = state.body.see(now);
        let ticket = &mut self.entry.ticket;
        let context = self.context.get(&resource.shared);
        if ticket.seat.context == NONE {
            ticket.created = now;
            ticket.users = state.chain.users();
            ticket.seat = seat(&mut state.body, &resource.shared, &self.call, context);
            mark(&mut self.call, SlotName::Nodes, Said::Pass);
        }
        state.body.nodes.each(ticket.seat, |stat| stat.advance(now));
        let mut scene = Scene {
            shared: &resource.shared,
            // Before the own one is locked: never two at once.
            others: resource.shared.inbound.others(ticket.inbound, now),
            inbound: ticket.inbound(resource, now),
            body: &mut state.body,
            ticket,
            call: &mut self.call,
            context,
            now,
            place: &mut self.place,
            gateway_args: self.gateway.as_ref().map_or(&[], |(_, args)| args),
            turned: &mut self.turned,
        };
        // A trace shows every slot.
        let all;
        let chain = if scene.call.trace.is_some() {
            all = resource.shared.chain();
            &*all
        } else {
            &state.chain
        };
        for (key, link) in chain.after(scene.ticket.reached, scene.ticket.users) {
            if let Some(turn) = scene.play(key, link) {
                return turn;
            }
            scene.ticket.reached = key;
        }
        Turn::Through
    }

    /// Asks a slot of the user's, while nothing is locked.
    fn ask_user(
        &mut self,
        engine: &LocalEngine,
        key: Key,
        slot: &dyn Slot,
        now: Tick,
    ) -> Result<(), Box<str>> {
        let said = slot.enter(now, &self.seen(engine));
        let (ticket, name) = (&mut self.entry.ticket, SlotName::User(key.order()));
        if said.is_ok() {
            ticket.reached = key;
            mark(&mut self.call, name, Said::Pass);
        } else if let Some(resource) = &self.entry.resource {
            let body = &mut lock(&resource.state).body;
            let now = body.see(now);
            body.nodes.each(ticket.seat, |stat| stat.advance(now));
            let mut inbound = ticket.inbound(resource, now);
            ticket.refuse(body, inbound.as_deref_mut(), now, key, &mut self.turned);
            mark(&mut self.call, name, Said::Block);
        }
        said
    }

    fn refused(&mut self, engine: &LocalEngine, now: Tick, block: Block) -> Ended {
        if let Some(resource) = self.entry.resource.take() {
            let ticket = &self.entry.ticket;
            let ended = (ticket.count, ticket.rt_ms(now));
            ticket.tell_users(&resource, now, ended, Outcome::Refused);
            let observers = engine.shared.observers();
            for observer in observers.iter() {
                observer.blocked(now, &self.seen(engine), &block);
            }
        }
        Ended::Refused(block)
    }

    fn tell(&mut self, now: Tick) {
        if let Some(resource) = &self.entry.resource {
            resource.tell(now, &mut self.turned);
        }
    }

    fn seen<'s>(&'s self, engine: &'s LocalEngine) -> Seen<'s> {
        Seen {
            resource: self.call.resource,
            context: &self.context.get(&engine.shared).name,
            origin: self.call.origin,
            entry_type: self.call.entry_type,
            count: self.call.count,
            prioritized: self.call.prioritized,
            args: self.call.args,
        }
    }
}

/// What a turn works with, all of it locked.
struct Scene<'t, 'a> {
    body: &'t mut Body,
    shared: &'t Shared,
    /// The other inbound nodes, if limits on them are to be checked.
    others: Option<Stat>,
    inbound: Option<MutexGuard<'t, Stat>>,
    ticket: &'t mut Ticket,
    call: &'t mut Call<'a>,
    context: &'t Context,
    now: Tick,
    place: &'t mut Place,
    gateway_args: &'t [Arg<'a>],
    turned: &'t mut Turned,
}

impl Scene<'_, '_> {
    /// Asks one link; `None` when it lets the call through.
    #[inline]
    fn play(&mut self, key: Key, link: &Link) -> Option<Turn> {
        let (name, stop) = match link {
            Link::User(slot) => return Some(Turn::User(key, Arc::clone(slot), self.now)),
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
        self.place.has_waited |= matches!(stop, Stop::Wait(_));
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

    /// Holds a call that has waited once more to what compares counters and takes nothing.
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
        if self.place.has_waited
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

#[inline]
fn mark(call: &mut Call<'_>, slot: SlotName, said: Said) {
    if let Some(trace) = &mut call.trace {
        trace.mark(slot, said);
    }
}

/// Finds the nodes of a call, or makes them.
#[inline]
fn seat(body: &mut Body, shared: &Shared, call: &Call<'_>, context: &Context) -> Seat {
    let entrance = &context.node;
    let at = body.nodes.context(entrance.id).unwrap_or_else(|| {
        // Below the calling resource, if that is in the same context.
        let parent = call.parent.filter(|parent| parent.context.is_at(entrance));
        let parent = parent.and_then(|parent| parent.resource.as_ref());
        body.nodes.add_context(entrance, parent.map(|resource| resource.name.text().into()))
    });
    let origin = if call.origin.is_empty() { NONE } else { origin(body, shared, call.origin) };
    Seat { context: at, origin }
}

fn origin(body: &mut Body, shared: &Shared, origin: &str) -> u32 {
    if let Some(at) = body.nodes.origin(origin) {
        return at;
    }
    let is_named = body.flow.names_origin(origin);
    let own = body.nodes.add_origin(origin, shared.settings.origins, is_named);
    own.unwrap_or_else(|| {
        shared.note(Above::Origins);
        body.nodes.other_origins()
    })
}
