//! The processors of the machine, as `/proc/stat` counts their time.

use std::path::Path;

/// Time of all processors since the machine started, in its own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Machine {
    /// How many processors there are.
    pub(super) cpus: f64,
    total: u64,
    /// Of it without work.
    idle: u64,
}

impl Machine {
    pub(super) fn read(root: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(root.join("proc/stat")).ok()?)
    }

    /// The first line adds up those of the processors: `cpu user nice system idle iowait irq
    /// softirq steal`. What guests use comes after, and is in `user` already.
    fn parse(text: &str) -> Option<Self> {
        let mut all: Option<Self> = None;
        for line in text.lines().take_while(|line| line.starts_with("cpu")) {
            match &mut all {
                Some(all) => all.cpus += 1.0,
                None => {
                    let times: Option<Vec<u64>> =
                        line.split_whitespace().skip(1).take(8).map(|n| n.parse().ok()).collect();
                    let times = times.filter(|times| times.len() >= 5)?;
                    let idle = times.iter().skip(3).take(2).sum();
                    all = Some(Self { cpus: 0.0, total: times.iter().sum(), idle });
                }
            }
        }
        all
    }

    /// The share of the processors in use since `earlier`; `None` when no time has passed.
    pub(super) fn busy_since(&self, earlier: &Self) -> Option<f64> {
        let total = self.time_since(earlier)?;
        // Time without work may be counted back a little (`man 5 proc`, `iowait`).
        let busy = total.saturating_sub(self.idle.saturating_sub(earlier.idle));
        Some(as_f64(busy) / as_f64(total))
    }

    /// The share that somebody has of so many `cpus` who `used` this time since `earlier`.
    pub(super) fn share_since(&self, earlier: &Self, used: u64, cpus: f64) -> Option<f64> {
        let time = as_f64(self.time_since(earlier)?) * (cpus / self.cpus).min(1.0);
        let share = as_f64(used) / time;
        share.is_finite().then_some(share)
    }

    /// Time of all processors since `earlier`, if any has passed.
    fn time_since(&self, earlier: &Self) -> Option<u64> {
        self.total.checked_sub(earlier.total).filter(|total| *total > 0)
    }
}

/// Exact up to 2^53; centiseconds of a thousand processors need 2 900 years for that.
#[expect(clippy::cast_precision_loss, reason = "see above")]
const fn as_f64(time: u64) -> f64 {
    time as f64
}
