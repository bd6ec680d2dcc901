//! From a server's answer, or the lack of one, to the outcome of a check.

use std::{sync::Arc, time::Duration};

use limiter::{Clock, Decision, Tick, rule::FallbackPolicy};

use crate::{
    Answer, DecidedBy, NoAnswer, Outcome, Param, Reason, RuleId, Verdict,
    leases::{LeasedFlow, Spending},
    listener::Listeners,
    metrics::Counters,
    outcome::Ruling,
    rules::{Episode, Rule, Rules, level::Slot, share::Local},
};
use protocol::Status;

/// Everything that decides a check once the server has been asked.
#[derive(Debug)]
pub(crate) struct Decider {
    pub(crate) rules: Arc<Rules>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) max_wait: Option<Duration>,
}

impl Decider {
    /// Decides a check of a flow rule. A [`Verdict::Waited`] is still to be waited for, whoever says
    /// so: a server, or the rule itself in fallback.
    pub(crate) fn flow(&self, id: i64, count: u32, ruling: Ruling) -> Outcome {
        let known = self.rules.load();
        self.decide(
            &Subject { id: RuleId::Flow(id), rule: known.flow(id), unknown: known.unknown() },
            ruling,
            |local, now, wait| local.granted(now, count, wait),
            |local, now| local.acquire(now, count, self.max_wait),
        )
    }

    /// Decides a check of a flow rule by a lease that the client has, if there is one with as many
    /// tokens, or says that only one that is yet to come can pass it.
    pub(crate) fn spend(&self, id: i64, count: u32) -> Option<Lent> {
        let known = self.rules.load();
        let rule = known.flow(id)?;
        let leased = rule.leased()?;
        match leased.spend(count) {
            Spending::Nothing => None,
            Spending::Over => Some(Lent::Over(Arc::clone(leased))),
            Spending::Done => {
                // A server has granted them.
                if let Some(share) = rule.share() {
                    share.granted(self.clock.now(), count, Duration::ZERO);
                }
                Some(Lent::Decided(Outcome {
                    verdict: Verdict::Pass,
                    decided_by: DecidedBy::Lease,
                }))
            }
        }
    }

    /// Where a call of a flow rule gets tokens that the server refused since the namespace is over
    /// its limit, if anywhere.
    pub(crate) fn refused(&self, id: i64, count: u32, priority: bool) -> Option<Arc<LeasedFlow>> {
        let known = self.rules.load();
        let rule = known.flow(id).filter(|rule| rule.shares_when_over())?;
        let leased = rule.leased().filter(|_| self.rules.are_lent())?;
        leased.refused(count, priority);
        Some(Arc::clone(leased))
    }

    /// Whether clients go on with their shares of a rule while the namespace is over its limit.
    pub(crate) fn shares_when_over(&self, rule: RuleId) -> bool {
        self.rules.load().shares_when_over(rule)
    }

