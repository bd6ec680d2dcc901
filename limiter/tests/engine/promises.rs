//! No algorithm ever lets more through than it promises: whatever is asked, charged and given back,
//! and whatever happens to the rule, the process and the clock meanwhile.

use std::time::{Duration, UNIX_EPOCH};

use limiter::{Ask, ClusterEngine, Decision, Param, Tick, What};
use proptest::prelude::*;

use super::{
    START, engine,
    kinds::{Kind, OTHERS, SLIDING, Went, of_values},
    rules_of,
};

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask {
        count: i32,
        ask: Ask,
    },
    Charge(i32),
    /// Gives back all or a part of what one of the calls took.
    GiveBack(prop::sample::Index, i32),
    /// Later by so many nanoseconds.
    Clock(u64),
    Back(u64),
    Count(f64),
    Move,
    /// Without its rule for a while.
    Away(u64),
    Tidy,
    /// A new process, whose clock is behind by so many nanoseconds.
    Restart(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let max_wait = prop::option::of((0_u64..300).prop_map(Duration::from_millis));
    let ask = (1_i32..5, any::<bool>(), prop::bool::weighted(0.1), max_wait);
    prop_oneof![
        30 => ask.prop_map(|(count, prioritized, peek, max_wait)| {
            Step::Ask { count, ask: Ask { prioritized, peek, max_wait } }
        }),
        15 => (0_u64..120_000_000).prop_map(Step::Clock),
        2 => (0_u64..9_000_000_000).prop_map(Step::Clock),
        1 => (0_u64..2_000_000_000).prop_map(Step::Back),
        1 => (1_i32..4).prop_map(Step::Charge),
        2 => (any::<prop::sample::Index>(), 1_i32..4).prop_map(|(which, n)| Step::GiveBack(which, n)),
        1 => prop::sample::select(vec![0.0, 0.5, 1.0, 2.5, 7.0, 12.0]).prop_map(Step::Count),
        1 => Just(Step::Move),
        1 => (0_u64..500_000_000).prop_map(Step::Away),
        1 => Just(Step::Tidy),
        1 => prop_oneof![Just(0), 0_u64..1_500_000_000].prop_map(Step::Restart),
    ]
}

/// One rule in one engine, beside the list of everything that went.
struct Run {
    kind: Kind,
    is_param: bool,
    engine: ClusterEngine,
    namespace: &'static str,
    count: f64,
    now: u64,
    /// The latest tick that the rule saw.
    seen: u64,
    /// What may or may not have been seen, or have been forgotten since: nothing comes back behind
    /// it.
    floor: u64,
    went: Vec<Went>,
}

