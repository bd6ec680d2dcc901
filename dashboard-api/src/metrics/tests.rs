//! The pages that scrapes give, compared with what was decided.

use std::collections::{BTreeMap, BTreeSet};

use limiter::{
    Decision, ManualClock, Membership, MonotonicClock, Param, Settings, Tick, Undecided,
    rule::{Contents, merge, parse},
};
use prometheus_client::encoding::{prometheus_text, text};

use super::*;

/// An engine on a clock that stands still, and its collector.
struct Scraped {
    engine: Arc<ClusterEngine>,
    clock: Arc<ManualClock>,
    registry: Registry,
}

impl Scraped {
    fn new(settings: Settings, rules: &[(&str, String)]) -> Self {
        let engine = Arc::new(ClusterEngine::new(settings));
        let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_000_000)));
        let mut registry = Registry::default();
        register_engine(&mut registry, Arc::clone(&engine), Arc::<ManualClock>::clone(&clock));
        let scraped = Self { engine, clock, registry };
        scraped.put(rules);
        scraped
    }

    /// Puts rules in force, by namespace.
    fn put(&self, rules: &[(&str, String)]) {
        let parse = |(namespace, text): &(&str, String)| {
            parse(text, "test", namespace, Contents::Mixed, true)
        };
        let parsed = rules.iter().map(|set| parse(set).unwrap()).collect();
        self.engine.replace(merge(parsed).unwrap()).unwrap();
    }

    fn acquire(&self, flow_id: i64, count: i32, prioritized: bool) -> Result<Decision, Undecided> {
        self.engine.rules().acquire_flow(self.clock.now(), flow_id, count, prioritized)
    }

    fn page(&self) -> Page {
        let mut page = String::new();
        text::encode(&mut page, &self.registry).unwrap();
        Page::read(&page)
    }
}

/// A page of OpenMetrics text, read strictly.
#[derive(Debug)]
struct Page(BTreeMap<String, f64>);

impl Page {
    fn read(page: &str) -> Self {
        let mut samples = BTreeMap::new();
        let (mut family, mut families) = (String::new(), BTreeSet::new());
        let body = page.strip_suffix("# EOF\n").expect("the page is whole");
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                let mut words = rest.split(' ');
                let (kind, name) = (words.next().unwrap(), words.next().unwrap());
                assert!(matches!(kind, "HELP" | "TYPE"), "{line}");
                if kind == "HELP" {
                    assert!(families.insert(name.to_owned()), "family twice: {line}");
                    family = name.into();
                }
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with(&family), "outside its family: {line}");
            let value = value.parse().unwrap();
            assert!(samples.insert(series.to_owned(), value).is_none(), "series twice: {line}");
        }
        Self(samples)
    }

    #[track_caller]
    fn value(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.0))
    }

    /// Series of a metric that have a flow of their own.
    fn flows(&self, metric: &str) -> Vec<&str> {
        let start = format!("{metric}{{flow_id=\"");
        let of_flow = |series: &&String| {
            series.strip_prefix(&start).is_some_and(|rest| !rest.starts_with("other"))
        };
        self.0.keys().filter(of_flow).map(String::as_str).collect()
    }

    fn sum(&self, metric: &str) -> f64 {
        let start = format!("{metric}{{");
        self.0.iter().filter(|(series, _)| series.starts_with(&start)).map(|(_, value)| value).sum()
    }
}

fn rule(id: i64, resource: &str, count: f64, more: &str) -> String {
    let resource = serde_json::to_string(resource).unwrap();
    format!(
        r#"{{"resource": {resource}, "count": {count}, "clusterMode": true,
            "clusterConfig": {{"flowId": {id}, "thresholdType": 1 {more}}}}}"#
    )
}

fn param_rule(id: i64, count: f64) -> String {
    format!(
        r#"{{"resource": "hot", "count": {count}, "paramIdx": 0, "clusterMode": true,
            "clusterConfig": {{"flowId": {id}, "thresholdType": 1}}}}"#
    )
}

fn list(rules: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", rules.into_iter().collect::<Vec<_>>().join(","))
}

