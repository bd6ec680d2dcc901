//! Leases: tokens of hot flows that a client holds in advance and spends without asking.
//!
//! ```text
//!   check ──► purse of the flow: tokens? ──► pass
//!                 │ no           │ running low
//!                 ▼              ▼
//!        ask the server       keeper ──► asks for the next lease, gives back what is done with
//! ```
//!
//! A call that finds no tokens is not held up: it asks the server as any other. A flow has two
//! leases at most, the one that is spent and the next, each sized for half of a lease's life. One
//! task looks after the leases of all flows; each flow has one request on its way at a time.
//!
//! Leases never admit more than the rule. The server charges one from its grant until a window
//! after its end, or after it came back; the client's end is never later (see [`purse`]). That
//! holds across connections: the server that granted a lease goes on charging it whether it hears
//! of the client or not, and a snapshot keeps it over a restart. A server that forgot what it
//! granted has forgotten what it counted, too. A lease goes back only over the connection that it
//! came from: any other may lead to a server that never knew it.

mod demand;
mod keeper;
mod purse;

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::BytesMut;
use limiter::rule::{ClusterConfig, Lease, Mode};
use protocol::{Request, Status, feature, kind};
use tokio::{sync::Notify, time::Instant};

use crate::{
    NoAnswer,
    line::{Call, Line},
    metrics::Counters,
    reply::{Extended, Reply},
    sync::lock,
    time::now,
};
pub(crate) use keeper::Keeper;
use purse::{Answered, Ask, Back, Purse, Terms};

/// Where one client's leases come from.
#[derive(Debug)]
pub(crate) struct Leases {
    /// The first connection; one is enough for what is asked for in advance.
    line: Arc<Line>,
    counters: Arc<Counters>,
    fixed: Option<NonZeroU32>,
    called: Mutex<Called>,
    /// Wakes the keeper.
    wake: Notify,
}

/// Who called the keeper.
#[derive(Debug, Default)]
struct Called {
    flows: Vec<Arc<LeasedFlow>>,
    /// There is no keeper any more.
    ended: bool,
}

/// A flow whose rule grants leases, and those that the client has.
#[derive(Debug)]
pub(crate) struct LeasedFlow {
    id: i64,
    purse: Mutex<Purse>,
    leases: Arc<Leases>,
}

impl Leases {
    pub(crate) fn new(
        line: Arc<Line>,
        counters: Arc<Counters>,
        fixed: Option<NonZeroU32>,
    ) -> Arc<Self> {
        let (called, wake) = (Mutex::default(), Notify::new());
        Arc::new(Self { line, counters, fixed, called, wake })
    }

    /// For a flow rule with `config`, if it grants leases; goes on with what `before` has.
    pub(crate) fn flow(
        self: &Arc<Self>,
        config: &ClusterConfig,
        before: Option<&Arc<LeasedFlow>>,
    ) -> Option<Arc<LeasedFlow>> {
        let Lease { max_tokens, ttl_ms } = config.lease()?;
        if config.mode != Mode::Enforce {
            return None;
        }
        let terms = Terms {
            max: max_tokens,
            ttl: Duration::from_millis(ttl_ms.into()),
            fixed: self.fixed.map(NonZeroU32::get),
        };
        if let Some(before) = before {
            lock(&before.purse).set_terms(terms);
            return Some(Arc::clone(before));
        }
        let purse = Mutex::new(Purse::new(terms, now()));
        Some(Arc::new(LeasedFlow { id: config.flow_id, purse, leases: Arc::clone(self) }))
    }

    fn call(&self, flow: &Arc<LeasedFlow>) {
        {
            let called = &mut *lock(&self.called);
            if called.ended {
                return;
            }
            called.flows.push(Arc::clone(flow));
        }
        self.wake.notify_one();
    }

    fn end(&self) {
        *lock(&self.called) = Called { flows: Vec::new(), ended: true };
    }
}

impl LeasedFlow {
    /// Spends `count` tokens of a lease, if there is one with as many left.
    pub(crate) fn spend(self: &Arc<Self>, count: u32) -> bool {
        let spent = {
            let purse = &mut *lock(&self.purse);
            // Read under the lock, for which there may have been a wait.
            purse.spend(now(), count)
        };
        if spent.call {
            self.leases.call(self);
        }
        if spent.taken {
            self.leases.counters.leased.add(1);
            self.leases.counters.lease_tokens_spent.add(count.into());
        }
        spent.taken
    }

    /// Gives everything back and spends nothing from now on. What is granted after that goes back
    /// as it comes.
    pub(crate) fn close(&self) {
        lock(&self.purse).close();
        let _nothing = self.tend(now());
    }

    /// Gives back what is to go back. Returns what is to be asked for, and when to come again.
    fn tend(&self, now: Instant) -> (Option<Ask>, Option<Instant>) {
        let session = self.leases.line.session(feature::LEASE);
        let look = lock(&self.purse).look(now, session);
        self.leases.counters.lease_tokens_lost.add(look.lost);
        for back in look.back {
            let line = &self.leases.line;
            let sent = session.is_some_and(|it| line.give_back(it, self.id, back.id, back.used));
            self.went_back(back, sent);
        }
        (look.ask, look.alarm)
    }

    fn went_back(&self, Back { unspent, .. }: Back, sent: bool) {
        let counters = &self.leases.counters;
        let unspent = u64::from(unspent);
        if sent {
            counters.leases_returned.add(1);
            counters.lease_tokens_returned.add(unspent);
        } else {
            counters.lease_tokens_lost.add(unspent);
        }
    }

    async fn ask(&self, &Ask { session, want, back }: &Ask) -> Result<Reply, NoAnswer> {
        let (flow_id, returned) = (self.id, back.map_or(0, |back| back.id));
        let used = back.map_or(0, |back| back.used);
        let encode = |xid, out: &mut BytesMut| {
            Request::Lease { xid, flow_id, want, returned, used }.encode(out)
        };
        let lines = std::slice::from_ref(&self.leases.line);
        Call::new(kind::LEASE, encode, lines, 0).needing(feature::LEASE).over(session).await
    }

    fn settle(&self, sent: Instant, ask: &Ask, reply: &Result<Reply, NoAnswer>) {
        if let Some(back) = ask.back {
            self.went_back(back, matches!(reply, Ok(_) | Err(NoAnswer::TimedOut)));
        }
        let answered = understood(reply);
        let counters = &self.leases.counters;
        match answered {
            Answered::Granted { tokens, .. } => {
                counters.leases_granted.add(1);
                counters.lease_tokens_granted.add(tokens.into());
            }
            Answered::Nothing | Answered::Never => counters.leases_refused.add(1),
            Answered::NoAnswer => {}
        }
        lock(&self.purse).settle(now(), sent, ask.session, answered);
    }
}

fn understood(reply: &Result<Reply, NoAnswer>) -> Answered {
    let Ok(reply) = reply else { return Answered::NoAnswer };
    if let Reply::Extended(extended) = reply
        && let Extended::Lease { status: Status::Ok, lease_id, granted, ttl_ms, .. } = **extended
        && lease_id != 0
    {
        let ttl = Duration::from_millis(ttl_ms.into());
        return Answered::Granted { id: lease_id, tokens: granted, ttl };
    }
    match reply.status() {
        Some(Status::AlreadyRelease | Status::NoRuleExists | Status::BadRequest) => Answered::Never,
        _ => Answered::Nothing,
    }
}

/// Whether two places stand for the same flow's leases.
pub(crate) fn is_same(a: Option<&Arc<LeasedFlow>>, b: Option<&Arc<LeasedFlow>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}
