//! The pages that scrapes give.

use std::collections::HashSet;

use limiter::{
    ManualClock, Param,
    local::{Arg, LocalSettings, SystemStatus},
    rule::{Contents, parse, parse_degrade},
};
use prometheus_client::{encoding::text, registry::Registry};

use super::*;
use crate::Engine;

/// An engine on a clock that stands still, and its registry.
struct Scraped {
    engine: Engine,
    clock: Arc<ManualClock>,
    registry: Registry,
}

impl Scraped {
    fn new(settings: LocalSettings) -> Self {
        let clock = Arc::new(ManualClock::new(Tick::from_ms(1_700_000_040_000)));
        let engine = Engine::with_clock(settings, Arc::<ManualClock>::clone(&clock));
        let mut registry = Registry::default();
        engine.register_metrics(&mut registry);
        Self { engine, clock, registry }
    }

    /// The series of a metric, without its name.
    fn series(&self, metric: &str) -> Vec<String> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry).unwrap();
        let lines = page.lines().filter_map(|line| line.strip_prefix(metric));
        let lines = lines.filter(|rest| rest.starts_with(['{', ' ']));
        lines.map(|rest| rest.trim_start().to_owned()).collect()
    }

    #[track_caller]
    fn assert(&self, metric: &str, series: &[&str]) {
        assert_eq!(self.series(metric), series, "{metric}");
    }
}