    /// As [`flow`](Self::flow), for a hot-parameter rule.
    pub(crate) fn param(
        &self,
        id: i64,
        count: u32,
        params: &[Param<'_>],
        ruling: Ruling,
    ) -> Outcome {
        let known = self.rules.load();
        let values = || params.iter().map(as_value);
        self.decide(
            &Subject { id: RuleId::Param(id), rule: known.param(id), unknown: known.unknown() },
            ruling,
            |local, now, wait| local.granted(now, count, wait, values()),
            |local, now| local.acquire(now, count, self.max_wait, values()),
        )
    }

    /// Decides whether a call may be in progress; with its part of the rule's level in this
    /// process, which counts the calls that a server let in too.
    pub(crate) fn hold(
        &self,
        id: i64,
        count: u32,
        status: Result<Status, NoAnswer>,
    ) -> (Outcome, Option<Slot>) {
        let known = self.rules.load();
        let rule = known.flow(id);
        let subject = Subject { id: RuleId::Flow(id), rule, unknown: known.unknown() };
        let ruling = Ruling::at_once(status.map(|status| Answer::new(status, 0, 0)));
        let mut slot = None;
        let fell_back = self.fall_back(&subject, ruling, |rule, policy, _| {
            let (pass, entered) = rule.enters(policy, count);
            slot = entered;
            if pass { Verdict::Pass } else { Verdict::Block }
        });
        if let Some(outcome) = fell_back {
            return (outcome, slot);
        }
        if ruling == Ruling::Pass {
            self.counters.holds.add(1);
            let slot = rule.and_then(|rule| rule.entered(count));
            return (Outcome { verdict: Verdict::Pass, decided_by: DecidedBy::Server }, slot);
        }
        self.counters.holds_refused.add(1);
        let outcome = Outcome { verdict: Verdict::Block, decided_by: DecidedBy::Server };
        self.listeners.blocked(RuleId::Flow(id), &outcome);
        (outcome, None)
    }

    fn decide<L: Local>(
        &self,
        subject: &Subject<'_, L>,
        ruling: Ruling,
        granted: impl Fn(&L, Tick, Duration),
        take: impl Fn(&L, Tick) -> Decision,
    ) -> Outcome {
        let verdict = |rule: &Rule<L>, policy, now| rule.verdict(policy, |local| take(local, now));
        if let Some(outcome) = self.fall_back(subject, ruling, verdict) {
            return outcome;
        }
        let outcome = self.carry_out(subject.id, ruling);
        if let Some(share) = subject.rule.and_then(Rule::share) {
            match outcome.verdict {
                Verdict::Pass => granted(&share, self.clock.now(), Duration::ZERO),
                Verdict::Waited(wait) => granted(&share, self.clock.now(), wait),
                Verdict::Block => {}
            }
        }
        outcome
    }

    /// What is decided without a server; `None` when it has decided.
    fn fall_back<L: Local>(
        &self,
        subject: &Subject<'_, L>,
        ruling: Ruling,
        verdict: impl FnOnce(&Rule<L>, FallbackPolicy, Tick) -> Verdict,
    ) -> Option<Outcome> {
        let &Subject { id, rule, unknown } = subject;
        let (episode, resource) =
            rule.map_or((unknown, ""), |rule| (rule.episode(), rule.resource()));
        let Ruling::None(reason) = ruling else {
            if episode.is_open() {
                episode.leave(self.clock.now(), id, resource);
            }
            return None;
        };
        let now = self.clock.now();
        // Without the rule there is nothing to check; Sentinel passes what it cannot check.
        let lent = reason == Reason::TooManyRequests && self.rules.are_lent();
        let policy = rule.map_or(FallbackPolicy::Pass, |rule| rule.policy(reason, lent));
        let verdict = rule.map_or(Verdict::Pass, |rule| verdict(rule, policy, now));
        episode.enter(now, id, resource, reason, policy);
        let outcome = Outcome { verdict, decided_by: DecidedBy::Fallback { reason, policy } };
        self.counters.fell_back(reason, outcome.is_pass());
        self.listeners.fell_back(id, &outcome);
        if outcome.is_block() {
            self.listeners.blocked(id, &outcome);
        }
        Some(outcome)
    }

    fn carry_out(&self, id: RuleId, ruling: Ruling) -> Outcome {
        // What is no decision has fallen back.
        let block = Outcome { verdict: Verdict::Block, decided_by: DecidedBy::Server };
        let outcome = self.foresee(ruling).unwrap_or(block);
        match outcome {
            // Counted with the tokens that it spent.
            Outcome { decided_by: DecidedBy::Lease, .. } => {}
            Outcome { verdict: Verdict::Pass, .. } => self.counters.passed.add(1),
            Outcome { verdict: Verdict::Waited(_), .. } => self.counters.waited.add(1),
            Outcome { decided_by: DecidedBy::MaxWait { .. }, .. } => {
                self.counters.max_wait_blocked.add(1);
            }
            Outcome { verdict: Verdict::Block, .. } => self.counters.blocked.add(1),
        }
        if outcome.is_block() {
            self.listeners.blocked(id, &outcome);
        }
        outcome
    }

    /// What a check with that ruling comes to.
    ///
    /// # Errors
    ///
    /// Why it falls back.
    pub(crate) fn foresee(&self, ruling: Ruling) -> Result<Outcome, Reason> {
        let (verdict, decided_by) = match ruling {
            Ruling::Pass => (Verdict::Pass, DecidedBy::Server),
            Ruling::Lent => (Verdict::Pass, DecidedBy::Lease),
            Ruling::Wait(wait) if self.max_wait.is_none_or(|max| wait <= max) => {
                (Verdict::Waited(wait), DecidedBy::Server)
            }
            Ruling::Wait(wait) => (Verdict::Block, DecidedBy::MaxWait { wait }),
            Ruling::Block => (Verdict::Block, DecidedBy::Server),
            Ruling::None(reason) => return Err(reason),
        };
        Ok(Outcome { verdict, decided_by })
    }

    /// What decides a check when none comes for `reason`, and what the rule protects.
    pub(crate) fn policy(&self, rule: RuleId, reason: Reason) -> (FallbackPolicy, Box<str>) {
        let known = self.rules.load();
        let policy = known.policy(rule, reason, self.rules.are_lent());
        (policy, known.resource(rule).into())
    }
}

/// What leases make of a check before the server is asked.
#[derive(Debug)]
pub(crate) enum Lent {
    Decided(Outcome),
    /// The namespace is over its limit: only tokens that are lent pass it.
    Over(Arc<LeasedFlow>),
}

/// What is decided about: a rule, if the client knows it.
struct Subject<'a, L: Local> {
    id: RuleId,
    rule: Option<&'a Rule<L>>,
    unknown: &'a Episode,
}

/// The same value, in the type of the wire.
pub(crate) fn as_param<'a>(value: &'a limiter::Param<'_>) -> Param<'a> {
    match value {
        limiter::Param::Int(value) => Param::Int(*value),
        limiter::Param::Long(value) => Param::Long(*value),
        limiter::Param::Byte(value) => Param::Byte(*value),
        limiter::Param::Double(value) => Param::Double(*value),
        limiter::Param::Float(value) => Param::Float(*value),
        limiter::Param::Short(value) => Param::Short(*value),
        limiter::Param::Bool(value) => Param::Bool(*value),
        limiter::Param::Str(value) => Param::Str((&**value).into()),
    }
}

/// The same value, in the engine's type.
pub(crate) fn as_value<'a>(param: &'a Param<'_>) -> limiter::Param<'a> {
    match param {
        Param::Int(value) => limiter::Param::Int(*value),
        Param::Long(value) => limiter::Param::Long(*value),
        Param::Byte(value) => limiter::Param::Byte(*value),
        Param::Double(value) => limiter::Param::Double(*value),
        Param::Float(value) => limiter::Param::Float(*value),
        Param::Short(value) => limiter::Param::Short(*value),
        Param::Bool(value) => limiter::Param::Bool(*value),
        Param::Str(value) => limiter::Param::Str((&**value).into()),
    }
}
