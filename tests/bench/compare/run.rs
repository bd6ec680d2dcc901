//! The runs: every subject at every depth, round after round.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{
    generator::{Load, Report},
    say,
    servers::{FLOWS, Place, Server},
    spread::Spread,
};

pub(crate) const CONNECTIONS: u16 = 50;
pub(crate) const DEPTHS: [u16; 3] = [1, 16, 64];

/// Unused share of a core that start and end of a run and the accounting's grain explain.
const IDLE_MAX: f64 = 0.05;

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Rounds with a core each for server and generator.
    pub(crate) pinned: u16,
    /// Rounds without.
    pub(crate) free: u16,
    /// Of one run: measured, and before that.
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
    /// Before the first run of the Java server, at each depth.
    pub(crate) java_warmup: f64,
    /// Rounds while rules are replaced.
    pub(crate) replaced: u16,
    /// Replacements in one of those, which takes as many seconds.
    pub(crate) replacements: u16,
}

impl Effort {
    pub(crate) fn full() -> Self {
        Self {
            pinned: 7,
            free: 3,
            seconds: 1.0,
            warmup: 0.2,
            java_warmup: 3.0,
            replaced: 7,
            replacements: 10,
        }
    }

    pub(crate) fn quick() -> Self {
        Self {
            pinned: 1,
            free: 1,
            seconds: 0.2,
            warmup: 0.05,
            java_warmup: 0.3,
            replaced: 1,
            replacements: 1,
        }
    }

    pub(crate) fn with_runs(self, runs: u16) -> Self {
        Self { pinned: runs, free: runs.div_ceil(3), replaced: runs, ..self }
    }
}

/// Where processes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The server on core 0, the generator on core 1.
    Pinned,
    /// Wherever the scheduler puts them.
    Free,
}

impl Placement {
    pub(crate) fn server(self, program: &Path) -> Command {
        self.on("0", program)
    }

    pub(crate) fn generator(self, program: &Path) -> Command {
        self.on("1", program)
    }

    fn on(self, core: &str, program: &Path) -> Command {
        match self {
            Self::Pinned => {
                let mut command = Command::new("taskset");
                command.args(["-c", core]).arg(program);
                command
            }
            Self::Free => Command::new(program),
        }
    }
}

/// What is measured: a server and a way to ask it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Echo,
    OneFlow,
    ManyFlows,
    Java,
    RedisIncr,
    RedisLua,
}

impl Subject {
    pub(crate) const ALL: [Self; 6] =
        [Self::Echo, Self::OneFlow, Self::ManyFlows, Self::Java, Self::RedisIncr, Self::RedisLua];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::OneFlow => "Tollgate, one flow",
            Self::ManyFlows => "Tollgate, 100 000 flows",
            Self::Java => "Sentinel (Java)",
            Self::RedisIncr => "Redis INCR",
            Self::RedisLua => "Redis token bucket",
        }
    }

    pub(crate) fn server(self) -> Server {
        match self {
            Self::Echo => Server::Echo,
            Self::OneFlow | Self::ManyFlows => Server::Ours,
            Self::Java => Server::Java,
            Self::RedisIncr | Self::RedisLua => Server::Redis,
        }
    }

    fn protocol(self) -> &'static str {
        match self {
            Self::Echo | Self::OneFlow | Self::ManyFlows | Self::Java => "sentinel",
            Self::RedisIncr => "redis-incr",
            Self::RedisLua => "redis-lua",
        }
    }

    fn flows(self) -> u32 {
        if self == Self::ManyFlows { FLOWS } else { 1 }
    }
}

/// What one run of the generator measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    /// CPU time of the server for one request.
    pub(crate) cpu_us: f64,
    /// CPU time of the server in one second; 1 is a core.
    pub(crate) busy: f64,
}

/// All samples of one placement. Samples with the same position are of the same round.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) samples: BTreeMap<(u16, Subject), Vec<Sample>>,
    /// Servers that could not be had, and why.
    pub(crate) skipped: BTreeMap<Server, String>,
}

impl Results {
    pub(crate) fn of(&self, depth: u16, subject: Subject) -> &[Sample] {
        self.samples.get(&(depth, subject)).map_or(&[], Vec::as_slice)
    }

    /// `what` over the rounds.
    pub(crate) fn spread(
        &self,
        depth: u16,
        subject: Subject,
        what: impl Fn(&Sample) -> f64,
    ) -> Option<Spread> {
        Spread::of(self.of(depth, subject).iter().map(what))
    }

    /// `what` of one subject as a multiple of another's in the same round.
    pub(crate) fn ratio(
        &self,
        depth: u16,
        subjects: (Subject, Subject),
        what: impl Fn(&Sample) -> f64,
    ) -> Option<Spread> {
        let (left, right) = (self.of(depth, subjects.0), self.of(depth, subjects.1));
        Spread::of(left.iter().zip(right).map(|(left, right)| what(left) / what(right)))
    }

    /// Share of its core that the server left unused, in the middle of the rounds. Above
    /// [`IDLE_MAX`] the generator was what limited the throughput.
    pub(crate) fn idle(&self, depth: u16, subject: Subject) -> Option<f64> {
        self.spread(depth, subject, |sample| 1.0 - sample.busy).map(|idle| idle.median.max(0.0))
    }

    /// Whether the generator, and not the server, was at its limit.
    pub(crate) fn generator_bound(&self, depth: u16, subject: Subject) -> bool {
        self.idle(depth, subject).is_some_and(|idle| idle > IDLE_MAX)
    }
}

/// Starts every server, runs all rounds, and stops them.
pub(crate) fn measure(place: &Place, placement: Placement, effort: &Effort) -> Result<Results> {
    let mut results = Results::default();
    let mut servers = BTreeMap::new();
    for server in [Server::Echo, Server::Ours, Server::Java, Server::Redis] {
        match server.start(place, placement)? {
            Ok(running) => drop(servers.insert(server, running)),
            Err(reason) => {
                say(&format!("SKIPPED {server:?}: {reason}"));
                results.skipped.insert(server, reason);
            }
        }
    }
    let once = |subject: Subject, depth, seconds, warmup| -> Result<Option<Sample>> {
        let Some(server) = servers.get(&subject.server()) else { return Ok(None) };
        let (protocol, flows) = (subject.protocol(), subject.flows());
        let load = Load { protocol, server, depth, flows, rate: None, seconds, warmup };
        let report = load.start(place, placement).and_then(Report::of);
        let report = report.with_context(|| format!("{} at depth {depth}", subject.name()))?;
        Ok(Some(report.into()))
    };
    for depth in DEPTHS {
        once(Subject::Java, depth, effort.java_warmup, 0.0)?;
    }
    let rounds = if placement == Placement::Pinned { effort.pinned } else { effort.free };
    for round in 1..=rounds {
        say(&format!("{placement:?}, round {round} of {rounds}"));
        for depth in DEPTHS {
            for subject in Subject::ALL {
                let sample = once(subject, depth, effort.seconds, effort.warmup)?;
                results.samples.entry((depth, subject)).or_default().extend(sample);
            }
        }
    }
    Ok(results)
}

impl From<Report> for Sample {
    fn from(report: Report) -> Self {
        Self {
            per_second: report.per_second,
            p50_us: report.latency_us.p50,
            p99_us: report.latency_us.p99,
            p999_us: report.latency_us.p999,
            cpu_us: report.server_cpu_ns / 1e3 / report.completed,
            busy: report.server_cpu_ns / 1e9 / report.seconds,
        }
    }
}
