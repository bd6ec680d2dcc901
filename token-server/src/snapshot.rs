//! Counters that outlive the process: written to a file now and then and at the end, and read at
//! the start.
//!
//! ```text
//!   ClusterEngine::save ──record──► format ──bytes──► place ──► FILE
//!   ClusterEngine::restore ◄─record── format ◄─bytes───────────┘
//! ```
//!
//! After a crash at most what was used since the last write is forgotten. One record is held at a
//! time, so the memory does not depend on how many there are.

mod format;
mod metrics;
mod place;

use std::{
    fs::File,
    io::{self, BufReader, Seek},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use limiter::{Clock, ClusterEngine, Restored, Tick};
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, timeout},
};
use tracing::{error, info, warn};

pub(crate) use self::metrics::register;
pub use self::place::SnapshotError;
use self::{
    format::{Reader, Unreadable, Writer, Written},
    place::{Fault, Place},
};
use crate::telemetry::Count;

/// Writes what the flows of an engine have used to a file, from which the next process goes on.
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use limiter::{ClusterEngine, MonotonicClock, Settings};
/// use token_server::{Options, Server, Snapshots};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("counters");
/// let engine = Arc::new(ClusterEngine::new(Settings::default()));
/// let clock = Arc::new(MonotonicClock::start());
/// // Before the rules: what was used is there when they come.
/// let every = Duration::from_secs(10);
/// let snapshots = Snapshots::open(&file, every, Arc::clone(&engine), clock.clone())?;
/// engine.replace(Vec::new())?;
///
/// let options = Options { listen: "127.0.0.1:0".parse()?, http: None, ..Options::default() };
/// let server = Server::new(options, engine).with_clock(clock).with_snapshots(Arc::new(snapshots));
/// server.bind()?.serve(async { /* until the service ends */ }).await;
/// assert!(file.exists());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Snapshots {
    engine: Arc<ClusterEngine>,
    clock: Arc<dyn Clock>,
    every: Duration,
    /// Held while a snapshot is written, so that there is one at a time.
    writing: Mutex<Writing>,
    last: Mutex<Option<Last>>,
    succeeded: Count,
    failed: Count,
}

#[derive(Debug)]
struct Writing {
    place: Place,
    /// What the log said last.
    is_failing: bool,
    left_out: u64,
}

/// The last snapshot that was written.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: SystemTime,
    took: Duration,
    written: Written,
}

impl Snapshots {
    /// Makes this process the only writer of `path`, and puts what the last one has written there
    /// into `engine`, which must not have had rules yet. `clock` is the one that the engine is
    /// asked with; `every` is the time between two writes, a millisecond at least. Blocks while it
    /// reads.
    ///
    /// A file that cannot be used is set aside and named in the log; a folder that cannot be
    /// written to is tried again each time. Neither is an error.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] when no snapshot can be there.
    pub fn open(
        path: &Path,
        every: Duration,
        engine: Arc<ClusterEngine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SnapshotError> {
        let mut place = Place::take(path)?;
        restore(&mut place, &engine, clock.now());
        let writing = Mutex::new(Writing { place, is_failing: false, left_out: 0 });
        let (succeeded, failed) = (Count::default(), Count::default());
        Ok(Self { engine, clock, every, writing, last: Mutex::default(), succeeded, failed })
    }

    /// Writes one snapshot after the other; never ends.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut due = interval(self.every.max(Duration::from_millis(1)));
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is due at once, and the file is as the process before has left it.
        due.tick().await;
        loop {
            due.tick().await;
            self.write_apart().await;
        }
    }

    /// Writes the last one, for `patience` at most.
    pub(crate) async fn finish(self: &Arc<Self>, patience: Duration) {
        match timeout(patience, self.write_apart()).await {
            Ok(true) => info!("counters are saved"),
            // That is in the log.
            Ok(false) => {}
            Err(_elapsed) => error!(?patience, "counters are not saved in time"),
        }
    }

    /// Writes on a thread that may block. False when it failed.
    async fn write_apart(self: &Arc<Self>) -> bool {
        let snapshots = Arc::clone(self);
        match spawn_blocking(move || snapshots.write()).await {
            Ok(outcome) => outcome,
            Err(failed) => {
                error!(error = %failed, "writing a snapshot panicked");
                false
            }
        }
    }

    /// Writes what is used by now, and logs when that goes otherwise than the last time.
    fn write(&self) -> bool {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Writing { place, is_failing, left_out } = &mut *writing;
        let now = self.clock.now();
        let outcome = place.replace(|to| save(&self.engine, now, to));
        let file = place.path().display();
        match &outcome {
            Ok(written) => {
                if *is_failing {
                    info!(%file, "snapshots are written again");
                }
                if written.left_out != *left_out {
                    warn!(%file, records = written.left_out, "too long to be in the snapshot");
                    *left_out = written.left_out;
                }
                let took = self.clock.now().since(now);
                let last = Last { at: self.clock.wall(), took, written: *written };
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
                self.succeeded.add_one();
            }
            Err(error) => {
                if !*is_failing {
                    error!(%file, %error, "snapshots cannot be written, a restart would forget");
                }
                self.failed.add_one();
            }
        }
        *is_failing = outcome.is_err();
        outcome.is_ok()
    }

