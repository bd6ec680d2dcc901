//! What a running Sentinel token server was sent and what it answered, byte for byte, replayed
//! against ours on a manual clock. `vectors/server-transcripts-ours.json` holds the steps whose
//! right answer is another one, each with its reason.

use std::{collections::BTreeMap, sync::Arc};

use limiter::{
    Settings, Tick,
    rule::{Contents, NamespaceRules, merge, parse},
};
use serde_json::Value;
use support::{InProcess, Wire, hex, unhex};

const TRANSCRIPTS: &str = include_str!("vectors/server-transcripts.json");
const OURS: &str = include_str!("vectors/server-transcripts-ours.json");

/// The rules of the recorded server, as its `rules` entry lists them. `flow_1` is the one that a
/// scenario changes.
fn rules(flow_1: Option<&str>) -> Vec<NamespaceRules> {
    let flow = |id: u32, count: &str, window: &str| {
        format!(
            r#"{{"resource":"f{id}","count":{count},"clusterMode":true,
                 "clusterConfig":{{"flowId":{id},"thresholdType":1,{window}}}}}"#
        )
    };
    let param = |id: u32, count: &str, window: &str, items: &str| {
        format!(
            r#"{{"resource":"p{id}","paramIdx":0,"count":{count},"clusterMode":true,
                 "paramFlowItemList":[{items}],
                 "clusterConfig":{{"flowId":{id},"thresholdType":1,{window}}}}}"#
        )
    };
    const SECOND: &str = r#""windowIntervalMs":1000,"sampleCount":10"#;
    let items = r#"{"object":"vip","count":5,"classType":"String"},
        {"object":"5","count":1,"classType":"int"},
        {"object":"7","count":0,"classType":"java.lang.Long"},
        {"object":"true","count":2,"classType":"boolean"},
        {"object":"1.5","count":4,"classType":"double"}"#;
    let mut default = vec![
        flow(2, "1e9", SECOND),
        flow(4, "2.5", SECOND),
        flow(5, "5", r#""windowIntervalMs":2000,"sampleCount":20"#),
        flow(6, "10", r#""windowIntervalMs":1000,"sampleCount":1"#),
        flow(7, "0", SECOND),
        flow(8, "3", SECOND).replace(r#""count""#, r#""grade":0,"count""#),
        flow(9, "10", SECOND),
        flow(20, "1e12", SECOND),
        param(11, "3", SECOND, ""),
        param(12, "3", SECOND, items),
        param(14, "1e9", SECOND, ""),
        param(16, "3", r#""windowIntervalMs":2000,"sampleCount":4"#, ""),
    ];
    default.extend(flow_1.map(str::to_owned));
    let average = |rule: String| rule.replace(r#""thresholdType":1"#, r#""thresholdType":0"#);
    let avg = [average(flow(3, "4", SECOND)), average(param(13, "2", SECOND, ""))];
    let limited = [flow(10, "1e9", SECOND), param(15, "1e9", SECOND, "")];
    let texts = [("default", &default[..]), ("avg-ns", &avg), ("limited-ns", &limited)];
    let texts = texts.map(|(namespace, rules)| {
        let text = format!("[{}]", rules.join(","));
        parse(&text, namespace, namespace, Contents::Mixed, true).unwrap()
    });
    merge(texts.into()).unwrap()
}

fn flow_1(count: u32, window: &str) -> String {
    format!(
        r#"{{"resource":"f1","count":{count},"clusterMode":true,
             "clusterConfig":{{"flowId":1,"thresholdType":1,{window}}}}}"#
    )
}

const SECOND: &str = r#""windowIntervalMs":1000,"sampleCount":10"#;

/// What happened to rule 1 before a step, which the recording has only in its notes.
fn before(scenario: &str, step: usize) -> Option<Vec<NamespaceRules>> {
    if scenario != "45_rule_reload_keeps_metric" {
        return None;
    }
    match step {
        3 => Some(rules(Some(&flow_1(20, SECOND)))),
        4 => Some(rules(Some(&flow_1(20, r#""windowIntervalMs":2000,"sampleCount":20"#)))),
        7 => Some(rules(None)),
        8 => Some(rules(Some(&flow_1(10, SECOND)))),
        _ => None,
    }
}

/// A connection that was closed before a step, which the recording has only in a note.
fn closed_before(scenario: &str, step: usize) -> Option<&'static str> {
    (scenario == "36_avg_local" && step == 25).then_some("c1")
}

/// Scenarios that were recorded after a pause of more than a window.
const AFTER_A_PAUSE: [&str; 3] =
    ["08_flow_multi_count", "30_flow_12_byte_body", "38_oversized_frame"];

/// The time of the recording: steps carry an offset in their scenario and a phase of the clock.
struct Time {
    /// Epoch milliseconds at offset 0.
    base: u64,
}

impl Time {
    /// The first time from `earliest` on that has the scenario's first known phase.
    fn start(steps: &[Value], earliest: u64) -> Self {
        let phase = |step: &Value| {
            if let Some(ms) = step["epoch_ms_mod_1000"].as_u64() {
                return Some((step["t_ms"].as_u64()?, ms, 1_000));
            }
            let note = step["note"].as_str()?.strip_prefix("epoch ms % ")?;
            let (modulus, ms) = note.split_once(" = ")?;
            Some((step["t_ms"].as_u64()?, ms.parse().ok()?, modulus.parse().ok()?))
        };
        let longest = steps.iter().filter_map(phase).max_by_key(|(_, _, modulus)| *modulus);
        let Some((offset, ms, modulus)) = longest else { return Self { base: earliest } };
        let base = (earliest..).find(|base| (base + offset) % modulus == ms).unwrap();
        Self { base }
    }

    /// The time of a step: its offset, set right by its phase, since both were rounded.
    fn of(&self, step: &Value) -> u64 {
        let about = self.base + step["t_ms"].as_u64().unwrap_or(0);
        let Some(phase) = step["epoch_ms_mod_1000"].as_u64() else { return about };
        (about - 500..about + 500).find(|ms| ms % 1_000 == phase).unwrap()
    }
}

/// The bytes of a step; long ones were cut in the recording.
fn sent(step: &Value) -> Vec<u8> {
    let text = step["send_hex"].as_str().unwrap();
    let text = text.strip_suffix(" + SHUT_WR").unwrap_or(text);
    if text.ends_with("...(2000 bytes)") {
        return (1..=100)
            .flat_map(|xid| unhex(&format!("0012{xid:08x}0100000000000000020000000100")))
            .collect();
    }
    if text.ends_with("...(65510 bytes)") {
        return vec![0; 65_510];
    }
    unhex(text)
}

struct Replay {
    server: InProcess,
    wires: BTreeMap<String, Wire>,
    pinged: BTreeMap<String, bool>,
    failures: Vec<String>,
}

impl Replay {
    fn start(max_occupy_ratio: f64) -> Self {
        let settings =
            Settings { max_occupy_ratio, max_allowed_qps: Some(1e9), ..Settings::default() };
        let server = InProcess::start(settings);
        server.engine.replace(rules(Some(&flow_1(10, SECOND)))).unwrap();
        Self { server, wires: BTreeMap::new(), pinged: BTreeMap::new(), failures: Vec::new() }
    }

    fn scenario(&mut self, scenario: &Value, ours: &Value, earliest: u64) -> u64 {
        let name = scenario["name"].as_str().unwrap();
        let empty = Vec::new();
        let steps = scenario["steps"].as_array().unwrap_or(&empty);
        let pause = if AFTER_A_PAUSE.contains(&name) { 2_000 } else { 0 };
        let time = Time::start(steps, earliest + pause);
        let mut now = earliest;
        for (i, step) in steps.iter().enumerate() {
            now = time.of(step).max(now);
            self.server.clock.set(Tick::from_ms(now));
            if let Some(rules) = before(name, i) {
                self.server.engine.replace(rules).unwrap();
            }
            if let Some(wire) = closed_before(name, i) {
                self.close(wire);
            }
            let wire = step["conn"].as_str().unwrap_or_default();
            match step["action"].as_str() {
                Some("connect") => {
                    self.wires.insert(wire.into(), Wire::connect(self.server.addr));
                }
                Some("client closes") => self.close(wire),
                Some(action) => {
                    assert!(action.starts_with("sleep") || action == "align clock", "{action}");
                }
                None => {
                    self.exchange(&format!("{name}, step {i}"), wire, step, &ours[i.to_string()]);
                }
            }
        }
        for (wire, connection) in std::mem::take(&mut self.wires) {
            let rest = connection.finish();
            if !rest.is_empty() {
                self.failures.push(format!("{name}: {wire} got {} too many", hex(&rest)));
            }
        }
        self.pinged.clear();
        self.settle(0);
        now
    }

    fn exchange(&mut self, at: &str, wire: &str, step: &Value, ours: &Value) {
        let java = step["recv_hex"].as_str().unwrap();
        let expected = ours["recv_hex"].as_str().unwrap_or(java);
        let connection = self.wires.get_mut(wire).unwrap();
        connection.send(&sent(step));
        if ours["closed"] == true {
            if !connection.is_closed() {
                self.failures.push(format!("{at}: not closed"));
            }
            *connection = Wire::connect(self.server.addr);
            return;
        }
        let expected = unhex(expected);
        let got = connection.receive(expected.len());
        if got != expected {
            self.failures.push(format!("{at}: got {}, not {}", hex(&got), hex(&expected)));
        }
        if got.len() == 12 && got[6] == 0 {
            self.pinged.insert(wire.into(), true);
        }
    }

    /// Closes a connection and waits until the server has noticed.
    fn close(&mut self, wire: &str) {
        drop(self.wires.remove(wire));
        self.pinged.remove(wire);
        self.settle(self.pinged.len());
    }

    fn settle(&self, members: usize) {
        let engine = Arc::clone(&self.server.engine);
        support::eventually("connections leave their namespaces", || {
            let all: u32 = engine.namespaces().iter().map(|n| n.connected()).sum();
            all as usize == members
        });
    }
}

#[test]
fn a_recorded_conversation_with_sentinels_server_goes_the_same_way_with_ours() {
    let file: Value = serde_json::from_str(TRANSCRIPTS).unwrap();
    let ours: Value = serde_json::from_str(OURS).unwrap();
    let scenarios = file["scenarios"].as_array().unwrap();
    let mut replay = Replay::start(1.0);
    let mut now = 1_700_000_000_000;
    for scenario in scenarios {
        let name = scenario["name"].as_str().unwrap();
        if name == "47_max_occupy_ratio_zero" {
            let mut alone = Replay::start(0.0);
            alone.scenario(scenario, &ours[name], now);
            replay.failures.extend(alone.failures);
        } else {
            now = replay.scenario(scenario, &ours[name], now);
        }
    }
    assert!(replay.failures.is_empty(), "{}", replay.failures.join("\n"));
}

/// Every deviation is of a step that exists, differs from the recording, and has a reason.
#[test]
fn every_deviation_from_the_recording_has_a_reason() {
    let file: Value = serde_json::from_str(TRANSCRIPTS).unwrap();
    let ours: BTreeMap<String, BTreeMap<usize, Value>> = serde_json::from_str(OURS).unwrap();
    for (name, steps) in ours {
        let scenario = file["scenarios"].as_array().unwrap().iter().find(|s| s["name"] == *name);
        for (i, deviation) in steps {
            let step = &scenario.unwrap_or_else(|| panic!("no scenario {name}"))["steps"][i];
            assert!(step["send_hex"].is_string(), "{name}, step {i}: nothing is sent");
            assert_ne!(step["recv_hex"], deviation["recv_hex"], "{name}, step {i}");
            assert!(deviation["recv_hex"].is_string() || deviation["closed"] == true);
            assert!(deviation["reason"].as_str().unwrap().len() > 10, "{name}, step {i}");
        }
    }
}
