//! What the algorithms cost beside the sliding window, measured by a bench of `limiter`.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Deserialize;

use crate::{bar::Bar, cargo, say, servers::Place, spread::Spread};

/// One line of that bench.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    /// The algorithm.
    subject: String,
    /// Flows or hot values.
    of: String,
    keys: u32,
    /// Whether everything passes, or next to nothing.
    passes: bool,
    ns: [f64; 3],
    times_sliding: [f64; 3],
}

/// What all are compared with.
const REFERENCE: &str = "sliding window";

impl Case {
    fn is_of(&self, other: &Self) -> bool {
        (&self.subject, &self.of) == (&other.subject, &other.of)
    }

    fn when(&self) -> String {
        let outcome = if self.passes { "passes" } else { "refused" };
        let keys = if self.keys == 1 { "key" } else { "keys" };
        format!("{} {keys}, {outcome}", self.keys)
    }
}

/// Runs the bench.
pub(crate) fn measure(place: &Place, quick: bool) -> Result<Vec<Case>> {
    say("algorithms in-process");
    cargo::lines(place, &["bench", "-p", "limiter", "--bench", "algorithms"], quick)
}

/// The cases of each algorithm, of flows and of hot values, in the order of the bench.
fn by_algorithm(cases: &[Case]) -> Vec<Vec<&Case>> {
    let mut groups: Vec<Vec<&Case>> = Vec::new();
    for case in cases {
        match groups.iter_mut().find(|group| group.iter().any(|other| other.is_of(case))) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    groups
}

/// One bar for each algorithm: where it is worst.
pub(crate) fn bars(cases: &[Case]) -> Vec<Bar> {
    let ratio = |case: &Case| Spread::from(case.times_sliding);
    let worst = |group: Vec<&Case>| {
        let at_worst = |a: &&Case, b: &&Case| ratio(a).median.total_cmp(&ratio(b).median);
        let case = group.into_iter().max_by(at_worst).filter(|case| case.subject != REFERENCE)?;
        let what = format!("{}, {}: one decision to the {REFERENCE}'s", case.of, case.subject);
        let mut bar = Bar::at_most(what, 1.5, Some(ratio(case)));
        bar.note = Some(format!("at worst: {}", case.when()));
        Some(bar)
    };
    by_algorithm(cases).into_iter().filter_map(worst).collect()
}

/// A row for each algorithm.
pub(crate) fn table(cases: &[Case]) -> Result<String, std::fmt::Error> {
    let groups = by_algorithm(cases);
    let mut table = "| of | algorithm |".to_owned();
    let heads = groups.first().into_iter().flatten().map(|case| case.when());
    heads.for_each(|head| table += &format!(" {head}: ns | × |"));
    let columns = table.matches('|').count() - 3;
    writeln!(table, "\n|---|---|{}", "---:|".repeat(columns))?;
    for group in groups {
        let Some(first) = group.first() else { continue };
        write!(table, "| {} | {} |", first.of, first.subject)?;
        for case in group {
            let (ns, ratio) = (Spread::from(case.ns), Spread::from(case.times_sliding));
            write!(table, " {:.1} | {} |", ns.median, ratio.show(2))?;
        }
        writeln!(table)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(subject: &str, keys: u32, median: f64) -> Case {
        let (subject, of) = (subject.into(), "flows".into());
        let times_sliding = [median, 1.0, 2.0];
        Case { subject, of, keys, passes: true, ns: [10.0; 3], times_sliding }
    }

    #[test]
    fn an_algorithm_is_judged_where_it_is_worst_and_the_reference_is_not() {
        let cases = [
            case(REFERENCE, 1, 1.0),
            case("gcra", 1, 1.6),
            case(REFERENCE, 9, 1.0),
            case("gcra", 9, 1.1),
        ];
        let bars: Vec<String> = bars(&cases).iter().map(Bar::show).collect();
        let bar = "- **FAIL**: flows, gcra: one decision to the sliding window's, bar ≤ 1.50: \
                   measured 1.60 (1.00–2.00); at worst: 1 key, passes";
        assert_eq!(bars, [bar]);
    }

    #[test]
    fn a_row_holds_all_cases_of_an_algorithm() {
        let cases = [case("gcra", 1, 1.5), case("gcra", 9, 1.1)];
        let table = table(&cases).unwrap();
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(
            rows,
            [
                "| of | algorithm | 1 key, passes: ns | × | 9 keys, passes: ns | × |",
                "|---|---|---:|---:|---:|---:|",
                "| flows | gcra | 10.0 | 1.50 (1.00–2.00) | 10.0 | 1.10 (1.00–2.00) |",
            ]
        );
    }
}