    fn last(&self) -> Option<Last> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn save(engine: &ClusterEngine, now: Tick, to: impl io::Write) -> io::Result<Written> {
    let mut writer = Writer::begin(to, now)?;
    engine.save(now, |record| writer.record(&record))?;
    writer.end().map(|(_, written)| written)
}

/// Puts the file's contents into the engine, or the file aside.
fn restore(place: &mut Place, engine: &ClusterEngine, now: Tick) {
    let file = place.path().display().to_string();
    let cause = match read(place.path(), engine, now) {
        Ok(Some((saved_at, Restored { flows, values, .. }))) => {
            let (age, ahead) = (now.since(saved_at), saved_at.since(now));
            return info!(file, flows, values, ?age, ?ahead, "counters are restored");
        }
        Ok(None) => return info!(file, "there is no snapshot, counters start empty"),
        Err(cause) => cause,
    };
    let fault = match cause {
        Unreadable::Newer(_) => Fault::Newer,
        Unreadable::Older(_) => Fault::Older,
        _ => Fault::Damaged,
    };
    let cause = cause.to_string();
    if let Err(error) = place.set_aside(fault, cause.clone()) {
        error!(file, cause, %error, "snapshot can be neither used nor set aside");
    }
}

/// Reads twice: nothing is restored of a file that is not whole.
fn read(
    path: &Path,
    engine: &ClusterEngine,
    now: Tick,
) -> Result<Option<(Tick, Restored)>, Unreadable> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Reader::begin(BufReader::new(&file))?.verify()?;
    file.rewind()?;
    let mut reader = Reader::begin(BufReader::new(&file))?;
    let (saved_at, mut failed) = (reader.saved_at(), None);
    let records = std::iter::from_fn(|| {
        reader.next().unwrap_or_else(|error| {
            failed = Some(error);
            None
        })
    });
    let restored = engine.restore(now, saved_at, records);
    failed.map_or(Ok(Some((saved_at, restored))), Err)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use limiter::{Decision, ManualClock, Param, Settings, rule};
    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;
    use crate::testing::Log;

    const START: u64 = 1_700_000_000_000;

