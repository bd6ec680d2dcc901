//! Sentinel's own metric log and block log beside ours: the same bytes, and each reader finds what
//! the other program wrote.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use limiter::{
    ManualClock, Param, Tick,
    local::{Arg, LocalSettings},
    rule::{Contents, parse, parse_authority, parse_degrade, parse_system},
};
use serde_json::json;
use support::{Oracle, java_class_path};
use token_client::{Engine, LogSettings, MetricLine, MetricSearch};

const APP: &str = "my.app";
/// What the names of its metric logs begin with.
const NAME: &str = "my-app-metrics.log";

fn sentinel(class_path: &str, dir: &Path) -> Oracle {
    let dir = format!("-Dcsp.sentinel.log.dir={}", dir.display());
    let app = format!("-Dproject.name={APP}");
    Oracle::start_with(class_path, "peer.Logs", &[&dir, &app, "-DEAGLEEYE.CHARSET=UTF-8"])
}

/// Writes the log of a service that is called for some seconds, a few resources in each, the same
/// in every run.
async fn log_calls(dir: &Path, begin: u64, seconds: u64, file_bytes: u64) {
    let clock = Arc::new(ManualClock::new(Tick::from_ms(begin * 1_000)));
    let engine = Engine::with_clock(LocalSettings::default(), Arc::<ManualClock>::clone(&clock));
    let rules = r#"[{"resource": "GET:/b", "count": 2}]"#;
    let rules = parse(rules, "test", "", Contents::Flow, false).unwrap().rules;
    engine.local().load_flow(rules.flow);
    let settings = LogSettings {
        metric_file_bytes: file_bytes,
        metric_files: 100,
        ..LogSettings::new(dir, APP)
    };
    let written = engine.write_logs(settings);
    let mut random = fastrand::Rng::with_seed(begin);
    for _ in 0..seconds {
        // Sometimes nothing happens.
        for _ in 0..[0, 3, 6][random.usize(..3)] {
            let resource = ["a", "GET:/b", "ü|c", "GET:/a/{id}"][random.usize(..4)];
            let call = engine.entry(resource).resource_type(1).count(random.u32(1..4));
            if let Ok(mut guard) = call.try_acquire() {
                clock.advance(Duration::from_millis(random.u64(..30)));
                if random.bool() {
                    guard.fail();
                }
            }
        }
        let left = 1_000 - clock_ms(&clock) % 1_000;
        clock.advance(Duration::from_millis(left));
    }
    drop(engine);
    written.await;
}

fn clock_ms(clock: &ManualClock) -> u64 {
    limiter::Clock::now(clock).ms()
}

fn thin(lines: &[MetricLine]) -> String {
    json!(lines.iter().map(MetricLine::thin).collect::<Vec<_>>()).to_string()
}

/// Asks both readers for every second around those that are there, and gives how many lines they
/// both found.
fn compare(java: &mut Oracle, dir: &Path, seconds: std::ops::Range<u64>) -> usize {
    let ours = MetricSearch::new(dir, APP, None);
    let shown = dir.display();
    let mut found = 0;
    for second in seconds {
        let begin = second * 1_000 + 7;
        for lines in [0, 1, 4, 6_000] {
            let theirs = java.ask(&format!("find {shown} {NAME} {begin} {lines}"));
            let lines = ours.find(begin, lines).unwrap();
            assert_eq!(thin(&lines), theirs, "{begin}");
            found += lines.len();
        }
        for length in [0, 3_000] {
            for resource in [None, Some("ü_c")] {
                let end = begin + length;
                let named = resource.map(|name| format!(" {name}")).unwrap_or_default();
                let theirs = java.ask(&format!("between {shown} {NAME} {begin} {end}{named}"));
                let lines = ours.find_between(begin, end, resource).unwrap();
                assert_eq!(thin(&lines), theirs, "{begin} {end}{named}");
                found += lines.len();
            }
        }
    }
    found
}

#[tokio::test]
async fn sentinel_finds_in_our_metric_log_what_we_find() {
    let Some(class_path) = java_class_path() else { return };
    let dir = tempfile::tempdir().unwrap();
    // Three runs, over several files each, the second over the end of a day in UTC.
    let runs = [(1_700_000_000, 30), (1_700_006_390, 25), (1_700_006_420, 30)];
    for (begin, seconds) in runs {
        log_calls(dir.path(), begin, seconds, 700).await;
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let mut java = sentinel(class_path, elsewhere.path());
    let seen = compare(&mut java, dir.path(), 1_700_006_385..1_700_006_455);
    assert!(seen > 1_000, "{seen}");
}

/// The files of a folder that begin as metric logs of the day, but for empty ones.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = fs::read_dir(dir).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    });
    all.filter(|(name, bytes)| name.starts_with(NAME) && !bytes.is_empty()).collect()
}

