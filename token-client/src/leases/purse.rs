//! The leases of one flow that a client has, and what is to be done about them. No I/O and no
//! clock.
//!
//! A lease is spent until a time to live after its request was *sent*. The server counts from when
//! that came, and so never has an end before the client has. What goes back is removed first, and
//! can no longer be spent. The clock of a suspended machine stands still: what it held then, it may
//! spend when it wakes.
//!
//! While the namespace is over its limit, calls are not sent one by one. Then a lease is asked for as
//! soon as there is none, but not before a period after the last answer, and only for a call that came
//! within a lease's life after another: so few requests stand for any number of calls, and calls that
//! come now and then cost no more than the one that was refused.
//!
//! Tokens that no call fits are of no use here and missing elsewhere: they go back at once, whether
//! they are all that was granted or what calls have left.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::{num::NonZeroU64, time::Duration};

use tokio::time::Instant;

use super::demand::Demand;

/// Longest time for which demand is looked after: what nobody asks for within it goes back, however
/// long a lease lives.
const PERIOD_MAX: Duration = Duration::from_secs(1);

/// Time to the next request after a server said that there are no leases.
const NEVER_AGAIN: Duration = Duration::from_secs(5);

/// The same when there was no answer, or no server that knows leases.
const NO_ANSWER: Duration = Duration::from_secs(1);

/// How much slower a clock may run than another by the time service's own rules: 500 millionths
/// each way.
const CLOCKS_DIFFER: u32 = 1_000;

/// What the rule and the client's configuration say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Most tokens of one lease, unless a single call needs more.
    pub(crate) max: u32,
    /// The same for one that a single call needs.
    pub(crate) max_for_call: u32,
    pub(crate) ttl: Duration,
    /// Tokens of each lease; `None`: by demand.
    pub(crate) fixed: Option<u32>,
    /// Leases are asked for only while the namespace is over its limit.
    pub(crate) only_over: bool,
}

impl Terms {
    /// Time for which a lease is to last: half of its life, since the next one is asked for when
    /// half of it is spent.
    fn period(&self) -> Duration {
        (self.ttl / 2).min(PERIOD_MAX)
    }

    /// Whether a request is made for a lease only to go back: not for one that is spent of a share, so
    /// that a namespace makes no more requests over its limit than it has calls, and comes out of
    /// that as soon as it may make as many.
    fn goes_back_alone(&self, lease: &Lease) -> bool {
        lease.left > 0 || !self.only_over
    }
}

/// The leases of one flow.
#[derive(Debug)]
pub(super) struct Purse {
    terms: Terms,
    /// Oldest first: one or two with tokens, and those that are to go back.
    leases: Vec<Lease>,
    demand: Demand,
    /// A request is on its way.
    asking: bool,
    /// The keeper has been called for a lease and has not looked yet; so many tokens are needed by
    /// the call that did.
    called: Option<u32>,
    /// Calls that wait for a lease. Until they have had the first pick nothing goes back.
    waiting: u32,
    /// No request before then.
    not_before: Instant,
    /// Until then the namespace is taken to be over its limit: for two periods from when the server
    /// last said so. After that it is asked again.
    over_until: Instant,
    /// When the keeper looks by itself.
    alarm: Option<Instant>,
    /// Nothing is spent any more.
    closed: bool,
}

#[derive(Debug)]
struct Lease {
    id: i64,
    /// The connection to the server that granted it.
    session: NonZeroU64,
    tokens: u32,
    left: u32,
    half: Instant,
    /// From when it goes back in any case, so that what is not spent is not charged.
    tired: Instant,
    ends: Instant,
}

/// What came of an attempt to spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) taken: bool,
    /// The keeper is to be called.
    pub(super) call: bool,
    /// The server is not to be asked: the namespace is over its limit.
    pub(super) over: bool,
}

/// A lease that goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Back {
    pub(super) id: i64,
    pub(super) used: u32,
    pub(super) unspent: u32,
}

/// A lease that is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) session: NonZeroU64,
    pub(super) want: u32,
    /// One that goes back with the request.
    pub(super) back: Option<Back>,
}

/// What the keeper is to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Leases that go back by themselves.
    pub(super) back: Vec<Back>,
    pub(super) ask: Option<Ask>,
    /// Tokens that nobody has spent and that cannot go back.
    pub(super) lost: u64,
    /// When to look again, unless it is known already.
    pub(super) alarm: Option<Instant>,
}

/// A server's answer to a request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Granted {
        id: i64,
        tokens: u32,
        ttl: Duration,
    },
    /// There was nothing to be had.
    Nothing,
    /// There are no leases.
    Never,
    NoAnswer,
}

