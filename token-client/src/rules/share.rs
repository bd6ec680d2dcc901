//! One client's share of a rule, which follows the number of clients.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use arc_swap::{ArcSwap, Guard};
use limiter::{
    LocalFlow, LocalLimit, LocalParam,
    rule::{FlowRule, ParamRule},
};

/// A rule as one client enforces it.
pub(crate) trait Local: Debug + Sized {
    /// What it is made from.
    type Rule: Clone + Debug;

    /// The rule under `limit`, going on with what `before` has counted; `None` if it is no rule of
    /// a cluster.
    fn of(rule: &Self::Rule, limit: LocalLimit, before: Option<&Self>) -> Option<Self>;
}

impl Local for LocalFlow {
    type Rule = FlowRule;

    fn of(rule: &FlowRule, limit: LocalLimit, before: Option<&Self>) -> Option<Self> {
        Self::new(rule, limit, before)
    }
}

impl Local for LocalParam {
    type Rule = ParamRule;

    fn of(rule: &ParamRule, limit: LocalLimit, before: Option<&Self>) -> Option<Self> {
        Self::new(rule, limit, before)
    }
}

/// A share, and what it is divided anew from when the number of clients has changed. Whoever asks
/// for it next does that, so that a change costs as much as the rules that are in use.
#[derive(Debug)]
pub(crate) struct Share<L: Local> {
    rule: L::Rule,
    clients: AtomicU32,
    part: ArcSwap<L>,
}

impl<L: Local> Share<L> {
    /// The part of `rule` of one of so many clients, of which 0 count as 1.
    pub(crate) fn new(rule: &L::Rule, clients: u32, before: Option<&Self>) -> Option<Self> {
        let part = {
            let before = before.map(Self::part);
            L::of(rule, LocalLimit::Share { clients }, before.as_deref().map(|part| &**part))?
        };
        let (rule, part) = (rule.clone(), ArcSwap::from_pointee(part));
        Some(Self { rule, clients: clients.into(), part })
    }

    pub(crate) fn rule(&self) -> &L::Rule {
        &self.rule
    }

    /// By how many clients it is divided.
    pub(crate) fn clients(&self) -> u32 {
        // Relaxed, as below: who still sees the number before decides by the part before.
        self.clients.load(Ordering::Relaxed)
    }

    /// What counts it.
    pub(crate) fn part(&self) -> Guard<Arc<L>> {
        self.part.load()
    }

    /// Divides it by so many clients; what has been counted goes on. One caller at a time.
    pub(crate) fn divide(&self, clients: u32) {
        let part = L::of(&self.rule, LocalLimit::Share { clients }, Some(&**self.part()));
        if let Some(part) = part {
            self.part.store(Arc::new(part));
        }
        self.clients.store(clients, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use limiter::{
        Decision, Param, Tick,
        rule::{self, Contents},
    };

    use crate::rules::Rules;

    const NOW: Tick = Tick::from_ms(1_700_000_000_000);

    /// Flow rules 1 and 2, and hot-parameter rule 3, of 12 a second each.
    fn shared() -> Rules {
        let rule = |id, fields: &str| {
            format!(
                r#"{{"resource": "r", "count": 12, "clusterMode": true, {fields} "clusterConfig":
                    {{"flowId": {id}, "thresholdType": 1, "fallbackPolicy": "share"}}}}"#
            )
        };
        let all = [rule(1, ""), rule(2, ""), rule(3, r#""paramIdx": 0,"#)].join(",");
        let all = rule::parse(&format!("[{all}]"), "test", "ns", Contents::Mixed, true).unwrap();
        let shared = Rules::new(None);
        shared.replace(rule::merge(vec![all]).unwrap()).unwrap();
        shared
    }

    fn passes(rules: &Rules, id: i64) -> usize {
        let known = rules.load();
        let part = known.flow(id).unwrap().share().unwrap();
        (0..20).filter(|_| part.acquire(NOW, 1, None) != Decision::Block).count()
    }

    #[test]
    fn a_share_follows_the_clients_and_keeps_what_it_has_counted() {
        let rules = shared();
        rules.set_clients(4);
        assert_eq!(passes(&rules, 1), 3);
        rules.set_clients(2);
        assert_eq!((passes(&rules, 1), passes(&rules, 2)), (3, 6));
        rules.set_clients(0);
        assert_eq!((passes(&rules, 1), passes(&rules, 2)), (6, 6), "one client has it all");
        let values = |count| {
            let known = rules.load();
            let part = known.param(3).unwrap().share().unwrap();
            let value = [Param::Int(7)].into_iter();
            part.acquire(NOW, count, None, value) != Decision::Block
        };
        rules.set_clients(3);
        assert_eq!([values(5), values(4)], [false, true]);
        rules.set_clients(2);
        assert_eq!([values(3), values(2)], [false, true]);
    }

    #[test]
    fn a_changed_number_of_clients_touches_no_rule_that_nobody_asks_for() {
        let rules = shared();
        let before = rules.load();
        rules.set_clients(4);
        assert!(super::Arc::ptr_eq(&before, &rules.load()), "the set is not made anew");
        let divided_by = |id| before.flows[&id].share.as_ref().unwrap().clients();
        assert_eq!([1, 2].map(divided_by), [0, 0]);
        before.flow(1);
        assert_eq!([1, 2].map(divided_by), [4, 0]);
        assert_eq!(rules.clients(), 4);
    }

    #[test]
    fn a_set_that_was_replaced_changes_nothing_that_its_successor_goes_on_with() {
        let rules = shared();
        let before = rules.load();
        rules.replace(Vec::new()).unwrap();
        rules.set_clients(4);
        before.flow(1);
        assert_eq!(before.flows[&1].share.as_ref().unwrap().clients(), 0);
    }
}
