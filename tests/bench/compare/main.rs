//! Measures our server, its echo baseline and its peers in alternating runs, and writes the page
//! of results. `scripts/bench` builds everything and starts this.

mod bars;
mod decision;
mod machine;
mod page;
mod run;
mod servers;
mod spread;
mod table;

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, Result};
use clap::Parser;

use crate::{
    run::{Effort, Placement, measure},
    servers::Place,
};

/// Compares servers, and writes a page of tables.
#[derive(Debug, Parser)]
struct Args {
    /// Very short runs that only show that everything works; the page goes to standard output
    #[arg(long)]
    quick: bool,
    /// Rounds with server and generator pinned to a core each; a third of it without
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: Option<u16>,
    /// Where the repository is
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let effort = if args.quick { Effort::quick() } else { Effort::full() };
    let effort = args.runs.map_or(effort, |runs| effort.with_runs(runs));
    let place = Place::new(args.root)?;
    let facts = machine::facts(&place);
    let decisions = decision::measure(&place, args.quick).context("decisions in-process")?;
    let pinned = measure(&place, Placement::Pinned, &effort)?;
    let free = measure(&place, Placement::Free, &effort)?;
    let page = page::write(&facts, &effort, &pinned, &free, &decisions)?;
    if args.quick {
        say("nothing was measured long enough to be kept");
        std::io::stdout().write_all(page.as_bytes())?;
        return Ok(());
    }
    let path = place.root.join("docs/benchmarks.md");
    fs::write(&path, &page).with_context(|| format!("cannot write {}", path.display()))?;
    std::io::stdout().write_all(page.as_bytes())?;
    Ok(())
}

/// Progress, for whoever waits.
fn say(what: &str) {
    // Nobody may be listening any more, which is no reason to stop.
    drop(writeln!(std::io::stderr(), "bench: {what}"));
}
