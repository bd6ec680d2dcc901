//! Several requests that take all or nothing.

use std::time::Duration;

use super::{
    All, Ask, Flow, Param, ParamFlow, RuleSet, What, counter, param, rule_set::tokens,
    weighed::Weighed,
};
use crate::{
    Tick, Undecided,
    algorithm::Verdict,
    rule::{Grade, Mode},
    sync::MutexGuard,
};

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
        Ok(all(now, &mut locked))
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

/// Weighs one after the other, and takes what was weighed when nothing speaks against it: clients
/// come and go and switches are set meanwhile, so a second look might find something else.
fn all(now: Tick, locked: &mut [(usize, Locked<'_>)]) -> All {
    let mut weighed = Vec::with_capacity(locked.len());
    for (index, one) in &mut *locked {
        let its = one.weigh(now);
        if !its.answer().is_admitted() {
            one.take(now, its);
            let refused = All::Refused { index: *index, retry: one.retry(now, its.answer()) };
            locked.iter_mut().take(weighed.len()).for_each(|(_, before)| before.leave(now));
            return refused;
        }
        weighed.push(its);
    }
    let waits = locked.iter_mut().zip(weighed).map(|((_, one), its)| {
        one.take(now, its);
        match its.answer() {
            Verdict::Wait { wait } => wait,
            Verdict::Pass { .. } | Verdict::Block { .. } => Duration::ZERO,
        }
    });
    All::Taken { wait: waits.max().unwrap_or_default() }
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
    /// What its rule says. Nothing is taken yet.
    fn weigh(&mut self, now: Tick) -> Weighed {
        match self {
            Self::Flow(flow, used, count, prioritized) => {
                let ask = Ask { peek: true, ..Ask::prioritized(*prioritized) };
                flow.weigh(used, now, (*count).into(), ask)
            }
            Self::Param(param, used, count, values) => {
                let weighed =
                    param.weigh(used, now, *count, Ask::default(), values.iter().cloned());
                // There is a value, so there is a decision.
                let none = Weighed { mode: Mode::Block, verdict: Verdict::Block { retry: None } };
                weighed.unwrap_or(none)
            }
        }
    }

    /// Takes what was weighed, and counts what came of it.
    fn take(&mut self, now: Tick, weighed: Weighed) {
        match self {
            Self::Flow(_, used, count, prioritized) => {
                let ask = Ask::prioritized(*prioritized);
                used.take_weighed(now, (*count).into(), ask, weighed);
            }
            Self::Param(param, used, ..) => {
                param.take_weighed(used, now, Ask::default(), weighed);
            }
        }
    }

    /// Takes nothing of what was weighed.
    fn leave(&mut self, now: Tick) {
        match self {
            Self::Flow(..) => {}
            Self::Param(param, used, ..) => param.leave(used, now),
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        ClusterEngine, Settings, Switches,
        rule::{Contents, merge, parse},
    };

    #[test]
    fn what_was_weighed_is_taken_and_counted_though_clients_leave_and_the_mode_changes() {
        let kinds = [
            "",
            r#""controlBehavior":2,"maxQueueingTimeMs":60000,"#,
            r#""controlBehavior":1,"warmUpPeriodSec":2,"#,
            r#""paramIdx":0,"#,
            r#""paramIdx":0,"controlBehavior":2,"maxQueueingTimeMs":60000,"#,
        ];
        let (now, values) = (Tick::from_ms(1_700_000_000_000), [Param::Int(7)]);
        for (fields, is_switched) in
            kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)])
        {
            let text = format!(
                r#"[{{"resource":"r","count":4,"clusterMode":true,{fields}
                    "clusterConfig":{{"flowId":1,"thresholdType":0}}}}]"#
            );
            let engine =
                ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
            let parsed = parse(&text, "test", "ns", Contents::Mixed, true).unwrap();
            engine.replace(merge(vec![parsed]).unwrap()).unwrap();
            let member = engine.join("ns").unwrap();
            let rules = engine.rules();
            let what = if fields.contains("paramIdx") {
                What::Param { id: 1, count: 1, values: &values }
            } else {
                What::Flow { id: 1, count: 1 }
            };
            let wanted = rules.wanted(now, &what, false).unwrap();
            let mut one = wanted.lock();
            one.weigh(now);
            one.leave(now);
            let weighed = one.weigh(now);
            assert!(weighed.answer().is_admitted(), "{fields}");
            // Now nothing is let through any more.
            if is_switched {
                engine.switch(Switches { mode: Mode::Block, ..Switches::default() });
            } else {
                drop(member);
            }
            one.take(now, weighed);
            assert!(!one.weigh(now).answer().is_admitted(), "{fields}");
            one.leave(now);
            drop(one);
            let (passed, used) = match (rules.flow(1), rules.param(1)) {
                (Some(flow), _) => (flow.totals().pass_requests, flow.usage(now).0),
                (_, Some(param)) => {
                    let top = param.top(now, 9).first().map_or(0, |(_, used)| *used);
                    (param.totals().pass_requests, top)
                }
                _ => unreachable!(),
            };
            // The one whose turn it is leaves a queue with nobody in it.
            let in_use = u64::from(!fields.contains("maxQueueing"));
            assert_eq!((passed, used), (1, in_use), "{fields}");
        }
    }
}
