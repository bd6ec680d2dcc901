//! A call that was let through.

mod ticket;

pub(super) use ticket::{Progress, Ticket};

use std::sync::Arc;

use super::{
    Outcome, breakers::Turned, context::EntryContext, inbound, observer::Telling,
    resource::Resource,
};
use crate::{Tick, sync::lock};

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
        let mut telling = Telling::default();
        ticket.tell_users(&resource, now, (count, rt_ms), outcome, &mut telling);
        resource.tell(now, &mut turned, &mut telling);
        telling.end();
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.finish(None, self.ticket.count);
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
