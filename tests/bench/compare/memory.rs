//! Resident memory of flows and hot values, measured by an example of `limiter`.

use anyhow::Result;
use serde::Deserialize;

use crate::{cargo, say, servers::Place};

/// One line of that example.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) subject: String,
    /// How many of them there were.
    pub(crate) amount: u64,
    /// Bytes each before the first request; `None`: what is not there before.
    pub(crate) idle: Option<f64>,
    /// Bytes each after a request.
    pub(crate) in_use: f64,
}

/// Runs the example.
pub(crate) fn measure(place: &Place, quick: bool) -> Result<Vec<Case>> {
    say("memory");
    cargo::lines(place, &["run", "--release", "-p", "limiter", "--example", "memory"], quick)
}
