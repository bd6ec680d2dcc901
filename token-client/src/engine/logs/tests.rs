//! Logs of an engine on a clock that stands still, in a folder of their own.

use std::fs;

use limiter::{
    ManualClock,
    local::LocalSettings,
    rule::{Contents, parse},
};

use super::*;
use crate::tests::log;

const BEGIN_MS: u64 = 1_700_000_000_300;

struct Logging {
    engine: Engine,
    clock: Arc<ManualClock>,
    dir: tempfile::TempDir,
    settings: LogSettings,
    logs: Logs,
}

impl Logging {
    fn new() -> Self {
        log::keep();
        let dir = tempfile::tempdir().unwrap();
        let settings = LogSettings::new(dir.path().join("logs"), "orders");
        let clock = Arc::new(ManualClock::new(Tick::from_ms(BEGIN_MS)));
        let engine =
            Engine::with_clock(LocalSettings::default(), Arc::<ManualClock>::clone(&clock));
        let rules = r#"[{"resource": "r", "count": 1}]"#;
        let rules = parse(rules, "test", "", Contents::Flow, false).unwrap().rules;
        engine.local().load_flow(rules.flow);
        let logs = Logs::new(&engine.shared, settings.clone(), &LocalTime::utc());
        Self { engine, clock, dir, settings, logs }
    }

    fn call(&self, resource: &str) -> bool {
        self.engine.entry(resource).resource_type(2).inbound().try_acquire().is_ok()
    }

    fn pass_seconds(&mut self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.settings.dir.join(file)).unwrap_or_default()
    }

    /// Those of the metric log, thin.
    fn metrics(&self) -> Vec<String> {
        let lines = self.settings.search().find(0, MetricSearch::LINES).unwrap();
        lines.iter().map(MetricLine::thin).collect()
    }
}

#[test]
fn each_ended_second_is_written_once() {
    let mut logging = Logging::new();
    assert!(logging.call("r"));
    assert!(!logging.call("r"));
    assert!(logging.call("a|b"));
    logging.logs.flush(false);
    assert!(!logging.settings.dir.exists(), "the second has not ended");
    logging.pass_seconds(1);
    logging.logs.flush(false);
    let first = "1700000000000|2023-11-14 22:13:20|a_b|1|0|1|0|0|0|0|2\n\
                 1700000000000|2023-11-14 22:13:20|r|1|1|1|0|0|0|0|2\n\
                 1700000000000|2023-11-14 22:13:20|__total_inbound_traffic__|2|1|2|0|0|0|0|0\n";
    assert_eq!(logging.read("orders-metrics.log.2023-11-14"), first);
    let refused = "2023-11-14 22:13:20|1|r,FlowException,default,,|1,0\r\n";
    assert_eq!(logging.read("sentinel-block.log"), refused);
    logging.pass_seconds(7);
    logging.logs.flush(false);
    assert_eq!(logging.metrics().len(), 3, "nothing happened");
    assert!(logging.call("r"));
    logging.pass_seconds(1);
    logging.logs.flush(false);
    logging.logs.flush(false);
    let second = [
        "1700000008000|r|1|0|1|0|0|0|0|2",
        "1700000008000|__total_inbound_traffic__|1|0|1|0|0|0|0|0",
    ];
    assert_eq!(logging.metrics()[3..], second);
    assert_eq!(logging.read("sentinel-block.log"), refused);
}

#[test]
fn seconds_before_it_was_asked_for_are_not_written() {
    let mut logging = Logging::new();
    logging.call("r");
    logging.pass_seconds(1);
    let mut later = Logs::new(&logging.engine.shared, logging.settings.clone(), &LocalTime::utc());
    logging.call("r");
    logging.pass_seconds(1);
    later.flush(false);
    assert_eq!(logging.metrics().len(), 2);
    logging.logs.flush(false);
    assert_eq!(logging.metrics().len(), 2 + 4);
}

