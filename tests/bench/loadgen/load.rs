//! The loop: warm up, measure, report.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use limiter::{Clock, MonotonicClock, Tick};
use mio::{Events, Interest, Poll, Token};
use serde::Serialize;

use crate::{
    Args,
    connection::Connection,
    cpu,
    wire::{Tally, Wire},
};

/// How long the server may stay silent on all connections.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// A load that is ready to run.
#[derive(Debug)]
pub(crate) struct Load<'a, W> {
    wire: W,
    args: &'a Args,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Length of the measured time.
    seconds: f64,
    /// Answers in it.
    completed: u64,
    per_second: f64,
    /// Of one batch, from its first byte written to its last answer read.
    latency_us: Latency,
    /// Answers that said what they should.
    expected: u64,
    /// Others, by status.
    others: BTreeMap<i64, u64>,
    /// CPU time of the server in the measured time, if its process was named.
    server_cpu_ns: Option<u64>,
    /// CPU time of this process in the measured time.
    own_cpu_ns: u64,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// What is counted since a moment.
#[derive(Debug)]
struct Measured {
    from: Tick,
    tally: Tally,
    latency_ns: Histogram<u64>,
    server_cpu_ns: u64,
    own_cpu_ns: u64,
}

impl Measured {
    fn begin(from: Tick, server: Option<u32>) -> Result<Self> {
        Ok(Self {
            from,
            tally: Tally::default(),
            latency_ns: Histogram::new_with_bounds(100, 60_000_000_000, 3)?,
            server_cpu_ns: server.map_or(Ok(0), cpu::used_ns)?,
            own_cpu_ns: cpu::used_ns(std::process::id())?,
        })
    }

    fn end(self, now: Tick, server: Option<u32>) -> Result<Report> {
        let others = self.tally.others.values().sum::<u64>();
        let completed = self.tally.expected + others;
        let seconds = now.since(self.from).as_secs_f64();
        ensure!(completed > 0, "no answer in {seconds} s");
        let server_now = server.map(cpu::used_ns).transpose()?;
        let micros = |quantile| nanos_as_micros(self.latency_ns.value_at_quantile(quantile));
        Ok(Report {
            seconds,
            completed,
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            per_second: completed as f64 / seconds,
            latency_us: Latency {
                p50: micros(0.5),
                p99: micros(0.99),
                p999: micros(0.999),
                max: micros(1.0),
            },
            expected: self.tally.expected,
            others: self.tally.others,
            server_cpu_ns: server_now.map(|now| now.saturating_sub(self.server_cpu_ns)),
            own_cpu_ns: cpu::used_ns(std::process::id())?.saturating_sub(self.own_cpu_ns),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most a minute, exact in f64")]
fn nanos_as_micros(nanos: u64) -> f64 {
    nanos as f64 / 1_000.0
}

impl<'a, W: Wire> Load<'a, W> {
    pub(crate) fn new(wire: W, args: &'a Args) -> Self {
        Self { wire, args }
    }

    /// Opens the connections, warms up, measures, and closes them.
    pub(crate) fn run(self) -> Result<Report> {
        let Self { wire, args } = self;
        let clock = MonotonicClock::start();
        let mut poll = Poll::new()?;
        let mut connections = open(args, &poll)?;
        let mut now = clock.now();
        let mut batches = 0..;
        for connection in &mut connections {
            connection.begin(&wire, batches.next().unwrap_or(0), now)?;
        }
        let warm_at = now.plus(Duration::from_secs_f64(args.warmup));
        let end_at = warm_at.plus(Duration::from_secs_f64(args.seconds));
        let mut warm = args.warmup == 0.0;
        let mut measured = Measured::begin(now, args.pid)?;
        let mut events = Events::with_capacity(connections.len());
        let patience = if args.spin { Duration::ZERO } else { SILENCE_MAX };
        while now < end_at {
            poll.poll(&mut events, Some(patience))?;
            if events.is_empty() {
                let silence = clock.now().since(now);
                ensure!(silence < SILENCE_MAX, "no answer in {silence:?}");
                continue;
            }
            if !warm && now >= warm_at {
                (warm, measured) = (true, Measured::begin(clock.now(), args.pid)?);
            }
            for event in &events {
                let Some(connection) = connections.get_mut(event.token().0) else { continue };
                connection.write(&wire)?;
                if connection.read(&wire, &mut measured.tally)? {
                    now = clock.now();
                    let nanos = now.since(connection.began).as_nanos();
                    measured.latency_ns.saturating_record(u64::try_from(nanos)?);
                    connection.begin(&wire, batches.next().unwrap_or(0), now)?;
                }
            }
        }
        measured.end(clock.now(), args.pid)
    }
}

fn open(args: &Args, poll: &Poll) -> Result<Vec<Connection>> {
    let mut connections = Vec::new();
    for number in 0..usize::from(args.connections) {
        let mut connection =
            Connection::open(args.addr, usize::from(args.depth)).context("connect")?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut connection.stream, Token(number), interest)?;
        connections.push(connection);
    }
    Ok(connections)
}
