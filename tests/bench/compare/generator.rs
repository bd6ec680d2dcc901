//! The load generator: how it is called, and what it reports.

use std::{
    collections::BTreeMap,
    process::{Child, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{
    run::{CONNECTIONS, Placement},
    servers::{Place, Running},
};

/// One run of it, with [`CONNECTIONS`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) server: &'a Running,
    pub(crate) depth: u16,
    pub(crate) flows: u32,
    /// Requests a second in the open loop; `None`: the closed loop.
    pub(crate) rate: Option<u32>,
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
}

impl Load<'_> {
    pub(crate) fn start(&self, place: &Place, placement: Placement) -> Result<Generator> {
        let mut generator = placement.generator(&place.program("loadgen"));
        for (flag, value) in [
            ("--protocol", self.protocol.to_owned()),
            ("--addr", self.server.addr.to_string()),
            ("--connections", CONNECTIONS.to_string()),
            ("--depth", self.depth.to_string()),
            ("--flows", self.flows.to_string()),
            ("--seconds", self.seconds.to_string()),
            ("--warmup", self.warmup.to_string()),
            ("--pid", self.server.pid().to_string()),
        ] {
            generator.args([flag, &value]);
        }
        if let Some(rate) = self.rate {
            generator.args(["--rate", &rate.to_string()]);
        }
        if placement == Placement::Pinned {
            generator.arg("--spin");
        }
        let child = generator.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        Ok(Generator(child.context("cannot start the generator")?))
    }
}

/// A run that has begun; ended when dropped.
#[derive(Debug)]
pub(crate) struct Generator(Child);

impl Drop for Generator {
    fn drop(&mut self) {
        // It has usually ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What it reports, as far as it is used here.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) seconds: f64,
    pub(crate) completed: f64,
    pub(crate) per_second: f64,
    pub(crate) latency_us: Quantiles,
    /// In the open loop: how late the generator itself was.
    pub(crate) late_us: Option<Quantiles>,
    others: BTreeMap<String, u64>,
    pub(crate) server_cpu_ns: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Report {
    /// That of a run, when it has ended. A run with an answer but OK is none.
    pub(crate) fn of(mut generator: Generator) -> Result<Self> {
        let said = std::io::read_to_string(generator.0.stdout.take().context("not piped")?)?;
        ensure!(generator.0.wait()?.success(), "the generator failed");
        let report: Self = serde_json::from_str(&said)?;
        ensure!(report.others.is_empty(), "unexpected answers, by status: {:?}", report.others);
        Ok(report)
    }
}
