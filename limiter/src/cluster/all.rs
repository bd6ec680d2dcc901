//! Several requests that take all or nothing.

use std::time::Duration;

use super::{All, Ask, Flow, Param, ParamFlow, RuleSet, What, counter, param, rule_set::tokens};
use crate::{Tick, Undecided, algorithm::Verdict, rule::Grade, sync::MutexGuard};

/// Requests of one call.
const REQUESTS_MAX: usize = 16;

/// One of the requests and its rule.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Flow { flow: &'a Flow, count: u32, prioritized: bool },
    Param { param: &'a ParamFlow, count: u32, values: &'a [Param<'a>] },
}

/// The same, with what its rule has used.
enum Locked<'a> {
    Flow(&'a Flow, MutexGuard<'a, counter::Used>, u32, bool),
    Param(&'a ParamFlow, MutexGuard<'a, param::Used>, u32, &'a [Param<'a>]),
}

impl RuleSet {
    /// Takes the tokens of all `requests`, or of none: no other request comes in between. With
    /// each stands whether it may book tokens of the next bucket.
    ///
    /// # Errors
    ///
    /// The first request that cannot be decided, as [`ask`](Self::ask) says;
    /// [`Undecided::BadRequest`] also for none, for more than 16, and for one rule twice. The
    /// guards of the namespaces count each request up to there.
    pub fn acquire_all(
        &self,
        now: Tick,
        requests: &[(What<'_>, bool)],
    ) -> Result<All, (usize, Undecided)> {
        if requests.is_empty() || requests.len() > REQUESTS_MAX {
            return Err((0, Undecided::BadRequest));
        }
        let mut wanted = Vec::with_capacity(requests.len());
        for (index, (what, prioritized)) in requests.iter().enumerate() {
            let it = self.wanted(now, what, *prioritized).map_err(|why| (index, why))?;
            wanted.push((place(what), index, it));
        }
        wanted.sort_by_key(|(place, index, _)| (*place, *index));
        let twice = wanted.windows(2).find(|two| matches!(two, [a, b] if a.0 == b.0));
        if let Some([_, (_, index, _)]) = twice {
            return Err((*index, Undecided::BadRequest));
        }
        // Everybody who holds several locks takes them in this order, so nobody waits in a circle.
        let mut locked: Vec<_> = wanted.iter().map(|(_, index, it)| (*index, it.lock())).collect();
        locked.sort_by_key(|(index, _)| *index);
        for (index, one) in &mut locked {
            if !one.decide(now, true).is_admitted() {
                // Once more, so that its rule counts the refusal.
                let verdict = one.decide(now, false);
                return Ok(All::Refused { index: *index, retry: one.retry(now, verdict) });
            }
        }
        let waits = locked.iter_mut().map(|(_, one)| match one.decide(now, false) {
            Verdict::Wait { wait } => wait,
            Verdict::Pass { .. } | Verdict::Block { .. } => Duration::ZERO,
        });
        Ok(All::Taken { wait: waits.max().unwrap_or_default() })
    }

    fn wanted<'a>(
        &'a self,
        now: Tick,
        what: &What<'a>,
        prioritized: bool,
    ) -> Result<Wanted<'a>, Undecided> {
        let count = tokens(what.id(), what.count())?;
        let (guard, wanted) = match *what {
            What::Flow { id, .. } => {
                let flow = self.flow(id).ok_or(Undecided::NoRule)?;
                if flow.rule().grade == Grade::Thread {
                    return Err(Undecided::BadRequest);
                }
                (flow.guard(), Wanted::Flow { flow, count, prioritized })
            }
            What::Param { id, values, .. } => {
                let param = self.some_param(id, values)?;
                (param.guard(), Wanted::Param { param, count, values })
            }
        };
        if guard.admit(now) { Ok(wanted) } else { Err(Undecided::TooManyRequests) }
    }
}

/// The place of a rule among all rules.
fn place(what: &What<'_>) -> (bool, i64) {
    (matches!(what, What::Param { .. }), what.id())
}

impl<'a> Wanted<'a> {
    fn lock(&self) -> Locked<'a> {
        match *self {
            Self::Flow { flow, count, prioritized } => {
                Locked::Flow(flow, flow.lock(), count, prioritized)
            }
            Self::Param { param, count, values } => {
                Locked::Param(param, param.lock(), count, values)
            }
        }
    }
}

impl Locked<'_> {
    fn decide(&mut self, now: Tick, peek: bool) -> Verdict {
        match self {
            Self::Flow(flow, used, count, prioritized) => {
                let ask = Ask { prioritized: *prioritized, peek, max_wait: None };
                flow.decide(used, now, (*count).into(), ask)
            }
            Self::Param(param, used, count, values) => {
                let ask = Ask { peek, ..Ask::default() };
                let verdict = param.decide(used, now, *count, ask, values.iter().cloned());
                // There is a value, so there is a decision.
                verdict.unwrap_or(Verdict::Block { retry: None })
            }
        }
    }

    fn retry(&mut self, now: Tick, verdict: Verdict) -> Option<Duration> {
        match self {
            Self::Flow(flow, used, count, prioritized) => {
                let ask = Ask { prioritized: *prioritized, ..Ask::default() };
                flow.retry(used, now, (*count).into(), ask, verdict)
            }
            Self::Param(param, used, count, values) => {
                param.retry(used, now, (*count).into(), values, verdict)
            }
        }
    }
}
