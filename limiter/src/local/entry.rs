//! A call that was let through.

use super::{
    Arg, Done, Outcome,
    breakers::Turned,
    chain::Key,
    context::EntryContext,
    hot::Gateway,
    inbound,
    node::{NONE, Seat},
    open,
    resource::{Body, Resource},
    stat::{BucketId, Stat},
};
use crate::{
    Tick,
    sync::{Arc, MutexGuard, lock},
};

/// A call that was let through, until it ends. It counts as a call in progress.
///
/// [`Entry::exit`] ends it. One that is dropped ends, too, at the latest tick that its resource has
/// seen. Entries may end in any order and on any thread.
#[derive(Debug)]
#[must_use = "the call ends when its entry is dropped"]
pub struct Entry {
    /// `None` once it has ended, and for a call that nobody guards.
    pub(super) resource: Option<Arc<Resource>>,
    pub(super) context: EntryContext,
    pub(super) ticket: Ticket,
}

/// What is known of a call on its way and until its end.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) created: Tick,
    /// Tokens asked for.
    pub(super) count: u32,
    pub(super) seat: Seat,
    /// Where among the inbound nodes it counts.
    pub(super) inbound: u8,
    is_error: bool,
    pub(super) progress: Progress,
    /// Place in the list of open entries.
    pub(super) open: u32,
    /// The last slot that it came through, and how many user slots there were when it began.
    pub(super) reached: Key,
    pub(super) users: u32,
    /// The number of a call that probes breakers; 0 for others.
    pub(super) probe: u64,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing is counted.
    Coming,
    /// It is counted as passed and in progress: `None` for tokens that were borrowed. Slots behind
    /// may still refuse it.
    Taken(Option<(BucketId, BucketId)>),
    Admitted,
}

impl Entry {
    /// A call that nobody guards: its end changes nothing.
    pub(super) fn unguarded() -> Self {
        let ticket = Ticket::new(Tick(0), 0, inbound::NONE);
        Self { resource: None, context: EntryContext::Known(0), ticket }
    }

    /// Ends the call at `now`.
    #[inline]
    pub fn exit(mut self, now: Tick) {
        self.finish(Some(now), self.ticket.count);
    }

    /// Ends the call at `now` with `count` tokens in place of those that it asked for: as many
    /// succeeded, or failed.
    pub fn exit_with(mut self, count: u32, now: Tick) {
        self.finish(Some(now), count);
    }

    /// Marks the call as failed: it ends with an error.
    pub fn fail(&mut self) {
        self.ticket.is_error = true;
    }

    fn finish(&mut self, now: Option<Tick>, count: u32) {
        let Some(resource) = self.resource.take() else { return };
        let (ticket, mut turned) = (&self.ticket, Turned::new());
        let mut state = lock(&resource.state);
        let body = &mut state.body;
        let now = body.see(now.unwrap_or(body.latest));
        let rt_ms = ticket.rt_ms(now);
        let outcome = match ticket.progress {
            Progress::Admitted => {
                ticket.complete(&resource, body, now, (count, rt_ms), &mut turned);
                if ticket.is_error { Outcome::Error } else { Outcome::Success }
            }
            Progress::Coming | Progress::Taken(_) => {
                let mut inbound = ticket.inbound(&resource, now);
                ticket.undo(body, inbound.as_deref_mut(), now, &mut turned);
                Outcome::GivenUp
            }
        };
        drop(state);
        resource.tell(now, &mut turned);
        ticket.tell_users(&resource, now, (count, rt_ms), outcome);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.finish(None, self.ticket.count);
    }
}

impl Ticket {
    pub(super) const fn new(created: Tick, count: u32, inbound: u8) -> Self {
        Self {
            created,
            count,
            seat: Seat { context: NONE, origin: NONE },
            inbound,
            is_error: false,
            progress: Progress::Coming,
            open: open::NONE,
            reached: Key::START,
            users: 0,
            probe: 0,
        }
    }

    /// Tokens asked for.
    pub(super) const fn n(&self) -> u64 {
        self.count as u64
    }

    /// Whole milliseconds since the call was first made.
    #[inline]
    pub(super) const fn rt_ms(&self, now: Tick) -> u64 {
        now.0.saturating_sub(self.created.0) / 1_000_000
    }

