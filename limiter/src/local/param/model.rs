//! A random walk beside a slow and obvious model, which keeps every value for ever.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{tests::enter, *};
use crate::{
    Param,
    cluster::limit::whole,
    rule::{ControlBehavior, ItemValue, ParamItem},
};

/// 2023-11-14, a multiple of a minute.
const START_MS: u64 = 1_700_000_040_000;

type Value = Param<'static>;

/// One rule as the specification has it, in milliseconds.
struct Slow {
    rule: ParamRule,
    /// Last refill and tokens left.
    buckets: BTreeMap<String, (u64, u64)>,
    /// Turn of the last call.
    turns: BTreeMap<String, u64>,
}

impl Slow {
    fn new(rule: ParamRule) -> Self {
        Self { rule, buckets: BTreeMap::new(), turns: BTreeMap::new() }
    }

    fn ask(&mut self, value: &Param<'_>, open: usize, now: u64, n: u64) -> Answer {
        let key = format!("{value:?}");
        let own = self.rule.items.iter().find(|item| Param::from(&item.value) == *value);
        let limit = whole(own.map_or(self.rule.count, |item| item.count));
        let period = self.rule.duration_sec * 1_000;
        if self.rule.grade == 0 {
            return if (open as u64) < limit { Answer::Pass } else { Answer::Block };
        }
        if self.rule.grade > 1 {
            return Answer::Pass;
        }
        if limit == 0 {
            return Answer::Block;
        }
        if self.rule.behavior == ControlBehavior::Pacing {
            let cost = (2_000 * n * self.rule.duration_sec + limit) / (2 * limit);
            let Some(last) = self.turns.get_mut(&key) else {
                self.turns.insert(key, now);
                return Answer::Pass;
            };
            let expected = *last + cost;
            if expected <= now {
                *last = now;
                return Answer::Pass;
            }
            let wait = expected - now;
            if wait >= u64::from(self.rule.max_queueing_time_ms) {
                return Answer::Block;
            }
            *last = expected;
            return Answer::Wait(Duration::from_millis(wait));
        }
        let max = limit + u64::from(self.rule.burst_count);
        let (last, left) = self.buckets.get(&key).copied().unwrap_or((now, max));
        let passed = now - last;
        let (last, left) = if passed > period {
            (now, max.min(left + passed * limit / period))
        } else {
            (last, left)
        };
        if n > left {
            return Answer::Block;
        }
        self.buckets.insert(key, (last, left - n));
        Answer::Pass
    }
}

/// The rules of a resource, and the calls in progress with their arguments.
struct Model {
    rules: Vec<Slow>,
    open: Vec<Vec<Vec<Value>>>,
}

/// The values of the argument at `index` of a call whose nulls are empty lists.
fn at(args: &[Vec<Value>], index: i32) -> &[Value] {
    let len = i32::try_from(args.len()).unwrap();
    let place = if index < 0 { len + index } else { index };
    usize::try_from(place).ok().and_then(|place| args.get(place)).map_or(&[], Vec::as_slice)
}

impl Model {
    /// Everything that is said until the call passes or is refused; moves `now` on by each wait if
    /// the caller `sleeps`.
    fn said(
        &mut self,
        now: &mut u64,
        args: &[Vec<Value>],
        n: u64,
        sleeps: bool,
    ) -> Vec<ParamVerdict> {
        let mut said = Vec::new();
        for (number, rule) in self.rules.iter_mut().enumerate() {
            for value in at(args, rule.rule.param_idx) {
                let open = self.open.iter().flat_map(|args| at(args, rule.rule.param_idx));
                let open = open.filter(|other| *other == value).count();
                match rule.ask(value, open, *now, n) {
                    Answer::Pass => {}
                    Answer::Wait(wait) => {
                        said.push(ParamVerdict::Wait(wait));
                        *now += if sleeps { whole_ms(wait) } else { 0 };
                    }
                    Answer::Block => {
                        said.push(ParamVerdict::Block { rule: number });
                        return said;
                    }
                }
            }
        }
        said.push(ParamVerdict::Pass);
        said
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Time goes on by so many milliseconds.
    Later(u64),
    /// A call; nulls are empty lists. The caller may sleep while it waits, or look at the clock of
    /// before when it goes on.
    Call { args: Vec<Vec<Value>>, n: u32, sleeps: bool },
    /// A call in progress ends.
    End(usize),
    /// Idle values are forgotten.
    Tidy,
    /// The same rules and one more, or one less, are loaded.
    Reload,
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..3).prop_map(Param::Int),
        (0..2_i64).prop_map(Param::Long),
        "[ab]".prop_map(|text| Param::Str(text.into())),
    ]
}