#[tokio::test]
async fn our_metric_log_is_what_sentinel_writes_byte_for_byte() {
    let Some(class_path) = java_class_path() else { return };
    for file_bytes in [50 << 20, 400] {
        let (dir, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        log_calls(dir.path(), 1_700_000_001, 40, file_bytes).await;
        let search = MetricSearch::new(dir.path(), APP, None);
        let lines = search.find(0, MetricSearch::LINES).unwrap();
        assert!(lines.len() > 20, "{lines:?}");
        let mut java = sentinel(class_path, theirs.path());
        // Made a second before.
        java.ask(&format!("writer {file_bytes} 100 1700000000"));
        for second in lines.chunk_by(|a, b| a.second() == b.second()) {
            java.ask(&format!("write {}", thin(second)));
        }
        assert_eq!(files(theirs.path()), files(dir.path()));
        let seen = compare(&mut java, theirs.path(), 1_700_000_000..1_700_000_050);
        assert!(seen > 300, "{seen}");
    }
}

/// What both are told: rules that refuse, and calls with `RESOURCE ORIGIN in|out COUNT ok|fail`.
const FLOW: &str = r#"[{"resource": "f", "count": 0}, {"resource": "f", "count": 0, "limitApp": "app-a"}, {"resource": "a|b,ü", "count": 0}]"#;
const PARAM: &str = r#"[{"resource": "p", "count": 0, "paramIdx": 0}]"#;
const AUTHORITY: &str = r#"[{"resource": "w", "limitApp": "app-a", "strategy": 1}]"#;
const DEGRADE: &str =
    r#"[{"resource": "d", "grade": 2, "count": 0, "timeWindow": 10, "minRequestAmount": 1}]"#;
const SYSTEM: &str = r#"[{"qps": 0}]"#;
const CALLS: [&str; 9] = [
    "f app-a out 2 ok",
    "f - out 1 ok",
    "f app-b out 1 ok",
    "a|b,ü - out 1 ok",
    "p - out 1 ok värde",
    "w app-a out 1 ok",
    "d - out 1 fail",
    "d - out 3 ok",
    "s - in 1 ok",
];

/// Tokens by what stands between time and count in a block log.
fn refusals(log: &[u8]) -> BTreeMap<String, u64> {
    let text = String::from_utf8(log.to_vec()).unwrap();
    let mut refusals = BTreeMap::new();
    for line in text.strip_suffix("\r\n").unwrap().split("\r\n") {
        let (time, rest) = line.split_at(19);
        let shape: String =
            time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00 00:00:00", "{line}");
        let (key, counts) = rest.rsplit_once('|').unwrap();
        let tokens: u64 = counts.strip_suffix(",0").unwrap().parse().unwrap();
        // A call may fall into the next second.
        *refusals.entry(key.to_owned()).or_default() += tokens;
    }
    refusals
}

#[tokio::test]
async fn our_block_log_has_the_lines_of_sentinel_s_for_the_same_refusals() {
    let Some(class_path) = java_class_path() else { return };
    let (dir, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = Engine::new(LocalSettings::default());
    let written = engine.write_logs(LogSettings::new(dir.path(), APP));
    let mut java = sentinel(class_path, theirs.path());
    let rules = |text, contents| parse(text, "test", "", contents, false).unwrap().rules;
    engine.local().load_flow(rules(FLOW, Contents::Flow).flow);
    engine.local().load_param(rules(PARAM, Contents::Param).param);
    engine.local().load_authority(parse_authority(AUTHORITY, "test").unwrap().rules);
    engine.local().load_degrade(parse_degrade(DEGRADE, "test").unwrap().rules);
    engine.local().load_system(&parse_system(SYSTEM, "test").unwrap().rules);
    let told = [("flow", FLOW), ("param", PARAM), ("authority", AUTHORITY), ("degrade", DEGRADE)];
    for (kind, rules) in told.into_iter().chain([("system", SYSTEM)]) {
        java.ask(&format!("{kind} {rules}"));
    }
    for call in CALLS {
        let words: Vec<&str> = call.split(' ').collect();
        let values: Vec<Arg<'_>> =
            words[5..].iter().map(|value| Arg::One(Param::Str((*value).into()))).collect();
        let origin = words[1].trim_start_matches('-');
        let mut ours =
            engine.entry(words[0]).origin(origin).count(words[3].parse().unwrap()).args(&values);
        if words[2] == "in" {
            ours = ours.inbound();
        }
        let answer = match ours.try_acquire() {
            Ok(mut guard) if words[4] == "fail" => {
                guard.fail();
                "passed"
            }
            Ok(_) => "passed",
            Err(_) => "refused",
        };
        assert_eq!(java.ask(&format!("enter {call}")), answer, "{call}");
    }
    drop(engine);
    written.await;
    java.ask("end");
    let [ours, theirs] = [&dir, &theirs]
        .map(|dir| refusals(&fs::read(dir.path().join("sentinel-block.log")).unwrap()));
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 8);
}
