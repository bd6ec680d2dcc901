//! What is done for an engine once a second.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use limiter::{local::LocalEngine, rule::ParamRule};
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use super::{Shared, SystemReader};

/// How often Sentinel reads load and processors, too (`SystemRuleManager.java`).
const PERIOD: Duration = Duration::from_secs(1);

/// Rules that do not find their argument, by resource.
type Missing = HashMap<Box<str>, Vec<Arc<ParamRule>>>;

/// Looks after an engine once a second, as long as somebody holds it.
pub(super) async fn keep(engine: Weak<Shared>, mut reader: SystemReader) {
    let mut period = interval(PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut warned = Missing::new();
    loop {
        period.tick().await;
        let Some(engine) = engine.upgrade() else { return };
        let now = engine.clock.now();
        engine.local.set_status(reader.read(now));
        engine.local.tidy(now);
        warned = warn_of_missing(&engine.local, &warned);
    }
}

/// Warns of rules that are not among the `warned`, and gives those that are now: a rule that goes
/// and comes back is a new one.
fn warn_of_missing(local: &LocalEngine, warned: &Missing) -> Missing {
    let mut missing = Missing::new();
    for (resource, rule) in local.missing_args() {
        if !warned.get(&resource).is_some_and(|rules| rules.contains(&rule)) {
            warn!(
                %resource,
                param_idx = rule.param_idx,
                "calls without the argument of a hot-parameter rule are not limited by it"
            );
        }
        missing.entry(resource).or_default().push(rule);
    }
    missing
}
