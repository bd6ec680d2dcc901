//! A client's counters as Prometheus reads them.
//!
//! | metric | meaning |
//! |---|---|
//! | `tollgate_client_calls_total` | requests that were queued to be sent |
//! | `tollgate_client_no_answer_total{reason}` | calls that ended without an answer |
//! | `tollgate_client_dropped_answers_total{reason}` | answers that decided no call |
//! | `tollgate_client_checks_total{decision}` | checks that a server decided |
//! | `tollgate_client_fallbacks_total{reason}` | checks that the client decided by itself |
//! | `tollgate_client_fallback_checks_total{decision}` | the same, by what was decided |
//! | `tollgate_client_connections_opened_total`, `…_closed_total`, `…_failed_total` | connections |
//! | `tollgate_client_clients` | clients of the namespace, as the server last said; 0: unknown |
//! | `tollgate_client_waiting` | calls that wait for an answer now |

use std::fmt::Result;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::{Metrics, Reason, metrics::Meters};

impl Collector for Meters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let metrics = self.read();
        counters(&mut encoder, &metrics)?;
        families(&mut encoder, &metrics)?;
        gauges(&mut encoder, &metrics)
    }
}

fn counters(encoder: &mut DescriptorEncoder<'_>, m: &Metrics) -> Result {
    for (name, help, count) in [
        ("calls", "Requests that were queued to be sent", m.calls),
        ("connections_opened", "Connections that were made", m.connections_opened),
        ("connections_closed", "Connections that ended", m.connections_closed),
        ("connections_failed", "Attempts that made no connection", m.connections_failed),
    ] {
        let name = format!("tollgate_client_{name}");
        let counter = ConstCounter::new(count);
        counter.encode(encoder.encode_descriptor(&name, help, None, MetricType::Counter)?)?;
    }
    Ok(())
}

/// Label values of one family, and their counts.
type Values<'a> = &'a [(&'a str, u64)];

fn families(encoder: &mut DescriptorEncoder<'_>, m: &Metrics) -> Result {
    let no_answer = [
        ("timeout", m.timed_out),
        ("unreachable", m.unreachable),
        ("busy", m.busy),
        ("cancelled", m.cancelled),
    ];
    let dropped = [
        ("stray", m.stray_answers),
        ("mismatched", m.mismatched_answers),
        ("malformed", m.malformed_frames),
    ];
    let checks = [
        ("pass", m.passed),
        ("wait", m.waited),
        ("block", m.blocked),
        ("over_max_wait", m.max_wait_blocked),
    ];
    let fallbacks = Reason::ALL.map(|reason| (reason.as_str(), m.fallbacks(reason)));
    let fallback_checks = [("pass", m.fallback_passed), ("block", m.fallback_blocked)];
    let families: [(&str, &str, &str, Values<'_>); 5] = [
        ("no_answer", "Calls that ended without an answer", "reason", &no_answer),
        ("dropped_answers", "Answers that decided no call", "reason", &dropped),
        ("checks", "Checks that a server decided", "decision", &checks),
        ("fallbacks", "Checks that the client decided by itself", "reason", &fallbacks),
        ("fallback_checks", "The same, by what was decided", "decision", &fallback_checks),
    ];
    for (name, help, label, values) in families {
        let name = format!("tollgate_client_{name}");
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for (value, count) in values {
            ConstCounter::new(*count).encode(family.encode_family(&[(label, *value)])?)?;
        }
    }
    Ok(())
}

fn gauges(encoder: &mut DescriptorEncoder<'_>, m: &Metrics) -> Result {
    let waiting = i64::try_from(m.waiting).unwrap_or(i64::MAX);
    for (name, help, value) in [
        ("clients", "Clients of the namespace, as the server last said", i64::from(m.clients)),
        ("waiting", "Calls that wait for an answer now", waiting),
    ] {
        let name = format!("tollgate_client_{name}");
        let gauge = ConstGauge::new(value);
        gauge.encode(encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?)?;
    }
    Ok(())
}
