//! What leases are worth: decisions a second of one client process on one hot flow, with a lease
//! and with a request for each.

use std::{fmt::Write as _, process::Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{
    bar::Bar,
    run::{Effort, Placement},
    say,
    servers::{Place, Running, ours},
    spread::Spread,
};

/// Tasks that call one after the other.
const CALLERS: [u16; 2] = [1, 64];

/// Share of the checks that a lease must have decided.
const BY_LEASE_MIN: f64 = 0.9;

/// More than can be asked for.
const RULES: &str = r#"[{"resource": "hot", "count": 1000000000, "clusterMode": true,
    "clusterConfig": {"flowId": 1, "thresholdType": 1,
                      "lease": {"maxTokens": 1000000, "ttlMs": 1000}}}]"#;

/// Decisions a second of one round.
#[derive(Debug)]
pub(crate) struct Round {
    callers: u16,
    without: f64,
    with: f64,
}

/// What the client process reports.
#[derive(Debug, Deserialize)]
struct Report {
    per_second: f64,
    by_lease: f64,
}

/// Runs all rounds.
pub(crate) fn measure(place: &Place, effort: &Effort) -> Result<Vec<Round>> {
    let file = place.scratch("lease.json");
    std::fs::write(&file, RULES)?;
    let server = ours(place, Placement::Pinned, &file)?;
    let mut rounds = Vec::new();
    for round in 1..=effort.pinned {
        say(&format!("leases, round {round} of {}", effort.pinned));
        for callers in CALLERS {
            let without = run(place, &server, effort, callers, false)?.per_second;
            let with = run(place, &server, effort, callers, true)?;
            ensure!(with.by_lease > BY_LEASE_MIN, "by lease only {} of all", with.by_lease);
            rounds.push(Round { callers, without, with: with.per_second });
        }
    }
    Ok(rounds)
}

fn run(
    place: &Place,
    server: &Running,
    effort: &Effort,
    callers: u16,
    has_lease: bool,
) -> Result<Report> {
    let mut client = Placement::Pinned.generator(&place.program("client-load"));
    for (flag, value) in [
        ("--addr", server.addr.to_string()),
        ("--callers", callers.to_string()),
        ("--seconds", effort.seconds.to_string()),
        ("--warmup", effort.warmup.to_string()),
    ] {
        client.args([flag, &value]);
    }
    if has_lease {
        client.arg("--rules").arg(place.scratch("lease.json"));
    }
    let output = client.stderr(Stdio::inherit()).output().context("cannot start the client")?;
    ensure!(output.status.success(), "the client failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn spread(rounds: &[Round], callers: u16, what: impl Fn(&Round) -> f64) -> Option<Spread> {
    Spread::of(rounds.iter().filter(|round| round.callers == callers).map(what))
}

/// A hundred times as many at one caller.
pub(crate) fn bar(rounds: &[Round]) -> Bar {
    let what = "one caller, decisions with a lease to those without".into();
    Bar::at_least(what, 100.0, spread(rounds, 1, |round| round.with / round.without))
}

/// A row for each number of callers.
pub(crate) fn table(rounds: &[Round]) -> Result<String, std::fmt::Error> {
    let mut table =
        "| callers | decisions/s without a lease | with one | × |\n|---:|---:|---:|---:|\n"
            .to_owned();
    for callers in CALLERS {
        let of = |what: fn(&Round) -> f64| spread(rounds, callers, what);
        let (Some(without), Some(with), Some(ratio)) =
            (of(|it| it.without), of(|it| it.with), of(|it| it.with / it.without))
        else {
            continue;
        };
        let (without, with) = (without.show_large(), with.show_large());
        writeln!(table, "| {callers} | {without} | {with} | {} |", ratio.show(1))?;
    }
    Ok(table)
}