fn rule() -> impl Strategy<Value = ParamRule> {
    let counts = prop_oneof![Just(0.0), Just(0.9), Just(1.0), Just(2.9), Just(3.0), Just(10.0)];
    let what = (0..3_u32, any::<bool>(), 0..3_u32, 1..4_u64, 0..700_u32);
    let items = prop::collection::btree_map(0..3_i32, 0..4_u32, 0..3);
    (-2..3_i32, counts, what, items).prop_map(|(param_idx, count, what, items)| {
        let (grade, paces, burst_count, duration_sec, queue) = what;
        let item =
            |(value, count)| ParamItem { value: ItemValue::Int(value), count: f64::from(count) };
        ParamRule {
            resource: "r".into(),
            regex: false,
            param_idx,
            count,
            grade,
            behavior: if paces { ControlBehavior::Pacing } else { ControlBehavior::Reject },
            max_queueing_time_ms: queue,
            burst_count,
            duration_sec,
            items: items.into_iter().map(item).collect(),
            cluster: None,
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let args = prop::collection::vec(prop::collection::vec(value(), 0..3), 0..4);
    prop_oneof![
        2 => prop_oneof![Just(1_u64), Just(100), Just(999), Just(1_000), Just(1_001), 0..4_000_u64]
            .prop_map(Step::Later),
        6 => (args, 1..4_u32, any::<bool>())
            .prop_map(|(args, n, sleeps)| Step::Call { args, n, sleeps }),
        2 => any::<usize>().prop_map(Step::End),
        1 => Just(Step::Tidy),
        1 => Just(Step::Reload),
    ]
}

fn args_of<'a>(lists: &'a [Vec<Value>]) -> Vec<Arg<'a>> {
    let arg = |list: &'a Vec<Value>| match &list[..] {
        [] => Arg::Null,
        [one] => Arg::One(one.clone()),
        many => Arg::Many(many),
    };
    lists.iter().map(arg).collect()
}

/// As [`Model::said`].
fn said(
    rules: &mut HotRules,
    mut now: u64,
    args: &[Arg<'_>],
    n: u32,
    sleeps: bool,
) -> Vec<ParamVerdict> {
    let (mut said, mut place) = (Vec::new(), ParamPlace::default());
    loop {
        let verdict = rules.check(Tick::from_ms(now), args, n, &mut place);
        said.push(verdict);
        let ParamVerdict::Wait(wait) = verdict else { return said };
        now += if sleeps { whole_ms(wait) } else { 0 };
    }
}

fn whole_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap()
}

