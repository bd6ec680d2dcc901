//! What is known of each token, and what is to be done about it when.

use std::{collections::BTreeSet, time::Duration};

use protocol::Status;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::desk::{Job, Reply};
use crate::time::now;

/// Every token, and when it is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) entries: FxHashMap<u64, Entry>,
    /// Every entry that is to be looked at, by when.
    pub(super) queue: BTreeSet<(Instant, u64)>,
    /// Never used twice.
    pub(super) next_key: u64,
    /// When the keeper wakes by itself.
    pub(super) alarm: Option<Instant>,
    /// There is no keeper any more.
    pub(super) ended: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) flow_id: i64,
    pub(super) count: u32,
    /// How long the server holds the token after an acquire or a renewal.
    pub(super) timeout: Duration,
    pub(super) state: State,
    /// How often it was lost.
    pub(super) losses: u32,
    /// Its place in the queue; `None` while it is asked about, or waits for a connection.
    pub(super) next: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Held {
        token: i64,
        ends: Instant,
    },
    Lost,
    /// The guard is gone, and there was no connection to say so.
    Returned {
        token: i64,
        ends: Instant,
    },
}

/// What happened to guards, for the listeners.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Flow id and count of each.
    pub(super) lost: Vec<(i64, u32)>,
    pub(super) regained: Vec<(i64, u32)>,
}

impl Table {
    pub(super) fn remove(&mut self, key: u64) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        if let Some(next) = entry.next {
            self.queue.remove(&(next, key));
        }
        Some(entry)
    }

    pub(super) fn schedule(&mut self, key: u64, next: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(before) = entry.next.replace(next) {
            self.queue.remove(&(before, key));
        }
        self.queue.insert((next, key));
    }

    /// The next entry that is due.
    pub(super) fn first(&self, now: Instant) -> Option<u64> {
        self.queue.first().filter(|(next, _)| *next <= now).map(|(_, key)| *key)
    }

    /// What is to be asked about an entry, which is not in the queue then. `able`: whether there is
    /// anybody to ask.
    pub(super) fn job(
        &mut self,
        key: u64,
        now: Instant,
        able: bool,
        events: &mut Events,
    ) -> Option<Job> {
        let entry = self.entries.get_mut(&key)?;
        if let Some(next) = entry.next.take() {
            self.queue.remove(&(next, key));
        }
        match entry.state {
            State::Held { ends, .. } | State::Returned { ends, .. } if now < ends && !able => {
                self.schedule(key, ends);
                None
            }
            State::Held { token, ends } if now < ends => Some(Job::Renew { token }),
            State::Returned { token, ends } if now < ends => Some(Job::Release { token }),
            State::Returned { .. } => {
                self.remove(key);
                None
            }
            State::Held { .. } | State::Lost => {
                if matches!(entry.state, State::Held { .. }) {
                    entry.lose(events);
                }
                // It is in the queue again when there is a connection.
                let count = i32::try_from(entry.count).ok()?;
                able.then_some(Job::Acquire { flow_id: entry.flow_id, count })
            }
        }
    }

    /// Takes note of an answer. A token comes back that nobody wants any more.
    pub(super) fn settle(
        &mut self,
        key: u64,
        job: Job,
        reply: Reply,
        sent: Instant,
        events: &mut Events,
    ) -> Option<i64> {
        let granted = reply.ok().and_then(|(_, token)| token);
        let Some(entry) = self.entries.get_mut(&key) else { return granted };
        let (timeout, now) = (entry.timeout, now());
        match (job, entry.state, reply) {
            (Job::Renew { .. }, State::Held { token, .. }, Ok((Status::Ok, _))) => {
                entry.state = State::Held { token, ends: sent + timeout };
                self.schedule(key, sent + renewal(timeout));
            }
            (Job::Renew { .. }, State::Held { .. }, Ok((Status::AlreadyRelease, _))) => {
                entry.lose(events);
                self.schedule(key, now);
            }
            (Job::Renew { .. }, State::Held { ends, .. }, Ok(_) | Err(_)) => {
                self.schedule(key, ends.min(now + retry(timeout)));
            }
            (Job::Acquire { .. }, State::Lost, reply) => {
                if let (Ok((Status::Ok, _)), Some(token)) = (reply, granted) {
                    entry.state = State::Held { token, ends: sent + timeout };
                    events.regained.push((entry.flow_id, entry.count));
                }
                self.schedule(key, sent + renewal(timeout));
                return None;
            }
            (Job::Release { .. }, State::Returned { .. }, Ok(_)) => drop(self.remove(key)),
            (Job::Release { .. }, State::Returned { .. }, Err(_)) => {
                self.schedule(key, now + RETRY_MIN);
            }
            // The guard was dropped meanwhile, and its return is in the queue already.
            (Job::Renew { .. } | Job::Acquire { .. } | Job::Release { .. }, ..) => return granted,
        }
        None
    }
}

impl Entry {
    fn lose(&mut self, events: &mut Events) {
        self.state = State::Lost;
        self.losses = self.losses.wrapping_add(1);
        events.lost.push((self.flow_id, self.count));
    }
}

/// Time from a token's acquire or renewal to the next one: a third of what it has.
pub(super) fn renewal(timeout: Duration) -> Duration {
    (timeout / 3).max(Duration::from_millis(1))
}

const RETRY_MIN: Duration = Duration::from_millis(10);

/// Time to the next attempt after a renewal without an answer.
fn retry(timeout: Duration) -> Duration {
    (timeout / 10).max(RETRY_MIN)
}
