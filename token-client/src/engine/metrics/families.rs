//! The families of series, one after the other.

use std::fmt::Result;

use limiter::{
    local::{BreakerState, LocalEngine},
    rule::DegradeGrade,
};
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::{Row, Rows};

pub(super) fn tokens(encoder: &mut DescriptorEncoder<'_>, rows: &Rows) -> Result {
    let name = "tollgate_local_tokens_per_second";
    let help = "Tokens in the last second, by what became of them";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (resource, Row { node, .. }) in rows {
        for (event, tokens) in [
            ("pass", node.pass_qps),
            ("borrow", node.occupied_pass_qps),
            ("block", node.block_qps),
            ("success", node.success_qps),
            ("exception", node.exception_qps),
        ] {
            let labels = [("resource", &**resource), ("event", event)];
            ConstGauge::new(tokens).encode(family.encode_family(&labels)?)?;
        }
    }
    let name = "tollgate_local_tokens_last_minute";
    let help = "Tokens in the last minute, by what became of them";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (resource, Row { node, .. }) in rows {
        for (event, tokens) in [
            ("pass", node.total_pass),
            ("block", node.total_block),
            ("success", node.total_success),
            ("exception", node.total_exception),
        ] {
            let labels = [("resource", &**resource), ("event", event)];
            ConstGauge::new(whole(tokens)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// One number of a row.
type Column<T> = (&'static str, &'static str, fn(&Row) -> T);

pub(super) fn gauges(encoder: &mut DescriptorEncoder<'_>, rows: &Rows) -> Result {
    let whole_ones: [Column<i64>; 2] = [
        ("calls", "Calls in progress", |row| row.node.threads),
        ("hot_values", "Values with a counter of their own", |row| whole(row.values)),
    ];
    for (name, help, column) in whole_ones {
        let name = format!("tollgate_local_{name}");
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
        for (resource, row) in rows {
            let labels = [("resource", &**resource)];
            ConstGauge::new(column(row)).encode(family.encode_family(&labels)?)?;
        }
    }
    let seconds: [Column<f64>; 2] = [
        (
            "response_seconds",
            "Average time of the calls that ended in the last second",
            Row::response_seconds,
        ),
        ("oldest_call_seconds", "Age of the oldest call in progress", |row| {
            row.oldest.as_secs_f64()
        }),
    ];
    for (name, help, column) in seconds {
        let name = format!("tollgate_local_{name}");
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
        for (resource, row) in rows {
            let labels = [("resource", &**resource)];
            ConstGauge::new(column(row)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

pub(super) fn counters(encoder: &mut DescriptorEncoder<'_>, rows: &Rows) -> Result {
    let columns: [Column<u64>; 2] = [
        (
            "param_missing",
            "Times that a hot-parameter or gateway rule did not find its argument",
            |row| row.counted.param_missing,
        ),
        ("hot_values_over", "Times that a value found no room for a counter of its own", |row| {
            row.counted.values_over
        }),
    ];
    for (name, help, column) in columns {
        let name = format!("tollgate_local_{name}");
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for (resource, row) in rows {
            let labels = [("resource", &**resource)];
            ConstCounter::new(column(row)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

pub(super) fn breakers(encoder: &mut DescriptorEncoder<'_>, rows: &Rows) -> Result {
    let name = "tollgate_local_breaker_state";
    let help = "Circuit breakers: 0 closed, 1 open, 2 half open";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (resource, row) in rows {
        for (place, breaker) in row.breakers.iter().enumerate() {
            let state: i64 = match breaker.state {
                BreakerState::Closed => 0,
                BreakerState::Open => 1,
                BreakerState::HalfOpen => 2,
            };
            let grade = match breaker.rule.grade {
                DegradeGrade::SlowRatio => "slow_ratio",
                DegradeGrade::ErrorRatio => "error_ratio",
                DegradeGrade::ErrorCount => "error_count",
            };
            let place = place.to_string();
            let labels = [("resource", &**resource), ("breaker", &*place), ("grade", grade)];
            ConstGauge::new(state).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// What is not of one resource.
pub(super) fn engine(encoder: &mut DescriptorEncoder<'_>, local: &LocalEngine) -> Result {
    let over = local.overflow();
    let name = "tollgate_local_over_bound";
    let help = "Uses of what is above its bound and shares counters";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (what, uses) in [
        ("resources", over.resources),
        ("patterns", over.patterns),
        ("contexts", over.contexts),
        ("origins", over.origins),
    ] {
        ConstCounter::new(uses).encode(family.encode_family(&[("what", what)])?)?;
    }
    let status = local.status();
    for (name, help, value) in [
        ("tollgate_local_load", "Load average of a minute; -1: unknown", status.load),
        ("tollgate_local_cpu_ratio", "Processors in use, 0 to 1; -1: unknown", status.cpu),
    ] {
        let gauge = ConstGauge::new(value);
        gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    }
    Ok(())
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