proptest! {
    #[test]
    fn any_rules_answer_any_calls_as_if_every_value_were_kept_for_ever(
        rules in prop::collection::vec(rule(), 1..4),
        one_n in 1..4_u32,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        // A value whose calls all ask for the same is as good as new when it is forgotten.
        let paces = rules.iter().any(|rule| rule.behavior == ControlBehavior::Pacing);
        let room = Room::of(1_000, 1 << 20);
        let shared: Vec<_> = rules.iter().cloned().map(Arc::new).collect();
        let other = ParamRule { count: 77.0, param_idx: 9, ..rules[0].clone() };
        let mut hot = HotRules::new(&shared, &room);
        let rules = rules.into_iter().map(Slow::new).collect();
        let mut model = Model { rules, open: Vec::new() };
        let (mut held, mut now, mut reloads) = (Vec::new(), START_MS, 0);
        for step in steps {
            match step {
                Step::Later(ms) => now += ms,
                Step::Call { args, n, sleeps } => {
                    let n = if paces { one_n } else { n };
                    let call = args_of(&args);
                    let heard = said(&mut hot, now, &call, n, sleeps);
                    let expected = model.said(&mut now, &args, n.into(), sleeps);
                    prop_assert_eq!(&heard, &expected, "{} {:?}", now, args);
                    if heard.last() == Some(&ParamVerdict::Pass) {
                        held.push(enter(&mut hot, &call));
                        model.open.push(args);
                    }
                }
                Step::End(_) if held.is_empty() => {}
                Step::End(which) => {
                    let which = which % held.len();
                    hot.leave(Tick::from_ms(now), &held.swap_remove(which));
                    model.open.swap_remove(which);
                }
                Step::Tidy => _ = hot.tidy(Tick::from_ms(now)),
                Step::Reload => {
                    reloads += 1;
                    let more = (reloads % 2 == 1).then(|| Arc::new(other.clone()));
                    let list: Vec<_> = shared.iter().cloned().chain(more).collect();
                    let old = std::mem::replace(&mut hot, HotRules::new(&list, &room));
                    hot.adopt(old);
                }
            }
        }
    }
    /// In a period of 1000 s nothing that was used is forgotten within one second.
    #[test]
    fn without_room_all_new_values_are_one_value_and_nobody_else_notices(
        rule in rule(),
        one_n in 1..4_u32,
        steps in prop::collection::vec(
            (0..15_u64, 0..9_i32, 1..4_u32, any::<prop::sample::Index>(), 0..4_u8),
            1..60,
        ),
    ) {
        let queue = 2_000_000;
        let rule = ParamRule { duration_sec: 1_000, param_idx: 0, max_queueing_time_ms: queue, ..rule };
        let (paces, rule) = (rule.behavior == ControlBehavior::Pacing, Arc::new(rule));
        let mut hot = HotRules::new(&[Arc::clone(&rule)], &Room::of(3, u64::MAX));
        let mut model = Slow::new(ParamRule::clone(&rule));
        let (mut own, mut open, mut held, mut now) = (Vec::new(), Vec::new(), Vec::new(), START_MS);
        for (later, value, n, which, what) in steps {
            now += later;
            let tick = Tick::from_ms(now);
            match what {
                0 => _ = hot.tidy(tick),
                1 if !held.is_empty() => {
                    let which = which.index(held.len());
                    hot.leave(tick, &held.swap_remove(which));
                    open.swap_remove(which);
                }
                _ => {
                    let n = if paces { one_n } else { n };
                    let value = Param::Int(value);
                    let item = rule.items.iter().find(|item| Param::from(&item.value) == value);
                    let limit = whole(item.map_or(rule.count, |item| item.count));
                    let is_bucket = rule.grade == 1 && !paces;
                    let most = if is_bucket { limit + u64::from(rule.burst_count) } else { u64::MAX };
                    let counts = limit > 0 && u64::from(n) <= most;
                    // Calls in progress of items are in the table, too.
                    let takes_room = item.is_none() || rule.grade == 0;
                    let has_room = item.is_some() || own.len() < 3;
                    if takes_room && counts && has_room && !own.contains(&value) {
                        own.push(value.clone());
                    }
                    // One that no item names.
                    let others = Param::Bool(true);
                    let same = if item.is_some() || own.contains(&value) { &value } else { &others };
                    let in_progress = open.iter().filter(|other| *other == same).count();
                    let expected = model.ask(same, in_progress, now, n.into());
                    let args = [Arg::One(value.clone())];
                    let heard = said(&mut hot, now, &args, n, false)[0];
                    let heard = match heard {
                        ParamVerdict::Pass => Answer::Pass,
                        ParamVerdict::Wait(wait) => Answer::Wait(wait),
                        ParamVerdict::Block { .. } => Answer::Block,
                        ParamVerdict::Ask { rule, .. } => panic!("rule {rule} asks a server"),
                    };
                    prop_assert_eq!(heard, expected, "{} {:?}", now, value);
                    if heard != Answer::Block {
                        held.push(enter(&mut hot, &args));
                        open.push(same.clone());
                    }
                }
            }
        }
    }
}
