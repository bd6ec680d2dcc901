//! The task that looks after all guards of a client.

use std::sync::Arc;

use tokio::time::sleep_until;
use tracing::{info, warn};

use super::{Events, Holds};
use crate::{
    RuleId,
    listener::Listeners,
    metrics::Counters,
    sync::{join_all, lock},
    time::now,
};

/// Renews what is held and asks again for what is lost, until it is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) holds: Arc<Holds>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) listeners: Arc<Listeners>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.holds.end();
    }
}

impl Keeper {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let (mut session, mut backlog) = (None, Vec::new());
        loop {
            let current = self.holds.desk.session();
            if current.is_some() && current != session {
                session = current;
                backlog = lock(&self.holds.table).entries.keys().copied().collect();
            }
            let (jobs, events) = self.holds.due(&mut backlog);
            self.tell(events);
            if jobs.is_empty() {
                if backlog.is_empty() {
                    self.rest().await;
                }
                continue;
            }
            let sent = now();
            let asked = jobs.iter().map(|(_, job)| self.holds.desk.ask(*job));
            let replies = join_all(asked).await;
            let answered = jobs.into_iter().zip(replies);
            let answered = answered.map(|((key, job), reply)| (key, job, reply)).collect();
            self.tell(self.holds.settle(sent, answered));
        }
    }

    /// Waits until something is due.
    async fn rest(&self) {
        let alarm = lock(&self.holds.table).alarm;
        let due = async {
            match alarm {
                Some(alarm) => sleep_until(alarm).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            () = self.holds.wake.notified() => {}
            () = self.holds.desk.changed() => {}
        }
    }

    fn tell(&self, Events { lost, regained }: Events) {
        if !lost.is_empty() {
            warn!(holds = lost.len(), "the token server no longer holds what it granted");
            self.counters.holds_lost.add(lost.len() as u64);
            self.holds.lost.notify_waiters();
        }
        if !regained.is_empty() {
            info!(holds = regained.len(), "the token server holds again what was lost");
            self.counters.holds_regained.add(regained.len() as u64);
        }
        for (flow_id, count) in lost {
            self.listeners.lost(RuleId::Flow(flow_id), count);
        }
        for (flow_id, count) in regained {
            self.listeners.regained(RuleId::Flow(flow_id), count);
        }
    }
}
