//! What there is to see of a flow.

use super::{Flow, Tally};
use crate::{
    Tick,
    cluster::{FlowTotals, Namespace, SecondTotals},
    rule::{FlowRule, Grade, Mode},
    sync::{Arc, lock},
};

impl Flow {
    /// The rule as it was loaded.
    #[must_use]
    pub fn rule(&self) -> &FlowRule {
        &self.rule
    }

    /// The namespace that the flow belongs to.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    #[inline]
    pub(crate) fn guard(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// What becomes of the flow's decisions: the widest switch that is not at
    /// [`Mode::Enforce`] decides.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.namespace.mode() {
            Mode::Enforce => self.mode,
            switched => switched,
        }
    }

    /// What is compared with what was used, at this moment: calls in progress, or tokens per
    /// second or window.
    pub(super) fn threshold(&self) -> f64 {
        match &self.recipe {
            _ if self.rule.grade == Grade::Thread => self.sliding.limit.scoped(&self.namespace),
            Some(recipe) => recipe.threshold(self.rule.count, recipe.clients(&self.namespace)),
            None => self.sliding.limit.threshold(&self.namespace),
        }
    }

    /// What the flow decided since its counter was made.
    #[must_use]
    pub fn totals(&self) -> FlowTotals {
        let Some(counter) = self.counter.get() else { return FlowTotals::default() };
        let used = lock(&counter.0);
        used.passed.totals(&used.others)
    }

    /// What the flow decided in the last whole second before `now`.
    #[must_use]
    pub fn last_second(&self, now: Tick) -> SecondTotals {
        let Some(counter) = self.counter.get() else { return SecondTotals::before(now) };
        let used = &mut *lock(&counter.0);
        used.passed.last_second(&mut used.others, now)
    }

    /// Tokens in the window at `now`, those on lease included, and tokens booked for the bucket
    /// after it.
    #[must_use]
    pub fn usage(&self, now: Tick) -> (u64, u64) {
        let Some(counter) = self.counter.get() else { return (0, 0) };
        let used = &mut *lock(&counter.0);
        match (&self.recipe, &used.tally) {
            (Some(_), Tally::Tuned(tuned)) => (tuned.used(now), 0),
            (Some(_), _) => (0, 0),
            (None, _) => {
                let (ring, leased) = used.window(self.sliding.shape, now);
                (ring.sum().saturating_add(leased), ring.booked())
            }
        }
    }
}
