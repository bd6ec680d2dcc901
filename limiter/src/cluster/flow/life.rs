//! A flow's counter outlives its rule: what the next rule with its id goes on with.

use super::{Calls, Flow};
use crate::{
    Tick,
    cluster::{
        counter::{FlowCounter, Used},
        counting::Counting,
        ledger::Held,
        saved::{Restart, SavedFlow},
        tuned::Tuned,
    },
    sync::Arc,
};

/// What a rule takes over from one that had its id before.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// Of a rule that is counted in the same way.
    pub(crate) counter: Option<Arc<FlowCounter>>,
    pub(crate) calls: Option<Arc<Calls>>,
    /// Of a rule that is counted in another way: what its clients may still spend.
    pub(crate) leases: Vec<Held>,
}

impl Inherited {
    /// Of a rule that counts as `old` says, for one that counts as `new` says.
    pub(crate) fn from(
        counter: Option<Arc<FlowCounter>>,
        calls: Option<Arc<Calls>>,
        (old, new): (&Counting, &Counting),
    ) -> Self {
        if old == new {
            return Self { counter, calls, leases: Vec::new() };
        }
        let leases = counter.map_or_else(Vec::new, |counter| counter.hand_over_leases());
        Self { counter: None, calls, leases }
    }
}

impl Flow {
    /// What the rule that takes this one's place goes on with, if that counts as `counting` says.
    pub(crate) fn bequeath(&self, counting: &Counting) -> Inherited {
        let (own, calls) = (self.counting(), self.calls.clone());
        // One is made if there is none: who decides with the old rules at this moment may be about
        // to, and what it lends is to be known.
        let lends = self.rule.cluster.as_ref().is_some_and(|config| config.lease().is_some());
        let made = (lends || own == *counting).then(|| Arc::clone(self.counter.get_or_make()));
        Inherited::from(made.or_else(|| self.counter()), calls, (&own, counting))
    }

    /// Goes on with what was used before a restart, if it means the same.
    pub(crate) fn restore(&self, saved: &SavedFlow, restart: Restart) {
        let tuned = self.recipe.as_ref().map(|recipe| {
            let clients = recipe.clients(&self.namespace).max(1);
            Tuned::new(recipe, self.rule.count, clients, &self.namespace)
        });
        match Used::restored(saved, self.sliding.shape, tuned, restart) {
            Some(used) => *self.lock() = used,
            None => self.take_over(&saved.leases(restart)),
        }
    }

    /// Counts what clients may still spend of a rule that was counted in another way.
    pub(super) fn take_over(&self, leases: &[Held]) {
        if leases.is_empty() {
            return;
        }
        let used = &mut *self.lock();
        match &self.recipe {
            Some(recipe) => self.tuned(used, recipe, Tick(0)).take_over(leases),
            None => leases.iter().for_each(|held| used.lent().ledger.put(*held)),
        }
    }

    /// The counter, if the flow was ever used.
    pub(crate) fn counter(&self) -> Option<Arc<FlowCounter>> {
        self.counter.get().map(Arc::clone)
    }

    /// Whether nothing that the flow has used counts any more, and no call is in progress.
    pub(crate) fn is_idle(&self, now: Tick) -> bool {
        self.calls.as_ref().is_none_or(|calls| calls.counted() == 0)
            && self.counter.get().is_none_or(|counter| counter.is_idle(&self.counting(), now))
    }

    /// How the flow counts.
    pub(crate) fn counting(&self) -> Counting {
        let config = self.rule.cluster.as_ref();
        config.map_or(Counting::Sliding(self.sliding.shape), |config| {
            Counting::of(config, self.rule.behavior)
        })
    }
}
