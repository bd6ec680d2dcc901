//! The list of the server's metrics, as Prometheus reads them.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use protocol::Status;

use super::{
    ANSWERS, BAD_BODIES, BAD_FRAMES, BATCHES, BYTES_READ, BYTES_WRITTEN, Count, REQUESTS,
    Telemetry, answer_place,
};
use crate::{Close, rules::Rules};

/// Registers the server's own metrics, and those of its rules if it loads any.
pub(crate) fn register(
    registry: &mut Registry,
    telemetry: Arc<Telemetry>,
    rules: Option<Arc<Rules>>,
) {
    registry.register_collector(Box::new(Metrics { telemetry, rules }));
}

#[derive(Debug)]
struct Metrics {
    telemetry: Arc<Telemetry>,
    rules: Option<Arc<Rules>>,
}

const REQUEST_TYPES: [&str; super::REQUEST_TYPES] =
    ["ping", "flow", "param", "concurrent_acquire", "concurrent_release", "hello", "unknown"];

const STATUSES: [(&str, Status); 7] = [
    ("bad_request", Status::BadRequest),
    ("too_many_request", Status::TooManyRequest),
    ("fail", Status::Fail),
    ("ok", Status::Ok),
    ("blocked", Status::Blocked),
    ("should_wait", Status::ShouldWait),
    ("no_rule_exists", Status::NoRuleExists),
];

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let t = &*self.telemetry;
        let sums = t.sums();
        let sum = |place: usize| sums.get(place).copied().unwrap_or_default();
        let mut to = Encoder(encoder);
        to.count("connections_opened", "Connections that were let in", t.opened.get())?;
        let ended = Close::REASONS.into_iter().zip(t.closed.iter().map(Count::get));
        let closed = ended.chain([("cut", t.cut.get())]);
        to.family("connections_closed", "Connections that ended, by reason", "reason", closed)?;
        to.count(
            "connections_refused",
            "Connections from addresses that are not allowed",
            t.refused.get(),
        )?;
        to.count(
            "connection_limit_reached",
            "How often further connections had to wait for one to end",
            t.limit_reached.get(),
        )?;
        to.count(
            "accept_errors",
            "Accepts that failed for want of file descriptors or memory",
            t.accept_errors.get(),
        )?;
        let requests = REQUEST_TYPES.into_iter().zip((REQUESTS..).map(sum));
        to.family("requests", "Frames that were answered, by type", "type", requests)?;
        let answers = STATUSES.map(|(name, status)| (name, sum(ANSWERS + answer_place(status))));
        to.family("answers", "Answers, by status", "status", answers.into_iter())?;
        let malformed = [("body", sum(BAD_BODIES)), ("frame", sum(BAD_FRAMES))];
        to.family(
            "malformed",
            "Frames that were no requests: with a bad body (answered), or without a usable head",
            "what",
            malformed.into_iter(),
        )?;
        to.count("pings_refused", "Pings for namespaces that cannot be", t.pings_refused.get())?;
        to.count("batches", "Batches of requests, each answered with one write", sum(BATCHES))?;
        to.count("bytes_read", "Bytes of requests", sum(BYTES_READ))?;
        to.count("bytes_written", "Bytes of answers", sum(BYTES_WRITTEN))?;
        self.encode_rules(&mut to)
    }
}

impl Metrics {
    fn encode_rules(&self, to: &mut Encoder<'_>) -> fmt::Result {
        let Some(rules) = &self.rules else { return Ok(()) };
        to.gauge("rules_load_errors", "Mistakes in the rules at the last load", rules.errors())?;
        let loads = rules.loads();
        to.family("rules_loads", "Loads of rules, by result", "result", loads.into_iter())
    }
}

/// Writes single metrics under the server's prefix.
struct Encoder<'a>(DescriptorEncoder<'a>);

impl Encoder<'_> {
    fn count(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let name = format!("tollgate_{name}");
        let metric = self.0.encode_descriptor(&name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let name = format!("tollgate_{name}");
        let metric = self.0.encode_descriptor(&name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'static str, u64)>,
    ) -> fmt::Result {
        let name = format!("tollgate_{name}");
        let mut family = self.0.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for (value, n) in values {
            ConstCounter::new(n).encode(family.encode_family(&[(label, value)])?)?;
        }
        Ok(())
    }
}
