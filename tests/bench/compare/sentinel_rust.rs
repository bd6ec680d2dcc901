//! An entry beside sentinel-rust, in one run of criterion. What is run is a package of its own
//! (`tests/bench/sentinel-rust`), since that crate's dependencies are none of ours.

use std::{
    fmt::Write as _,
    fs,
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{say, servers::Place, spread::Spread};

const CASES: [&str; 3] = ["no rule", "one flow rule", "two threads"];
/// What all are compared with.
const REFERENCE: &str = "sentinel-rust";
const OURS: [&str; 2] = ["tollgate", "tollgate, two clock readings"];

/// What criterion found of one subject in one case.
#[derive(Debug)]
pub(crate) struct Beside {
    case: &'static str,
    subject: &'static str,
    /// The median, and between what it lies with 95 % confidence.
    ns: Spread,
}

/// As criterion writes it, of which this is a part.
#[derive(Debug, Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Debug, Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: Interval,
}

#[derive(Debug, Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

impl From<Estimates> for Spread {
    fn from(Estimates { median }: Estimates) -> Self {
        let Interval { lower_bound, upper_bound } = median.confidence_interval;
        Self { median: median.point_estimate, min: lower_bound, max: upper_bound }
    }
}

/// Runs the bench, or says why the crate is not to be had.
pub(crate) fn measure(place: &Place, quick: bool) -> Result<Result<Vec<Beside>, String>> {
    say("entries beside sentinel-rust");
    let folder = place.root.join("tests/bench/sentinel-rust");
    let cargo = |args: &[&str]| {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&folder).args(args);
        cargo
    };
    let fetched = cargo(&["fetch", "--locked"]).output().context("cannot start cargo")?;
    if !fetched.status.success() {
        return Ok(Err(first_error(&fetched)));
    }
    let home = place.scratch("criterion");
    let mut bench = cargo(&["bench", "--quiet", "--locked", "--target-dir"]);
    bench.arg(place.built("sentinel-rust")).arg("--").env("CRITERION_HOME", &home);
    bench.args(if quick {
        ["--warm-up-time=0.2", "--measurement-time=0.5", "--sample-size=10"]
    } else {
        ["--warm-up-time=1", "--measurement-time=4", "--sample-size=100"]
    });
    let output = bench.output().context("cannot start cargo")?;
    let complained = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the bench beside sentinel-rust failed:\n{complained}");
    let mut found = Vec::new();
    for case in CASES {
        for subject in [REFERENCE].into_iter().chain(OURS) {
            let path = home.join("entry").join(case).join(subject).join("new/estimates.json");
            let text = fs::read(&path).with_context(|| path.display().to_string())?;
            let ns = serde_json::from_slice::<Estimates>(&text)?.into();
            found.push(Beside { case, subject, ns });
        }
    }
    Ok(Ok(found))
}

/// Why cargo failed, in a line.
fn first_error(output: &Output) -> String {
    let complained = String::from_utf8_lossy(&output.stderr);
    let reason = complained.lines().find_map(|line| line.strip_prefix("error: "));
    reason.unwrap_or("cargo cannot fetch it").to_owned()
}

/// The reference's time as a multiple of a subject's: of the medians, and of the ends of what they
/// lie between.
fn times(cases: &[Beside], case: &str, subject: &str) -> Option<Spread> {
    let of = |subject: &str| {
        cases.iter().find(|found| (found.case, found.subject) == (case, subject)).map(|of| of.ns)
    };
    let (theirs, ours) = (of(REFERENCE)?, of(subject)?);
    let (min, max) = (theirs.min / ours.max, theirs.max / ours.min);
    Some(Spread { median: theirs.median / ours.median, min, max })
}

/// How many times as fast one entry with a flow rule is, where both sides keep the time alike.
pub(crate) fn decisive(cases: &[Beside]) -> Option<Spread> {
    times(cases, "one flow rule", "tollgate")
}

/// A row for each.
pub(crate) fn table(cases: &[Beside]) -> Result<String, std::fmt::Error> {
    let mut table =
        "\n| beside sentinel-rust | | ns/entry | times as fast |\n|---|---|---:|---:|\n".to_owned();
    for found in cases {
        let Beside { case, subject, ns } = found;
        let times = times(cases, case, subject).map_or(String::new(), |times| times.show(2));
        writeln!(table, "| {case} | {subject} | {} | {times} |", ns.show(1))?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_medians_and_its_ends_are_the_worst_and_the_best() {
        let found = |subject, [median, min, max]: [f64; 3]| {
            let ns = Spread { median, min, max };
            Beside { case: "one flow rule", subject, ns }
        };
        let cases =
            [found(REFERENCE, [800.0, 600.0, 900.0]), found("tollgate", [100.0, 50.0, 200.0])];
        assert_eq!(decisive(&cases), Some(Spread { median: 8.0, min: 3.0, max: 18.0 }));
        assert_eq!(decisive(&[]), None);
    }

    #[test]
    fn what_criterion_writes_is_read() {
        let text = r#"{"mean": {"point_estimate": 9.0}, "median": {"confidence_interval":
            {"confidence_level": 0.95, "lower_bound": 1.0, "upper_bound": 3.0},
            "point_estimate": 2.0, "standard_error": 0.5}}"#;
        let ns: Spread = serde_json::from_str::<Estimates>(text).unwrap().into();
        assert_eq!(ns, Spread { median: 2.0, min: 1.0, max: 3.0 });
    }
}
