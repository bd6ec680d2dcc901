//! The flow rules of one resource (`FlowRuleChecker.java`): which rule concerns a call, whose
//! counters it compares, and what it says.

mod control;
mod guard;
mod outlook;
mod related;

use std::time::Duration;

pub use control::WarmUpReading;
pub(super) use related::{Related, RelatedReading};

use control::{Control, Verdict};
use guard::{Guard, Who, Whose};

use super::node::{Nodes, Seat, Target};
use crate::{Tick, rule::FlowRule, sync::Arc};

/// What flow rules look at of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) now: Tick,
    pub(super) seat: Seat,
    pub(super) origin: &'a str,
    pub(super) context: &'a str,
    pub(super) n: u64,
    pub(super) prioritized: bool,
}

/// What the rules say together.
#[derive(Debug)]
pub(super) enum FlowVerdict {
    Pass,
    /// Wait, and then ask again from rule `next` on.
    Wait {
        wait: Duration,
        next: usize,
    },
    /// Wait; the tokens are counted.
    Borrow(Duration),
    Block(Arc<FlowRule>),
}

/// The rules of one resource in the order in which they are checked, with what each remembers.
#[derive(Debug, Default)]
pub(super) struct FlowGuards {
    guards: Vec<Guard>,
    related: Related,
}

impl FlowGuards {
    /// Puts `rules` in place of those before; what an equal rule remembers stays.
    pub(super) fn replace(&mut self, resource: &str, mut rules: Vec<Arc<FlowRule>>) {
        // `FlowRuleComparator.java`; exact names before patterns; else as they stand in the list.
        rules.sort_by_key(|rule| {
            (rule.regex, rule.cluster.is_some(), Who::of(rule) == Who::Everybody)
        });
        let mut before = std::mem::take(&mut self.guards);
        let mut related = Vec::new();
        for rule in rules {
            if self.guards.iter().any(|guard| guard.rule == rule) {
                continue;
            }
            let Some(whose) = Whose::of(&rule, resource, &mut related) else { continue };
            let kept = before.iter().position(|guard| guard.rule == rule);
            let control = match kept {
                Some(at) => Some(before.swap_remove(at).control),
                None => Control::new(&rule),
            };
            let who = Who::of(&rule);
            self.guards.extend(control.map(|control| Guard { rule, who, whose, control }));
        }
        self.guards.shrink_to_fit();
        self.related.replace(related);
    }

    /// Checks the call against every rule that concerns it, from the first one on. It has waited in
    /// the queues of the rules before `next` and is not sent there again; but windows are compared
    /// once more, since others may have passed while it waited.
    pub(super) fn check(&mut self, nodes: &mut Nodes, ask: &Ask<'_>, next: usize) -> FlowVerdict {
        for at in 0..self.guards.len() {
            let Some(target) = self.target(at, ask) else { continue };
            let Some(guard) = self.guards.get_mut(at) else { continue };
            if at < next && guard.control.is_queue() {
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
                Verdict::Wait(wait) => return FlowVerdict::Wait { wait, next: at + 1 },
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

    /// Whether a rule is for this origin by name.
    pub(super) fn names_origin(&self, origin: &str) -> bool {
        let names = |guard: &Guard| guard.who == Who::One && guard.rule.limit_app() == origin;
        self.guards.iter().any(names)
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
