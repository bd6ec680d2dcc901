//! What the tests say often.

use std::sync::Arc;

use limiter::{
    Tick,
    local::{Block, Call, Entry, LocalEngine, LocalSettings, NodeReading, Waiting},
    rule::{Contents, FlowRule, parse},
};

pub(crate) use limiter::local::Step;

/// A minute, so that every case begins at a border of all windows.
const BEGIN: u64 = 1_700_000_040_000;

pub(crate) fn at(ms: u64) -> Tick {
    Tick::from_ms(BEGIN + ms)
}

pub(crate) fn engine() -> Arc<LocalEngine> {
    Arc::new(LocalEngine::new(LocalSettings::default()))
}

/// An engine with the flow rules of a JSON list.
pub(crate) fn with_flow(rules: &str) -> Arc<LocalEngine> {
    let engine = engine();
    let rules = flow(rules);
    let given = rules.len();
    assert_eq!(engine.load_flow(rules).rules, given);
    engine
}

pub(crate) fn flow(rules: &str) -> Vec<FlowRule> {
    parse(rules, "test", "", Contents::Flow, false).unwrap().rules.flow
}

/// A call that must pass at once.
pub(crate) fn pass(step: Step<'_>) -> Entry {
    match step {
        Step::Passed(entry) => entry,
        Step::Wait(waiting) => panic!("waits {:?}", waiting.wait()),
        Step::Ask(asking) => panic!("asks {:?}", asking.question()),
        Step::Blocked(block) => panic!("blocked: {block}"),
    }
}

/// A call that must be refused.
pub(crate) fn block(step: Step<'_>) -> Block {
    match step {
        Step::Blocked(block) => block,
        other => panic!("{other:?}"),
    }
}

/// A call that must wait so many milliseconds.
pub(crate) fn wait(step: Step<'_>, ms: u64) -> Waiting<'_> {
    match step {
        Step::Wait(waiting) => {
            assert_eq!(waiting.wait().as_micros(), u128::from(ms) * 1_000);
            waiting
        }
        other => panic!("{other:?}"),
    }
}

/// Whether a plain call passes at a time; it ends at once.
pub(crate) fn passes(engine: &Arc<LocalEngine>, ms: u64, resource: &str) -> bool {
    match engine.enter(at(ms), Call::new(resource)) {
        Step::Passed(entry) => {
            entry.exit(at(ms));
            true
        }
        Step::Blocked(_) => false,
        Step::Wait(waiting) => panic!("waits {:?}", waiting.wait()),
        Step::Ask(asking) => panic!("asks {:?}", asking.question()),
    }
}

pub(crate) fn node(engine: &LocalEngine, ms: u64, resource: &str) -> NodeReading {
    engine.node(at(ms), resource).unwrap()
}
