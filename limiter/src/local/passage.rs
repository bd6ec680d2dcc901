//! One call's way through the chain.
//!
//! A turn runs under the resource's lock until the call is through, must wait, is refused, or comes
//! to a slot of the user's, during which nothing is locked. Where the flow rules have passed it,
//! the call is counted, so that check and take are one step; a slot behind that refuses takes it
//! back.

mod ready;
mod scene;
mod seat;

use std::{borrow::Cow, sync::Arc, time::Duration};

use ready::GatewayArgs;
use scene::Scene;

pub(super) use self::{ready::lock_ready, seat::seat};

use super::{
    Block, Call, Entry, EntryType, LocalEngine, Outcome, Said, Seen, Slot, SlotName,
    asking::Asked,
    block::By,
    breakers::Turned,
    chain::Key,
    context::CallContext,
    entry::{Progress, Ticket},
    flow::FlowPlace,
    inbound,
    node::NONE,
    observer::Telling,
    param::ParamPlace,
    resource::Resource,
};
use crate::{Tick, sync::lock};

/// A call on its way: what it asks for, what it has taken, and where it stands.
#[derive(Debug)]
pub(super) struct Passage<'a> {
    call: Call<'a>,
    context: CallContext<'a>,
    entry: Entry,
    pub(super) place: Place,
    gateway: GatewayArgs<'a>,
    turned: Turned,
}

/// Where to go on after a wait, within the slot that it was for.
#[derive(Debug, Default)]
pub(super) struct Place {
    gateway: ParamPlace,
    pub(super) param: ParamPlace,
    pub(super) flow: FlowPlace,
    /// Whether the tokens are borrowed and counted, and the slots behind flow are skipped.
    is_borrowed: bool,
    /// Whether nobody could be asked, so that the call is decided here.
    pub(super) is_alone: bool,
    /// Whether the locks were given up meanwhile, for a wait or a slot of the user's, so that what
    /// was compared before may be different now.
    was_unlocked: bool,
}

/// How far a turn came.
enum Turn {
    Through,
    Wait(Duration),
    Ask(Asked),
    /// At a slot of the user's, which is to be asked at this tick.
    User(Key, Arc<dyn Slot>, Tick),
    Refused(Block),
}

/// How far a call came.
pub(super) enum Ended {
    Through,
    Wait(Duration),
    Ask(Asked),
    Refused(Block),
}

impl<'a> Passage<'a> {
    #[inline(always)]
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
            if !self.turned.is_empty() && !matches!(turn, Turn::Refused(_)) {
                self.tell(now);
            }
            match turn {
                Turn::Through => return Ended::Through,
                Turn::Wait(wait) => return Ended::Wait(wait),
                Turn::Ask(rule) => return Ended::Ask(rule),
                Turn::Refused(block) => return self.refused(engine, now, block),
                Turn::User(key, slot, now) => {
                    if let Err(why) = self.ask_user(engine, key, &*slot, now) {
                        return self.refused(engine, now, Block(By::Custom(why)));
                    }
                }
            }
        }
    }

    pub(super) const fn call(&self) -> &Call<'a> {
        &self.call
    }

    /// The entry of a call that is through.
    #[inline]
    pub(super) fn admit(&mut self) -> Entry {
        self.entry.ticket.progress = Progress::Admitted;
        std::mem::replace(&mut self.entry, Entry::unguarded())
    }

    fn turn(&mut self, engine: &LocalEngine, now: Tick) -> Turn {
        let Some(resource) = &self.entry.resource else { return Turn::Through };
        let compares = self.entry.ticket.progress == Progress::Coming;
        let mut state = lock_ready(engine, resource, &self.call, &mut self.gateway, compares, now);
        let state = &mut *state;
        let now = state.body.see(now);
        let ticket = &mut self.entry.ticket;
        let context = self.context.get(&resource.shared);
        if ticket.seat.context == NONE && ticket.reached == Key::START {
            ticket.created = now;
            ticket.users = state.chain.users();
            // For a trace that is a turn of its own.
            if self.call.trace.is_none() {
                ticket.seat = seat(&mut state.body, &resource.shared, &self.call, context);
            }
        } else if compares && ticket.seat.context != NONE && !state.body.nodes.has(ticket.seat) {
            // It waited for so long that they were given back.
            ticket.seat = seat(&mut state.body, &resource.shared, &self.call, context);
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
    ) -> Result<(), Cow<'static, str>> {
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
            mark(&mut self.call, name, Said::Block);
            ticket.refuse(body, inbound.as_deref_mut(), now, key, &mut self.turned);
            add_time(&mut self.call, SlotName::Statistics);
        }
        said
    }

    fn refused(&mut self, engine: &LocalEngine, now: Tick, block: Block) -> Ended {
        if let Some(resource) = self.entry.resource.take() {
            let ticket = &self.entry.ticket;
            let ended = (ticket.count, ticket.rt_ms(now));
            let mut telling = Telling::default();
            resource.tell(now, &mut self.turned, &mut telling);
            ticket.tell_users(&resource, now, ended, Outcome::Refused, &mut telling);
            let seen = self.seen(engine);
            engine.shared.tell(&mut telling, |observer| observer.blocked(now, &seen, &block));
            add_time(&mut self.call, SlotName::Log);
            telling.end();
        }
        Ended::Refused(block)
    }

    fn tell(&mut self, now: Tick) {
        if let Some(resource) = &self.entry.resource {
            let mut telling = Telling::default();
            resource.tell(now, &mut self.turned, &mut telling);
            telling.end();
        }
    }

    fn seen<'s>(&'s self, engine: &'s LocalEngine) -> Seen<'s> {
        self.call.seen(self.context.get(&engine.shared))
    }
}

#[inline]
fn mark(call: &mut Call<'_>, slot: SlotName, said: Said) {
    if let Some(trace) = &mut call.trace {
        trace.mark(slot, said);
    }
}

/// The time since the last mark was one of this slot, which had its turn before.
#[inline]
fn add_time(call: &mut Call<'_>, slot: SlotName) {
    if let Some(trace) = &mut call.trace {
        trace.add(slot);
    }
}
