//! What stays when the rules of a resource change.

use super::HotRules;
use crate::local::succession;

impl HotRules {
    /// Goes on where `old`, the rules of the same resource until now, ends: a rule that is the same
    /// in both, or has other numbers (see [`succession`]), keeps what its values have used, and
    /// calls in progress stay counted by the argument that they were counted by, whatever rules look
    /// at it. Calls that hold something of `old` give it back here, so it must be adopted also when
    /// one of the two has no rules.
    pub(crate) fn adopt(&mut self, mut old: Self) {
        self.seen = self.seen.max(old.seen);
        let Self { rules, numbers, seen, room, .. } = self;
        for rule in rules.iter_mut() {
            rule.number = rule.number.wrapping_add(old.numbers);
        }
        *numbers = numbers.wrapping_add(old.numbers);
        let mut changed = Vec::new();
        for rule in rules {
            match old.rules.iter().position(|before| *before.rule == *rule.rule) {
                Some(at) => *rule = old.rules.remove(at),
                None => changed.push(rule),
            }
        }
        let new: Vec<_> = changed.iter().map(|rule| &**rule).collect();
        let pairs = succession::pairs(&new, &old.rules.iter().collect::<Vec<_>>());
        let mut before: Vec<_> = old.rules.into_iter().map(Some).collect();
        for (new, at) in pairs {
            let before = before.get_mut(at).and_then(Option::take);
            if let (Some(rule), Some(before)) = (changed.get_mut(new), before) {
                rule.adopt(before, *seen, room);
            }
        }
        for rule in before.iter().flatten() {
            old.gone.missing += rule.missing;
            old.gone.overflow_uses += rule.values().1;
        }
        for calls in old.threads {
            let now = self.threads.iter_mut().find(|now| now.param_idx == calls.param_idx);
            match now {
                Some(now) => now.adopt(calls),
                None if calls.is_done() => old.gone.overflow_uses += calls.overflow_uses(),
                None => self.threads.push(calls),
            }
        }
        self.gone = old.gone;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::tests::*, HotRules};
    use crate::{
        Tick,
        cluster::values::Room,
        local::param::{ParamPlace, ParamVerdict},
        rule::{ControlBehavior, ItemValue, ParamItem, ParamRule},
        sync::Arc,
    };

    #[test]
    fn a_rule_keeps_what_its_values_have_used_whatever_its_numbers() {
        let (kept, changes) = (rule(|_| ()), rule(|rule| rule.param_idx = 1));
        let mut rules = hot(&[Arc::clone(&kept), changes]);
        assert_eq!(check(&mut rules, 5_000, &[int(1), int(2)]), PASS);
        let changed = rule(|rule| (rule.param_idx, rule.count) = (1, 2.0));
        let equal = Arc::new(ParamRule::clone(&kept));
        reload(&mut rules, &[changed, equal]);
        let second = ParamVerdict::Block { rule: 1 };
        assert_eq!(check(&mut rules, 5_000, &[int(1), int(9)]), second, "1 is used up");
        assert_eq!(check(&mut rules, 5_000, &[int(3), int(2)]), PASS, "2 has one more token");
        assert_eq!(check(&mut rules, 5_000, &[int(4), int(2)]), BLOCK);
        assert_eq!(check(&mut rules, 5_000, &[int(4), int(9)]), PASS, "9 had two");
    }

    #[test]
    fn a_smaller_count_forgives_what_does_not_fit_into_it() {
        let mut rules = hot(&[rule(|rule| rule.count = 100.0)]);
        rules.check(Tick::from_ms(5_000), &[int(1)], 100, &mut ParamPlace::default());
        reload(&mut rules, &[rule(|rule| rule.count = 2.0)]);
        assert_eq!(check(&mut rules, 6_000, &[int(1)]), BLOCK);
        for answer in [PASS, PASS, BLOCK] {
            assert_eq!(check(&mut rules, 6_001, &[int(1)]), answer);
        }
    }