    const RULES: &str = r#"[
        {"resource": "day", "count": 5, "clusterMode": true,
         "clusterConfig": {"flowId": 1, "thresholdType": 1, "thresholdUnit": "window",
                           "windowIntervalMs": 86400000, "sampleCount": 24}},
        {"resource": "second", "count": 5, "clusterMode": true,
         "clusterConfig": {"flowId": 2, "thresholdType": 1}},
        {"resource": "hot", "count": 5, "paramIdx": 0, "clusterMode": true,
         "clusterConfig": {"flowId": 3, "thresholdType": 1, "thresholdUnit": "window",
                           "windowIntervalMs": 86400000, "sampleCount": 24}}
    ]"#;

    /// One process after the other over one file.
    struct Process {
        snapshots: Snapshots,
        engine: Arc<ClusterEngine>,
        clock: Arc<ManualClock>,
    }

    impl Process {
        /// Starts `ms` after the first one.
        fn start(path: &Path, ms: u64) -> Self {
            let engine = Arc::new(ClusterEngine::new(Settings::default()));
            let clock = Arc::new(ManualClock::new(Tick::from_ms(START + ms)));
            let every = Duration::from_secs(1);
            let snapshots =
                Snapshots::open(path, every, Arc::clone(&engine), clock.clone()).unwrap();
            let parsed = rule::parse(RULES, "t", "default", rule::Contents::Mixed, true).unwrap();
            engine.replace(rule::merge(vec![parsed]).unwrap()).unwrap();
            Self { snapshots, engine, clock }
        }

        /// How many of five tokens a flow has.
        fn takes(&self, id: i64) -> usize {
            let (rules, now) = (self.engine.rules(), self.clock.now());
            let pass =
                || matches!(rules.acquire_flow(now, id, 1, false), Ok(Decision::Pass { .. }));
            (0..5).filter(|_| pass()).count()
        }

        fn takes_of(&self, value: &str) -> usize {
            let (rules, now) = (self.engine.rules(), self.clock.now());
            let value = || [Param::Str(value.into())];
            let pass =
                || matches!(rules.acquire_param(now, 3, 1, value()), Ok(Decision::Pass { .. }));
            (0..5).filter(|_| pass()).count()
        }
    }

    fn scene() -> (tempfile::TempDir, PathBuf, Log) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counters");
        (folder, path, Log::start())
    }

    #[test]
    fn what_counts_still_is_there_in_the_next_process_and_what_is_over_is_not() {
        let (_folder, path, log) = scene();
        let first = Process::start(&path, 0);
        assert_eq!([first.takes(1), first.takes(2), first.takes_of("a")], [5, 5, 5]);
        assert!(first.snapshots.write());
        drop(first);
        let second = Process::start(&path, 3_600_000);
        assert_eq!([second.takes(1), second.takes(2)], [0, 5], "the day goes on, the second not");
        assert_eq!([second.takes_of("a"), second.takes_of("b")], [0, 5]);
        assert!(second.snapshots.write());
        drop(second);
        let day = 24 * 3_600 * 1_000;
        let third = Process::start(&path, day);
        assert_eq!([third.takes(1), third.takes_of("a"), third.takes_of("b")], [5, 5, 0]);
        log.assert(&[]);
    }

    #[test]
    fn a_process_that_is_killed_forgets_what_came_after_the_last_snapshot_and_no_more() {
        let (_folder, path, _log) = scene();
        let first = Process::start(&path, 0);
        let (rules, now) = (first.engine.rules(), first.clock.now());
        rules.acquire_flow(now, 1, 3, false).unwrap();
        assert!(first.snapshots.write());
        rules.acquire_flow(now, 1, 2, false).unwrap();
        assert_eq!(first.takes(1), 0);
        drop(first);
        assert_eq!(Process::start(&path, 1).takes(1), 2);
    }

    #[test]
    fn on_a_clock_that_was_put_back_nothing_is_forgotten() {
        let (_folder, path, _log) = scene();
        let first = Process::start(&path, 3_600_000);
        assert_eq!(first.takes(1), 5);
        assert!(first.snapshots.write());
        drop(first);
        assert_eq!(Process::start(&path, 0).takes(1), 0);
    }

    #[test]
    fn files_that_cannot_be_used_are_set_aside_and_the_start_goes_on() {
        let (folder, path, log) = scene();
        let first = Process::start(&path, 0);
        assert_eq!(first.takes(1), 5);
        assert!(first.snapshots.write());
        drop(first);
        let good = fs::read(&path).unwrap();
        let mut damaged = good.clone();
        damaged[30] ^= 1;
        let newer = [&good[..8], &[9, 0], &good[10..]].concat();
        let older = [&good[..8], &[1, 0], &good[10..]].concat();
        for bytes in [&damaged, &newer, &older, &good[..good.len() - 1].to_vec()] {
            fs::write(&path, bytes).unwrap();
            let next = Process::start(&path, 0);
            assert_eq!(next.takes(1), 5, "it starts empty");
            assert!(!path.exists());
            assert!(next.snapshots.write());
        }
        let aside = |name: &str| fs::read(folder.path().join(name)).unwrap();
        assert_eq!(aside("counters.damaged-1"), damaged);
        assert_eq!(aside("counters.newer-1"), newer);
        assert_eq!(aside("counters.older-1"), older);
        assert_eq!(aside("counters.damaged-2"), good[..good.len() - 1]);
        log.assert(&["checksum", "version 9", "version 1", "ends too early"]);
    }

    #[test]
    fn a_failure_to_write_is_logged_once_until_it_is_over_and_counted_each_time() {
        let (folder, path, log) = scene();
        let process = Process::start(&path, 0);
        assert!(process.snapshots.write());
        let good = fs::read(&path).unwrap();
        process.takes(1);
        // Nothing can be written to a folder.
        let blocked = folder.path().join("counters.tmp");
        for _ in 0..2 {
            fs::create_dir(&blocked).unwrap();
            assert_eq!([process.snapshots.write(), process.snapshots.write()], [false; 2]);
            assert_eq!(fs::read(&path).unwrap(), good);
            fs::remove_dir(&blocked).unwrap();
        }
        assert!(process.snapshots.write());
        assert_ne!(fs::read(&path).unwrap(), good);
        assert_eq!((process.snapshots.succeeded.get(), process.snapshots.failed.get()), (2, 4));
        log.assert(&["snapshots cannot be written"]);
    }

    #[test]
    fn metrics_tell_when_the_last_one_was_written_and_how_large_it_was() {
        let (_folder, path, _log) = scene();
        let process = Process::start(&path, 500);
        process.takes(1);
        assert!(process.snapshots.write());
        let mut registry = Registry::default();
        register(&mut registry, Arc::new(process.snapshots));
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        let len = fs::metadata(&path).unwrap().len();
        for line in [
            "tollgate_snapshot_writes_total{result=\"ok\"} 1",
            "tollgate_snapshot_writes_total{result=\"error\"} 0",
            "tollgate_snapshot_last_timestamp_seconds 1700000000.5",
            "tollgate_snapshot_last_duration_seconds 0.0",
            &format!("tollgate_snapshot_last_bytes {len}.0"),
            "tollgate_snapshot_last_records 1.0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
    }
}
