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
    TOKENS_ACQUIRED, TOKENS_REFUSED, TOKENS_RELEASED, Telemetry, answer_place,
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

/// In the order of their places.
const REQUEST_TYPES: [&str; super::REQUEST_TYPES] = [
    "ping",
    "flow",
    "param",
    "concurrent_acquire",
    "concurrent_release",
    "hello",
    "renew",
    "ask",
    "adjust",
    "acquire_all",
    "lease",
    "rules",
    "unknown",
];

const STATUSES: [(&str, Status); 9] = [
    ("bad_request", Status::BadRequest),
    ("too_many_request", Status::TooManyRequest),
    ("fail", Status::Fail),
    ("ok", Status::Ok),
    ("blocked", Status::Blocked),
    ("should_wait", Status::ShouldWait),
    ("no_rule_exists", Status::NoRuleExists),
    ("release_ok", Status::ReleaseOk),
    ("already_release", Status::AlreadyRelease),
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
        let tokens = [
            ("acquired", sum(TOKENS_ACQUIRED)),
            ("refused", sum(TOKENS_REFUSED)),
            ("released", sum(TOKENS_RELEASED)),
        ];
        to.family(
            "concurrency_tokens",
            "Concurrency tokens that clients asked for or gave back, by what came of it; what was \
             acquired and is neither released nor held any more has ended by itself",
            "event",
            tokens.into_iter(),
        )?;
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
        to.enforced(t.enforced())?;
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

    fn enforced(&mut self, (digests, rest): (Vec<(u64, u64)>, u64)) -> fmt::Result {
        let mut family = self.0.encode_descriptor(
            "tollgate_client_rules",
            "Connected clients by the digest of the rules that they enforce, as far as they tell it; \
             compare with tollgate_rules_info",
            None,
            MetricType::Gauge,
        )?;
        let named = digests.into_iter().map(|(digest, n)| (format!("{digest:016x}"), n));
        let rest = (rest > 0).then(|| ("other".to_owned(), rest));
        for (hash, n) in named.chain(rest) {
            ConstGauge::new(n).encode(family.encode_family(&[("hash", hash.as_str())])?)?;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use limiter::Settings;
    use prometheus_client::encoding::text;

    use super::*;
    use crate::{Options, io::Handler, testing::*};

    fn scrape(telemetry: &Arc<Telemetry>) -> String {
        let mut registry = Registry::default();
        register(&mut registry, Arc::clone(telemetry), None);
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        page
    }

    fn value(page: &str, series: &str) -> u64 {
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("{series} ")));
        line.unwrap_or_else(|| panic!("no {series} in\n{page}")).parse().unwrap()
    }

    #[test]
    fn what_connections_did_is_counted_while_they_live_and_after() {
        let (service, _) = service(Settings::default(), &Options::default());
        let (mut a, mut b) = (service.session(), service.session());
        let mut sent = 0;
        let mut send = |session: &mut crate::Session, bytes: &[u8]| {
            sent += bytes.len() as u64;
            ask(session, bytes).len()
        };
        let probe = b"\x00\x1e\x00\x06\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07version\x04bind\x00\x00\x10\x00\x03";
        assert_eq!(send(&mut a, &[&ping_request("n")[..], probe].concat()), 2);
        assert_eq!(send(&mut a, &flow_request(1, 101, 1, false).repeat(3)), 3);
        assert_eq!(send(&mut b, &flow_request(1, 999, 1, false)), 1);
        assert_eq!(send(&mut b, &[0, 1, 9, 0, 5, 0, 0, 0, 1, 99]), 1);
        drop(a);
        let page = scrape(&service.telemetry);
        for (series, expected) in [
            ("requests_total{type=\"ping\"}", 2),
            ("requests_total{type=\"flow\"}", 4),
            ("requests_total{type=\"param\"}", 0),
            ("requests_total{type=\"unknown\"}", 1),
            ("answers_total{status=\"ok\"}", 3),
            ("answers_total{status=\"fail\"}", 1),
            ("answers_total{status=\"blocked\"}", 1),
            ("answers_total{status=\"no_rule_exists\"}", 1),
            ("answers_total{status=\"bad_request\"}", 1),
            ("malformed_total{what=\"body\"}", 2),
            ("malformed_total{what=\"frame\"}", 1),
            ("batches_total", 4),
            ("bytes_read_total", sent),
            ("bytes_written_total", 12 + 8 + 4 * 16 + 8),
        ] {
            assert_eq!(value(&page, &format!("tollgate_{series}")), expected, "{series}\n{page}");
        }
        drop(b);
        assert_eq!(scrape(&service.telemetry), page);
    }

    #[test]
    fn concurrency_tokens_are_counted_by_what_came_of_them() {
        let (service, _) = service(Settings::default(), &Options::default());
        let session = &mut service.session();
        let (_, token) = ask_token(session, 1);
        ask_token(session, 1);
        ask_token(session, 1);
        ask_token_of(session, 101, 1);
        renew(session, token);
        release(session, token);
        release(session, token);
        let page = scrape(&service.telemetry);
        for (series, expected) in [
            ("concurrency_tokens_total{event=\"acquired\"}", 2),
            ("concurrency_tokens_total{event=\"refused\"}", 1),
            ("concurrency_tokens_total{event=\"released\"}", 1),
            ("requests_total{type=\"concurrent_acquire\"}", 4),
            ("requests_total{type=\"renew\"}", 1),
            ("answers_total{status=\"release_ok\"}", 1),
            ("answers_total{status=\"already_release\"}", 1),
        ] {
            assert_eq!(value(&page, &format!("tollgate_{series}")), expected, "{series}\n{page}");
        }
    }

    #[test]
    fn a_frame_that_ends_the_stream_is_counted() {
        let (service, _) = service(Settings::default(), &Options::default());
        let (mut input, mut out) = (bytes::BytesMut::from("GET /"), bytes::BytesMut::new());
        service.session().batch(&mut input, &mut out).unwrap_err();
        let page = scrape(&service.telemetry);
        assert_eq!(value(&page, "tollgate_malformed_total{what=\"frame\"}"), 1);
    }

    #[test]
    fn every_end_of_a_connection_has_a_reason() {
        let telemetry = Arc::<Telemetry>::default();
        let lost = Close::Stream(protocol::FrameError::NotAPeer { len: 9_999 });
        for close in [Close::PeerClosed, lost, Close::Draining, Close::Draining] {
            telemetry.closed(close);
        }
        telemetry.cut.add_one();
        let page = scrape(&telemetry);
        for (reason, n) in [("peer", 1), ("not_a_peer", 1), ("draining", 2), ("cut", 1)] {
            let series = format!("tollgate_connections_closed_total{{reason=\"{reason}\"}}");
            assert_eq!(value(&page, &series), n, "{reason}");
        }
    }
}
