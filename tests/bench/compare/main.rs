//! Measures our server, its echo baseline and its peers in alternating runs, and writes the page
//! of results. `scripts/bench` builds everything and starts this.

mod algorithms;
mod bar;
mod bars;
mod cargo;
mod decision;
mod entries;
mod generator;
mod leases;
mod machine;
mod memory;
mod page;
mod replaced;
mod revision;
mod run;
mod sentinel_rust;
mod servers;
mod spread;
mod stage;
mod table;

use std::{fs, io::Write, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use crate::{
    page::Measured,
    run::{Effort, Placement},
    servers::Place,
};

/// Compares servers, and writes a page of tables.
#[derive(Debug, Parser)]
struct Args {
    /// Very short runs that only show that everything works; the page goes to standard output
    #[arg(long)]
    quick: bool,
    /// Rounds with server and generator pinned to a core each, and of what is measured by turns; a
    /// third of it without
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: Option<u16>,
    /// Measure this part only; the page goes to standard output
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Where the repository is
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
}

/// A part of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Servers under load, the generator in the closed loop
    Servers,
    /// Latency while rules are replaced
    Replaced,
    /// One decision in a process
    Decisions,
    /// Algorithms beside the sliding window
    Algorithms,
    /// One entry of the local engine
    Entries,
    /// Bytes of a flow
    Memory,
    /// Decisions of one client with a lease and without
    Leases,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let effort = if args.quick { Effort::quick() } else { Effort::full() };
    let effort = args.runs.map_or(effort, |runs| effort.with_runs(runs));
    let place = Place::new(args.root)?;
    let facts = machine::facts(&place);
    let wanted = |part| args.only.is_none_or(|only| only == part);
    let mut measured = Measured::default();
    if wanted(Part::Decisions) {
        let decisions = decision::measure(&place, args.quick);
        measured.decisions = decisions.context("decisions in-process")?;
    }
    if wanted(Part::Algorithms) {
        measured.algorithms = algorithms::measure(&place, args.quick).context("algorithms")?;
    }
    if wanted(Part::Entries) {
        measured.entries = Some(entries::measure(&place, args.quick).context("entries")?);
    }
    if wanted(Part::Memory) {
        measured.memory = memory::measure(&place, args.quick).context("memory")?;
    }
    if wanted(Part::Servers) {
        measured.pinned = run::measure(&place, Placement::Pinned, &effort)?;
        measured.free = run::measure(&place, Placement::Free, &effort)?;
    }
    if wanted(Part::Replaced) {
        let replaced = replaced::measure(&place, &effort);
        measured.replaced = replaced.context("rules replaced under load")?;
    }
    if wanted(Part::Leases) {
        measured.leases = leases::measure(&place, &effort).context("leases")?;
    }
    let page = page::write(&facts, &effort, &measured)?;
    if args.quick {
        say("nothing was measured long enough to be kept");
    } else if args.only.is_none() {
        let path = place.root.join("docs/benchmarks.md");
        fs::write(&path, &page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    std::io::stdout().write_all(page.as_bytes())?;
    Ok(())
}

/// Progress, for whoever waits.
fn say(what: &str) {
    // Nobody may be listening any more, which is no reason to stop.
    drop(writeln!(std::io::stderr(), "bench: {what}"));
}

/// Lets time pass.
#[expect(clippy::disallowed_methods, reason = "what is measured is what others do meanwhile")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