    /// Locks the inbound node if the call counts there, after the resource.
    #[inline]
    pub(super) fn inbound<'r>(
        &self,
        resource: &'r Resource,
        now: Tick,
    ) -> Option<MutexGuard<'r, Stat>> {
        resource.shared.inbound.lock(self.inbound, now)
    }

    /// Counts the call as passed and in progress, or only as in progress if its tokens are counted
    /// already.
    #[inline]
    pub(super) fn take(
        &mut self,
        body: &mut Body,
        inbound: Option<&mut Stat>,
        is_borrowed: bool,
        args: &[Arg<'_>],
        gateway_args: &[Arg<'_>],
    ) {
        let n = self.n();
        self.progress = if is_borrowed {
            body.nodes.each(self.seat, |stat| stat.begin());
            if let Some(inbound) = inbound {
                inbound.begin();
            }
            Progress::Taken(None)
        } else {
            let of_inbound = inbound.map(|inbound| inbound.take(n)).unwrap_or_default();
            Progress::Taken(Some((body.nodes.take(self.seat, n), of_inbound)))
        };
        self.open = body.open.push(self.created);
        if let Some(hot) = &mut body.hot {
            body.held.enter(hot, args, self.open);
        }
        if let Some(Gateway { hot, held, .. }) = &mut body.gateway
            && !gateway_args.is_empty()
        {
            held.enter(hot, gateway_args, self.open);
        }
    }

    /// Counts the call as in progress no more, wherever that is not a node.
    #[inline]
    fn leave(&self, body: &mut Body, now: Tick) {
        if let Some(hot) = &mut body.hot {
            body.held.leave(hot, now, self.open);
        }
        if let Some(Gateway { hot, held, .. }) = &mut body.gateway {
            held.leave(hot, now, self.open);
        }
        body.open.remove(self.open);
    }

    /// Counts nothing of what [`Self::take`] counted, and probes no breaker.
    fn undo(&self, body: &mut Body, inbound: Option<&mut Stat>, now: Tick, turned: &mut Turned) {
        body.breakers.give_up(self.probe, now, turned);
        let Progress::Taken(buckets) = self.progress else { return };
        let n = self.n();
        self.leave(body, now);
        body.nodes.each(self.seat, |stat| {
            stat.end();
            if let Some((bucket, _)) = buckets {
                stat.untake(bucket, n);
            }
        });
        if let Some(inbound) = inbound {
            inbound.end();
            if let Some((_, bucket)) = buckets {
                inbound.untake(bucket, n);
            }
        }
    }

    /// Counts a refusal by the slot at `by`, and nothing of what was taken before it.
    pub(super) fn refuse(
        &mut self,
        body: &mut Body,
        mut inbound: Option<&mut Stat>,
        now: Tick,
        by: Key,
        turned: &mut Turned,
    ) {
        self.undo(body, inbound.as_deref_mut(), now, turned);
        self.progress = Progress::Coming;
        if by.is_counted() {
            let n = self.n();
            body.nodes.each(self.seat, |stat| stat.block(n));
            if let Some(inbound) = inbound {
                inbound.block(n);
            }
        }
    }

    #[inline]
    fn complete(
        &self,
        resource: &Resource,
        body: &mut Body,
        now: Tick,
        (count, rt_ms): (u32, u64),
        turned: &mut Turned,
    ) {
        let (n, is_error) = (u64::from(count), self.is_error);
        body.nodes.each(self.seat, |stat| {
            stat.advance(now);
            stat.complete(n, rt_ms, is_error);
        });
        if let Some(mut inbound) = self.inbound(resource, now) {
            inbound.complete(n, rt_ms, is_error);
        }
        body.breakers.complete(now, rt_ms, is_error, turned);
        self.leave(body, now);
    }

    /// Tells the user slots that let the call through how it ended.
    pub(super) fn tell_users(
        &self,
        resource: &Resource,
        now: Tick,
        (count, rt_ms): (u32, u64),
        outcome: Outcome,
    ) {
        if self.users == 0 {
            return;
        }
        let done = Done { resource: resource.name.text(), count, rt_ms, outcome };
        for slot in resource.shared.chain().passed(self.reached, self.users) {
            slot.exit(now, &done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_moved_with_every_call_and_so_is_small() {
        assert_eq!(size_of::<Entry>(), 96);
    }
}
