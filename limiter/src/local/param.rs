//! The hot-parameter rules of one resource: Sentinel's `ParamFlowSlot` and `ParameterMetric`.
//!
//! | rule                        | what a value may                                     | file      |
//! |-----------------------------|------------------------------------------------------|-----------|
//! | grade 1                     | take the tokens of a bucket                          | `bucket`  |
//! | grade 1, pacing             | go when the one before it has gone long enough       | `pace`    |
//! | grade 0                     | have so many calls in progress                       | `threads` |
//!
//! A rule looks at the argument at its index, of a collection at each element in turn: the first
//! that is refused refuses the call, and what the ones before it took stays taken, as in Sentinel.
//! A call without the argument passes and is counted, since a rule that never finds its argument
//! protects nothing.
//!
//! Memory: a value of a rule's items always has its counter. Of the others as many as there is
//! room for; what no longer counts is forgotten first, what counts is never forgotten, and a
//! further one is counted together with all that found no room, by the rule's count. (Sentinel
//! forgets the longest unused of 4000, so that more values than that are not limited at all.)

mod bucket;
#[cfg(test)]
mod golden;
mod keyed;
#[cfg(test)]
mod model;
mod outlook;
mod pace;
mod reload;
mod rule;
mod threads;

use std::{sync::Arc, time::Duration};

pub(crate) use self::threads::Held;
use self::{
    keyed::Answer,
    rule::{Check, HotRule},
    threads::Threads,
};
use super::{
    arg::{Arg, values_at},
    asking::Told,
    passed::Passed,
};
use crate::{
    Tick,
    cluster::{key::KeyRef, values::Room},
    rule::ParamRule,
};

/// All hot-parameter rules of one resource, in the order in which they are checked.
#[derive(Debug)]
pub(crate) struct HotRules {
    rules: Vec<HotRule>,
    /// Calls in progress by the index of an argument: first those that rules look at, then those
    /// that no rule looks at any more and that still have calls in progress.
    threads: Vec<Threads>,
    /// How many rules there have been.
    numbers: u32,
    /// How many of them rules look at.
    watched: usize,
    room: Room,
    /// The latest tick: an older one counts as this.
    seen: Tick,
    /// What rules that are gone have counted.
    gone: Counted,
}

/// What has happened since the resource got its first rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// How often a value found no room and was counted with others.
    pub(crate) overflow_uses: u64,
    /// How often a rule did not find its argument in a call.
    pub(crate) missing: u64,
}

/// How far a call has come among the rules.
#[derive(Debug, Default)]
pub(crate) struct ParamPlace {
    /// Rules that have been asked for all elements of their argument.
    passed: Passed,
    /// The number of the rule that is next, and for how many elements it has been asked.
    rule: u32,
    elements: usize,
    /// Whether token servers are asked for cluster rules.
    pub(crate) asks_servers: bool,
    /// What a server said last.
    pub(crate) told: Option<Told>,
}

/// What the rules say to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamVerdict {
    /// Every rule lets it pass.
    Pass,
    /// A rule lets it pass after the wait, which is not zero; the turn is taken. What comes after
    /// is asked when the wait is over.
    Wait(Duration),
    /// A token server is to be asked for the values that the rule at this index looks at, and then
    /// the rules again.
    Ask { rule: usize },
    /// The rule at this index refuses it.
    Block { rule: usize },
}

impl ParamPlace {
    /// The call goes on at the rule at `index`, which has been asked for so many elements.
    fn go_on(&mut self, rules: &[HotRule], index: usize, elements: usize) {
        self.passed.add(rules.iter().take(index).map(|rule| rule.number));
        self.rule = rules.get(index).map_or(0, |rule| rule.number);
        self.elements = elements;
    }
}

