//! What stays when the rules of a resource change.

use super::HotRules;

impl HotRules {
    /// Goes on where `old`, the rules of the same resource until now, ends: a rule that is the same
    /// in both keeps what its values have used, and calls in progress stay counted by the argument
    /// that they were counted by, whatever rules look at it. Calls that hold something of `old`
    /// give it back here, so it must be adopted also when one of the two has no rules.
    pub(crate) fn adopt(&mut self, mut old: Self) {
        self.seen = self.seen.max(old.seen);
        for rule in &mut self.rules {
            if let Some(at) = old.rules.iter().position(|before| *before.rule == *rule.rule) {
                *rule = old.rules.swap_remove(at);
            }
        }
        for rule in &old.rules {
            old.gone.missing += rule.missing;
            old.gone.overflow_uses += rule.values().1;
        }
        for mut calls in old.threads {
            let now = self.threads.iter_mut().find(|now| now.param_idx == calls.param_idx);
            match now {
                Some(now) => {
                    calls.pinned = std::mem::take(&mut now.pinned);
                    *now = calls;
                }
                None if calls.is_done() => old.gone.overflow_uses += calls.overflow_uses(),
                None => self.threads.push(calls),
            }
        }
        self.gone = old.gone;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::*, HotRules};
    use crate::{
        Tick,
        cluster::values::Room,
        local::param::ParamVerdict,
        rule::{ItemValue, ParamItem, ParamRule},
        sync::Arc,
    };

    #[test]
    fn a_rule_that_stays_the_same_keeps_its_values_and_a_changed_one_begins_anew() {
        let (kept, changes) = (rule(|_| ()), rule(|rule| rule.param_idx = 1));
        let mut rules = hot(&[Arc::clone(&kept), changes]);
        assert_eq!(check(&mut rules, 5_000, &[int(1), int(2)]), PASS);
        let changed = rule(|rule| (rule.param_idx, rule.count) = (1, 2.0));
        let equal = Arc::new(ParamRule::clone(&kept));
        reload(&mut rules, &[changed, equal]);
        let second = ParamVerdict::Block { rule: 1 };
        assert_eq!(check(&mut rules, 5_000, &[int(1), int(2)]), second, "1 is used up");
        assert_eq!(check(&mut rules, 5_000, &[int(3), int(2)]), PASS, "2 had two tokens");
        assert_eq!(check(&mut rules, 5_000, &[int(4), int(2)]), BLOCK);
    }

    #[test]
    fn calls_in_progress_outlive_any_change_of_the_rules() {
        let mut rules = hot(&[threads(0)]);
        let held = enter(&mut rules, &[int(1)]);
        reload(&mut rules, &[rule(|rule| (rule.grade, rule.count) = (0, 2.0))]);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), PASS);
        let second = enter(&mut rules, &[int(1)]);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), BLOCK, "one of before and one of now");
        reload(&mut rules, &[]);
        assert_eq!((check(&mut rules, 5_000, &[int(1)]), rules.threads.len()), (PASS, 1));
        rules.leave(Tick::from_ms(5_000), &second);
        reload(&mut rules, &[threads(1), threads(0)]);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), ParamVerdict::Block { rule: 1 });
        rules.leave(Tick::from_ms(5_000), &held);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), PASS);
    }

    #[test]
    fn what_no_rule_looks_at_goes_with_its_last_call() {
        let mut rules = hot(&[threads(0)]);
        let held = enter(&mut rules, &[int(1)]);
        reload(&mut rules, &[]);
        assert_eq!((rules.values(), rules.threads.len()), (1, 1));
        rules.leave(Tick::from_ms(5_000), &held);
        assert_eq!((rules.values(), rules.threads.len(), rules.room.used()), (0, 0, 0));
    }
    #[test]
    fn a_value_that_gets_a_count_of_its_own_gets_a_counter_of_its_own() {
        let item = ParamItem { value: ItemValue::Int(7), count: 1.0 };
        let mut rules = HotRules::new(&[threads(0)], &Room::of(1, u64::MAX));
        enter(&mut rules, &[int(1)]);
        enter(&mut rules, &[int(8)]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), BLOCK, "counted where 8 is");
        reload(&mut rules, &[rule(|rule| (rule.grade, rule.items) = (0, vec![item]))]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), PASS);
        assert_eq!(check(&mut rules, 5_000, &[int(9)]), BLOCK);
    }
}
