//! What an entry of the local engine costs, measured by a bench of `limiter`, and beside
//! sentinel-rust, which [`sentinel_rust`] measures.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Deserialize;

use crate::{
    bar::Bar,
    cargo, say,
    sentinel_rust::{self, Beside},
    servers::Place,
    spread::Spread,
};

/// One line of that bench.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    subject: String,
    threads: u32,
    ns: [f64; 3],
    times_governor: [f64; 3],
    times_one_thread: [f64; 3],
}

/// An entry, as the bars mean it.
const ENTRY: &str = "tollgate, one flow rule";
/// A flow rule that guards no call.
const CHECK: &str = "tollgate, the flow rule alone";

/// Everything about entries.
#[derive(Debug)]
pub(crate) struct Entries {
    cases: Vec<Case>,
    /// Why there is nothing to compare with, if there is not.
    pub(crate) beside: Result<Vec<Beside>, String>,
}

/// Runs the benches.
pub(crate) fn measure(place: &Place, quick: bool) -> Result<Entries> {
    say("entries in-process");
    let cases = cargo::lines(place, &["bench", "-p", "limiter", "--bench", "entry"], quick)?;
    let beside = sentinel_rust::measure(place, quick)?;
    if let Err(reason) = &beside {
        say(&format!("SKIPPED sentinel-rust: {reason}"));
    }
    Ok(Entries { cases, beside })
}

impl Entries {
    fn of(&self, subject: &str, threads: u32, what: fn(&Case) -> [f64; 3]) -> Option<Spread> {
        let mut cases = self.cases.iter();
        let case = cases.find(|case| (&*case.subject, case.threads) == (subject, threads))?;
        Some(what(case).into())
    }

    pub(crate) fn bars(&self) -> Vec<Bar> {
        let ns = self.of(ENTRY, 1, |case| case.ns);
        let gain = self.of(ENTRY, 2, |case| case.times_one_thread);
        let check = self.of(CHECK, 1, |case| case.times_governor);
        let beside = self.beside.as_ref().ok().and_then(|cases| sentinel_rust::decisive(cases));
        let to_rust = "one entry with a flow rule: sentinel-rust's time to ours".to_owned();
        let mut to_rust = Bar::at_least(to_rust, 5.0, beside);
        to_rust.note = self.beside.as_ref().err().map(|reason| format!("skipped: {reason}"));
        vec![
            Bar::at_most("one entry with a flow rule: ns, enter and exit".into(), 150.0, ns)
                .whole(),
            Bar::at_least("entries on two threads to those on one".into(), 1.6, gain),
            Bar::at_most("a flow rule alone: one check to governor's".into(), 2.0, check),
            to_rust,
        ]
    }

    pub(crate) fn table(&self) -> Result<String, std::fmt::Error> {
        let mut table = "| threads | | ns/entry | × governor | entries/s × one thread |\n\
                         |---:|---|---:|---:|---:|\n"
            .to_owned();
        for case in &self.cases {
            let Case { subject, threads, .. } = case;
            let spread = |values: [f64; 3], digits| Spread::from(values).show(digits);
            let (ns, ratio) = (spread(case.ns, 1), spread(case.times_governor, 2));
            let gain = spread(case.times_one_thread, 2);
            writeln!(table, "| {threads} | {subject} | {ns} | {ratio} | {gain} |")?;
        }
        if let Ok(cases) = &self.beside {
            table += &sentinel_rust::table(cases)?;
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(subject: &str, threads: u32, ns: f64) -> Case {
        let (subject, of) = (subject.into(), [1.5, 1.0, 2.0]);
        Case { subject, threads, ns: [ns; 3], times_governor: of, times_one_thread: of }
    }

    #[test]
    fn each_bar_looks_at_its_own_line_and_a_skipped_peer_is_neither_passed_nor_failed() {
        let cases = vec![case(CHECK, 1, 9.0), case(ENTRY, 1, 160.0), case(ENTRY, 2, 9.0)];
        let entries = Entries { cases, beside: Err("no network".into()) };
        let shown: Vec<String> = entries.bars().iter().map(Bar::show).collect();
        assert_eq!(
            shown,
            [
                "- **FAIL**: one entry with a flow rule: ns, enter and exit, bar ≤ 150: measured \
                 160 (160–160)",
                "- **FAIL**: entries on two threads to those on one, bar ≥ 1.60: measured 1.50 \
                 (1.00–2.00)",
                "- pass: a flow rule alone: one check to governor's, bar ≤ 2.00: measured 1.50 \
                 (1.00–2.00)",
                "- not measured: one entry with a flow rule: sentinel-rust's time to ours, bar ≥ \
                 5.00; skipped: no network",
            ]
        );
    }
}
