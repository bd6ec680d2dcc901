//! A client's counters as Prometheus reads them.
//!
//! | metric | meaning |
//! |---|---|
//! | `tollgate_client_calls_total` | requests that were queued to be sent |
//! | `tollgate_client_no_answer_total{reason}` | calls that ended without an answer |
//! | `tollgate_client_dropped_answers_total{reason}` | answers that decided no call |
//! | `tollgate_client_checks_total{decision}` | checks that a server decided, or a lease |
//! | `tollgate_client_leases_total{event}` | leases that were granted, refused, returned |
//! | `tollgate_client_lease_tokens_total{event}` | their tokens: granted; of these spent, returned, lost |
//! | `tollgate_client_holds_total{decision}` | holds that a server decided |
//! | `tollgate_client_holds_lost_total`, `…_regained_total` | guards whose server forgot them, and held them again |
//! | `tollgate_client_fallbacks_total{reason}` | checks and holds that the client decided by itself |
//! | `tollgate_client_fallback_checks_total{decision}` | the same, by what was decided |
//! | `tollgate_client_connections_opened_total`, `…_closed_total`, `…_failed_total` | connections |
//! | `tollgate_client_clients` | clients of the namespace, as the server last said; 0: unknown |
//! | `tollgate_client_waiting` | calls that wait for an answer now |
//! | `tollgate_client_holding` | guards that stand for a server's grant now |

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
        ("holds_lost", "Guards whose server no longer held their token", m.holds_lost),
        ("holds_regained", "Guards whose server held them again", m.holds_regained),
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
        ("lease", m.leased),
        ("over_max_wait", m.max_wait_blocked),
    ];
    let leases = [
        ("granted", m.leases_granted),
        ("refused", m.leases_refused),
        ("returned", m.leases_returned),
    ];
    let lease_tokens = [
        ("granted", m.lease_tokens_granted),
        ("spent", m.lease_tokens_spent),
        ("returned", m.lease_tokens_returned),
        ("lost", m.lease_tokens_lost),
    ];
    let holds = [("pass", m.holds), ("block", m.holds_refused)];
    let fallbacks = Reason::ALL.map(|reason| (reason.as_str(), m.fallbacks(reason)));
    let fallback_checks = [("pass", m.fallback_passed), ("block", m.fallback_blocked)];
    let families: [(&str, &str, &str, Values<'_>); 8] = [
        ("no_answer", "Calls that ended without an answer", "reason", &no_answer),
        ("dropped_answers", "Answers that decided no call", "reason", &dropped),
        ("checks", "Checks that a server decided, or a lease", "decision", &checks),
        ("leases", "Leases by what became of them", "event", &leases),
        ("lease_tokens", "Tokens of leases by what became of them", "event", &lease_tokens),
        ("holds", "Holds that a server decided", "decision", &holds),
        ("fallbacks", "Checks and holds that the client decided by itself", "reason", &fallbacks),
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
    let gauge = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    for (name, help, value) in [
        ("clients", "Clients of the namespace, as the server last said", i64::from(m.clients)),
        ("waiting", "Calls that wait for an answer now", gauge(m.waiting)),
        ("holding", "Guards that stand for a server's grant now", gauge(m.holding)),
    ] {
        let name = format!("tollgate_client_{name}");
        let gauge = ConstGauge::new(value);
        gauge.encode(encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?)?;
    }
    Ok(())
}