impl Purse {
    pub(super) fn new(terms: Terms, now: Instant) -> Self {
        Self {
            terms,
            leases: Vec::new(),
            demand: Demand::new(now),
            asking: false,
            called: None,
            waiting: 0,
            not_before: now,
            over_until: now,
            alarm: None,
            closed: false,
        }
    }

    /// Other terms for leases that are asked for from now on.
    pub(super) fn set_terms(&mut self, terms: Terms) {
        self.terms = terms;
    }

    /// Spends nothing from now on; the next look gives everything back.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Spends `count` tokens of one lease, if one has as many.
    pub(super) fn spend(&mut self, now: Instant, count: u32) -> Spent {
        if self.closed || count == 0 {
            return Spent::default();
        }
        self.note(now, count);
        let left = self.pick(now, count);
        let call = self.calls(now, count) || left.is_some_and(|left| self.is_scrap(left));
        Spent { taken: left.is_some(), call, over: left.is_none() && self.is_over(now) }
    }

    /// The same for a call that is known already.
    pub(super) fn take(&mut self, now: Instant, count: u32) -> bool {
        self.pick(now, count).is_some()
    }

    /// Spends `count` tokens of one lease, and says how many that has left.
    fn pick(&mut self, now: Instant, count: u32) -> Option<u32> {
        let fits = |lease: &&mut Lease| now < lease.ends && lease.left >= count;
        let lease = self.leases.iter_mut().find(fits).filter(|_| !self.closed)?;
        lease.left -= count;
        Some(lease.left)
    }

    /// Takes note of a call that needs so many. None is lent as many as no lease may have.
    pub(super) fn note(&mut self, now: Instant, count: u32) {
        if count <= self.terms.max_for_call {
            self.demand.note(now, count, self.terms.period());
        }
    }

    /// The server has refused a call for `count` tokens since the namespace is over its limit.
    /// Whether the keeper is to be called.
    pub(super) fn refused(&mut self, now: Instant, count: u32) -> bool {
        self.over_until = now + 2 * self.terms.period();
        self.calls(now, count)
    }

    /// Whether a lease may be about to come.
    pub(super) fn is_coming(&self) -> bool {
        self.asking || self.called.is_some()
    }

    /// Whether a lease may be about to come that a call for `count` tokens can be paid from; then the
    /// call waits from now on.
    pub(super) fn wait(&mut self, count: u32) -> bool {
        let waits = self.is_coming() && count <= self.terms.max_for_call;
        self.waiting += u32::from(waits);
        waits
    }

    /// A call has stopped to wait. Whether the keeper is to be called, to look what is left.
    pub(super) fn leave(&mut self) -> bool {
        self.waiting -= 1;
        self.waiting == 0 && !self.leases.is_empty()
    }

    fn is_over(&self, now: Instant) -> bool {
        now < self.over_until
    }

    /// Whether to call the keeper for a lease, which is taken as called then.
    fn calls(&mut self, now: Instant, count: u32) -> bool {
        let fits = count <= self.terms.max_for_call;
        let call = fits && self.called.is_none() && self.wants(now);
        if call {
            self.called = Some(count);
        }
        call
    }

    /// Whether so many tokens of a lease are some, and of no use.
    fn is_scrap(&self, left: u32) -> bool {
        left > 0 && left < self.demand.smallest()
    }

    /// Whether a lease is to be asked for.
    fn wants(&self, now: Instant) -> bool {
        let may = !self.asking && !self.closed && now >= self.not_before;
        let needs = if self.is_over(now) {
            self.demand.comes_within(2 * self.terms.period())
        } else {
            !self.terms.only_over && self.demand.repeats()
        };
        may && needs && self.is_low(now)
    }

    /// Whether what there is may not last for another period.
    fn is_low(&self, now: Instant) -> bool {
        let is_usable =
            |lease: &&Lease| lease.left > 0 && !self.is_scrap(lease.left) && now < lease.ends;
        let mut usable = self.leases.iter().filter(is_usable);
        match (usable.next(), usable.next()) {
            (None, _) => true,
            (Some(only), None) => only.left < only.tokens.div_ceil(2) || now >= only.half,
            (Some(_), Some(_)) => false,
        }
    }

    /// Nobody has asked for a period.
    fn idle_from(&self) -> Instant {
        self.demand.last() + self.terms.period()
    }

    /// Whether a lease goes back as it is.
    fn is_due(&self, lease: &Lease, now: Instant) -> bool {
        let is_done = now >= self.idle_from() || now >= lease.tired || self.is_scrap(lease.left);
        self.closed || self.waiting == 0 && self.terms.goes_back_alone(lease) && is_done
    }

