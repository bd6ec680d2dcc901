//! The concurrency tokens that a client's guards hold, kept by one task for all of them.
//!
//! ```text
//!             acquire, renewed                    renewal answered 7,
//!                    ┌───────┐  or not confirmed until its end  ┌──────┐
//!   hold ──────────► │ held  │ ────────────────────────────────► │ lost │
//!                    │       │ ◄──────────────────────────────── │      │
//!                    └───┬───┘      acquired again               └──┬───┘
//!        guard dropped   │ release                    guard dropped │
//!                        ▼                                          ▼
//!             gone (or returned, until there is a connection)     gone
//! ```
//!
//! A guard's release is queued when the guard is dropped, in front of whatever its caller asks
//! next. Renewals stand in one queue, ordered by time: the keeper asks for all that are due
//! together, and for all there are when a connection is new, since the tokens belong to the old
//! one until then.
//!
//! A token's end is counted from when its request was sent, so it comes here no later than at the
//! server.

mod desk;
mod keeper;
mod table;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use protocol::Status;
use tokio::{sync::Notify, time::Instant};

use crate::{NoAnswer, answer::check_tokens, sync::lock, time::now};
pub(crate) use desk::Desk;
use desk::{Job, Reply};
pub(crate) use keeper::Keeper;
use table::{Entry, Events, State, Table, renewal};

/// Most tokens that one client holds: as many as a server allows all its clients by default.
const HOLDS_MAX: usize = 1_000_000;

/// Most guards that are looked after at once: some tens of microseconds for the caller that waits
/// for the table.
const BATCH: usize = 1_024;

/// The tokens of one client, and where they come from.
#[derive(Debug)]
pub(crate) struct Holds {
    desk: Desk,
    table: Mutex<Table>,
    /// Wakes the keeper.
    wake: Notify,
    /// Tells everybody who waits for a loss.
    lost: Notify,
}

/// A guard's hold on its token; releases it on drop.
#[derive(Debug)]
pub(crate) struct Token {
    holds: Arc<Holds>,
    key: u64,
}

impl Holds {
    pub(crate) fn new(desk: Desk) -> Arc<Self> {
        let (table, wake, lost) = (Mutex::default(), Notify::new(), Notify::new());
        Arc::new(Self { desk, table, wake, lost })
    }

    /// Asks for a token, and says what the server said. What it grants is released again when the
    /// future is dropped, and when the answer comes too late.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        flow_id: i64,
        count: u32,
        timeout: Duration,
    ) -> Result<(Status, Option<Token>), NoAnswer> {
        let wanted = Job::Acquire { flow_id, count: check_tokens(flow_id, count)? };
        {
            let table = lock(&self.table);
            if table.ended {
                return Err(NoAnswer::Unreachable);
            }
            if table.entries.len() >= HOLDS_MAX {
                return Err(NoAnswer::Busy);
            }
        }
        let asked = now();
        let (status, token) = self.desk.ask(wanted).await?;
        // From here to the guard there is no place to be dropped at.
        let token = token.map(|token| {
            let entry = Entry {
                flow_id,
                count,
                timeout,
                state: State::Held { token, ends: asked + timeout },
                losses: 0,
                next: None,
            };
            let key = self.insert(entry, asked + renewal(timeout));
            Token { holds: Arc::clone(self), key }
        });
        Ok((status, token))
    }

    /// Tokens that are held, lost, or still to be given back.
    pub(crate) fn len(&self) -> usize {
        lock(&self.table).entries.len()
    }

    /// Whether there has ever been a token.
    pub(crate) fn were_used(&self) -> bool {
        lock(&self.table).next_key > 0
    }

    fn insert(&self, entry: Entry, next: Instant) -> u64 {
        let table = &mut *lock(&self.table);
        let key = table.next_key;
        table.next_key += 1;
        table.entries.insert(key, entry);
        self.schedule(table, key, next);
        key
    }

    /// Has the entry looked at at `next`.
    fn schedule(&self, table: &mut Table, key: u64, next: Instant) {
        table.schedule(key, next);
        // A keeper that wakes earlier sees it then.
        if table.alarm.is_none_or(|alarm| next < alarm) {
            table.alarm = Some(next);
            self.wake.notify_one();
        }
    }

    /// Whether a guard's token is held, and how often it was lost.
    fn look(&self, key: u64) -> (bool, u32) {
        let table = lock(&self.table);
        // A guard that asks has an entry.
        let Some(Entry { state, losses, .. }) = table.entries.get(&key) else { return (false, 0) };
        let held = matches!(state, State::Held { ends, .. } if !table.ended && now() < *ends);
        (held, *losses)
    }

    /// The guard is gone.
    fn give_back(&self, key: u64) {
        let Some(entry) = lock(&self.table).remove(key) else { return };
        let State::Held { token, ends } = entry.state else { return };
        if self.desk.release(token) {
            return;
        }
        let table = &mut *lock(&self.table);
        if !table.ended {
            let state = State::Returned { token, ends };
            table.entries.insert(key, Entry { state, next: None, ..entry });
            self.schedule(table, key, now());
        }
    }

    /// What is to be asked now about guards of `backlog` and such as are due, at most [`BATCH`]; and
    /// those that were found lost.
    fn due(&self, backlog: &mut Vec<u64>) -> (Vec<(u64, Job)>, Events) {
        let (now, able) = (now(), self.desk.session().is_some());
        let (mut jobs, mut events) = (Vec::new(), Events::default());
        let table = &mut *lock(&self.table);
        for _ in 0..BATCH {
            let Some(key) = backlog.pop().or_else(|| table.first(now)) else { break };
            jobs.extend(table.job(key, now, able, &mut events).map(|job| (key, job)));
        }
        table.alarm = table.queue.first().map(|(next, _)| *next);
        (jobs, events)
    }

    /// Takes note of what was answered to jobs that were sent at `sent`.
    fn settle(&self, sent: Instant, replies: Vec<(u64, Job, Reply)>) -> Events {
        let (mut events, mut unwanted) = (Events::default(), Vec::new());
        {
            let table = &mut *lock(&self.table);
            for (key, job, reply) in replies {
                unwanted.extend(table.settle(key, job, reply, sent, &mut events));
            }
        }
        for token in unwanted {
            // Without a connection the server ends it.
            let _released = self.desk.release(token);
        }
        events
    }

    /// Nobody looks after the guards any more.
    pub(crate) fn end(&self) {
        let table = &mut *lock(&self.table);
        table.ended = true;
        table.entries.retain(|_, entry| !matches!(entry.state, State::Returned { .. }));
        table.queue.clear();
        self.lost.notify_waiters();
    }
}

impl Token {
    pub(crate) fn is_held(&self) -> bool {
        self.holds.look(self.key).0
    }

    /// Resolves once the token is not held, also if it is held again by then.
    pub(crate) async fn lost(&self) {
        let (_, before) = self.holds.look(self.key);
        loop {
            let lost = self.holds.lost.notified();
            let (held, losses) = self.holds.look(self.key);
            if !held || losses != before {
                return;
            }
            lost.await;
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.holds.give_back(self.key);
    }
}
