//! The log files that Sentinel writes, so that what collects or shows those reads these.

mod block_log;
mod blocks;
mod complaint;
mod index;
mod line;
mod local_time;
mod metric_log;
mod names;
mod search;
mod settings;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use limiter::{Clock, Tick, local::LocalEngine};
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use tracing::error;

use self::{
    block_log::BlockLog,
    blocks::{Blocks, Counting},
    complaint::Complaint,
    local_time::{Ahead, LocalTime},
    metric_log::{Counted, MetricLog},
    names::BaseName,
};
pub use self::{line::MetricLine, search::MetricSearch, settings::LogSettings};
use super::{Engine, Shared};

const PERIOD: Duration = Duration::from_secs(1);
const SECOND_NS: u64 = 1_000_000_000;

impl Engine {
    /// Writes Sentinel's metric log and block log, each second what has ended, until the last clone
    /// of the engine is dropped; then what is left, and ends. Nothing is written unless a process
    /// spawns it, once.
    ///
    /// ```no_run
    /// use token_client::{Engine, LogSettings, limiter::local::LocalSettings};
    ///
    /// # async fn serve() {
    /// let engine = Engine::new(LocalSettings::default());
    /// tokio::spawn(engine.write_logs(LogSettings::new("logs/csp", "orders")));
    /// # }
    /// ```
    ///
    /// * **Metric log** `<app>-metrics.log.<day>` with an index: for each second in which anything
    ///   was counted a line for each resource, and one for `__total_inbound_traffic__`.
    ///   [`MetricSearch`] reads it, and so do Sentinel's readers. A second that can not be written
    ///   is tried again for a minute.
    /// * **Block log** `sentinel-block.log`: for each second a line for each resource, kind of
    ///   refusal, `limitApp` and origin, with the tokens refused. Of a hot-parameter rule it shows
    ///   the value in place of the `limitApp`. Beyond 6 000 texts or 1 MiB in a second the others
    ///   are one line, `__other__`, for each kind. A second that can not be written is lost, and
    ///   the process's own log tells how much that was. Processes may share it.
    ///
    /// Times are those of the machine's zone. Text is UTF-8, where Sentinel's block log is GB18030
    /// unless `EAGLEEYE.CHARSET` says otherwise; ids of rules are left empty. A control character in
    /// a name is `_`.
    ///
    /// Calls only count, in memory. Files are written by a blocking task; while the disk does not
    /// answer, ten seconds of refusals are kept. What goes wrong with files is warned of at most
    /// once a minute, and does not end it.
    pub fn write_logs(&self, settings: LogSettings) -> impl Future<Output = ()> + Send + 'static {
        let stop = self.shared.alive.token().clone();
        let mut logs = Logs::new(&self.shared, settings, &LocalTime::system());
        async move {
            let mut period = interval(PERIOD);
            period.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let is_last = stop.run_until_cancelled(period.tick()).await.is_none();
                let flushed = spawn_blocking(move || {
                    logs.flush(is_last);
                    logs
                });
                logs = match flushed.await {
                    Ok(logs) if !is_last => logs,
                    Ok(_) => return,
                    Err(error) => return error!(%error, "writing logs panicked"),
                };
            }
        }
    }
}

/// What is written, and how far. It does not hold the engine's clones.
#[derive(Debug)]
struct Logs {
    local: Arc<LocalEngine>,
    clock: Arc<dyn Clock>,
    zone: LocalTime,
    ahead: Ahead,
    metrics: Option<Metrics>,
    blocks: Option<Refused>,
}

#[derive(Debug)]
struct Metrics {
    log: MetricLog,
    /// In the last second that needs not be written any more.
    written: Tick,
    complaint: Complaint,
}

#[derive(Debug)]
struct Refused {
    log: BlockLog,
    counts: Arc<Blocks>,
    complaint: Complaint,
}

impl Logs {
    fn new(shared: &Shared, settings: LogSettings, zone: &LocalTime) -> Self {
        let (local, clock) = (Arc::clone(&shared.local), Arc::clone(&shared.clock));
        let base = BaseName::new(&settings.app, settings.pid());
        let blocks = settings.blocks.then(|| {
            let counts = Arc::<Blocks>::default();
            local.observe(Arc::new(Counting(Arc::downgrade(&counts))));
            let sizes = (settings.block_file_bytes, settings.block_files_before);
            let log = BlockLog::new(&settings.dir, sizes);
            Refused { log, counts, complaint: Complaint::new("block log") }
        });
        let metrics = settings.metrics.then(|| Metrics {
            written: Tick(clock.now().0.saturating_sub(SECOND_NS)),
            log: MetricLog::new(
                settings.dir,
                base,
                zone.clone(),
                (settings.metric_file_bytes, settings.metric_files),
            ),
            complaint: Complaint::new("metric log"),
        });
        Self { local, clock, zone: zone.clone(), ahead: Ahead::default(), metrics, blocks }
    }

    /// Writes what has ended; the last time all refusals.
    fn flush(&mut self, is_last: bool) {
        self.ahead.look(&*self.clock);
        let now = self.clock.now();
        if let Some(metrics) = &mut self.metrics {
            metrics.flush(&self.local, now, self.ahead);
        }
        if let Some(blocks) = &mut self.blocks {
            let (seconds, lost) = blocks.counts.take(now, is_last);
            if lost > 0 {
                blocks.complaint.failed(now, &"the disk does not keep up", lost);
            }
            for refusals in seconds {
                let stamp = self.zone.at(self.ahead.wall(refusals.second));
                if let Err(error) = blocks.log.write(&stamp, &refusals) {
                    blocks.complaint.failed(now, &error, refusals.tokens());
                }
            }
        }
    }
}

impl Metrics {
    fn flush(&mut self, local: &LocalEngine, now: Tick, ahead: Ahead) {
        let resources = local.seconds(now, self.written);
        let mut seconds = BTreeMap::<u64, Vec<Counted<'_>>>::new();
        for (name, classification, counted) in &resources {
            for counted in counted {
                seconds.entry(counted.second).or_default().push((name, *classification, counted));
            }
        }
        for (second, lines) in seconds {
            if let Err(error) = self.log.write(ahead.wall(second), &lines) {
                return self.complaint.failed(now, &error, 0);
            }
            self.written = Tick(second.saturating_mul(SECOND_NS));
        }
    }
}

#[cfg(test)]
mod tests;
