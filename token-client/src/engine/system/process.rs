//! This process by itself: what it has used of the processors, and which of them it may use.

use std::{fs, path::Path};

/// Where a control group or whoever started it binds a process to some of the processors
/// (`cpuset.cpus`, `taskset`), they can be at their end while the machine is idle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Process {
    /// Processor time that it has used, in the unit of `/proc/stat`.
    pub(super) used: u64,
    /// As many processors its first thread may use, of those that the machine could have.
    pub(super) cpus: f64,
}

impl Process {
    pub(super) fn read(root: &Path) -> Option<Self> {
        let stat = fs::read_to_string(root.join("proc/self/stat")).ok()?;
        let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
        Some(Self { used: used(&stat)?, cpus: cpus(&status).unwrap_or(f64::INFINITY) })
    }
}

/// `number (name) state …`, of which the name may hold anything; `utime` and `stime` are the
/// fourteenth and the fifteenth (`man 5 proc_pid_stat`).
fn used(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|time| time.parse::<u64>().ok());
    times.next()??.checked_add(times.next()??)
}

/// `Cpus_allowed_list`, such as `0-3,8`.
fn cpus(status: &str) -> Option<f64> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(f64::from(last.checked_sub(first)?) + 1.0)
    };
    list.trim().split(',').map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_what_comes_after_it() {
        let stat = "7 (a) S 1) R 6 7 7 0 -1 4194304 119 0 0 0 250 50 9 9 20 0 1 0 4083899 1";
        assert_eq!(used(stat), Some(300));
        for text in ["", "7 (a) R", "7 (a) R 6 7 7 0 -1 4194304 119 0 0 0 250", "7 a"] {
            assert_eq!(used(text), None, "{text}");
        }
    }

    #[test]
    fn processors_are_listed_one_by_one_and_in_ranges() {
        for (list, count) in [("0", 1.0), ("0-3", 4.0), ("1,4-5,63", 4.0)] {
            let status =
                format!("Name:\ta\nCpus_allowed:\tff\nCpus_allowed_list:\t{list}\nx:\t1\n");
            assert_eq!(cpus(&status), Some(count), "{list}");
        }
        for list in ["", "a", "3-1", "0-3,"] {
            assert_eq!(cpus(&format!("Cpus_allowed_list:\t{list}\n")), None, "{list}");
        }
        assert_eq!(cpus("Name:\ta\n"), None);
    }
}
