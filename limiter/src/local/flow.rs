//! The flow rules of one resource (`FlowRuleChecker.java`): which rule concerns a call, whose
//! counters it compares, and what it says.

mod control;
mod guard;
mod outlook;
mod related;

use std::{sync::Arc, time::Duration};

pub use control::WarmUpReading;
pub(super) use related::{Related, RelatedReading};

use control::{Control, Verdict};
use guard::{Guard, Who, Whose};

use super::{
    asking::Told,
    node::{Nodes, Seat, Target},
    passed::Passed,
    succession,
};
use crate::{Tick, rule::FlowRule};

/// What flow rules look at of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) now: Tick,
    pub(super) seat: Seat,
    pub(super) origin: &'a str,
    pub(super) context: &'a str,
    pub(super) n: u64,
    pub(super) prioritized: bool,
    /// Whether token servers are asked for cluster rules.
    pub(super) asks_servers: bool,
}

/// How far a call has come among the rules.
#[derive(Debug, Default)]
pub(super) struct FlowPlace {
    /// Rules whose queues it has been through, and those that servers let it pass.
    passed: Passed,
    /// What a server said last.
    pub(super) told: Option<Told>,
}

/// What the rules say together.
#[derive(Debug)]
pub(super) enum FlowVerdict {
    Pass,
    /// Wait, and then ask again from the place on.
    Wait(Duration),
    /// Ask a token server, and then ask again from the place on.
    Ask(Arc<FlowRule>),
    /// Wait; the tokens are counted.
    Borrow(Duration),
    Block(Arc<FlowRule>),
}

/// The rules of one resource in the order in which they are checked, with what each remembers.
#[derive(Debug, Default)]
pub(super) struct FlowGuards {
    guards: Vec<Guard>,
    /// How many there have been.
    numbers: u32,
    related: Related,
}

impl FlowGuards {
    /// Puts `rules` in place of those before. What an equal rule remembers stays, and what one
    /// remembers that only has other numbers now goes on in these (see [`succession`]).
    pub(super) fn replace(&mut self, resource: &str, mut rules: Vec<Arc<FlowRule>>) {
        // `FlowRuleComparator.java`; exact names before patterns; else as they stand in the list.
        rules.sort_by_key(|rule| {
            (rule.regex, rule.cluster.is_some(), Who::of(rule) == Who::Everybody)
        });
        let mut before = std::mem::take(&mut self.guards);
        let (mut related, mut changed) = (Vec::new(), Vec::new());
        for rule in rules {
            if self.guards.iter().any(|guard| guard.rule == rule) {
                continue;
            }
            let Some(whose) = Whose::of(&rule, resource, &mut related) else { continue };
            let equal = before.iter().position(|guard| guard.rule == rule);
            let (number, control) = match equal.map(|at| before.remove(at)) {
                Some(old) => (old.number, old.control),
                None => {
                    changed.push(self.guards.len());
                    self.numbers = self.numbers.wrapping_add(1);
                    (self.numbers, Control::new(&rule))
                }
            };
            let who = Who::of(&rule);
            self.guards.push(Guard { number, rule, who, whose, control });
        }
        let new: Vec<_> = changed.iter().filter_map(|at| self.guards.get(*at)).collect();
        let pairs = succession::pairs(&new, &before.iter().collect::<Vec<_>>());
        for (new, old) in pairs {
            let guard = changed.get(new).and_then(|at| self.guards.get_mut(*at));
            let (Some(guard), Some(old)) = (guard, before.get(old)) else { continue };
            guard.number = old.number;
            guard.control.adopt(&old.control, &guard.rule);
        }
        self.guards.shrink_to_fit();
        self.related.replace(related);
    }

