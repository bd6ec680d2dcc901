//! What flows and hot values take of memory: resident bytes each, by the kernel's count.
//!
//! `cargo run --release -p limiter --example memory [-- --quick]` prints a line of JSON for each
//! case, which a process of its own measures. What the process had before the rules is taken off;
//! the text they were read from is freed by then.

#![expect(clippy::print_stdout, reason = "it is a report")]

use std::{error::Error, fmt::Write as _, fs, process::Command};

use limiter::{ClusterEngine, Param, Settings, Tick, rule};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error>>;

const NOW: Tick = Tick::from_ms(1_800_000_000_000);
const LATER: Tick = Tick::from_ms(1_800_000_001_000);

/// A rule to measure.
struct Case {
    name: &'static str,
    /// What stands in the rule.
    fields: &'static str,
    /// What stands in its `clusterConfig`.
    config: &'static str,
}

impl Case {
    /// When tokens are taken: of many buckets in two of them, since the first is in place.
    fn moments(&self) -> &'static [Tick] {
        if self.config == SIXTY { &[NOW, LATER] } else { &[NOW] }
    }
}

const fn case(name: &'static str, fields: &'static str, config: &'static str) -> Case {
    Case { name, fields, config }
}

const BUCKET: &str = r#","algorithm":"tokenBucket","burst":500"#;
const LOG: &str = r#","algorithm":"slidingLog""#;
const SIXTY: &str = r#","sampleCount":60,"windowIntervalMs":60000"#;
const SHARE: &str = r#","overloadPolicy":"share""#;
const HOT: &str = r#""paramIdx":0,"#;
const WARM: &str = r#""controlBehavior":1,"warmUpPeriodSec":10,"#;
const WARM_AND_PACED: &str = r#""controlBehavior":3,"warmUpPeriodSec":10,"#;

const CASES: [Case; 11] = [
    case("flows, sliding window", "", ""),
    case("flows, token bucket", "", BUCKET),
    case("flows, sliding window of 60 buckets", "", SIXTY),
    case("flows, sliding window that lends a share", "", SHARE),
    case("flows, sliding log", "", LOG),
    case("flows, warm-up", WARM, ""),
    case("flows, warm-up and pacing", WARM_AND_PACED, ""),
    case("hot values, sliding window", HOT, ""),
    case("hot values, token bucket", HOT, BUCKET),
    case("hot values, sliding window of 60 buckets", HOT, SIXTY),
    case("hot values, sliding log", HOT, LOG),
];

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let amount = if args.iter().any(|arg| arg == "--quick") { 50_000 } else { 1_000_000 };
    if let Some(case) = args.iter().find_map(|arg| arg.strip_prefix("--case=")) {
        let case = CASES.get(case.parse::<usize>()?).ok_or("no such case")?;
        return if case.fields == HOT { values(case, amount) } else { flows(case, amount) };
    }
    for case in 0..CASES.len() {
        let mut child = Command::new(std::env::current_exe()?);
        let status = child.args(&args).arg(format!("--case={case}")).status()?;
        if !status.success() {
            return Err(format!("case {case}: {status}").into());
        }
    }
    Ok(())
}

/// So many rules, before anybody asks and after each was asked for a token or two, and for a lease
/// if it lends.
fn flows(case: &Case, amount: u32) -> Outcome<()> {
    let before = resident()?;
    let engine = engine(amount, case)?;
    let idle = resident()?.saturating_sub(before);
    let rules = engine.rules();
    for now in case.moments() {
        for id in 1..=amount {
            rules.acquire_flow(*now, id.into(), 1, false)?;
            if case.config == SHARE {
                rules.lease(*now, id.into(), 1, None)?.map_err(|_| "no lease")?;
            }
        }
    }
    let used = resident()?.saturating_sub(before);
    let each = |bytes: u64| bytes / u64::from(amount);
    println!(
        "{}",
        json!({"subject": case.name, "amount": amount, "idle": each(idle), "in_use": each(used)})
    );
    Ok(())
}

/// So many values of one rule, each asked for a token or two.
fn values(case: &Case, amount: u32) -> Outcome<()> {
    let engine = engine(1, case)?;
    let (rules, before) = (engine.rules(), resident()?);
    for now in case.moments() {
        for value in 0..amount {
            rules.acquire_param(*now, 1, 1, [Param::Long(value.into())])?;
        }
    }
    let bytes = resident()?.saturating_sub(before) / u64::from(amount);
    let kept = rules.param(1).map_or(0, |param| param.totals().values);
    println!("{}", json!({"subject": case.name, "amount": kept, "in_use": bytes}));
    Ok(())
}

fn engine(rules: u32, case: &Case) -> Outcome<ClusterEngine> {
    let Case { fields, config, .. } = case;
    let mut text = String::from("[");
    for id in 1..=rules {
        let comma = if id == 1 { "" } else { "," };
        write!(
            text,
            r#"{comma}{{"resource":"r{id}",{fields}"count":100,"clusterMode":true,
            "clusterConfig":{{"flowId":{id},"thresholdType":1{config}}}}}"#
        )?;
    }
    text.push(']');
    let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
    let parsed = rule::parse(&text, "memory", "default", rule::Contents::Mixed, true)?;
    drop(text);
    engine.replace(rule::merge(vec![parsed])?)?;
    Ok(engine)
}

/// Bytes of this process that are in memory.
fn resident() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: u64 =
        line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no VmRSS")?.parse()?;
    Ok(kilobytes * 1_024)
}
