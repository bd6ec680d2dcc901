//! What a local engine counts, as Prometheus reads it.
//!
//! | metric | meaning |
//! |---|---|
//! | `tollgate_local_tokens_per_second{resource,event}` | tokens in the last second: `pass`, `borrow`, `block`, `success`, `exception` |
//! | `tollgate_local_tokens_last_minute{resource,event}` | the same in the last minute: `pass`, `block`, `success`, `exception` |
//! | `tollgate_local_calls{resource}` | calls in progress |
//! | `tollgate_local_response_seconds{resource}` | average time of the calls that ended in the last second |
//! | `tollgate_local_oldest_call_seconds{resource}` | age of the oldest call in progress; 0 without one. One that only grows is a guard that nobody dropped |
//! | `tollgate_local_param_missing_total{resource}` | times that a hot-parameter or gateway rule did not find its argument |
//! | `tollgate_local_hot_values{resource}` | values that have a counter of their own |
//! | `tollgate_local_hot_values_over_total{resource}` | times that a value found no room for one |
//! | `tollgate_local_breaker_state{resource,breaker,grade}` | 0 closed, 1 open, 2 half open; `breaker` is the place in the order of checking |
//! | `tollgate_local_over_bound_total{what}` | uses of `resources`, sets of `patterns`, `contexts` and `origins` above their bounds |
//! | `tollgate_local_load`, `tollgate_local_cpu_ratio` | what system rules know of the machine; -1 unknown |
//!
//! The resource `__total_inbound_traffic__` is all inbound calls. The first [`RESOURCES_SHOWN_MAX`]
//! resources that are seen have series of their own; the others are added up as `__other__`, where
//! breakers are not shown. A resource that was not called for a minute, and that no rule names, has
//! no series until it is called again; what its rules counted goes on in `__other__`. One that gets
//! series of its own when others have gone leaves there what its rules counted until then.

mod families;
mod names;

use std::{
    collections::BTreeMap,
    fmt::Result,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter::{
    Clock, Tick,
    local::{BreakerReading, LocalEngine, NodeReading, OVERFLOW, TOTAL_INBOUND},
};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use self::names::{Counted, Names};
use super::Shared;
use crate::sync::lock;

/// Resources that have series of their own, about twenty each.
pub(super) const RESOURCES_SHOWN_MAX: usize = 1_000;

/// An engine in a registry.
#[derive(Debug)]
pub(super) struct Shown {
    local: Arc<LocalEngine>,
    clock: Arc<dyn Clock>,
    names: Mutex<Names>,
}

/// What is shown of one resource, or of all others.
#[derive(Debug, Default)]
struct Row {
    node: NodeReading,
    /// Milliseconds of the calls that ended in the last second.
    rt_ms: f64,
    oldest: Duration,
    counted: Counted,
    values: u64,
    breakers: Vec<BreakerReading>,
}

type Rows = BTreeMap<Box<str>, Row>;

impl Shown {
    pub(super) fn new(engine: &Shared) -> Self {
        let (local, clock) = (Arc::clone(&engine.local), Arc::clone(&engine.clock));
        Self { local, clock, names: Mutex::default() }
    }

    fn rows(&self, now: Tick) -> Rows {
        let mut rows = Rows::new();
        rows.entry(TOTAL_INBOUND.into()).or_default().add(&self.local.inbound(now));
        // Before the resources: what goes meanwhile is missed, which shows, and not counted twice.
        let gone = Counted::of(&self.local.params_gone());
        let resources = self.local.resources(now);
        let mut names = lock(&self.names);
        names.begin(&resources);
        for resource in resources {
            let counted = Counted::of(&resource.params);
            let name = names.shown_as(resource.name, counted);
            let is_own = &*name != OVERFLOW;
            let row = rows.entry(name).or_default();
            row.add(&resource.node);
            row.oldest = row.oldest.max(resource.oldest.unwrap_or_default());
            row.counted.add(counted);
            row.values += resource.params.values as u64;
            if is_own {
                row.breakers.extend(resource.breakers);
            }
        }
        names.end(&mut rows, gone);
        rows
    }
}

impl Row {
    fn add(&mut self, reading: &NodeReading) {
        let node = &mut self.node;
        node.pass_qps += reading.pass_qps;
        node.occupied_pass_qps += reading.occupied_pass_qps;
        node.block_qps += reading.block_qps;
        node.success_qps += reading.success_qps;
        node.exception_qps += reading.exception_qps;
        node.total_pass += reading.total_pass;
        node.total_block += reading.total_block;
        node.total_success += reading.total_success;
        node.total_exception += reading.total_exception;
        node.threads += reading.threads;
        self.rt_ms += reading.avg_rt * reading.success_qps;
    }

    fn response_seconds(&self) -> f64 {
        if self.node.success_qps > 0.0 { self.rt_ms / self.node.success_qps / 1_000.0 } else { 0.0 }
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let rows = self.rows(self.clock.now());
        families::tokens(&mut encoder, &rows)?;
        families::gauges(&mut encoder, &rows)?;
        families::counters(&mut encoder, &rows)?;
        families::breakers(&mut encoder, &rows)?;
        families::engine(&mut encoder, &self.local)
    }
}

#[cfg(test)]
mod tests;