    /// Checks the call against every rule that concerns it, from the first one on. It is not sent
    /// again into queues that it has been through, nor to servers; but windows are compared once
    /// more, since others may have passed while it waited.
    pub(super) fn check(
        &mut self,
        nodes: &mut Nodes,
        ask: &Ask<'_>,
        place: &mut FlowPlace,
    ) -> FlowVerdict {
        for at in 0..self.guards.len() {
            let Some(target) = self.target(at, ask) else { continue };
            let Some(guard) = self.guards.get_mut(at) else { continue };
            if let Some(cluster) = &guard.rule.cluster
                && ask.asks_servers
            {
                if place.passed.has(guard.number) {
                    continue;
                }
                match place.told.take_if(|told| told.flow_id == cluster.flow_id) {
                    Some(Told { pass: true, .. }) => place.passed.add([guard.number].into_iter()),
                    Some(_) => return FlowVerdict::Block(Arc::clone(&guard.rule)),
                    None => {
                        let rule = Arc::clone(&guard.rule);
                        self.note_queues(at, place);
                        return FlowVerdict::Ask(rule);
                    }
                }
                continue;
            }
            if guard.control.books() && place.passed.has(guard.number) {
                continue;
            }
            let verdict = match target {
                Watched::Own(target) => {
                    let Some(stat) = nodes.stat(target) else { continue };
                    guard.control.check(ask.now, &*stat, ask.n)
                }
                Watched::Related(at) => {
                    let Some(reading) = self.related.get(at) else { continue };
                    guard.control.check(ask.now, reading, ask.n)
                }
            };
            match verdict {
                Verdict::Pass => {}
                Verdict::Wait(wait) => {
                    self.note_queues(at + 1, place);
                    return FlowVerdict::Wait(wait);
                }
                Verdict::Block => {
                    return match guard.borrow(nodes, target, ask) {
                        Some(wait) => FlowVerdict::Borrow(wait),
                        None => FlowVerdict::Block(Arc::clone(&guard.rule)),
                    };
                }
            }
        }
        FlowVerdict::Pass
    }

    /// The call has been through the queues of the first `count` rules.
    fn note_queues(&self, count: usize, place: &mut FlowPlace) {
        let queues = self.guards.iter().take(count).filter(|guard| guard.control.books());
        place.passed.add(queues.map(|guard| guard.number));
    }

    /// Whose counters rule `at` compares for this call; `None`: it does not concern it.
    #[inline]
    fn target(&self, at: usize, ask: &Ask<'_>) -> Option<Watched> {
        let guard = self.guards.get(at)?;
        let of_origin = match guard.who {
            Who::Everybody => false,
            Who::Others if ask.origin.is_empty() || self.names_origin(ask.origin) => return None,
            Who::Others => true,
            // An origin that is called "default" or "other" is named by no rule.
            Who::One if guard.rule.limit_app() == ask.origin => true,
            Who::One => return None,
        };
        match guard.whose {
            Whose::Own if of_origin => Some(Watched::Own(Target::Origin(ask.seat.origin))),
            Whose::Own | Whose::Cluster => Some(Watched::Own(Target::Cluster)),
            Whose::Related(at) => Some(Watched::Related(at)),
            Whose::Chain => {
                let is_entrance = guard.rule.ref_resource() == Some(ask.context);
                is_entrance.then_some(Watched::Own(Target::Context(ask.seat.context)))
            }
        }
    }

    /// Whether there are any.
    pub(super) fn has_rules(&self) -> bool {
        !self.guards.is_empty()
    }

    /// Whether a rule is for this origin by name.
    pub(super) fn names_origin(&self, origin: &str) -> bool {
        let names = |guard: &Guard| guard.who == Who::One && guard.rule.limit_app() == origin;
        self.guards.iter().any(names)
    }

    /// Whether a rule is for origins that no rule names.
    pub(super) fn limits_others(&self) -> bool {
        self.guards.iter().any(|guard| guard.who == Who::Others)
    }

    /// Whether a rule compares the node of this context.
    pub(super) fn names_context(&self, context: &str) -> bool {
        let names = |guard: &Guard| {
            guard.whose == Whose::Chain && guard.rule.ref_resource() == Some(context)
        };
        self.guards.iter().any(names)
    }

    /// Whether nothing that the rules remember counts at `now`, so that new ones would decide the
    /// same.
    pub(super) fn is_idle(&self, now: Tick) -> bool {
        self.guards.iter().all(|guard| guard.control.is_idle(now))
    }

    /// The resources whose counters are read before a check, and where the readings go.
    pub(super) fn related(&mut self) -> &mut Related {
        &mut self.related
    }

    /// The rules that warm up, with how warm they are.
    pub(super) fn warm_ups(&self) -> impl Iterator<Item = WarmUpReading> {
        self.guards.iter().filter_map(|guard| guard.control.warm_up())
    }
}

/// Counters that a rule compares.
#[derive(Clone, Copy, Debug)]
enum Watched {
    Own(Target),
    /// A position in the readings of other resources.
    Related(usize),
}
