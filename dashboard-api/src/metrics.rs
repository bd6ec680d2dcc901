//! The engine's metrics, read from the engine when they are asked for: nothing is counted twice.
//!
//! | name | labels | meaning |
//! |---|---|---|
//! | `tollgate_flow_requests_total` | flow, `decision` | requests decided by a flow rule |
//! | `tollgate_flow_tokens_total` | flow, `decision` | tokens of those requests |
//! | `tollgate_flow_threshold_tokens` | flow | tokens that the rule allows in one window now |
//! | `tollgate_flow_window_tokens` | flow | tokens taken in the window that ends now |
//! | `tollgate_flow_booked_tokens` | flow | tokens booked for the next bucket |
//! | `tollgate_flow_last_second_admitted_tokens` | flow | tokens that passed or were booked in the last whole second of the epoch |
//! | `tollgate_flow_last_second_blocked_tokens` | flow | tokens refused in that second |
//! | `tollgate_flow_calls_in_progress` | flow | calls in progress of a thread-grade rule |
//! | `tollgate_flow_calls_allowed` | flow | calls of it that may be in progress at once now |
//! | `tollgate_concurrency_tokens_held`, `tollgate_concurrency_tokens_max` | | concurrency tokens of all rules |
//! | `tollgate_param_requests_total` | flow, `decision` | requests decided by a hot-parameter rule |
//! | `tollgate_param_values` | flow | values with a counter of their own |
//! | `tollgate_param_overflow_uses_total` | flow | uses of the counter that further values share |
//! | `tollgate_namespace_connected_clients` | `namespace` | connections that are members |
//! | `tollgate_namespace_refused_requests_total` | `namespace` | requests that the guard refused |
//! | `tollgate_namespace_concurrency_tokens_held` | `namespace` | concurrency tokens of its rules |
//! | `tollgate_namespace_refused_concurrency_tokens_total` | `namespace` | tokens that were refused because it held as many as were free |
//! | `tollgate_rules_revision`, `tollgate_rules_hash`, `tollgate_rules_info` | `hash` | which rules are in force |
//! | `tollgate_flow_rules`, `tollgate_param_rules` | | how many |
//!
//! "Flow" stands for `flow_id`, `namespace` and `resource`. At most [`FLOWS_SHOWN_MAX`] of a kind
//! have series of their own; see [`bounded`].

mod bounded;
mod concurrency;
mod flows;
mod namespaces;
mod params;
mod rules;
mod series;

use std::{fmt, sync::Arc};

use limiter::{Clock, ClusterEngine};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, registry::Registry};

use self::{bounded::Bounded, concurrency::Tokens};

/// Flow rules with series of their own, hot-parameter rules likewise, and namespaces: a scrape of
/// 5 000 flows is some 5 MB, and a Prometheus server holds each series for hours.
pub const FLOWS_SHOWN_MAX: usize = 5_000;

/// Registers what the engine knows under names that begin with `tollgate_`; `registry` must add no
/// prefix of its own.
///
/// `clock` is the one that the engine is asked with: another could be ahead of it, and reading a
/// window turns it over.
pub fn register_engine(registry: &mut Registry, engine: Arc<ClusterEngine>, clock: Arc<dyn Clock>) {
    registry.register_collector(Box::new(Tokens {
        engine: Arc::clone(&engine),
        levels: Bounded::new(FLOWS_SHOWN_MAX),
    }));
    registry.register_collector(Box::new(EngineCollector {
        engine,
        clock,
        flows: Bounded::new(FLOWS_SHOWN_MAX),
        params: Bounded::new(FLOWS_SHOWN_MAX),
        namespaces: Bounded::new(FLOWS_SHOWN_MAX),
    }));
}

/// Reads the engine at each scrape.
#[derive(Debug)]
struct EngineCollector {
    engine: Arc<ClusterEngine>,
    clock: Arc<dyn Clock>,
    flows: Bounded<i64>,
    params: Bounded<i64>,
    namespaces: Bounded<String>,
}

impl Collector for EngineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rules = self.engine.rules();
        rules::encode(&mut encoder, rules.applied())?;
        let exceed_count = self.engine.settings().exceed_count;
        flows::encode(&mut encoder, &rules, exceed_count, self.clock.now(), &self.flows)?;
        params::encode(&mut encoder, &rules, &self.params)?;
        namespaces::encode(&mut encoder, &self.engine.namespaces(), &self.namespaces)
    }
}

#[cfg(test)]
mod tests;