const VALUE: [Param<'static>; 1] = [Param::Long(7)];

impl Run {
    fn new(kind: Kind, is_param: bool) -> Self {
        let now = START * 1_000_000;
        let engine = engine();
        let run = Self {
            kind,
            is_param,
            engine,
            namespace: "a",
            count: 5.0,
            now,
            seen: 0,
            floor: 0,
            went: Vec::new(),
        };
        run.load();
        run
    }

    fn load(&self) {
        let fields = if self.is_param { r#""paramIdx":0,"# } else { "" };
        let rules = rules_of(self.namespace, &[self.kind.rule(self.count, fields, "")]);
        self.engine.replace(vec![rules]).unwrap();
    }

    fn what(&self, count: i32) -> What<'static> {
        if self.is_param {
            What::Param { id: 1, count, values: &VALUE }
        } else {
            What::Flow { id: 1, count }
        }
    }

    /// The time that the algorithm takes it for.
    fn see(&mut self) -> u64 {
        self.seen = self.seen.max(self.now - self.now % self.kind.grain());
        self.seen
    }

    fn went(&mut self, at: u64, tokens: u64) {
        let place = self.went.partition_point(|went| went.at <= at);
        self.went
            .insert(place, Went { at, asked: self.now, tokens, count: self.count, spent: None });
    }

    fn step(&mut self, step: Step) {
        let now = Tick(self.now);
        match step {
            Step::Ask { count, ask } => {
                let count = count.min(self.kind.largest(self.count));
                let explained = self.engine.rules().ask(now, &self.what(count), ask).unwrap();
                let looks = matches!(self.kind, Kind::Sliding { .. }) && !self.is_param;
                let is_refused = explained.decision == Decision::Block;
                let seen = if looks || !(ask.peek || is_refused) { self.see() } else { 0 };
                // Whether others saw this tick depends: on what was known before, say.
                self.floor = self.floor.max(if seen == 0 { self.now } else { 0 });
                match explained.decision {
                    _ if ask.peek => {}
                    Decision::Pass { .. } => self.went(seen, count as u64),
                    Decision::Wait { wait } => {
                        let grain = self.kind.grain();
                        // A queue counts the wait from what it takes for now, a window from now.
                        let from = if grain == 1 { seen } else { self.now };
                        let goes = from + wait.as_nanos() as u64;
                        assert!(ask.max_wait.is_none_or(|max| wait <= max));
                        self.went(goes - goes % grain, count as u64);
                    }
                    Decision::Block => {}
                }
            }
            Step::Charge(_) | Step::GiveBack(..) if self.count == 0.0 => {}
            Step::Charge(count) => {
                self.see();
                self.engine.rules().charge(now, &self.what(count)).unwrap();
            }
            Step::GiveBack(..) if self.went.is_empty() => {}
            Step::GiveBack(which, count) => {
                let which = which.index(self.went.len());
                let went = &mut self.went[which];
                let count = (count as u64).min(went.tokens);
                // A turn stays used.
                went.tokens -= if self.kind.is_queue() { 0 } else { count };
                let age = Duration::from_nanos(self.now.saturating_sub(went.asked));
                self.floor = self.floor.max(self.now);
                if count > 0 {
                    self.engine.rules().give_back(now, &self.what(count as i32), age).unwrap();
                }
            }
            Step::Clock(by) => self.now += by,
            Step::Back(by) => self.now = (self.now - by).max(self.floor),
            Step::Count(count) => {
                self.count = count;
                self.load();
            }
            Step::Move => {
                self.namespace = if self.namespace == "a" { "b" } else { "a" };
                self.load();
            }
            Step::Away(by) => {
                self.engine.replace(Vec::new()).unwrap();
                self.tidy();
                self.now += by;
                self.tidy();
                self.load();
            }
            Step::Tidy => self.tidy(),
            Step::Restart(behind) => self.restart(behind),
        }
    }

    fn tidy(&mut self) {
        self.now = self.now.max(self.seen);
        self.floor = self.now;
        self.engine.tidy(Tick(self.now), UNIX_EPOCH + Duration::from_nanos(self.now));
    }

    fn restart(&mut self, behind: u64) {
        let saved_at = Tick(self.now);
        let mut records = Vec::new();
        let saved: Result<(), ()> = self.engine.save(saved_at, |record| {
            records.push(record);
            Ok(())
        });
        saved.unwrap();
        self.now -= behind;
        self.engine = engine();
        self.engine.restore(Tick(self.now), saved_at, records);
        self.load();
        let grain = self.kind.grain();
        let moved = behind - behind % grain;
        let bucket = self.seen.max(saved_at.0 - saved_at.0 % grain);
        self.seen = self.seen.saturating_sub(moved);
        self.floor = self.now;
        // What no window held any more is not saved, and the borders of windows lie anew.
        let window = self.kind.window();
        self.went.retain(|went| went.at + window > bucket);
        if self.went.iter().all(|went| went.tokens == 0) {
            self.seen = 0;
        }
        for went in &mut self.went {
            went.at -= moved;
            went.asked = went.asked.saturating_sub(behind);
        }
    }
}

fn holds(kind: Kind, is_param: bool, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut run = Run::new(kind, is_param);
    for step in steps {
        run.step(step);
    }
    run.kind.allows(&run.went).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn no_flow_lets_more_through_than_it_promises(
        kind in prop::sample::select([&SLIDING[..], &OTHERS[..]].concat()),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        holds(kind, false, steps)?;
    }

    #[test]
    fn no_value_is_let_through_more_than_its_rule_promises(
        kind in prop::sample::select(of_values()),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        holds(kind, true, steps)?;
    }
}
