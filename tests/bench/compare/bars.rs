//! What the servers, and decisions in-process, must reach.

use crate::{
    bar::Bar,
    decision::Case,
    memory,
    run::{Results, Sample, Subject},
    spread::Spread,
};

fn per_second(sample: &Sample) -> f64 {
    sample.per_second
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}

/// Requests that the CPU time of a second is enough for.
fn per_cpu_second(sample: &Sample) -> f64 {
    1e6 / sample.cpu_us
}

/// Throughput of one of our subjects as a multiple of another's.
///
/// Where one of the two left a part of its core idle, the generator was the limit, and CPU per
/// request decides: for echo, which has a bar for that, there; for others, by the requests that a
/// second of CPU time is enough for.
fn throughput(results: &Results, depth: u16, ours: Subject, other: Subject, limit: f64) -> Bar {
    let subjects = (ours, other);
    let is_bound = |subject: &Subject| results.generator_bound(depth, *subject);
    let bound: Vec<_> = [ours, other].into_iter().filter(is_bound).map(Subject::name).collect();
    let what = format!("depth {depth}: throughput, {} to {}", ours.name(), other.name());
    let mut bar = Bar::at_least(what, limit, results.ratio(depth, subjects, per_second));
    let Some(by_clock) = bar.measured.filter(|_| !bound.is_empty()) else { return bar };
    let why = format!("the generator limited {}", bound.join(" and "));
    if other == Subject::Echo {
        bar.undecided = true;
        bar.note = Some(format!("{why}, so CPU per request decides"));
    } else {
        bar.measured = results.ratio(depth, subjects, per_cpu_second);
        bar.note = Some(format!("by CPU per request, since {why}; by time {}", by_clock.show(2)));
    }
    bar
}

/// The bars of servers under load.
pub(crate) fn servers(results: &Results) -> Vec<Bar> {
    use Subject::{Echo, Java, OneFlow, RedisIncr, RedisLua};
    let mut bars = Vec::new();
    // For one hot flow, since the echo server looks nothing up: with many flows a decision waits
    // for memory, which the tables show.
    for (depth, fast, cheap) in [(1, 0.95, 1.05), (16, 0.92, 1.10), (64, 0.80, 1.35)] {
        bars.push(throughput(results, depth, OneFlow, Echo, fast));
        let what = format!("depth {depth}: CPU per request, {} to echo", OneFlow.name());
        bars.push(Bar::at_most(what, cheap, results.ratio(depth, (OneFlow, Echo), cpu)));
    }
    for (other, depth, limit) in [
        (Java, 1, 1.3),
        (Java, 16, 15.0),
        (Java, 64, 30.0),
        (RedisIncr, 16, 1.7),
        (RedisIncr, 64, 2.5),
        (RedisLua, 16, 5.0),
        (RedisLua, 64, 8.0),
    ] {
        bars.push(throughput(results, depth, OneFlow, other, limit));
    }
    bars
}

/// The bars of decisions in-process.
pub(crate) fn decisions(cases: &[Case]) -> impl Iterator<Item = Bar> {
    cases.iter().filter(|case| case.threads == 1 && case.subject == "tollgate").map(|case| {
        let what = format!("in-process, {} flows: one decision to governor's", case.flows);
        Bar::at_most(what, 3.0, Some(case.times_governor()))
    })
}

/// The bars of memory: of flows 300 bytes idle and 600 in use, of hot values 300. They are for the
/// kinds that nearly all rules use; the others take what they remember.
pub(crate) fn memory(cases: &[memory::Case]) -> Vec<Bar> {
    let mut bars = Vec::new();
    let is_usual = |case: &&memory::Case| {
        ["sliding window", "token bucket"].iter().any(|kind| case.subject.ends_with(kind))
    };
    for case in cases.iter().filter(is_usual) {
        let mut bar = |state, limit, bytes| {
            let what = format!("memory, {} {state}: bytes each", case.subject);
            bars.push(Bar::at_most(what, limit, Spread::of([bytes])).whole());
        };
        if let Some(idle) = case.idle {
            bar("idle", 300.0, idle);
        }
        bar("in use", if case.idle.is_some() { 600.0 } else { 300.0 }, case.in_use);
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(per_second: f64, cpu_us: f64, busy: f64) -> Sample {
        Sample { per_second, p50_us: 1.0, p99_us: 1.0, p999_us: 1.0, cpu_us, busy }
    }

    fn results(ours: Sample, other: (Subject, Sample)) -> Results {
        let mut results = Results::default();
        results.samples.insert((16, Subject::OneFlow), vec![ours]);
        results.samples.insert((16, other.0), vec![other.1]);
        results
    }

    fn bar(ours: Sample, other: (Subject, Sample)) -> Bar {
        throughput(&results(ours, other), 16, Subject::OneFlow, other.0, 0.92)
    }

    #[test]
    fn with_busy_servers_the_clock_decides() {
        let echo = (Subject::Echo, sample(100.0, 1.0, 0.98));
        let bar = bar(sample(90.0, 1.0, 0.99), echo);
        assert_eq!(
            bar.show(),
            "- **FAIL**: depth 16: throughput, Tollgate, one flow to echo, bar ≥ 0.92: measured \
             0.90 (0.90–0.90)"
        );
    }

    #[test]
    fn with_an_idle_server_the_bar_of_cpu_decides() {
        let echo = (Subject::Echo, sample(100.0, 1.0, 0.8));
        let bar = bar(sample(50.0, 1.25, 1.0), echo);
        assert_eq!(bar.reached(), None);
        assert_eq!(
            bar.show(),
            "- undecided: depth 16: throughput, Tollgate, one flow to echo, bar ≥ 0.92: measured \
             0.50 (0.50–0.50); the generator limited echo, so CPU per request decides"
        );
    }

    #[test]
    fn beside_a_peer_an_idle_server_is_compared_by_cpu() {
        let java = (Subject::Java, sample(100.0, 4.0, 1.0));
        let bar = bar(sample(100.0, 1.0, 0.3), java);
        assert_eq!(bar.reached(), Some(true));
        assert!(bar.show().contains("measured 4.00 (4.00–4.00); by CPU per request"));
        assert!(bar.show().ends_with("by time 1.00 (1.00–1.00)"));
    }

    #[test]
    fn a_skipped_peer_is_neither_passed_nor_failed() {
        let echo = (Subject::Echo, sample(1.0, 1.0, 1.0));
        let bars = servers(&results(sample(1.0, 1.0, 1.0), echo));
        let java: Vec<_> = bars.iter().filter(|bar| bar.what.contains("Java")).collect();
        assert_eq!(java.len(), 3);
        assert!(java.iter().all(|bar| bar.reached().is_none()));
    }
}
