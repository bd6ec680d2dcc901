//! `scenarios.txt` gives `expected.txt`, but for the cases in `expected-ours.txt`, each of which
//! says why its right value is another than Sentinel's.

use std::collections::BTreeMap;

use crate::scenario;

const SCENARIOS: &str = include_str!("scenarios.txt");
const EXPECTED: &str = include_str!("expected.txt");
const OURS: &str = include_str!("expected-ours.txt");

/// The lines of each case, without comments.
fn by_case<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut cases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut case = "";
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        case = line.strip_prefix("case ").unwrap_or(case);
        cases.entry(case).or_default().push(line);
    }
    cases
}

#[test]
fn every_scenario_gives_what_is_expected() {
    let said = scenario::run(SCENARIOS).unwrap();
    let (said, expected, ours) = (
        by_case(said.iter().map(String::as_str)),
        by_case(EXPECTED.lines()),
        by_case(OURS.lines()),
    );
    assert_eq!(said.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for (case, said) in &said {
        let right = ours.get(case).or(expected.get(case)).unwrap();
        if said != right {
            wrong.push(format!(
                "expected\n  {}\nsaid\n  {}",
                right.join("\n  "),
                said.join("\n  ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} cases\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_case_of_ours_differs_from_sentinel_s_and_says_why() {
    let (expected, ours) = (by_case(EXPECTED.lines()), by_case(OURS.lines()));
    for (case, lines) in &ours {
        assert_ne!(Some(lines), expected.get(case), "{case}");
    }
    let mut before = "";
    for line in OURS.lines() {
        assert!(!line.starts_with("case ") || before.starts_with("# "), "{line} has no reason");
        before = line;
    }
}
