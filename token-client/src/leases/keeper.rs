//! The task that looks after the leases of all flows of a client.

use std::{collections::BTreeMap, sync::Arc};

use tokio::time::{Instant, sleep_until};

use super::{LeasedFlow, Leases};
use crate::{
    sync::{join_all, lock},
    time::now,
};

/// Asks for leases and gives them back, until it is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    leases: Arc<Leases>,
    /// When to look at which flow by itself; the number tells flows of one instant apart.
    alarms: BTreeMap<(Instant, u64), Arc<LeasedFlow>>,
    alarms_set: u64,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.leases.end();
    }
}

impl Keeper {
    pub(crate) fn new(leases: Arc<Leases>) -> Self {
        Self { leases, alarms: BTreeMap::new(), alarms_set: 0 }
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut due = Vec::new();
        loop {
            due.append(&mut lock(&self.leases.called).flows);
            let sent = now();
            while let Some(alarm) = self.alarms.first_entry()
                && alarm.key().0 <= sent
            {
                due.push(alarm.remove());
            }
            let mut asking = Vec::new();
            for flow in due.drain(..) {
                let (ask, alarm) = flow.tend(sent);
                if let Some(alarm) = alarm {
                    self.alarms_set += 1;
                    self.alarms.insert((alarm, self.alarms_set), Arc::clone(&flow));
                }
                asking.extend(ask.map(|ask| (flow, ask)));
            }
            if asking.is_empty() {
                self.rest().await;
                continue;
            }
            let replies = join_all(asking.iter().map(|(flow, ask)| flow.ask(ask))).await;
            for ((flow, ask), reply) in asking.iter().zip(&replies) {
                flow.settle(sent, ask, reply);
            }
            due.extend(asking.into_iter().map(|(flow, _)| flow));
        }
    }

    /// Waits until something is due.
    async fn rest(&self) {
        let alarm = async {
            match self.alarms.first_key_value() {
                Some(((alarm, _), _)) => sleep_until(*alarm).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = alarm => {}
            () = self.leases.wake.notified() => {}
        }
    }
}
