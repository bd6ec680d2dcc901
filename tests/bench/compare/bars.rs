//! What the measurements must reach.

use crate::{
    decision::Case,
    run::{Results, Sample, Subject},
    spread::Spread,
};

/// One ratio, what it must be, and what it was.
#[derive(Debug)]
pub(crate) struct Bar {
    what: String,
    limit: f64,
    /// Whether the ratio must be the limit at least, or at most.
    at_least: bool,
    /// `None` when a peer was skipped.
    measured: Option<Spread>,
    /// What else is to be known.
    note: Option<String>,
    /// Another bar decides, for the reason in `note`.
    undecided: bool,
}

impl Bar {
    /// Whether it is reached; `None`: not measured, or not decided here.
    fn reached(&self) -> Option<bool> {
        let measured = self.measured.filter(|_| !self.undecided)?.median;
        Some(if self.at_least { measured >= self.limit } else { measured <= self.limit })
    }

    /// A line of the page.
    pub(crate) fn show(&self) -> String {
        let Self { what, limit, measured, note, .. } = self;
        let verdict = match self.reached() {
            Some(true) => "pass",
            Some(false) => "**FAIL**",
            None if self.undecided => "undecided",
            None => "not measured",
        };
        let sign = if self.at_least { '≥' } else { '≤' };
        let measured =
            measured.map_or(String::new(), |spread| format!(": measured {}", spread.show(2)));
        let note = note.as_ref().map_or(String::new(), |note| format!("; {note}"));
        format!("- {verdict}: {what}, bar {sign} {limit:.2}{measured}{note}")
    }
}

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
    let mut bar = Bar {
        what: format!("depth {depth}: throughput, {} to {}", ours.name(), other.name()),
        limit,
        at_least: true,
        measured: results.ratio(depth, subjects, per_second),
        note: None,
        undecided: false,
    };
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

/// All bars, in the order of the page.
pub(crate) fn all(results: &Results, decisions: &[Case]) -> Vec<Bar> {
    use Subject::{Echo, Java, OneFlow, RedisIncr, RedisLua};
    let mut bars = Vec::new();
    // For one hot flow, since the echo server looks nothing up: with many flows a decision waits
    // for memory, which the tables show.
    for (depth, fast, cheap) in [(1, 0.95, 1.05), (16, 0.92, 1.10), (64, 0.80, 1.35)] {
        bars.push(throughput(results, depth, OneFlow, Echo, fast));
        bars.push(Bar {
            what: format!("depth {depth}: CPU per request, {} to echo", OneFlow.name()),
            limit: cheap,
            at_least: false,
            measured: results.ratio(depth, (OneFlow, Echo), cpu),
            note: None,
            undecided: false,
        });
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
    for case in decisions.iter().filter(|case| case.threads == 1 && case.subject == "tollgate") {
        bars.push(Bar {
            what: format!("in-process, {} flows: one decision to governor's", case.flows),
            limit: 3.0,
            at_least: false,
            measured: Some(case.times_governor()),
            note: None,
            undecided: false,
        });
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
        let bars = all(&results(sample(1.0, 1.0, 1.0), echo), &[]);
        let java: Vec<_> = bars.iter().filter(|bar| bar.what.contains("Java")).collect();
        assert_eq!(java.len(), 3);
        assert!(java.iter().all(|bar| bar.reached().is_none()));
    }
}