impl HotRules {
    /// `rules` with nothing used, in `room`, which all resources share.
    pub(crate) fn new(rules: &[Arc<ParamRule>], room: &Room) -> Self {
        let rules: Vec<HotRule> =
            (1..).zip(rules).map(|(n, rule)| HotRule::new(n, rule, room)).collect();
        let numbers = u32::try_from(rules.len()).unwrap_or(u32::MAX);
        let mut threads: Vec<Threads> = Vec::new();
        for HotRule { rule, check, .. } in &rules {
            if let Check::Threads(limits) = check {
                let known = threads.iter().position(|calls| calls.param_idx == rule.param_idx);
                let at = known.unwrap_or_else(|| {
                    threads.push(Threads::new(rule.param_idx));
                    threads.len() - 1
                });
                if let Some(calls) = threads.get_mut(at) {
                    calls.pin(limits.items.keys());
                }
            }
        }
        let watched = threads.len();
        let (room, seen, gone) = (room.clone(), Tick::default(), Counted::default());
        Self { rules, threads, numbers, watched, room, seen, gone }
    }

    /// Asks every rule that is not behind `place` for `n` tokens of each value that it looks at, at
    /// `now`. Where it waits or a server is to be asked, `place` is where to go on.
    pub(crate) fn check(
        &mut self,
        now: Tick,
        args: &[Arg<'_>],
        n: u32,
        place: &mut ParamPlace,
    ) -> ParamVerdict {
        let now = self.see(now);
        let Self { rules, threads, room, .. } = self;
        for index in 0..rules.len() {
            let Some(rule) = rules.get_mut(index) else { break };
            if place.passed.has(rule.number) {
                continue;
            }
            let Some(values) = values_at(args, rule.rule.param_idx) else {
                rule.missing += 1;
                continue;
            };
            let number = rule.number;
            if let Some(flow_id) =
                rule.flow_id().filter(|_| place.asks_servers && !values.is_empty())
            {
                match place.told.take_if(|told| told.flow_id == flow_id) {
                    Some(Told { pass: true, .. }) => continue,
                    Some(_) => return ParamVerdict::Block { rule: index },
                    None => {
                        place.go_on(rules, index, 0);
                        return ParamVerdict::Ask { rule: index };
                    }
                }
            }
            let done = if place.rule == number { place.elements } else { 0 };
            for (element, value) in values.iter().enumerate().skip(done) {
                match rule.ask(threads, now, value, n, room) {
                    Answer::Pass => {}
                    Answer::Wait(wait) => {
                        place.go_on(rules, index, element + 1);
                        return ParamVerdict::Wait(wait);
                    }
                    Answer::Block => return ParamVerdict::Block { rule: index },
                }
            }
        }
        ParamVerdict::Pass
    }

    /// Asks the rules on calls in progress once more, for a call that has waited since they let it
    /// pass: others may have begun meanwhile. Gives the index of the one that refuses it.
    pub(crate) fn check_threads(&mut self, now: Tick, args: &[Arg<'_>]) -> Result<(), usize> {
        let now = self.see(now);
        let Self { rules, threads, room, .. } = self;
        let on_threads = |rule: &HotRule| matches!(rule.check, Check::Threads(_));
        for (number, rule) in rules.iter_mut().enumerate().filter(|(_, rule)| on_threads(rule)) {
            for value in values_at(args, rule.rule.param_idx).unwrap_or_default() {
                if rule.ask(threads, now, value, 1, room) == Answer::Block {
                    return Err(number);
                }
            }
        }
        Ok(())
    }

    /// A call that passed begins: it is in progress with each value that a rule of grade 0 looks
    /// at, until [`Self::leave`]. Calls that wait between the check and this are not, as in
    /// Sentinel: as many as wait may go over the count together.
    pub(crate) fn enter(&mut self, args: &[Arg<'_>], held: &mut Held) {
        let Self { threads, watched, room, seen, .. } = self;
        for calls in threads.iter_mut().take(*watched) {
            for value in values_at(args, calls.param_idx).unwrap_or_default() {
                held.push(calls.param_idx, calls.raise(KeyRef::of(value), *seen, room));
            }
        }
    }

    /// The call that holds this has ended at `now`.
    pub(crate) fn leave(&mut self, now: Tick, held: &Held) {
        let now = self.see(now);
        for (param_idx, at) in held.places() {
            let mut known = self.threads.iter_mut().enumerate();
            let Some((place, calls)) = known.find(|(_, calls)| calls.param_idx == param_idx) else {
                continue;
            };
            calls.lower(at, now);
            if place >= self.watched && calls.is_done() {
                self.gone.overflow_uses += calls.overflow_uses();
                self.threads.swap_remove(place);
            }
        }
    }

    /// Forgets values of which nothing counts any more at `now`, looking at some of every rule;
    /// true when there may be more.
    pub(crate) fn tidy(&mut self, now: Tick) -> bool {
        let now = self.see(now);
        let Self { rules, threads, room, .. } = self;
        let of_rules = rules.iter_mut().fold(false, |more, rule| rule.tidy(now, room) | more);
        threads.iter_mut().fold(of_rules, |more, calls| calls.tidy(now, room) | more)
    }

    /// Whether nothing that the rules remember counts at `now`, so that new ones would decide the
    /// same.
    pub(crate) fn is_idle(&self, now: Tick) -> bool {
        self.rules.iter().all(|rule| rule.is_idle(now))
            && self.threads.iter().all(|calls| calls.is_done() && calls.len() == 0)
    }

    /// Whether calls in progress are counted by the argument at this index.
    pub(crate) fn counts_by(&self, param_idx: i32) -> bool {
        self.threads.iter().any(|calls| calls.param_idx == param_idx)
    }

    /// The rule that a verdict names.
    pub(crate) fn rule(&self, index: usize) -> Option<&Arc<ParamRule>> {
        self.rules.get(index).map(|rule| &rule.rule)
    }

    /// Each rule, and how often it did not find its argument in a call.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (&Arc<ParamRule>, u64)> {
        self.rules.iter().map(|rule| (&rule.rule, rule.missing))
    }

    /// Values with a counter of their own now, but for those of items, which always have theirs.
    pub(crate) fn values(&self) -> usize {
        let of_rules: usize = self.rules.iter().map(|rule| rule.values().0).sum();
        of_rules + self.threads.iter().map(Threads::len).sum::<usize>()
    }

    /// What has happened so far.
    pub(crate) fn counted(&self) -> Counted {
        let mut all = self.gone;
        for rule in &self.rules {
            all.missing += rule.missing;
            all.overflow_uses += rule.values().1;
        }
        all.overflow_uses += self.threads.iter().map(Threads::overflow_uses).sum::<u64>();
        all
    }

    fn see(&mut self, now: Tick) -> Tick {
        self.seen = self.seen.max(now);
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Param,
        rule::{ControlBehavior, ItemValue, ParamItem},
    };

    pub(super) fn rule(change: impl FnOnce(&mut ParamRule)) -> Arc<ParamRule> {
        let mut rule = ParamRule {
            resource: "r".into(),
            regex: false,
            param_idx: 0,
            count: 1.0,
            grade: 1,
            behavior: ControlBehavior::Reject,
            max_queueing_time_ms: 0,
            burst_count: 0,
            duration_sec: 1,
            items: Vec::new(),
            cluster: None,
        };
        change(&mut rule);
        Arc::new(rule)
    }

    pub(super) fn threads(param_idx: i32) -> Arc<ParamRule> {
        rule(|rule| (rule.grade, rule.param_idx) = (0, param_idx))
    }

    fn paces(rule: &mut ParamRule) {
        rule.behavior = ControlBehavior::Pacing;
        (rule.count, rule.max_queueing_time_ms) = (10.0, 500);
    }

    pub(super) fn hot(rules: &[Arc<ParamRule>]) -> HotRules {
        HotRules::new(rules, &Room::of(1_000, 1 << 20))
    }

    pub(super) fn reload(rules: &mut HotRules, new: &[Arc<ParamRule>]) {
        let new = HotRules::new(new, &rules.room);
        let old = std::mem::replace(rules, new);
        rules.adopt(old);
    }

    pub(super) fn int(value: i32) -> Arg<'static> {
        Arg::One(Param::Int(value))
    }

    pub(super) fn check(rules: &mut HotRules, ms: u64, args: &[Arg<'_>]) -> ParamVerdict {
        rules.check(Tick::from_ms(ms), args, 1, &mut ParamPlace::default())
    }

    pub(super) fn enter(rules: &mut HotRules, args: &[Arg<'_>]) -> Held {
        let mut held = Held::default();
        rules.enter(args, &mut held);
        held
    }

    pub(super) const PASS: ParamVerdict = ParamVerdict::Pass;
    pub(super) const BLOCK: ParamVerdict = ParamVerdict::Block { rule: 0 };

    #[test]
    fn a_call_goes_on_after_the_rule_and_the_element_that_it_waited_for() {
        let mut rules = hot(&[rule(|rule| rule.count = 2.0), rule(paces), threads(0)]);
        let pair = [Param::Int(1), Param::Int(1)];
        let args = [Arg::Many(&pair)];
        let now = Tick::from_ms(5_000);
        let place = &mut ParamPlace::default();
        assert_eq!(
            rules.check(now, &args, 1, place),
            ParamVerdict::Wait(Duration::from_millis(100))
        );
        // Whatever comes before and whatever goes, what has been asked is not asked again.
        let kept = [rule(|rule| rule.count = 2.0), rule(paces), threads(0)];
        let [first, second, third] = kept.each_ref().map(Arc::clone);
        reload(&mut rules, &[Arc::clone(&third), threads(1), second, first]);
        let at = Tick::from_ms(5_100);
        assert_eq!(rules.check(at, &args, 1, place), PASS, "neither bucket nor queue");
        reload(&mut rules, &kept);
        let held = enter(&mut rules, &args);
        let refused = ParamVerdict::Block { rule: 2 };
        assert_eq!(rules.check(at, &args, 1, place), refused, "two are in progress");
        rules.leave(at, &held);
        assert_eq!(rules.check(at, &args, 1, place), PASS);
        assert_eq!(check(&mut rules, 5_100, &args), BLOCK, "the bucket is empty");
    }

    #[test]
    fn a_turn_that_nobody_waits_for_stays_taken() {
        let mut rules = hot(&[rule(paces)]);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), PASS);
        for ms in [100, 200] {
            let ParamVerdict::Wait(wait) = check(&mut rules, 5_000, &[int(1)]) else { panic!() };
            assert_eq!(wait, Duration::from_millis(ms));
        }
    }

    #[test]
    fn a_call_without_the_argument_passes_and_is_counted_once_for_each_rule_on_it() {
        let rules = [rule(|_| ()), threads(1), rule(|rule| rule.param_idx = -3)];
        let mut rules = hot(&rules);
        assert_eq!(check(&mut rules, 5_000, &[]), PASS);
        assert_eq!(check(&mut rules, 5_000, &[Arg::Null]), PASS);
        assert_eq!(check(&mut rules, 5_000, &[Arg::Many(&[]), int(1)]), PASS);
        let missing: Vec<u64> = rules.missing().map(|(_, times)| times).collect();
        assert_eq!((missing, rules.counted().missing), (vec![2, 2, 3], 7));
        assert!(rules.rule(1).is_some_and(|rule| rule.grade == 0) && rules.rule(3).is_none());
        reload(&mut rules, &[threads(1)]);
        assert_eq!(rules.missing().next().unwrap().1, 2);
        reload(&mut rules, &[]);
        assert_eq!(rules.counted(), Counted { missing: 7, overflow_uses: 0 });
    }

    #[test]
    fn at_the_cap_new_values_share_one_counter_and_those_of_items_do_not() {
        let items = vec![ParamItem { value: ItemValue::Int(77), count: 2.0 }];
        let rule = rule(|rule| (rule.count, rule.items) = (3.0, items));
        let mut rules = HotRules::new(&[rule], &Room::of(2, u64::MAX));
        for value in [1, 2, 3, 4, 5, 77, 77] {
            assert_eq!(check(&mut rules, 5_000, &[int(value)]), PASS, "{value}");
        }
        assert_eq!(check(&mut rules, 5_000, &[int(6)]), BLOCK, "3, 4 and 5 used it up");
        assert_eq!(check(&mut rules, 5_000, &[int(77)]), BLOCK, "its own two tokens");
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), PASS, "it keeps its own counter");
        assert_eq!((rules.values(), rules.counted().overflow_uses), (2, 4));
        assert_eq!(check(&mut rules, 6_001, &[int(6)]), PASS, "1 and 2 count no more");
        assert_eq!((rules.values(), rules.counted().overflow_uses), (1, 4));
    }

    #[test]
    fn idle_values_go_and_their_memory_is_given_back() {
        let mut rules = hot(&[rule(|rule| rule.duration_sec = 2), rule(paces), threads(0)]);
        for value in 0..100 {
            assert_eq!(check(&mut rules, 5_000, &[int(value)]), PASS);
        }
        assert_eq!(rules.values(), 300);
        for (ms, values) in [(5_999, 300), (6_000, 100), (7_000, 100), (7_001, 0)] {
            assert!(!rules.tidy(Tick::from_ms(ms)), "all were looked at");
            assert_eq!(rules.values(), values, "{ms}");
        }
        assert_eq!(rules.room.used(), 0);
    }

    #[test]
    fn a_flood_is_forgotten_in_small_steps() {
        let mut rules = HotRules::new(&[rule(|_| ()), threads(0)], &Room::of(2_000, u64::MAX));
        for value in 0..2_000 {
            check(&mut rules, 5_000, &[int(value)]);
        }
        assert!(rules.tidy(Tick::from_ms(6_001)));
        assert_eq!(rules.values(), 4_000 - 2 * 512);
        while rules.tidy(Tick::from_ms(6_001)) {}
        assert_eq!((rules.values(), rules.room.used()), (0, 0));
    }

    #[test]
    fn bytes_are_bounded_for_all_resources_together() {
        let room = Room::of(1_000_000, 20_000);
        let mut all: Vec<HotRules> =
            (0..3).map(|_| HotRules::new(&[rule(|_| ())], &room)).collect();
        for value in 0..1_000 {
            for rules in &mut all {
                let text = Param::Str(format!("a value of some length {value}").into());
                check(rules, 5_000, &[Arg::One(text)]);
            }
        }
        assert!(room.used() < 30_000, "{} bytes", room.used());
        assert!(all.iter().all(|rules| rules.values() > 0 && rules.counted().overflow_uses > 900));
        drop(all);
        assert_eq!(room.used(), 0);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing_back_early() {
        let mut rules = hot(&[rule(|_| ())]);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), PASS);
        assert_eq!(check(&mut rules, 1_000, &[int(2)]), PASS, "at 5 000, too");
        assert_eq!(check(&mut rules, 3_000, &[int(2)]), BLOCK);
        assert_eq!(check(&mut rules, 6_000, &[int(2)]), BLOCK);
        assert_eq!(check(&mut rules, 6_001, &[int(2)]), PASS);
    }

    #[test]
    fn a_grade_that_is_not_known_lets_everything_pass() {
        let mut rules = hot(&[rule(|rule| (rule.grade, rule.count) = (2, 0.0))]);
        assert_eq!(check(&mut rules, 5_000, &[int(1)]), PASS);
        assert_eq!((rules.values(), enter(&mut rules, &[int(1)]).places().count()), (0, 0));
    }

    #[test]
    fn no_tokens_pass_where_some_may_and_change_nothing() {
        let mut rules = hot(&[rule(paces)]);
        let zero = |rules: &mut HotRules, value| {
            rules.check(Tick::from_ms(5_000), &[int(value)], 0, &mut ParamPlace::default())
        };
        assert_eq!((zero(&mut rules, 1), rules.values()), (PASS, 0));
        let mut shut = hot(&[rule(|rule| rule.count = 0.0)]);
        assert_eq!(zero(&mut shut, 1), BLOCK);
    }
}