#[test]
fn what_the_disk_does_not_take_is_written_when_it_does() {
    let mut logging = Logging::new();
    let place = logging.settings.dir.clone();
    fs::write(&place, "in the way").unwrap();
    for _ in 0..100 {
        logging.call("r");
        logging.call("r");
        logging.pass_seconds(1);
        logging.logs.flush(false);
    }
    fs::remove_file(&place).unwrap();
    logging.logs.flush(false);
    // A minute, in which the second that has not ended is.
    assert_eq!(logging.metrics().len(), 2 * 59);
    assert_eq!(logging.read("sentinel-block.log"), "");
    logging.call("r");
    logging.call("r");
    logging.pass_seconds(1);
    logging.logs.flush(false);
    assert_eq!(logging.metrics().len(), 2 * 60);
    assert_eq!(logging.read("sentinel-block.log").lines().count(), 1);
}

#[test]
fn what_goes_wrong_is_said_once_a_minute() {
    let mut logging = Logging::new();
    fs::write(&logging.settings.dir, "in the way").unwrap();
    log::lines();
    let mut said = Vec::new();
    for second in 0..125 {
        logging.call("r");
        logging.call("r");
        logging.pass_seconds(1);
        logging.logs.flush(false);
        let lines = log::lines();
        said.extend(lines.into_iter().map(|line| (second, line)));
    }
    let at: Vec<(u64, bool, bool)> = said
        .iter()
        .map(|(second, line)| (*second, line.contains("block log"), line.contains("lost=60")))
        .collect();
    let expected = [0, 60, 120].map(|second| [(second, false, false), (second, true, second > 0)]);
    assert_eq!(at, expected.concat(), "{said:?}");
    assert!(said[0].1.starts_with("WARN a log can not be written"), "{said:?}");
}

#[test]
fn either_log_can_be_left_out() {
    let both = [(true, false), (false, true)];
    for (metrics, blocks) in both {
        let logging = Logging::new();
        let settings = LogSettings { metrics, blocks, ..logging.settings.clone() };
        let mut logs = Logs::new(&logging.engine.shared, settings, &LocalTime::utc());
        logging.call("r");
        logging.call("r");
        logging.clock.advance(Duration::from_secs(1));
        logs.flush(false);
        assert_eq!(logging.metrics().is_empty(), blocks);
        assert_eq!(logging.read("sentinel-block.log").is_empty(), metrics);
    }
}

#[test]
fn with_the_process_id_the_name_has_it() {
    let logging = Logging::new();
    let settings = LogSettings { use_pid: true, ..logging.settings.clone() };
    let mut logs = Logs::new(&logging.engine.shared, settings.clone(), &LocalTime::utc());
    logging.call("r");
    logging.clock.advance(Duration::from_secs(1));
    logs.flush(false);
    let name = format!("orders-metrics.log.pid{}.2023-11-14", std::process::id());
    assert!(logging.settings.dir.join(name).exists());
    assert_eq!(settings.search().find(0, 100).unwrap().len(), 2);
    assert_eq!(logging.metrics().len(), 0);
}

#[tokio::test]
async fn the_end_of_the_engine_writes_what_is_left_and_ends_it() {
    let Logging { engine, clock, dir: _dir, settings, logs } = Logging::new();
    drop(logs);
    let written = engine.write_logs(settings.clone());
    for _ in 0..2 {
        drop(engine.entry("r").try_acquire());
    }
    clock.advance(Duration::from_secs(1));
    for _ in 0..2 {
        drop(engine.entry("r").try_acquire());
    }
    drop(engine);
    written.await;
    assert_eq!(settings.search().find(0, 100).unwrap().len(), 1, "the second has not ended");
    let refused = fs::read_to_string(settings.dir.join("sentinel-block.log")).unwrap();
    assert_eq!(refused.lines().count(), 2, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn it_is_written_each_second_without_being_asked() {
    let Logging { engine, clock, dir: _dir, settings, logs } = Logging::new();
    drop(logs);
    let written = engine.write_logs(settings.clone());
    drop(engine.entry("r").try_acquire());
    clock.advance(Duration::from_secs(1));
    let seen = async {
        while settings.search().find(0, 100).unwrap().is_empty() {
            tokio::time::sleep(PERIOD).await;
        }
    };
    tokio::select! {
        () = written => panic!("the engine lives"),
        () = seen => {}
    }
    assert_eq!(settings.search().find(0, 100).unwrap().len(), 1);
}
