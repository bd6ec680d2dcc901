//! Control groups with a quota of processor time.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    time::Duration,
};

/// A control group that this process is in, with its quota.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// Where it is.
    pub(super) dir: PathBuf,
    /// As many processors may be in use.
    pub(super) cpus: f64,
    /// Processor time that its processes have used.
    used: Duration,
}

impl Group {
    /// The share of the quota in use over the time since `earlier`.
    pub(super) fn busy_since(&self, earlier: &Self, elapsed: Duration) -> Option<f64> {
        let used = self.used.checked_sub(earlier.used)?;
        let share = used.as_secs_f64() / (elapsed.as_secs_f64() * self.cpus);
        share.is_finite().then_some(share)
    }
}

/// The control groups around this process that have a quota, in both versions of the interface.
pub(super) fn read(root: &Path) -> Vec<Group> {
    let mount = root.join("sys/fs/cgroup");
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut groups: Vec<Group> =
        around(&mount, path_in(&own, "")).filter_map(|dir| version_2(dir.to_owned())).collect();
    // Where both controllers are one, the system links each name to it, or has only both as one.
    let path = path_in(&own, "cpu");
    for name in ["cpu", "cpu,cpuacct"] {
        let quotas = mount.join(name);
        let usages = [mount.join("cpuacct"), mount.join("cpu,cpuacct"), quotas.clone()];
        let found = around(&quotas, path).filter_map(|dir| version_1(&quotas, dir, &usages));
        groups.extend(found);
        if !groups.is_empty() {
            break;
        }
    }
    groups
}

/// The path of this process's group, of `/proc/self/cgroup`, whose lines are
/// `number:controllers:path`; version 2 has no controllers.
fn path_in<'a>(own: &'a str, controller: &str) -> &'a str {
    let mut lines = own.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|other| other == controller).then_some(path)
    });
    lines.next().unwrap_or("/")
}

/// The group at `path` and those around it, up to the mount. In a container the path may be that of
/// the host and the mount only what is the container's: what is not there is passed over.
fn around(mount: &Path, path: &str) -> impl Iterator<Item = PathBuf> {
    let mut dir = mount.to_owned();
    let mut dirs = vec![dir.clone()];
    for component in Path::new(path).components() {
        if let Component::Normal(name) = component {
            dir.push(name);
            dirs.push(dir.clone());
        }
    }
    dirs.into_iter()
}

/// `cpu.max`: `QUOTA PERIOD` in microseconds, or `max PERIOD`; `cpu.stat`: `usage_usec N`.
fn version_2(dir: PathBuf) -> Option<Group> {
    let max = fs::read_to_string(dir.join("cpu.max")).ok()?;
    let (quota, period) = max.trim().split_once(' ')?;
    let cpus = ratio(quota, period)?;
    let stat = fs::read_to_string(dir.join("cpu.stat")).ok()?;
    let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Group { dir, cpus, used: Duration::from_micros(usage.trim().parse().ok()?) })
}

/// `cpu.cfs_quota_us`, -1 for none, `cpu.cfs_period_us`, and `cpuacct.usage` in nanoseconds, which
/// may be of another hierarchy.
fn version_1(mount: &Path, dir: PathBuf, usages: &[PathBuf]) -> Option<Group> {
    let quota = fs::read_to_string(dir.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(dir.join("cpu.cfs_period_us")).ok()?;
    let cpus = ratio(&quota, &period)?;
    let path = dir.strip_prefix(mount).ok()?;
    let usage = usages
        .iter()
        .find_map(|mount| fs::read_to_string(mount.join(path).join("cpuacct.usage")).ok())?;
    Some(Group { used: Duration::from_nanos(usage.trim().parse().ok()?), dir, cpus })
}

/// Processors that a quota is; `None` without one.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: u32 = quota.trim().parse().ok()?;
    let period: u32 = period.trim().parse().ok()?;
    (quota > 0 && period > 0).then(|| f64::from(quota) / f64::from(period))
}