#[test]
fn what_a_flow_decided_is_what_is_scraped() {
    let rules = list([rule(7, "GET:/orders", 10.0, ""), rule(8, "idle", 1.0, "")]);
    let scraped = Scraped::new(Settings::default(), &[("shop", rules)]);
    let mut decided: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for step in 0..400_u32 {
        scraped.clock.advance(std::time::Duration::from_millis(37));
        let count = 1 + step.cast_signed() % 4;
        let decision = match scraped.acquire(7, count, step % 3 == 0).unwrap() {
            Decision::Pass { .. } => "pass",
            Decision::Wait { .. } => "wait",
            Decision::Block => "block",
        };
        let (requests, tokens) = decided.entry(decision).or_default();
        *requests += 1.0;
        *tokens += f64::from(count);
    }
    assert_eq!(decided.len(), 3, "each decision came up: {decided:?}");
    let page = scraped.page();
    let labels = r#"namespace="shop",resource="GET:/orders""#;
    for (decision, (requests, tokens)) in decided {
        let series = |metric| format!(r#"{metric}{{flow_id="7",{labels},decision="{decision}"}}"#);
        assert_eq!(page.value(&series("tollgate_flow_requests_total")), requests);
        assert_eq!(page.value(&series("tollgate_flow_tokens_total")), tokens);
    }
    let (window, booked) = scraped.engine.rules().flow(7).unwrap().usage(scraped.clock.now());
    let series = |metric| format!(r#"{metric}{{flow_id="7",{labels}}}"#);
    assert_eq!(page.value(&series("tollgate_flow_window_tokens")), gauge(window));
    assert_eq!(page.value(&series("tollgate_flow_booked_tokens")), gauge(booked));
    let idle = r#"{flow_id="8",namespace="shop",resource="idle",decision="block"}"#;
    assert_eq!(page.value(&format!("tollgate_flow_requests_total{idle}")), 0.0);
}

fn gauge(count: u64) -> f64 {
    u32::try_from(count).unwrap().into()
}

#[test]
fn usage_is_that_of_the_window_at_the_time_of_the_scrape() {
    let scraped = Scraped::new(Settings::default(), &[("a", list([rule(1, "r", 10.0, "")]))]);
    scraped.acquire(1, 6, false).unwrap();
    let window = r#"tollgate_flow_window_tokens{flow_id="1",namespace="a",resource="r"}"#;
    let booked = r#"tollgate_flow_booked_tokens{flow_id="1",namespace="a",resource="r"}"#;
    scraped.clock.advance(std::time::Duration::from_millis(950));
    scraped.acquire(1, 6, true).unwrap();
    let page = scraped.page();
    assert_eq!((page.value(window), page.value(booked)), (6.0, 6.0));
    scraped.clock.advance(std::time::Duration::from_millis(50));
    let page = scraped.page();
    assert_eq!((page.value(window), page.value(booked)), (6.0, 0.0));
    scraped.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(scraped.page().value(window), 0.0);
}

#[test]
fn the_threshold_is_what_the_rule_allows_in_a_window() {
    let settings = Settings { exceed_count: 1.5, ..Settings::default() };
    let rules = list([
        rule(1, "r", 10.0, ""),
        rule(2, "r", 10.0, r#", "windowIntervalMs": 5000"#),
        rule(3, "r", 10.0, r#", "windowIntervalMs": 5000, "thresholdUnit": "window""#),
        rule(4, "r", 10.0, r#", "windowIntervalMs": 500"#),
        rule(5, "r", 10.0, "").replace(r#""thresholdType": 1"#, r#""thresholdType": 0"#),
    ]);
    let scraped = Scraped::new(settings, &[("a", rules)]);
    let allowed = |id: i64| {
        let labels = format!(r#"{{flow_id="{id}",namespace="a",resource="r"}}"#);
        scraped.page().value(&format!("tollgate_flow_threshold_tokens{labels}"))
    };
    assert_eq!([1, 2, 3, 4, 5].map(allowed), [15.0, 75.0, 15.0, 15.0, 0.0]);
    let _clients = [scraped.engine.join("a").unwrap(), scraped.engine.join("a").unwrap()];
    assert_eq!(allowed(5), 30.0);
    // The engine agrees. Where it compares an average, single tokens do not quite get there.
    for (id, of_allowed) in [(1, 1.0), (2, 0.9), (3, 1.0), (4, 0.5), (5, 1.0)] {
        let mut admitted = 0.0;
        while let Ok(Decision::Pass { .. }) = scraped.acquire(id, 1, false) {
            admitted += 1.0;
        }
        let allowed = allowed(id);
        assert!((allowed * of_allowed..=allowed).contains(&admitted), "rule {id}: {admitted}");
    }
}

#[test]
fn hot_parameter_rules_show_decisions_values_and_overflow() {
    let settings = Settings { values_max: 2, ..Settings::default() };
    let scraped = Scraped::new(settings, &[("a", list([param_rule(3, 1.0)]))]);
    let rules = scraped.engine.rules();
    let ask = |value: i64| {
        let value = [Param::Long(value)];
        rules.acquire_param(scraped.clock.now(), 3, 1, value).unwrap()
    };
    let (passed, blocked): (Vec<_>, Vec<_>) =
        [1, 2, 3, 4, 1, 2].map(ask).into_iter().partition(|d| matches!(d, Decision::Pass { .. }));
    assert_eq!((passed.len(), blocked.len()), (3, 3));
    let page = scraped.page();
    let labels = r#"flow_id="3",namespace="a",resource="hot""#;
    let requests =
        |d| page.value(&format!(r#"tollgate_param_requests_total{{{labels},decision="{d}"}}"#));
    assert_eq!([requests("pass"), requests("block")], [3.0, 3.0]);
    assert_eq!(page.value(&format!("tollgate_param_values{{{labels}}}")), 2.0);
    assert_eq!(page.value(&format!("tollgate_param_overflow_uses_total{{{labels}}}")), 2.0);
}

#[test]
fn what_a_shadowed_rule_would_have_refused_is_shown_apart() {
    let shadowed = rule(7, "GET:/orders", 2.0, r#", "mode": "shadow""#);
    let scraped = Scraped::new(Settings::default(), &[("a", list([shadowed]))]);
    for _ in 0..5 {
        assert!(matches!(scraped.acquire(7, 2, false), Ok(Decision::Pass { .. })));
    }
    let page = scraped.page();
    let labels = r#"flow_id="7",namespace="a",resource="GET:/orders""#;
    for (metric, samples) in [("requests", [1.0, 0.0, 4.0]), ("tokens", [2.0, 0.0, 8.0])] {
        let value = |decision| {
            page.value(&format!(
                r#"tollgate_flow_{metric}_total{{{labels},decision="{decision}"}}"#
            ))
        };
        assert_eq!(["pass", "block", "shadow"].map(value), samples, "{metric}");
    }
}

#[test]
fn namespaces_show_their_clients_and_what_the_guard_refused() {
    let settings = Settings { max_allowed_qps: Some(2.0), ..Settings::default() };
    let scraped = Scraped::new(settings, &[("a", list([rule(1, "r", 10.0, "")]))]);
    let _clients: Vec<Membership> =
        ["a", "a", "b"].map(|name| scraped.engine.join(name).unwrap()).into();
    let refused = (0..5).filter(|_| scraped.acquire(1, 1, false).is_err()).count();
    assert_eq!(refused, 3);
    let page = scraped.page();
    let clients = "tollgate_namespace_connected_clients";
    let guard = "tollgate_namespace_refused_requests_total";
    for (series, value) in [
        (format!(r#"{clients}{{namespace="a"}}"#), 2.0),
        (format!(r#"{clients}{{namespace="b"}}"#), 1.0),
        (format!(r#"{guard}{{namespace="a"}}"#), 3.0),
        (format!(r#"{guard}{{namespace="b"}}"#), 0.0),
    ] {
        assert_eq!(page.value(&series), value, "{series}");
    }
}

#[test]
fn namespaces_show_their_concurrency_tokens_and_what_the_bound_refused() {
    let settings = Settings { tokens_max: 4, ..Settings::default() };
    let calls = rule(1, "r", 9.0, "").replacen('{', r#"{"grade": 0, "#, 1);
    let scraped =
        Scraped::new(settings, &[("a", list([calls])), ("b", list([rule(2, "r", 1.0, "")]))]);
    let (engine, now) = (&scraped.engine, Tick::from_ms(1_700_000_000_000));
    let take = || engine.rules().acquire_concurrent(now, 1, 1, engine.owner());
    assert_eq!((0..5).filter(|_| take().is_err()).count(), 3);
    let page = scraped.page();
    let held = "tollgate_namespace_concurrency_tokens_held";
    let refused = "tollgate_namespace_refused_concurrency_tokens_total";
    for (series, value) in [
        (format!(r#"{held}{{namespace="a"}}"#), 2.0),
        (format!(r#"{held}{{namespace="b"}}"#), 0.0),
        (format!(r#"{refused}{{namespace="a"}}"#), 3.0),
        (format!(r#"{refused}{{namespace="b"}}"#), 0.0),
    ] {
        assert_eq!(page.value(&series), value, "{series}");
    }
}

#[test]
fn the_rules_in_force_show_revision_hash_and_number() {
    let scraped = Scraped::new(Settings::default(), &[("a", list([rule(1, "r", 1.0, "")]))]);
    scraped.put(&[("a", list([rule(1, "r", 2.0, ""), rule(2, "r", 2.0, ""), param_rule(1, 5.0)]))]);
    let applied = scraped.engine.rules().applied();
    let page = scraped.page();
    assert_eq!(page.value(&format!(r#"tollgate_rules_info{{hash="{:016x}"}}"#, applied.hash)), 1.0);
    let digits = format!("{:016x}", applied.hash);
    let number = u64::from_str_radix(&digits[..13], 16).unwrap();
    assert_eq!(page.value("tollgate_rules_hash").to_string(), number.to_string());
    assert_eq!(page.value("tollgate_rules_revision"), 2.0);
    assert_eq!(page.value("tollgate_flow_rules"), 2.0);
    assert_eq!(page.value("tollgate_param_rules"), 1.0);
}

#[test]
fn labels_are_escaped_and_bounded() {
    let long = format!("/{}", "x".repeat(300));
    let rules = list([rule(1, "a\"b\\c\nd", 1.0, ""), rule(2, &long, 1.0, "")]);
    let page = Scraped::new(Settings::default(), &[("größe \"1\"", rules)]).page();
    let labels = |id, resource| {
        format!(
            r#"tollgate_flow_window_tokens{{flow_id="{id}",namespace="größe \"1\"",resource="{resource}"}}"#
        )
    };
    page.value(&labels(1, r#"a\"b\\c\nd"#));
    page.value(&labels(2, &format!("{}…", &long[..125])));
}

/// `flows` rules, of which every `step`th one has traffic.
fn busy(flows: i64, step: usize) -> (Scraped, f64) {
    let rules = list((1..=flows).map(|id| rule(id, "r", 2.0, "")));
    let settings = Settings { max_allowed_qps: None, ..Settings::default() };
    let scraped = Scraped::new(settings, &[("a", rules)]);
    let mut decided = 0.0;
    for id in (1..=flows).step_by(step) {
        // Flow 1 asks once, the next ones more often, in turns of nine.
        for _ in 0..=id % 9 {
            scraped.acquire(id, 1, false).unwrap();
            decided += 1.0;
        }
    }
    (scraped, decided)
}

#[test]
fn six_thousand_flows_have_no_more_series_than_the_bound_and_lose_no_request() {
    let (scraped, decided) = busy(6_000, 2);
    let page = scraped.page();
    for metric in ["tollgate_flow_threshold_tokens", "tollgate_flow_window_tokens"] {
        assert_eq!(page.flows(metric).len(), FLOWS_SHOWN_MAX, "{metric}");
    }
    assert_eq!(page.flows("tollgate_flow_requests_total").len(), 4 * FLOWS_SHOWN_MAX);
    assert_eq!(page.sum("tollgate_flow_requests_total"), decided);
    // 3 000 have traffic, so the sum of the others is nothing yet.
    let other = r#"{flow_id="other",namespace="",resource="",decision="pass"}"#;
    assert_eq!(page.value(&format!("tollgate_flow_requests_total{other}")), 0.0);
    let idle =
        page.flows("tollgate_flow_requests_total").iter().filter(|s| page.value(s) == 0.0).count();
    assert!(idle > 0, "the rest of the room is for idle flows");
}

#[test]
fn what_is_summed_stays_summed_while_traffic_moves() {
    let (scraped, mut decided) = busy(6_000, 1);
    let other =
        r#"tollgate_flow_requests_total{flow_id="other",namespace="",resource="",decision="pass"}"#;
    let mut before = scraped.page();
    assert_eq!(before.sum("tollgate_flow_requests_total"), decided);
    assert!(before.value(other) > 0.0);
    for round in 0..3 {
        // The quietest become the busiest.
        for id in (9..=6_000).step_by(9) {
            for _ in 0..20 {
                scraped.acquire(id, 1, false).unwrap();
                decided += 1.0;
            }
        }
        scraped.clock.advance(std::time::Duration::from_secs(2));
        let page = scraped.page();
        let metric = "tollgate_flow_requests_total";
        assert_eq!(page.flows(metric), before.flows(metric), "round {round}");
        assert!(page.value(other) >= before.value(other));
        assert_eq!(page.sum(metric), decided);
        before = page;
    }
}

#[test]
fn parameter_rules_and_namespaces_are_bounded_too() {
    let settings = Settings { max_allowed_qps: None, ..Settings::default() };
    let names: Vec<String> = (1..=6).map(|i| format!("n{i}")).chain(["other".into()]).collect();
    let mut sets: Vec<(&str, String)> = names
        .iter()
        .zip(1..)
        .map(|(name, id)| (name.as_str(), list([param_rule(id, 1.0)])))
        .collect();
    let long = ["x".repeat(200), format!("{}y", "x".repeat(199))];
    sets.extend(long.iter().map(|name| (name.as_str(), list([]))));
    let mut scraped = Scraped::new(settings, &sets);
    scraped.registry = Registry::default();
    scraped.registry.register_collector(Box::new(EngineCollector {
        engine: Arc::clone(&scraped.engine),
        clock: Arc::<ManualClock>::clone(&scraped.clock),
        flows: Bounded::new(2),
        params: Bounded::new(2),
        namespaces: Bounded::new(3),
    }));
    for id in 1..=7 {
        let value = [Param::Long(9)].into_iter();
        scraped.engine.rules().acquire_param(scraped.clock.now(), id, 1, value).unwrap();
    }
    let _clients: Vec<Membership> = (names.iter().chain(&long).chain(&names[5..]))
        .map(|name| scraped.engine.join(name).unwrap())
        .collect();
    let page = scraped.page();
    let other = r#"{flow_id="other",namespace="",resource="",decision="pass"}"#;
    assert_eq!(page.value(&format!("tollgate_param_requests_total{other}")), 5.0);
    assert_eq!(page.flows("tollgate_param_values").len(), 2);
    let clients = "tollgate_namespace_connected_clients";
    // The two long names are one label with two clients; "n6" and "other" have two each; the
    // other five are added to the namespace that is really called so.
    assert_eq!(page.value(&format!(r#"{clients}{{namespace="n6"}}"#)), 2.0);
    assert_eq!(page.value(&format!(r#"{clients}{{namespace="other"}}"#)), 2.0 + 5.0);
    assert_eq!(page.value(&format!(r#"{clients}{{namespace="{}…"}}"#, "x".repeat(125))), 2.0);
    assert_eq!(page.sum(clients), 11.0);
}

#[test]
fn both_text_formats_have_the_same_samples() {
    let (scraped, _) = busy(20, 2);
    let mut plain = String::new();
    prometheus_text::encode(&mut plain, &scraped.registry).unwrap();
    let samples: BTreeMap<String, f64> = (plain.lines().filter(|line| !line.starts_with('#')))
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(series, value)| (series.into(), value.parse().unwrap()))
        .collect();
    assert_eq!(samples, scraped.page().0);
}

#[test]
#[expect(clippy::print_stderr, reason = "the time is for whoever runs the test, not a bar")]
fn a_hundred_thousand_flows_are_scraped_in_one_page() {
    let (scraped, decided) = busy(100_000, 1);
    let clock = MonotonicClock::start();
    let mut page = String::new();
    for scrape in ["first", "second"] {
        page.clear();
        let before = clock.now();
        text::encode(&mut page, &scraped.registry).unwrap();
        let took = clock.now().since(before);
        eprintln!(
            "{scrape} scrape of 100000 flows: {took:?} (a release build stays under 100ms), {} bytes",
            page.len()
        );
    }
    let page = Page::read(&page);
    assert_eq!(page.flows("tollgate_flow_threshold_tokens").len(), FLOWS_SHOWN_MAX);
    assert_eq!(page.sum("tollgate_flow_requests_total"), decided);
}
