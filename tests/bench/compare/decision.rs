//! The cost of one decision inside a process, measured by the bench of `limiter`.

use anyhow::Result;
use serde::Deserialize;

use crate::{cargo, say, servers::Place, spread::Spread};

/// One line of that bench.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) subject: String,
    pub(crate) flows: u32,
    pub(crate) threads: u32,
    ns: [f64; 3],
    times_governor: [f64; 3],
}

impl Case {
    /// Nanoseconds that a thread takes for a decision.
    pub(crate) fn ns(&self) -> Spread {
        self.ns.into()
    }

    /// The same as a multiple of governor's in the same round.
    pub(crate) fn times_governor(&self) -> Spread {
        self.times_governor.into()
    }
}

/// Runs the bench.
pub(crate) fn measure(place: &Place, quick: bool) -> Result<Vec<Case>> {
    say("decisions in-process");
    cargo::lines(place, &["bench", "-p", "limiter", "--bench", "decision"], quick)
}
