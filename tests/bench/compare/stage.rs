//! A server under load with a rule file that changes.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use limiter::{Clock, MonotonicClock};

use crate::{
    generator::{Generator, Load, Report},
    pause,
    replaced::{RATE, Round},
    revision::Asker,
    run::{Effort, Placement},
    servers::{FLOWS, Place, Running, ours},
};

/// From one replacement to the next.
const EVERY: Duration = Duration::from_secs(1);
/// How often the server is asked whether a replacement is in force.
const LOOK: Duration = Duration::from_millis(10);
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(60);
const WARMUP: Duration = Duration::from_millis(500);

/// The server and its file.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    place: &'a Place,
    server: Running,
    live: PathBuf,
    /// The next one to put in place: the same rules with other counts.
    next: [PathBuf; 2],
}

impl<'a> Stage<'a> {
    /// Starts the server.
    pub(crate) fn set(place: &'a Place) -> Result<Self> {
        let [first, second] = ["many.json", "others.json"].map(|name| place.scratch(name));
        let live = place.scratch("live.json");
        fs::hard_link(&first, &live)?;
        let server = ours(place, Placement::Free, &live)?;
        Ok(Self { place, server, live, next: [second, first] })
    }

    /// Both runs, by turns the one or the other first.
    pub(crate) fn round(
        &mut self,
        depth: u16,
        effort: &Effort,
        is_replaced_first: bool,
    ) -> Result<Round> {
        let quiet = |stage: &Self| Report::of(stage.load(depth, effort)?);
        let mut first = None;
        if !is_replaced_first {
            first = Some(quiet(self)?);
        }
        let generator = self.load(depth, effort)?;
        pause(WARMUP);
        let in_force_ms = self.replace(effort.replacements)?;
        let replaced = Report::of(generator)?;
        let quiet = first.map_or_else(|| quiet(self), Ok)?;
        Ok(Round { depth, quiet, replaced, in_force_ms })
    }

    fn load(&self, depth: u16, effort: &Effort) -> Result<Generator> {
        let load = Load {
            protocol: "sentinel",
            server: &self.server,
            depth,
            flows: FLOWS,
            rate: Some(RATE),
            seconds: effort.replacements.into(),
            warmup: WARMUP.as_secs_f64(),
        };
        load.start(self.place, Placement::Free)
    }

    /// Replaces the rules once each [`EVERY`], and gives how long each took to be in force, in
    /// milliseconds. A replacement waits for the one before.
    fn replace(&mut self, replacements: u16) -> Result<Vec<f64>> {
        let clock = MonotonicClock::start();
        let mut asker = Asker::connect(self.server.addr)?;
        let began = clock.now();
        let mut in_force_ms = Vec::new();
        for number in 0..replacements {
            let due = began.plus(EVERY * number.into());
            if due > clock.now() {
                pause(due.since(clock.now()));
            } else if clock.now().since(due) > EVERY {
                break;
            }
            let revision = asker.revision()?;
            self.put_next()?;
            let put = clock.now();
            while asker.revision()? == revision {
                let waited = clock.now().since(put);
                ensure!(waited < PATIENCE, "the rules are not in force after {waited:?}");
                pause(LOOK);
            }
            in_force_ms.push(clock.now().since(put).as_secs_f64() * 1e3);
        }
        Ok(in_force_ms)
    }

    /// Puts the next file in place of the one that is read, in one step.
    fn put_next(&mut self) -> Result<()> {
        let link = self.place.scratch("live.json.next");
        let [next, _] = &self.next;
        fs::hard_link(next, &link)?;
        fs::rename(&link, &self.live)?;
        self.next.reverse();
        Ok(())
    }
}
