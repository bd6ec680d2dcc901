//! A flow's counter outlives its rule: what the next rule with its id goes on with.

use super::{Calls, Flow, Tally};
use crate::{
    Tick,
    cluster::{
        counter::{FlowCounter, Used},
        counting::Counting,
        ledger::Held,
        saved::{Restart, SavedFlow},
        tuned::Tuned,
    },
    sync::{Arc, lock},
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
        let made = (self.lends().is_some() || own == *counting)
            .then(|| Arc::clone(self.counter.get_or_make()));
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

    /// Whether the flow's memory grows as it is used.
    pub(crate) fn keeps_log(&self) -> bool {
        matches!(self.counting(), Counting::Log(_))
    }

    /// Gives back what a log that was far longer has left.
    pub(crate) fn tidy(&self, now: Tick) {
        if let Some(counter) = self.counter.get()
            && let Tally::Tuned(tuned) = &mut lock(&counter.0).tally
        {
            tuned.give_back_heap(now);
        }
    }

    /// Bytes that the flow's log allocates.
    #[cfg(test)]
    pub(crate) fn log_bytes(&self) -> u64 {
        match &self.lock().tally {
            Tally::Tuned(tuned) => tuned.log_bytes(),
            Tally::Ring(_) | Tally::Lent(_) => 0,
        }
    }

    /// How the flow counts.
    pub(crate) fn counting(&self) -> Counting {
        let config = self.rule.cluster.as_ref();
        config.map_or(Counting::Sliding(self.sliding.shape), |config| {
            Counting::of(config, self.rule.behavior)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use crate::{
        ClusterEngine, Decision, Settings, Tick,
        rule::{Contents, merge, parse},
    };

    #[test]
    fn a_long_log_of_a_flow_gives_its_memory_back() {
        let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
        let text = r#"[{"resource":"f","count":10000,"clusterMode":true,
            "clusterConfig":{"flowId":1,"thresholdType":1,"algorithm":"slidingLog"}}]"#;
        let parsed = parse(text, "test", "ns", Contents::Mixed, true).unwrap();
        engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        let rules = engine.rules();
        let heap = || rules.flow(1).unwrap().log_bytes();
        for ns in 0..20_000 {
            rules.acquire_flow(Tick(ns), 1, 1, false).unwrap();
        }
        assert_eq!(heap(), 16 * 16_384, "the most that a log allocates");
        engine.tidy(Tick(20_000), UNIX_EPOCH);
        assert_eq!(heap(), 16 * 16_384, "all of it still counts");
        assert_eq!(rules.acquire_flow(Tick(20_000), 1, 1, false), Ok(Decision::Block));
        engine.tidy(Tick(1_000_009_000), UNIX_EPOCH);
        assert_eq!(rules.flow(1).unwrap().usage(Tick(1_000_009_000)), (999, 0));
        assert_eq!(heap(), 16 * 1_998);
        engine.tidy(Tick::from_ms(5_000), UNIX_EPOCH);
        assert_eq!(heap(), 16 * 4);
    }

    #[test]
    fn a_restored_flow_without_room_is_small_and_admits_no_more() {
        let engine = |values_bytes_max| {
            let settings =
                Settings { values_bytes_max, max_allowed_qps: None, ..Settings::default() };
            ClusterEngine::new(settings)
        };
        let load = |engine: &ClusterEngine| {
            let text = r#"[{"resource":"f","count":5000,"clusterMode":true,
                "clusterConfig":{"flowId":1,"thresholdType":1,"algorithm":"slidingLog"}}]"#;
            let parsed = parse(text, "test", "ns", Contents::Mixed, true).unwrap();
            engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        };
        let before = engine(0);
        load(&before);
        for ms in 0..800 {
            before.rules().acquire_flow(Tick::from_ms(ms), 1, 5, false).unwrap();
        }
        let restarted = |bytes| {
            let (after, mut records, now) = (engine(bytes), Vec::new(), Tick::from_ms(800));
            let keep = |record| {
                records.push(record);
                Ok::<(), ()>(())
            };
            before.save(now, keep).unwrap();
            after.restore(now, now, records);
            let held = after.room().used();
            load(&after);
            (held, after)
        };
        let ((whole, large), (held, small)) = (restarted(u64::MAX), restarted(0));
        assert!(whole >= 800 * 16 && held < 300, "{whole} {held}");
        for (ms, own, joined) in [(800, 4_000, 4_000), (1_798, 5, 4_000), (1_799, 0, 0)] {
            let usage =
                |engine: &ClusterEngine| engine.rules().flow(1).unwrap().usage(Tick::from_ms(ms)).0;
            assert_eq!((usage(&large), usage(&small)), (own, joined), "at {ms}");
        }
        assert_eq!((large.room().used(), small.room().used()), (0, 0));
    }
}