    #[test]
    fn a_paced_rule_with_other_numbers_lets_no_value_jump_the_queue() {
        let paced = |count: f64, ms: u32| {
            rule(|rule| {
                (rule.count, rule.max_queueing_time_ms) = (count, ms);
                rule.behavior = ControlBehavior::Pacing;
            })
        };
        let waits = |ms| ParamVerdict::Wait(Duration::from_millis(ms));
        let mut rules = hot(&[paced(10.0, 500)]);
        for answer in [PASS, waits(100), waits(200)] {
            assert_eq!(check(&mut rules, 5_000, &[int(1)]), answer);
        }
        reload(&mut rules, &[paced(10.0, 300)]);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), BLOCK, "300 ms are too long");
        reload(&mut rules, &[paced(5.0, 900)]);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), waits(400));
        assert_eq!(check(&mut rules, 5_000, &[int(2)]), PASS);
        reload(&mut rules, &[paced(0.0, 900)]);
        reload(&mut rules, &[paced(10.0, 900)]);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), waits(500));
        assert!(!rules.tidy(Tick::from_ms(6_499)));
        assert_eq!(rules.values(), 1, "the turn of 1 is at 5 500");
    }

    #[test]
    fn what_a_value_has_used_goes_with_it_when_it_becomes_an_item_and_when_it_is_none_any_more() {
        let with = |items: &[(i32, f64)]| {
            let item = |&(value, count)| ParamItem { value: ItemValue::Int(value), count };
            rule(|rule| (rule.count, rule.items) = (2.0, items.iter().map(item).collect()))
        };
        let mut rules = HotRules::new(&[with(&[(8, 3.0)])], &Room::of(1, u64::MAX));
        for value in [7, 7, 8, 8, 9] {
            assert_eq!(check(&mut rules, 5_000, &[int(value)]), PASS, "{value}");
        }
        reload(&mut rules, &[with(&[(7, 3.0), (9, 2.0)])]);
        for (value, answer) in [(7, PASS), (7, BLOCK), (8, BLOCK), (9, PASS), (9, BLOCK)] {
            assert_eq!(check(&mut rules, 5_000, &[int(value)]), answer, "{value}");
        }
        reload(&mut rules, &[with(&[])]);
        for value in [7, 8, 9] {
            assert_eq!(check(&mut rules, 5_000, &[int(value)]), BLOCK, "{value}");
        }
        while rules.tidy(Tick::from_ms(9_000)) {}
        assert_eq!((rules.values(), rules.room.used()), (0, 0));
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

    fn pinned(count: f64) -> Arc<ParamRule> {
        let items = vec![ParamItem { value: ItemValue::Int(7), count }];
        rule(|rule| (rule.grade, rule.items) = (0, items))
    }

    #[test]
    fn a_value_that_is_pinned_while_it_shares_a_count_still_sees_what_it_shared() {
        let mut rules = HotRules::new(&[threads(0)], &Room::of(1, u64::MAX));
        enter(&mut rules, &[int(1)]);
        let held = enter(&mut rules, &[int(7)]);
        for _ in 0..2 {
            reload(&mut rules, &[pinned(1.0)]);
            assert_eq!(check(&mut rules, 5_000, &[int(7)]), BLOCK, "it is in progress");
        }
        reload(&mut rules, &[pinned(2.0)]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), PASS);
        let second = enter(&mut rules, &[int(7)]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), BLOCK, "one where it shared, one here");
        assert_eq!(check(&mut rules, 5_000, &[int(9)]), BLOCK, "shares with the first");
        rules.leave(Tick::from_ms(5_000), &held);
        assert_eq!(check(&mut rules, 5_000, &[int(9)]), PASS);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), PASS);
        // What shares a count from here on is none of its business.
        enter(&mut rules, &[int(9)]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), PASS);
        rules.leave(Tick::from_ms(5_000), &second);
        reload(&mut rules, &[pinned(1.0)]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), PASS);
    }

    #[test]
    fn a_value_that_is_pinned_while_it_has_a_count_of_its_own_keeps_it() {
        let mut rules = HotRules::new(&[threads(0)], &Room::of(1, u64::MAX));
        let held = enter(&mut rules, &[int(7)]);
        enter(&mut rules, &[int(1)]);
        reload(&mut rules, &[pinned(1.0)]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), BLOCK);
        rules.leave(Tick::from_ms(5_000), &held);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), PASS);
    }

    #[test]
    fn a_value_that_is_pinned_no_more_stays_counted_while_it_is_in_progress() {
        let mut rules = HotRules::new(&[pinned(2.0)], &Room::of(1, u64::MAX));
        enter(&mut rules, &[int(1)]);
        let held = [enter(&mut rules, &[int(7)]), enter(&mut rules, &[int(7)])];
        reload(&mut rules, &[threads(0)]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), BLOCK);
        rules.leave(Tick::from_ms(5_000), &held[0]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), BLOCK, "one is left");
        rules.leave(Tick::from_ms(5_000), &held[1]);
        assert_eq!(check(&mut rules, 5_000, &[int(7)]), PASS);
        // Forgotten, without room for another count of its own, and pinned once more.
        rules.tidy(Tick::from_ms(6_000));
        let shared = enter(&mut rules, &[int(7)]);
        reload(&mut rules, &[pinned(1.0)]);
        assert_eq!(check(&mut rules, 6_000, &[int(7)]), BLOCK, "in progress where it shares");
        rules.leave(Tick::from_ms(6_000), &shared);
        assert_eq!(check(&mut rules, 6_000, &[int(7)]), PASS);
    }
}
