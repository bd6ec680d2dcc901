//! Results as `expected.txt` writes them.

use limiter::local::{BreakerReading, BreakerState, NodeReading, WarmUpReading};

/// `P`, with the wait in milliseconds if there was one.
pub(super) fn passed(waited_ms: f64) -> String {
    if waited_ms > 0.0 { format!("P~{}", significant(waited_ms)) } else { "P".into() }
}

/// Six significant digits, as `%g` of C has them, for what is at least a nanosecond.
fn significant(ms: f64) -> String {
    let text = format!("{ms:.5e}");
    let rounded: f64 = text.parse().unwrap_or(ms);
    format!("{rounded}")
}

/// Equal neighbours once, with their number.
pub(super) fn in_runs(said: &[String]) -> String {
    let runs = said.chunk_by(|a, b| a == b).map(|run| match run {
        [one] => one.clone(),
        [first, ..] => format!("{first}*{}", run.len()),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(" ")
}

pub(super) fn node(name: &str, reading: Option<&NodeReading>) -> String {
    let Some(r) = reading else { return format!("node {name} none") };
    format!(
        "node {name} pass={:.3} block={:.3} succ={:.3} ex={:.3} rt={:.3} minRt={:.1} \
         maxSucc={:.3} thr={} tp={} tb={} prev={:.1} wait={}",
        r.pass_qps,
        r.block_qps,
        r.success_qps,
        r.exception_qps,
        r.avg_rt,
        r.min_rt,
        r.max_success_qps,
        r.threads,
        r.total_pass,
        r.total_block,
        r.previous_pass as f64,
        r.waiting
    )
}

pub(super) fn warm(resource: &str, r: &WarmUpReading) -> String {
    let WarmUpReading { warning, max, slope, stored } = r;
    let slope = match *slope {
        slope if slope.is_infinite() => "Infinity".into(),
        // As Python writes it: a small number with two digits of exponent.
        slope if slope < 1e-4 => {
            let text = format!("{slope:e}");
            match text.split_once("e-") {
                Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
                None => text,
            }
        }
        slope => format!("{slope}"),
    };
    format!("warm {resource} warning={warning} max={max} slope={slope} stored={stored}")
}

pub(super) fn breakers(resource: &str, breakers: &[BreakerReading]) -> String {
    let states = breakers.iter().map(|breaker| match breaker.state {
        BreakerState::Closed => " CLOSED",
        BreakerState::Open => " OPEN",
        BreakerState::HalfOpen => " HALF_OPEN",
    });
    format!("cb {resource}{}", states.collect::<String>())
}