    /// What is to be done now over `session`, if there is one. A request is taken as sent.
    pub(super) fn look(&mut self, now: Instant, session: Option<NonZeroU64>) -> Look {
        let called = self.called.take();
        self.alarm = self.alarm.filter(|alarm| now < *alarm);
        // Only for one who calls: nobody may come any more.
        let needed = called.filter(|_| self.waiting > 0 || now < self.idle_from());
        let needed = needed.filter(|_| self.wants(now));
        if needed.is_some() && session.is_none() {
            self.not_before = now + self.pause(now, NO_ANSWER);
            self.over_until = now;
        }
        let asks = session.zip(needed);
        let no_ask_soon = now < self.not_before;
        let mut look = Look::default();
        for lease in std::mem::take(&mut self.leases) {
            let here = session == Some(lease.session);
            // What is spent goes back with a request, or by itself where that is allowed.
            let is_spent = lease.left == 0
                && (asks.is_some() || no_ask_soon && self.terms.goes_back_alone(&lease));
            if now >= lease.ends || !here && (self.closed || lease.left == 0) {
                look.lost += u64::from(lease.left);
            } else if here && (is_spent || self.is_due(&lease, now)) {
                look.back.push(lease.back());
            } else {
                self.leases.push(lease);
            }
        }
        look.ask = asks.map(|(session, needed)| Ask {
            session,
            want: self.want(needed),
            back: look.back.pop(),
        });
        self.asking |= look.ask.is_some();
        look.alarm = self.next_look(session);
        look
    }

    /// Tokens to ask for, where a call needs so many: for as many calls as there may be, if all are
    /// of one size.
    fn want(&self, needed: u32) -> u32 {
        if let Some(fixed) = self.terms.fixed {
            return fixed.max(self.demand.largest()).min(self.terms.max);
        }
        let tokens = u32::try_from(self.demand.tokens()).unwrap_or(u32::MAX);
        let want = tokens.min(self.terms.max.max(needed));
        let rest = want.checked_rem(self.demand.smallest()).unwrap_or(0);
        (want - rest).max(needed)
    }

    /// How long to ask for nothing, if it is `usual` otherwise.
    fn pause(&self, now: Instant, usual: Duration) -> Duration {
        if self.is_over(now) { self.terms.period() } else { usual }
    }

    /// When the leases are to be looked at again, if no alarm is set that comes before.
    fn next_look(&mut self, session: Option<NonZeroU64>) -> Option<Instant> {
        let idle_from = self.idle_from();
        let due = |lease: &Lease| {
            let goes_back = session == Some(lease.session)
                && self.waiting == 0
                && self.terms.goes_back_alone(lease);
            if goes_back { lease.tired.min(idle_from) } else { lease.ends }
        };
        let next = self.leases.iter().map(due).min()?;
        if self.alarm.is_some_and(|alarm| alarm <= next) {
            return None;
        }
        self.alarm = Some(next);
        self.alarm
    }

    /// Takes note of the answer to a request that was sent at `sent` over `session`. The pause after
    /// it is stretched by `stretch`.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        sent: Instant,
        session: NonZeroU64,
        answered: Answered,
        stretch: f64,
    ) {
        self.asking = false;
        let pause = match answered {
            Answered::Granted { id, tokens, ttl } => {
                let lease = Lease::new(id, session, tokens, sent, ttl);
                let late = now >= lease.ends;
                self.leases.push(lease);
                if late {
                    // Leases that end on their way only cost.
                    NEVER_AGAIN
                } else if self.is_scrap(tokens) {
                    self.pause(now, self.terms.period() / 2)
                } else {
                    self.pause(now, Duration::ZERO)
                }
            }
            Answered::Nothing => self.pause(now, self.terms.period() / 2),
            Answered::Never => NEVER_AGAIN,
            Answered::NoAnswer => self.pause(now, NO_ANSWER),
        };
        if answered == Answered::NoAnswer {
            // The next call shows what has become of the server.
            self.over_until = now;
        }
        self.not_before = now + pause.mul_f64(stretch);
    }
}

impl Lease {
    fn new(id: i64, session: NonZeroU64, tokens: u32, sent: Instant, ttl: Duration) -> Self {
        Self {
            id,
            session,
            tokens,
            left: tokens,
            half: sent + ttl / 2,
            tired: sent + ttl / 8 * 7,
            ends: sent + ttl - ttl / CLOCKS_DIFFER,
        }
    }

    fn back(&self) -> Back {
        Back { id: self.id, used: self.tokens - self.left, unspent: self.left }
    }
}
