//! The local engine in async code, on a stopped clock.

mod cluster;
mod guards;
mod kept;
mod rules;
mod waits;

use std::{sync::Arc, time::SystemTime};

use limiter::{
    Clock, Tick,
    local::{LocalSettings, NodeReading},
    rule::{Contents, parse},
};
use tokio::time::Instant;

use crate::{Engine, time::now};

/// A minute, so that every case begins at a border of all windows.
const BEGIN: Tick = Tick::from_ms(1_700_000_040_000);

/// The runtime's clock, which stands still but for waits.
#[derive(Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Tick {
        BEGIN.plus(now().duration_since(self.0))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.now().since(Tick(0))
    }
}

/// An engine with the flow rules of a JSON list.
pub(super) fn with_flow(rules: &str) -> Engine {
    super::log::keep();
    let engine = Engine::with_clock(LocalSettings::default(), Arc::new(RuntimeClock(now())));
    let rules = parse(rules, "test", "", Contents::Flow, false).unwrap().rules.flow;
    let given = rules.len();
    assert_eq!(engine.local().load_flow(rules).rules, given);
    engine
}

pub(super) fn node(engine: &Engine, resource: &str) -> NodeReading {
    engine.local().node(engine.now(), resource).unwrap_or_default()
}

/// Calls in progress, that ended, and that ended with an error.
pub(super) fn ended(engine: &Engine, resource: &str) -> (i64, u64, u64) {
    let node = node(engine, resource);
    (node.threads, node.total_success, node.total_exception)
}
