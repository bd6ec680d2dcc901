//! The circuit breakers of one resource (`DegradeSlot`, `DefaultCircuitBreakerSlot`).

use std::sync::Arc;

use smallvec::SmallVec;

use super::breaker::{Breaker, BreakerState, Gate};
use crate::{Tick, rule::DegradeRule};

/// What breakers did, to be told when nothing is locked any more.
pub(super) type Turned = SmallVec<[(Arc<DegradeRule>, BreakerState, BreakerState); 4]>;

/// Breakers in the order of their rules.
#[derive(Debug, Default)]
pub(super) struct Breakers {
    breakers: Vec<Guarded>,
    /// Whether they are those of resources without rules of their own.
    is_default: bool,
    /// Counts probes, so that each has a number.
    probes: u64,
}

#[derive(Debug)]
struct Guarded {
    breaker: Breaker,
    /// The number of the call that probes, or probed last.
    probe: u64,
}

impl Breakers {
    /// Puts `rules` in place of those before. The breaker of an equal rule stays.
    pub(super) fn replace(&mut self, rules: Vec<Arc<DegradeRule>>, is_default: bool) {
        let mut before = std::mem::take(&mut self.breakers);
        self.is_default = is_default;
        self.breakers.extend(rules.into_iter().map(|rule| {
            match before.iter().position(|guarded| *guarded.breaker.rule() == rule) {
                Some(at) => before.swap_remove(at),
                None => Guarded { breaker: Breaker::new(rule), probe: 0 },
            }
        }));
    }

    /// Whether there are any at the slot of default breakers, or at that of the resource's own.
    pub(super) fn has_work(&self, at_default: bool) -> bool {
        self.is_default == at_default && !self.breakers.is_empty()
    }

    /// Whether a call may go on, at the slot of default breakers or at that of the resource's own;
    /// the rule that refuses it otherwise. `probe` becomes the number of a call that probes.
    #[inline]
    pub(super) fn gate(
        &mut self,
        at_default: bool,
        now: Tick,
        probe: &mut u64,
        turned: &mut Turned,
    ) -> Result<(), Arc<DegradeRule>> {
        if self.is_default != at_default {
            return Ok(());
        }
        for guarded in &mut self.breakers {
            let before = guarded.breaker.state();
            match guarded.breaker.gate(now) {
                Gate::Pass => {}
                Gate::Probe => {
                    if *probe == 0 {
                        self.probes += 1;
                        *probe = self.probes;
                    }
                    guarded.probe = *probe;
                    if before == BreakerState::Open {
                        let rule = Arc::clone(guarded.breaker.rule());
                        turned.push((rule, before, BreakerState::HalfOpen));
                    }
                }
                Gate::Refuse => return Err(Arc::clone(guarded.breaker.rule())),
            }
        }
        Ok(())
    }

    /// The call with the number `probe` is not made after all.
    pub(super) fn give_up(&mut self, probe: u64, now: Tick, turned: &mut Turned) {
        if probe == 0 {
            return;
        }
        for guarded in self.breakers.iter_mut().filter(|guarded| guarded.probe == probe) {
            guarded.probe = 0;
            if let Some((from, to)) = guarded.breaker.probe_refused(now) {
                turned.push((Arc::clone(guarded.breaker.rule()), from, to));
            }
        }
    }

    /// A call that was made has ended.
    #[inline]
    pub(super) fn complete(&mut self, now: Tick, rt_ms: u64, is_error: bool, turned: &mut Turned) {
        for guarded in &mut self.breakers {
            if let Some((from, to)) = guarded.breaker.complete(now, rt_ms, is_error) {
                turned.push((Arc::clone(guarded.breaker.rule()), from, to));
            }
        }
    }

    /// Each breaker, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Breaker> {
        self.breakers.iter().map(|guarded| &guarded.breaker)
    }
}
