//! What callers notice of a change of all rules: latency in the open loop, while nothing changes
//! and while a file of 100 000 rules is replaced again and again.

use std::fmt::Write as _;

use anyhow::Result;

use crate::{
    bar::Bar,
    generator::{Quantiles, Report},
    run::Effort,
    say,
    servers::Place,
    spread::Spread,
    stage::Stage,
};

/// Requests a second.
pub(crate) const RATE: u32 = 50_000;
/// Requests that are due at the same time, on one connection.
pub(crate) const DEPTHS: [u16; 2] = [1, 16];

/// One round at one depth.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) depth: u16,
    pub(crate) quiet: Report,
    pub(crate) replaced: Report,
    /// From each change of the file until it was in force. Fewer than were wanted if one took
    /// longer than the time to the next.
    pub(crate) in_force_ms: Vec<f64>,
}

/// Runs all rounds.
pub(crate) fn measure(place: &Place, effort: &Effort) -> Result<Vec<Round>> {
    let mut stage = Stage::set(place)?;
    let mut rounds = Vec::new();
    for round in 1..=effort.replaced {
        say(&format!("rules replaced under load, round {round} of {}", effort.replaced));
        for depth in DEPTHS {
            rounds.push(stage.round(depth, effort, round % 2 == 0)?);
        }
    }
    Ok(rounds)
}

/// `what` over the rounds at `depth`.
fn spread(rounds: &[Round], depth: u16, what: impl Fn(&Round) -> f64) -> Option<Spread> {
    Spread::of(rounds.iter().filter(|round| round.depth == depth).map(what))
}

/// The 99th percentile as a multiple of the quiet run's in the same round.
fn times_quiet(rounds: &[Round], depth: u16) -> Option<Spread> {
    spread(rounds, depth, |round| round.replaced.latency_us.p99 / round.quiet.latency_us.p99)
}

/// The bar of each depth.
pub(crate) fn bars(rounds: &[Round], effort: &Effort) -> Vec<Bar> {
    let wanted = usize::from(effort.replacements);
    let bar = |depth| {
        let what = format!("rules replaced under load, depth {depth}: p99 to the quiet p99");
        let mut bar = Bar::at_most(what, 1.2, times_quiet(rounds, depth));
        let made = |round: &Round| round.in_force_ms.len();
        let least = rounds.iter().filter(|round| round.depth == depth).map(made).min();
        if let Some(least) = least.filter(|least| *least < wanted) {
            bar.undecided = true;
            bar.note = Some(format!("a run had {least} replacements of {wanted}"));
        }
        bar
    };
    DEPTHS.map(bar).into()
}

/// Two rows for each depth.
pub(crate) fn table(rounds: &[Round]) -> Result<String, std::fmt::Error> {
    let mut table = "| depth | rules | latency µs p50 / p99 / p99.9 / max | p99 µs | p99 × quiet \
         | generator late µs p50 / p99 | in force after ms |\n\
         |---:|---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for depth in DEPTHS {
        let of_depth = || rounds.iter().filter(|round| round.depth == depth);
        let quiet: Vec<_> = of_depth().map(|round| &round.quiet).collect();
        let replaced: Vec<_> = of_depth().map(|round| &round.replaced).collect();
        let in_force = of_depth().flat_map(|round| round.in_force_ms.iter().copied());
        let show = |spread: Option<Spread>, digits| spread.map_or("".into(), |it| it.show(digits));
        let ratio = show(times_quiet(rounds, depth), 2);
        let in_force = show(Spread::of(in_force), 0);
        writeln!(table, "| {depth} | quiet | {} | 1.00 | {} | |", times(&quiet), late(&quiet))?;
        let (times, late) = (times(&replaced), late(&replaced));
        writeln!(table, "| {depth} | replaced | {times} | {ratio} | {late} | {in_force} |")?;
    }
    Ok(table)
}

/// Two cells: medians of all quantiles, and the p99 with its spread.
fn times(runs: &[&Report]) -> String {
    let of = |what: fn(&Quantiles) -> f64| Spread::of(runs.iter().map(|run| what(&run.latency_us)));
    let (Some(p50), Some(p99), Some(p999), Some(max)) =
        (of(|it| it.p50), of(|it| it.p99), of(|it| it.p999), of(|it| it.max))
    else {
        return " | ".to_owned();
    };
    let medians = [p50, p99, p999, max].map(|spread| format!("{:.0}", spread.median));
    format!("{} | {}", medians.join(" / "), p99.show(0))
}

fn late(runs: &[&Report]) -> String {
    let of = |what: fn(&Quantiles) -> f64| {
        let late = runs.iter().filter_map(|run| run.late_us.as_ref().map(what));
        Spread::of(late).map_or(0.0, |spread| spread.median)
    };
    format!("{:.0} / {:.0}", of(|it| it.p50), of(|it| it.p99))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(p99: f64) -> Report {
        let text = format!(
            r#"{{"seconds": 1, "completed": 1, "per_second": 1, "others": {{}}, "server_cpu_ns": 1,
                "latency_us": {{"p50": 1, "p99": {p99}, "p999": 3, "max": 4}}, "late_us": null}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn rounds(p99: f64, in_force_ms: &[f64]) -> Vec<Round> {
        let (quiet, in_force_ms) = (report(100.0), in_force_ms.into());
        vec![Round { depth: 1, quiet, replaced: report(p99), in_force_ms }]
    }

    #[test]
    fn the_ratio_of_a_round_decides_if_all_replacements_were_made() {
        let effort = Effort { replacements: 2, ..Effort::quick() };
        let reached = |p99, in_force: &[f64]| {
            bars(&rounds(p99, in_force), &effort).iter().map(Bar::reached).collect::<Vec<_>>()
        };
        assert_eq!(reached(119.0, &[1.0, 2.0]), [Some(true), None]);
        assert_eq!(reached(121.0, &[1.0, 2.0]), [Some(false), None]);
        assert_eq!(reached(100.0, &[1.0]), [None, None]);
    }
}
