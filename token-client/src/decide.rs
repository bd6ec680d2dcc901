//! From a server's answer, or the lack of one, to the outcome of a check.

use std::{sync::Arc, time::Duration};

use limiter::{Clock, Tick, rule::FallbackPolicy};

use crate::{
    Answer, DecidedBy, NoAnswer, Outcome, Param, RuleId, Verdict,
    listener::Listeners,
    metrics::Counters,
    outcome::Ruling,
    rules::{Episode, Rule, Rules},
};

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
    /// Decides a check of a flow rule. A [`Verdict::Waited`] is still to be waited for.
    pub(crate) fn flow(&self, id: i64, count: u32, answer: Result<Answer, NoAnswer>) -> Outcome {
        let known = self.rules.load();
        self.decide(
            RuleId::Flow(id),
            known.flow(id),
            known.unknown(),
            Ruling::on_flow(answer),
            |local, now| local.granted(now, count),
            |local, now| local.acquire(now, count),
        )
    }

    /// Decides a check of a hot-parameter rule; it never waits.
    pub(crate) fn param(
        &self,
        id: i64,
        count: u32,
        params: &[Param<'_>],
        answer: Result<Answer, NoAnswer>,
    ) -> Outcome {
        let known = self.rules.load();
        let values = || params.iter().map(as_value);
        self.decide(
            RuleId::Param(id),
            known.param(id),
            known.unknown(),
            Ruling::on_param(answer),
            |local, now| local.granted(now, count, values()),
            |local, now| local.acquire(now, count, values()),
        )
    }

    fn decide<L>(
        &self,
        id: RuleId,
        rule: Option<&Rule<L>>,
        unknown: &Episode,
        ruling: Ruling,
        granted: impl Fn(&L, Tick),
        take: impl Fn(&L, Tick) -> bool,
    ) -> Outcome {
        let (episode, resource) =
            rule.map_or((unknown, ""), |rule| (rule.episode(), rule.resource()));
        if let Ruling::None(reason) = ruling {
            let now = self.clock.now();
            // Without the rule there is nothing to check; Sentinel passes what it cannot check.
            let policy = rule.map_or(FallbackPolicy::Pass, |rule| rule.policy(reason));
            let pass = rule.is_none_or(|rule| rule.passes(policy, |local| take(local, now)));
            episode.enter(now, id, resource, reason, policy);
            let verdict = if pass { Verdict::Pass } else { Verdict::Block };
            let outcome = Outcome { verdict, decided_by: DecidedBy::Fallback { reason, policy } };
            self.counters.fell_back(reason, pass);
            self.listeners.fell_back(id, &outcome);
            if !pass {
                self.listeners.blocked(id, &outcome);
            }
            return outcome;
        }
        if episode.is_open() {
            episode.leave(self.clock.now(), id, resource);
        }
        if let Some(share) = rule.and_then(Rule::share)
            && ruling != Ruling::Block
        {
            granted(share, self.clock.now());
        }
        self.carry_out(id, ruling)
    }

    fn carry_out(&self, id: RuleId, ruling: Ruling) -> Outcome {
        let outcome = match ruling {
            Ruling::Pass => {
                self.counters.passed.add(1);
                return Outcome { verdict: Verdict::Pass, decided_by: DecidedBy::Server };
            }
            Ruling::Wait(wait) if self.max_wait.is_none_or(|max| wait <= max) => {
                self.counters.waited.add(1);
                return Outcome { verdict: Verdict::Waited(wait), decided_by: DecidedBy::Server };
            }
            Ruling::Wait(wait) => {
                self.counters.max_wait_blocked.add(1);
                Outcome { verdict: Verdict::Block, decided_by: DecidedBy::MaxWait { wait } }
            }
            Ruling::Block | Ruling::None(_) => {
                self.counters.blocked.add(1);
                Outcome { verdict: Verdict::Block, decided_by: DecidedBy::Server }
            }
        };
        self.listeners.blocked(id, &outcome);
        outcome
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
