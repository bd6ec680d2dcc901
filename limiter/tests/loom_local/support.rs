//! What the models say often.

use std::sync::Arc;

use limiter::{
    Param, Tick,
    local::{Arg, Call, Entry, LocalEngine, LocalSettings, NodeReading, Step},
    rule::{Contents, DegradeRule, FlowRule, ParamRule, parse, parse_degrade},
};
use loom::{
    model::Builder,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

const PREEMPTIONS: usize = 3;

pub(crate) type Engine = Arc<LocalEngine>;

pub(crate) fn at(ms: u64) -> Tick {
    Tick::from_ms(1_700_000_040_000 + ms)
}

/// Checks every interleaving within the bound.
pub(crate) fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.check(check);
}

/// Runs `a` and `b` side by side on the engine and gives what both saw.
pub(crate) fn race<A: Send + 'static, B>(
    engine: &Engine,
    a: impl FnOnce(&Engine) -> A + Send + 'static,
    b: impl FnOnce(&Engine) -> B,
) -> (A, B) {
    let other = {
        let engine = Arc::clone(engine);
        thread::spawn(move || a(&engine))
    };
    let mine = b(engine);
    (other.join().unwrap(), mine)
}

pub(crate) fn engine() -> Engine {
    Arc::new(LocalEngine::new(LocalSettings::default()))
}

pub(crate) fn with_flow(rules: &[FlowRule]) -> Engine {
    let engine = engine();
    assert_eq!(engine.load_flow(rules.to_vec()).rules, rules.len());
    engine
}

pub(crate) fn flow(rules: &str) -> Vec<FlowRule> {
    parse(rules, "model", "", Contents::Flow, false).unwrap().rules.flow
}

pub(crate) fn param(rules: &str) -> Vec<ParamRule> {
    parse(rules, "model", "", Contents::Param, false).unwrap().rules.param
}

pub(crate) fn degrade(rules: &str) -> Vec<DegradeRule> {
    parse_degrade(rules, "model").unwrap().rules
}

pub(crate) fn text(value: &str) -> [Arg<'_>; 1] {
    [Arg::One(Param::Str(value.into()))]
}

pub(crate) fn is_passed(step: &Step<'_>) -> bool {
    match step {
        Step::Passed(_) => true,
        Step::Blocked(_) => false,
        Step::Wait(waiting) => panic!("waits {:?}", waiting.wait()),
        Step::Ask(asking) => panic!("asks {:?}", asking.question()),
    }
}

/// Whether a call passes; it ends at once.
pub(crate) fn passes(engine: &Engine, ms: u64, call: Call<'_>) -> bool {
    is_passed(&engine.enter(at(ms), call))
}

/// How many of the two passed.
pub(crate) fn count((a, b): (bool, bool)) -> usize {
    usize::from(a) + usize::from(b)
}

/// Calls in progress as the callers see them.
#[derive(Clone)]
pub(crate) struct Open(Arc<AtomicUsize>);

impl Open {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    /// Begins a call during which no other may be in progress.
    pub(crate) fn begin(&self, engine: &Engine, call: Call<'_>) -> Option<Entry> {
        let Step::Passed(entry) = engine.enter(at(0), call) else { return None };
        assert_eq!(self.0.fetch_add(1, Ordering::SeqCst), 0, "two at once");
        Some(entry)
    }

    pub(crate) fn end(&self, entry: Entry) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        entry.exit(at(0));
    }

    /// Makes a call during which no other may be in progress; whether it passed.
    pub(crate) fn alone(&self, engine: &Engine, call: Call<'_>) -> bool {
        self.begin(engine, call).map(|entry| self.end(entry)).is_some()
    }
}

/// The counters of a resource, of which no call is in progress any more.
pub(crate) fn ended(engine: &Engine, ms: u64, resource: &str) -> NodeReading {
    let reading = engine.node(at(ms), resource).unwrap();
    assert_eq!((reading.threads, engine.open_entries(at(ms)).len()), (0, 0));
    reading
}
