//! What one run tells.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use limiter::Tick;
use serde::Serialize;

use crate::{cpu, wire::Tally};

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Length of the measured time.
    seconds: f64,
    /// Answers that were measured.
    completed: u64,
    per_second: f64,
    /// Of one batch, to its last answer read: from its first byte written, or, at a rate, from when
    /// it was due.
    latency_us: Quantiles,
    /// At a rate: how late the generator wrote a batch. What the server makes wait is no part of it.
    late_us: Option<Quantiles>,
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
struct Quantiles {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// What is counted since a moment.
#[derive(Debug)]
pub(crate) struct Measured {
    from: Tick,
    pub(crate) tally: Tally,
    latency_ns: Histogram<u64>,
    late_ns: Histogram<u64>,
    server_cpu_ns: u64,
    own_cpu_ns: u64,
}

impl Measured {
    pub(crate) fn begin(from: Tick, server: Option<u32>) -> Result<Self> {
        let minute_ns = 60_000_000_000;
        Ok(Self {
            from,
            tally: Tally::default(),
            latency_ns: Histogram::new_with_bounds(100, minute_ns, 3)?,
            late_ns: Histogram::new_with_bounds(100, minute_ns, 3)?,
            server_cpu_ns: server.map_or(Ok(0), cpu::used_ns)?,
            own_cpu_ns: cpu::used_ns(std::process::id())?,
        })
    }

    /// A batch was complete at `now` that began, or was due, at `since`.
    pub(crate) fn complete(&mut self, since: Tick, now: Tick) {
        self.latency_ns.saturating_record(nanos(since, now));
    }

    /// A batch was begun at `now` that was due at `since`.
    pub(crate) fn begun(&mut self, since: Tick, now: Tick) {
        self.late_ns.saturating_record(nanos(since, now));
    }

    pub(crate) fn end(self, now: Tick, server: Option<u32>) -> Result<Report> {
        let others = self.tally.others.values().sum::<u64>();
        let completed = self.tally.expected + others;
        let seconds = now.since(self.from).as_secs_f64();
        ensure!(completed > 0, "no answer in {seconds} s");
        let server_now = server.map(cpu::used_ns).transpose()?;
        Ok(Report {
            seconds,
            completed,
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            per_second: completed as f64 / seconds,
            latency_us: Quantiles::of(&self.latency_ns),
            late_us: (!self.late_ns.is_empty()).then(|| Quantiles::of(&self.late_ns)),
            expected: self.tally.expected,
            others: self.tally.others,
            server_cpu_ns: server_now.map(|now| now.saturating_sub(self.server_cpu_ns)),
            own_cpu_ns: cpu::used_ns(std::process::id())?.saturating_sub(self.own_cpu_ns),
        })
    }
}

fn nanos(since: Tick, now: Tick) -> u64 {
    now.0.saturating_sub(since.0)
}

impl Quantiles {
    /// In microseconds, of nanoseconds.
    fn of(nanos: &Histogram<u64>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "at most a minute, exact in f64")]
        let micros = |quantile| nanos.value_at_quantile(quantile) as f64 / 1_000.0;
        Self { p50: micros(0.5), p99: micros(0.99), p999: micros(0.999), max: micros(1.0) }
    }
}
