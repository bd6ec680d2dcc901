//! Which rules are in force.

use std::fmt;

use limiter::Applied;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::info::Info,
};

use super::series::{gauge, gauges};

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, applied: Applied) -> fmt::Result {
    let hash = format!("{:016x}", applied.hash);
    let info = Info::new([("hash", hash.as_str())]);
    info.encode(encoder.encode_descriptor(
        "tollgate_rules",
        "The rules in force: equal sets have equal hashes, on every server.",
        None,
        info.metric_type(),
    )?)?;
    let numbers = [
        (
            "tollgate_rules_revision",
            "Rises with every rule set that differs from the one before, 0 before the first.",
            applied.revision,
        ),
        // A gauge holds 53 bits; 52 of them are the digits that the label begins with.
        (
            "tollgate_rules_hash",
            "The first 13 digits of the rules' hash as a number.",
            applied.hash >> 12,
        ),
        ("tollgate_flow_rules", "Flow rules in force.", applied.flows as u64),
        ("tollgate_param_rules", "Hot-parameter rules in force.", applied.params as u64),
    ];
    for (name, help, value) in numbers {
        gauges(encoder, name, help, [([], gauge(value))])?;
    }
    Ok(())
}
