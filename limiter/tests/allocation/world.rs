//! An engine with rules of every kind, and what becomes of calls.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use limiter::{
    Tick,
    local::{
        Block, BlockKind, BreakerState, Call, ContextHandle, Entry, LocalEngine, LocalSettings,
        Observer, Seen, Slot, Step,
    },
    rule::{
        Contents, DegradeRule, parse, parse_authority, parse_degrade, parse_gateway, parse_system,
    },
};

const FLOW: &str = r#"[
    {"resource": "flow", "count": 50},
    {"resource": "flow", "count": 40, "limitApp": "app"},
    {"resource": "flow", "count": 40, "strategy": 2, "refResource": "web"},
    {"resource": "flow", "count": 100, "strategy": 1, "refResource": "other"},
    {"resource": "flow", "count": 100, "grade": 0},
    {"resource": "flow", "count": 1000, "controlBehavior": 1},
    {"resource": "paced", "count": 20, "controlBehavior": 2},
    {"resource": "/few/.*", "regex": true, "count": 20}
]"#;
const PARAM: &str = r#"[
    {"resource": "hot", "paramIdx": 0, "count": 45},
    {"resource": "hot", "paramIdx": 1, "count": 2, "grade": 0},
    {"resource": "paced value", "paramIdx": 0, "count": 10, "controlBehavior": 2,
     "maxQueueingTimeMs": 200}
]"#;
const GATEWAY: &str = r#"[
    {"resource": "route", "count": 40},
    {"resource": "route", "count": 30, "burst": 5, "paramItem": {"parseStrategy": 0}},
    {"resource": "route", "count": 30, "paramItem": {"parseStrategy": 1}},
    {"resource": "route", "count": 2, "grade": 0,
     "paramItem": {"parseStrategy": 2, "fieldName": "X-User", "pattern": "v.*", "matchStrategy": 2}},
    {"resource": "route", "count": 30, "paramItem": {"parseStrategy": 3, "fieldName": "page"}},
    {"resource": "route", "count": 30, "paramItem": {"parseStrategy": 4, "fieldName": "id"}},
    {"resource": "paced route", "count": 20, "controlBehavior": 2, "maxQueueingTimeoutMs": 200}
]"#;
const BREAKERS: &str = r#"[
    {"resource": "broken", "grade": 0, "count": 20, "slowRatioThreshold": 0.9, "timeWindow": 1},
    {"resource": "broken", "grade": 1, "count": 0.5, "timeWindow": 1, "minRequestAmount": 2},
    {"resource": "broken", "grade": 2, "count": 2, "timeWindow": 1, "minRequestAmount": 2}
]"#;
const DEFAULT_BREAKERS: &str =
    r#"[{"resource": "*", "grade": 1, "count": 0.5, "timeWindow": 1, "minRequestAmount": 4}]"#;
const AUTHORITY: &str = r#"[{"resource": "private", "limitApp": "friend", "strategy": 0}]"#;

pub(crate) struct World {
    pub(crate) engine: Arc<LocalEngine>,
    pub(crate) web: ContextHandle,
    /// One that counts with others.
    pub(crate) above: ContextHandle,
    told: Arc<Told>,
}

impl World {
    pub(crate) fn new() -> Self {
        let settings =
            LocalSettings { resources: 8, contexts: 2, origins: 4, ..LocalSettings::default() };
        let engine = Arc::new(LocalEngine::new(settings));
        engine.load_flow(parse(FLOW, "test", "", Contents::Flow, false).unwrap().rules.flow);
        engine.load_param(parse(PARAM, "test", "", Contents::Param, false).unwrap().rules.param);
        engine.load_gateway(parse_gateway(GATEWAY, "test").unwrap().rules);
        engine.load_degrade(parse_degrade(BREAKERS, "test").unwrap().rules);
        let default = parse_degrade(DEFAULT_BREAKERS, "test").unwrap().rules;
        engine.load_default_degrade(default, &["other"]);
        engine.load_authority(parse_authority(AUTHORITY, "test").unwrap().rules);
        engine.load_system(&parse_system(r#"[{"qps": 30}]"#, "test").unwrap().rules);
        for order in [-9_500, -2_500, 0] {
            engine.insert_slot(order, Arc::new(Guardian(order)));
        }
        let told = Arc::new(Told::default());
        engine.observe(Arc::<Told>::clone(&told));
        let (web, above) = (engine.context("web"), engine.context("above"));
        Self { engine, web, above, told }
    }

    /// Makes a call, whose end may be a failure; one that must wait goes on when it may.
    pub(crate) fn call(&self, now: Tick, call: Call<'_>, fails: bool, tally: &mut Tally) {
        if let Some(mut entry) = self.begin(now, call, tally) {
            if fails {
                entry.fail();
            }
            entry.exit(now);
        }
    }

    /// The same call, whose end is the caller's.
    pub(crate) fn begin(&self, now: Tick, call: Call<'_>, tally: &mut Tally) -> Option<Entry> {
        let mut step = self.engine.enter(now, call);
        loop {
            match step {
                Step::Passed(entry) => {
                    tally.count(Outcome::Passed);
                    return Some(entry);
                }
                Step::Blocked(block) => {
                    tally.count(Outcome::of(&block));
                    return None;
                }
                Step::Wait(waiting) => {
                    tally.count(Outcome::Waited);
                    let turn = now.plus(waiting.wait());
                    step = waiting.resume(turn);
                }
                Step::Ask(asking) => step = asking.resume(now, None),
            }
        }
    }

    /// How often breakers have turned.
    pub(crate) fn turns(&self) -> u32 {
        self.told.turns.load(Ordering::Relaxed)
    }
}

/// Refuses callers that are called `bad`, without an allocation of its own.
#[derive(Debug)]
struct Guardian(i32);

impl Slot for Guardian {
    fn enter(&self, _: Tick, call: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        if self.0 == 0 && call.origin == "bad" { Err("a bad caller".into()) } else { Ok(()) }
    }
}

#[derive(Debug, Default)]
struct Told {
    blocks: AtomicU32,
    turns: AtomicU32,
}

impl Observer for Told {
    fn blocked(&self, _: Tick, _: &Seen<'_>, _: &Block) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    fn turned(&self, _: Tick, _: &str, _: &DegradeRule, _: BreakerState, _: BreakerState) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Passed,
    Waited,
    Flow,
    Param,
    Gateway,
    Degrade,
    System,
    Authority,
    Custom,
}

impl Outcome {
    fn of(block: &Block) -> Self {
        match block.kind() {
            BlockKind::Flow => Self::Flow,
            BlockKind::ParamFlow => Self::Param,
            BlockKind::Gateway => Self::Gateway,
            BlockKind::Degrade => Self::Degrade,
            BlockKind::System(_) => Self::System,
            BlockKind::Authority => Self::Authority,
            BlockKind::Custom(_) => Self::Custom,
            other => panic!("{other:?}"),
        }
    }
}

/// How many calls had which outcome; one that waited has another, too.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    outcomes: [u32; 9],
    /// How often breakers have turned.
    pub(crate) turned: u32,
}

impl Tally {
    pub(crate) fn count(&mut self, outcome: Outcome) {
        self.outcomes[outcome as usize] += 1;
    }

    pub(crate) fn of(&self, outcome: Outcome) -> u32 {
        self.outcomes[outcome as usize]
    }
}
