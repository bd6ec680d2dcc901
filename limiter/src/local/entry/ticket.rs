//! What is known of a call, from its enter to its end: what it has taken, and how that is given back.

use crate::local::{
    Arg, Done, Outcome,
    breakers::Turned,
    chain::Key,
    hot::Gateway,
    node::{NONE, Seat},
    observer::Telling,
    open,
    resource::{Body, Resource},
    stat::{BucketId, Stat},
};
use crate::{Tick, sync::MutexGuard};

/// What is known of a call on its way and until its end.
#[derive(Debug)]
pub(in crate::local) struct Ticket {
    pub(in crate::local) created: Tick,
    /// Tokens asked for.
    pub(in crate::local) count: u32,
    pub(in crate::local) seat: Seat,
    /// Where among the inbound nodes it counts.
    pub(in crate::local) inbound: u8,
    pub(super) is_error: bool,
    pub(in crate::local) progress: Progress,
    /// Place in the list of open entries.
    pub(in crate::local) open: u32,
    /// The last slot that it came through, and how many user slots there were when it began.
    pub(in crate::local) reached: Key,
    pub(in crate::local) users: u32,
    /// The number of a call that probes breakers; 0 for others.
    pub(in crate::local) probe: u64,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::local) enum Progress {
    /// Nothing is counted.
    Coming,
    /// It is counted as passed and in progress: `None` for tokens that were borrowed. Slots behind
    /// may still refuse it.
    Taken(Option<(BucketId, BucketId)>),
    Admitted,
}

impl Ticket {
    pub(in crate::local) const fn new(created: Tick, count: u32, inbound: u8) -> Self {
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
    pub(in crate::local) const fn n(&self) -> u64 {
        self.count as u64
    }

    /// Whole milliseconds since the call was first made.
    #[inline]
    pub(in crate::local) const fn rt_ms(&self, now: Tick) -> u64 {
        now.0.saturating_sub(self.created.0) / 1_000_000
    }

    /// Locks the inbound node if the call counts there, after the resource.
    #[inline]
    pub(in crate::local) fn inbound<'r>(
        &self,
        resource: &'r Resource,
        now: Tick,
    ) -> Option<MutexGuard<'r, Stat>> {
        resource.shared.inbound.lock(self.inbound, now)
    }

    /// Counts the call as passed and in progress, or only as in progress if its tokens are counted
    /// already.
    #[inline]
    pub(in crate::local) fn take(
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
        self.open = body.open.insert(self.created);
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
    pub(super) fn undo(
        &self,
        body: &mut Body,
        inbound: Option<&mut Stat>,
        now: Tick,
        turned: &mut Turned,
    ) {
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
    pub(in crate::local) fn refuse(
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
    pub(super) fn complete(
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
    pub(in crate::local) fn tell_users(
        &self,
        resource: &Resource,
        now: Tick,
        (count, rt_ms): (u32, u64),
        outcome: Outcome,
        telling: &mut Telling,
    ) {
        if self.users == 0 {
            return;
        }
        let done = Done { resource: resource.name.text(), count, rt_ms, outcome };
        for slot in resource.shared.chain().passed(self.reached, self.users) {
            telling.tell(|| slot.exit(now, &done));
        }
    }
}
