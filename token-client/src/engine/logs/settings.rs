//! Which logs are written, and where.

use std::path::PathBuf;

use super::MetricSearch;

/// Which logs [`Engine::write_logs`](crate::Engine::write_logs) writes, and where.
///
/// ```
/// use token_client::LogSettings;
///
/// let settings = LogSettings { use_pid: true, ..LogSettings::new("logs/csp", "orders") };
/// assert_eq!(settings.metric_files, 6);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The folder; it is made when it is missing. Sentinel's is `~/logs/csp`.
    pub dir: PathBuf,
    /// The service, in the names of metric logs: dots and slashes become `-`.
    pub app: String,
    /// Puts the process id into the names of metric logs; off by default. Processes of one service
    /// in one folder need it. Files of processes that are gone are not removed.
    pub use_pid: bool,
    /// Writes the metric log; on by default.
    pub metrics: bool,
    /// Bytes from which on a metric log goes on in a new file; 50 MiB by default.
    pub metric_file_bytes: u64,
    /// Metric logs that are kept, at least 1; 6 by default.
    pub metric_files: usize,
    /// Writes the block log; on by default.
    pub blocks: bool,
    /// Bytes from which on the block log goes on in a new file; 300 MiB by default.
    pub block_file_bytes: u64,
    /// Block logs that are kept beside the one that is written; 3 by default.
    pub block_files_before: usize,
}

impl LogSettings {
    /// Both logs of the service `app` in `dir`, as Sentinel writes them by default.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, app: impl Into<String>) -> Self {
        Self {
            dir: dir.into(),
            app: app.into(),
            use_pid: false,
            metrics: true,
            metric_file_bytes: 50 << 20,
            metric_files: 6,
            blocks: true,
            block_file_bytes: 300 << 20,
            block_files_before: 3,
        }
    }

    /// What finds the lines of this process's metric log.
    #[must_use]
    pub fn search(&self) -> MetricSearch {
        MetricSearch::new(&self.dir, &self.app, self.pid())
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.use_pid.then(std::process::id)
    }
}
