//! Leases: tokens of hot flows that a client holds in advance and spends without asking.
//!
//! ```text
//!   check ──► purse of the flow: tokens? ──► pass
//!                 │ no           │ running low
//!                 ▼              ▼
//!        ask the server       keeper ──► asks for the next lease, gives back what is done with
//! ```
//!
//! A call that finds no tokens is not held up: it asks the server as any other. Under
//! `overloadPolicy: share` a call that the server refused, since its namespace is over its request
//! limit, waits for a lease if one may be about to come, and so do those after it for a moment (see
//! [`purse`]); a rule without `lease` is lent tokens only then. A flow has two
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
use limiter::rule::{ClusterConfig, FlowRule, Lease, Mode};
use protocol::{Request, Status, feature, kind};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::{
    NoAnswer,
    line::{Call, Line},
    metrics::Counters,
    outcome::Ruling,
    reply::{Extended, Reply},
    sync::lock,
    time::now,
};
pub(crate) use keeper::Keeper;
use purse::{Answered, Ask, Back, Purse, Spent, Terms};

/// Where one client's leases come from.
#[derive(Debug)]
pub(crate) struct Leases {
    /// The first connection; one is enough for what is asked for in advance.
    line: Arc<Line>,
    counters: Arc<Counters>,
    fixed: Option<NonZeroU32>,
    /// Makes pauses a fifth longer or shorter, so that clients do not come together again and again,
    /// in an order in which the same ones come too late.
    random: Mutex<fastrand::Rng>,
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
    /// Wakes calls that wait for a lease, when none is about to come any more.
    settled: Notify,
    leases: Arc<Leases>,
}

impl Leases {
    pub(crate) fn new(
        line: Arc<Line>,
        counters: Arc<Counters>,
        fixed: Option<NonZeroU32>,
        random: fastrand::Rng,
    ) -> Arc<Self> {
        let (random, called, wake) = (Mutex::new(random), Mutex::default(), Notify::new());
        Arc::new(Self { line, counters, fixed, random, called, wake })
    }

    /// For a flow rule with `config`, if it grants leases, of which this is one of so many clients;
    /// goes on with what `before` has.
    pub(crate) fn flow(
        self: &Arc<Self>,
        rule: &FlowRule,
        config: &ClusterConfig,
        clients: u32,
        before: Option<&Arc<LeasedFlow>>,
    ) -> Option<Arc<LeasedFlow>> {
        let terms = self.terms(rule, config, clients)?;
        if let Some(before) = before {
            lock(&before.purse).set_terms(terms);
            return Some(Arc::clone(before));
        }
        let purse = Mutex::new(Purse::new(terms, now()));
        let (settled, leases) = (Notify::new(), Arc::clone(self));
        Some(Arc::new(LeasedFlow { id: config.flow_id, purse, settled, leases }))
    }

    fn terms(&self, rule: &FlowRule, config: &ClusterConfig, clients: u32) -> Option<Terms> {
        if config.mode != Mode::Enforce {
            return None;
        }
        let ttl = |ms: u32| Duration::from_millis(ms.into());
        if let Some(Lease { max_tokens: max, ttl_ms }) = config.lease() {
            let fixed = self.fixed.map(NonZeroU32::get);
            return Some(Terms {
                max,
                max_for_call: max,
                ttl: ttl(ttl_ms),
                fixed,
                only_over: false,
            });
        }
        let share = rule.share(clients)?;
        Some(Terms {
            max: share.part,
            max_for_call: share.tokens,
            ttl: ttl(share.ttl_ms),
            fixed: None,
            only_over: true,
        })
    }

    /// Whether the server that answered last grants leases.
    pub(crate) fn are_lent(&self) -> bool {
        self.line.lends()
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
    pub(crate) fn spend(self: &Arc<Self>, count: u32) -> Spending {
        let Spent { taken, call, over } = {
            let purse = &mut *lock(&self.purse);
            // Read under the lock, for which there may have been a wait.
            purse.spend(now(), count)
        };
        if call {
            self.leases.call(self);
        }
        if taken {
            self.note(count);
            return Spending::Done;
        }
        // Without a server it is the rule's fallback that decides.
        let over = over && self.leases.line.session(feature::LEASE).is_some();
        if over { Spending::Over } else { Spending::Nothing }
    }

    /// The server has refused a call for `count` tokens since the namespace is over its limit.
    pub(crate) fn refused(self: &Arc<Self>, count: u32, priority: bool) {
        let call = {
            let (purse, now) = (&mut *lock(&self.purse), now());
            // Calls without priority have been noted before they were sent.
            if priority {
                purse.note(now, count);
            }
            purse.refused(now, count)
        };
        if call {
            self.leases.call(self);
        }
    }

    /// Spends `count` tokens of a lease for a call that the server refused, or would refuse; waits
    /// for one that may be about to come, for a time-out at most.
    pub(crate) async fn share(self: &Arc<Self>, count: u32) -> Option<Ruling> {
        // From here on none that settles is missed.
        let settled = self.settled.notified();
        let (mut taken, waits) = {
            let purse = &mut *lock(&self.purse);
            let taken = purse.take(now(), count);
            (taken, !taken && purse.wait(count))
        };
        if waits {
            let _waiting = Waiting(self);
            if timeout(self.leases.line.timeout(), settled).await.is_ok() {
                taken = lock(&self.purse).take(now(), count);
            }
        }
        taken.then(|| {
            self.note(count);
            Ruling::Lent
        })
    }

    fn note(&self, count: u32) {
        self.leases.counters.leased.add(1);
        self.leases.counters.lease_tokens_spent.add(count.into());
    }

    /// Goes on with the part that one of so many clients has of `rule`, whose leases these are.
    pub(crate) fn divide(&self, rule: &FlowRule, clients: u32) {
        let config = rule.cluster.as_ref();
        if let Some(terms) = config.and_then(|config| self.leases.terms(rule, config, clients)) {
            lock(&self.purse).set_terms(terms);
        }
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
        let (look, is_coming) = {
            let purse = &mut *lock(&self.purse);
            (purse.look(now, session), purse.is_coming())
        };
        if !is_coming {
            self.settled.notify_waiters();
        }
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
        let stretch = 0.8 + 0.4 * lock(&self.leases.random).f64();
        lock(&self.purse).settle(now(), sent, ask.session, answered, stretch);
        self.settled.notify_waiters();
    }
}

/// A call that waits for a lease of a flow, until it is dropped.
struct Waiting<'a>(&'a Arc<LeasedFlow>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let call = lock(&self.0.purse).leave();
        if call {
            self.0.leases.call(self.0);
        }
    }
}

/// What came of an attempt to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spending {
    /// The tokens are taken.
    Done,
    /// There are none, and the server would refuse: its namespace is over its limit.
    Over,
    /// There are none.
    Nothing,
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
