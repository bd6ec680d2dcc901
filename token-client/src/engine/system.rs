//! How busy the machine is, or what of it this process may use.

mod cgroup;
mod machine;
mod process;

use std::path::{Path, PathBuf};

use limiter::{Tick, local::SystemStatus};

use self::{cgroup::Group, machine::Machine, process::Process};

/// Reads load and processors where Linux tells them.
///
/// * Processors: under a quota (cgroup `cpu.max`, or `cpu.cfs_quota_us` of version 1) the share of
///   the quota that is in use, of the control group or of an outer one, whichever is closest to its
///   end; without one the share of the machine's (`/proc/stat`). What this process uses of the
///   processors that it may use (`/proc/self`: its first thread's affinity, which a `cpuset` limits,
///   too) if that is more.
/// * Load: that of the machine over a minute (`/proc/loadavg`). A container has none of its own.
///
/// What can not be read is not known: the processors at first, since usage is the difference of two
/// readings, and everything on other systems.
#[derive(Debug)]
pub struct SystemReader {
    root: PathBuf,
    before: Option<Sample>,
}

/// What the counters said at a tick.
#[derive(Debug)]
struct Sample {
    at: Tick,
    /// The control groups around this process that have a quota.
    groups: Vec<Group>,
    machine: Option<Machine>,
    process: Option<Process>,
}

impl Default for SystemReader {
    /// Reads what is below `/`.
    fn default() -> Self {
        Self::new("/")
    }
}

impl SystemReader {
    /// Reads what is below `root`: `proc` and `sys/fs/cgroup`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), before: None }
    }

    /// How busy the machine is at `now`: the processors since the reading before.
    pub fn read(&mut self, now: Tick) -> SystemStatus {
        let sample = Sample::take(&self.root, now);
        let cpu = self.before.as_ref().and_then(|before| sample.cpu(before));
        self.before = Some(sample);
        let unknown = SystemStatus::default();
        SystemStatus {
            load: load(&self.root).unwrap_or(unknown.load),
            cpu: cpu.map_or(unknown.cpu, |share| share.clamp(0.0, 1.0)),
        }
    }
}

impl Sample {
    fn take(root: &Path, at: Tick) -> Self {
        let machine = Machine::read(root);
        let mut groups = cgroup::read(root);
        if let Some(machine) = &machine {
            // A quota of more than there is limits nothing.
            groups.retain(|group| group.cpus < machine.cpus);
        }
        Self { at, groups, machine, process: Process::read(root) }
    }

    /// The share that was in use since `before`: by everybody or by this process, whichever is more
    /// (`SystemStatusListener.java`).
    fn cpu(&self, before: &Self) -> Option<f64> {
        self.of_all(before).into_iter().chain(self.of_process(before)).reduce(f64::max)
    }

    fn of_all(&self, before: &Self) -> Option<f64> {
        if self.groups.is_empty() {
            return self.machine.as_ref()?.busy_since(before.machine.as_ref()?);
        }
        let elapsed = self.at.since(before.at);
        let shares = self.groups.iter().filter_map(|group| {
            let earlier = before.groups.iter().find(|earlier| earlier.dir == group.dir)?;
            group.busy_since(earlier, elapsed)
        });
        shares.reduce(f64::max)
    }

    fn of_process(&self, before: &Self) -> Option<f64> {
        let (machine, process) = (self.machine.as_ref()?, self.process?);
        let quotas = self.groups.iter().map(|group| group.cpus);
        let cpus = quotas.fold(process.cpus, f64::min);
        let used = process.used.checked_sub(before.process?.used)?;
        machine.share_since(before.machine.as_ref()?, used, cpus)
    }
}

fn load(root: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(root.join("proc/loadavg")).ok()?;
    text.split_whitespace().next()?.parse().ok().filter(|load: &f64| *load >= 0.0)
}

#[cfg(test)]
mod tests;