#[test]
fn what_a_resource_counts_is_what_is_scraped() {
    let scraped = Scraped::new(LocalSettings::default());
    let Scraped { engine, clock, .. } = &scraped;
    let rules = r#"[{"resource": "r", "count": 3}]"#;
    let rules = parse(rules, "test", "", Contents::Flow, false).unwrap().rules;
    engine.local().load_flow(rules.flow);
    let mut failed = engine.entry("r").inbound().try_acquire().unwrap();
    let good = engine.entry("r").count(2).try_acquire().unwrap();
    engine.entry("r").try_acquire().unwrap_err();
    clock.advance(Duration::from_millis(250));
    failed.fail();
    drop(failed);
    clock.advance(Duration::from_millis(150));
    scraped.assert(
        "tollgate_local_tokens_per_second",
        &[
            r#"{resource="__total_inbound_traffic__",event="pass"} 1.0"#,
            r#"{resource="__total_inbound_traffic__",event="borrow"} 0.0"#,
            r#"{resource="__total_inbound_traffic__",event="block"} 0.0"#,
            r#"{resource="__total_inbound_traffic__",event="success"} 1.0"#,
            r#"{resource="__total_inbound_traffic__",event="exception"} 1.0"#,
            r#"{resource="r",event="pass"} 3.0"#,
            r#"{resource="r",event="borrow"} 0.0"#,
            r#"{resource="r",event="block"} 1.0"#,
            r#"{resource="r",event="success"} 1.0"#,
            r#"{resource="r",event="exception"} 1.0"#,
        ],
    );
    scraped.assert(
        "tollgate_local_calls",
        &[r#"{resource="__total_inbound_traffic__"} 0"#, r#"{resource="r"} 1"#],
    );
    scraped.assert(
        "tollgate_local_oldest_call_seconds",
        &[r#"{resource="__total_inbound_traffic__"} 0.0"#, r#"{resource="r"} 0.4"#],
    );
    scraped.assert(
        "tollgate_local_response_seconds",
        &[r#"{resource="__total_inbound_traffic__"} 0.25"#, r#"{resource="r"} 0.25"#],
    );
    drop(good);
    clock.advance(Duration::from_secs(30));
    let rates = scraped.series("tollgate_local_tokens_per_second");
    assert!(rates.iter().all(|line| line.ends_with(" 0.0")), "{rates:?}");
    scraped.assert(
        "tollgate_local_tokens_last_minute",
        &[
            r#"{resource="__total_inbound_traffic__",event="pass"} 1"#,
            r#"{resource="__total_inbound_traffic__",event="block"} 0"#,
            r#"{resource="__total_inbound_traffic__",event="success"} 1"#,
            r#"{resource="__total_inbound_traffic__",event="exception"} 1"#,
            r#"{resource="r",event="pass"} 3"#,
            r#"{resource="r",event="block"} 1"#,
            r#"{resource="r",event="success"} 3"#,
            r#"{resource="r",event="exception"} 1"#,
        ],
    );
}

#[test]
fn breakers_hot_values_and_the_machine_are_shown() {
    let scraped = Scraped::new(LocalSettings { values: 2, ..LocalSettings::default() });
    let Scraped { engine, clock, .. } = &scraped;
    let rules = r#"[{"resource": "r", "grade": 0, "count": 50, "timeWindow": 1,
                     "slowRatioThreshold": 0.5},
                    {"resource": "r", "grade": 2, "count": 0, "timeWindow": 1,
                     "minRequestAmount": 1}]"#;
    engine.local().load_degrade(parse_degrade(rules, "test").unwrap().rules);
    let rules = r#"[{"resource": "r", "paramIdx": 1, "count": 9}]"#;
    let rules = parse(rules, "test", "", Contents::Param, false).unwrap().rules;
    engine.local().load_param(rules.param);
    let state = |slow: u8, count: u8| {
        [
            format!(r#"{{resource="r",breaker="0",grade="slow_ratio"}} {slow}"#),
            format!(r#"{{resource="r",breaker="1",grade="error_count"}} {count}"#),
        ]
    };
    for value in 0..3 {
        let args = [Arg::Null, Arg::One(Param::Int(value))];
        drop(engine.entry("r").args(&args).try_acquire().unwrap());
    }
    assert_eq!(scraped.series("tollgate_local_breaker_state"), state(0, 0));
    engine.entry("r").try_acquire().unwrap().fail();
    assert_eq!(scraped.series("tollgate_local_breaker_state"), state(0, 1));
    clock.advance(Duration::from_millis(1_001));
    let probe = engine.entry("r").try_acquire().unwrap();
    assert_eq!(scraped.series("tollgate_local_breaker_state"), state(0, 2));
    drop(probe);
    assert_eq!(scraped.series("tollgate_local_breaker_state"), state(0, 0));
    let inbound = r#"{resource="__total_inbound_traffic__"} 0"#;
    scraped.assert("tollgate_local_param_missing_total", &[inbound, r#"{resource="r"} 2"#]);
    scraped.assert("tollgate_local_hot_values", &[inbound, r#"{resource="r"} 2"#]);
    scraped.assert("tollgate_local_hot_values_over_total", &[inbound, r#"{resource="r"} 1"#]);
    scraped.assert("tollgate_local_load", &["-1.0"]);
    engine.local().set_status(SystemStatus { load: 2.5, cpu: 0.75 });
    scraped.assert("tollgate_local_load", &["2.5"]);
    scraped.assert("tollgate_local_cpu_ratio", &["0.75"]);
}

#[test]
fn series_are_bounded_and_none_stands_twice() {
    let settings = LocalSettings { resources: RESOURCES_SHOWN_MAX + 100, ..Default::default() };
    let scraped = Scraped::new(settings);
    let Scraped { engine, clock, .. } = &scraped;
    let call = |resource: &str| drop(engine.entry(resource).try_acquire().unwrap());
    for reserved in [OVERFLOW, TOTAL_INBOUND] {
        call(reserved);
    }
    for number in 0..RESOURCES_SHOWN_MAX {
        call(&format!("m{number}"));
    }
    let minute = "tollgate_local_tokens_last_minute";
    let others = |scraped: &Scraped| {
        let start = format!(r#"{{resource="{OVERFLOW}",event="pass"}} "#);
        let series = scraped.series(minute);
        series.iter().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
    };
    assert_eq!(others(&scraped), 2);
    // Those that come later are among the others, wherever their names stand, and some are above
    // the engine's bound.
    for number in 0..200 {
        call(&format!("a{number}"));
    }
    assert_eq!(others(&scraped), 202);
    let series = scraped.series(minute);
    assert_eq!(series.len(), 4 * (RESOURCES_SHOWN_MAX + 2));
    let names = series.iter().map(|line| line.rsplit_once(' ').unwrap().0);
    assert_eq!(names.collect::<HashSet<_>>().len(), series.len());
    scraped.assert(
        "tollgate_local_over_bound_total",
        &[
            r#"{what="resources"} 102"#,
            r#"{what="patterns"} 0"#,
            r#"{what="contexts"} 0"#,
            r#"{what="origins"} 0"#,
        ],
    );
    // When they were not called for a minute, others may have series of their own.
    let later = clock.now().plus(Duration::from_secs(60));
    clock.set(later);
    engine.local().tidy(later);
    call("late");
    let names: HashSet<_> = scraped.series("tollgate_local_calls").into_iter().collect();
    assert_eq!(
        names,
        ["late", TOTAL_INBOUND].map(|name| format!(r#"{{resource="{name}"}} 0"#)).into()
    );
}

#[test]
fn counters_of_all_others_go_on_when_one_of_them_gets_series_of_its_own_and_when_it_goes() {
    let settings =
        LocalSettings { resources: RESOURCES_SHOWN_MAX + 100, values: 1, ..Default::default() };
    let scraped = Scraped::new(settings);
    let Scraped { engine, clock, .. } = &scraped;
    let rules = r#"[{"resource": ".*", "regex": true, "paramIdx": 0, "count": 9},
                    {"resource": ".*", "regex": true, "paramIdx": 1, "count": 9}]"#;
    let rules = parse(rules, "test", "", Contents::Param, false).unwrap().rules;
    engine.local().load_param(rules.param);
    // Of three values two find no room, and all of them lack the other argument.
    let call = |resource: &str| {
        for value in 0..3 {
            let args = [Arg::One(Param::Int(value))];
            drop(engine.entry(resource).args(&args).try_acquire().unwrap());
        }
    };
    let counted = |name: &str| {
        let start = format!(r#"{{resource="{name}"}} "#);
        let of = |metric| {
            let series = scraped.series(metric);
            series.iter().find_map(|line| line.strip_prefix(&start)?.parse::<u64>().ok())
        };
        (of("tollgate_local_param_missing_total"), of("tollgate_local_hot_values_over_total"))
    };
    let pass = |seconds| {
        clock.advance(Duration::from_secs(seconds));
        engine.local().tidy(clock.now());
    };
    for number in 0..RESOURCES_SHOWN_MAX {
        drop(engine.entry(&format!("m{number}")).try_acquire().unwrap());
    }
    assert_eq!(counted(OVERFLOW), (None, None));
    pass(30);
    call("busy");
    assert_eq!(counted(OVERFLOW), (Some(3), Some(2)));
    call("busy");
    // The first thousand are gone, with two counts each, and one has series of its own.
    pass(31);
    let gone = 2 * RESOURCES_SHOWN_MAX as u64;
    assert_eq!(
        (counted(OVERFLOW), counted("busy")),
        ((Some(gone + 3), Some(2)), (Some(3), Some(2)))
    );
    call("busy");
    assert_eq!(
        (counted(OVERFLOW), counted("busy")),
        ((Some(gone + 3), Some(2)), (Some(6), Some(4)))
    );
    pass(61);
    assert_eq!((counted(OVERFLOW), counted("busy")), ((Some(gone + 9), Some(6)), (None, None)));
    call("busy");
    assert_eq!(
        (counted(OVERFLOW), counted("busy")),
        ((Some(gone + 9), Some(6)), (Some(3), Some(2)))
    );
}
