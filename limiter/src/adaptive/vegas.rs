//! As TCP Vegas: the queue is guessed from how much longer a call takes than without load.

use super::{
    Bounds, Invalid, LIMIT_MAX, Limit, Sample,
    bounds::{check, nanos, whole},
    jitter::Jitter,
};

/// Keeps a queue of a few calls at the server, neither none nor many.
///
/// *Formula*: of the calls in flight, `queue = ⌈limit × (1 − rtt_no_load / rtt)⌉` wait. With
/// `log = max(1, ⌊log10 limit⌋)` the limit changes by
///
/// | when | by |
/// |---|---|
/// | dropped | − log |
/// | less than half of it in flight | 0 |
/// | queue ≤ log | + beta × log |
/// | queue < alpha × log | + log |
/// | queue > beta × log | − log |
/// | else | 0 |
///
/// and, with a `smoothing` below 1, by only that part of it. `rtt_no_load` is the shortest RTT since
/// the last probe; after `probe × limit` samples, less up to a half by chance, so that not all
/// clients of a server probe at once, it is taken anew from the next one, and so follows a server
/// that has become slower for good. A sample that sets it changes nothing else.
///
/// *Defaults*: see [`VegasSettings`]. *Where it settles*: at the workers of the server and a queue
/// of `alpha` to `beta` logs. *Memory*: 88 bytes. *Cost*: a division and a few multiplications.
///
/// A probe that falls into a load takes the RTT under load for the one without, and the limit grows
/// until a shorter one is seen: `concurrency-limits` has that too. Ours differs for dropped calls,
/// whose RTT is not looked at, and which always lower the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vegas {
    settings: VegasSettings,
    /// Within the bounds.
    estimate: f64,
    /// Nanoseconds; `None` before the first call that ended well.
    no_load: Option<f64>,
    /// Since the last probe.
    samples: u64,
    /// Part of the full interval after which to probe, from 0.5.
    patience: f64,
    jitter: Jitter,
}

/// The numbers of [`Vegas`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VegasSettings {
    /// 1, first 20, 1000 (`VegasLimit.Builder`, which has no lower bound but 1).
    pub bounds: Bounds,
    /// The queue, in logs, below which the limit grows; 3 (`VegasLimit.Builder`).
    pub alpha: u32,
    /// The queue, in logs, above which it shrinks, and how far it grows at once while nothing
    /// queues; at least `alpha`; 6 (`VegasLimit.Builder`).
    pub beta: u32,
    /// Above 0, up to 1, which is the default: the whole change (`VegasLimit.Builder`).
    pub smoothing: f64,
    /// Samples, times the limit, between two probes; at least 4, since a probe is no other sample;
    /// 30 (`VegasLimit.Builder`).
    pub probe: u32,
    /// From which the chance of the probes is drawn; give each client of a server its own.
    pub seed: u64,
}

impl Default for VegasSettings {
    fn default() -> Self {
        let bounds = Bounds { min: 1, initial: 20, max: 1_000 };
        Self { bounds, alpha: 3, beta: 6, smoothing: 1.0, probe: 30, seed: 0 }
    }
}

impl Vegas {
    /// A limit with these numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid::Bounds`]; [`Invalid::Number`] for one that is out of its range.
    pub fn new(settings: VegasSettings) -> Result<Self, Invalid> {
        let VegasSettings { alpha, beta, smoothing, probe, .. } = settings;
        settings.bounds.check()?;
        check("alpha", alpha.into(), alpha <= beta)?;
        check("beta", beta.into(), (1..=LIMIT_MAX).contains(&beta))?;
        check("smoothing", smoothing, smoothing > 0.0 && smoothing <= 1.0)?;
        check("probe", probe.into(), probe >= 4)?;
        Ok(Self::start(settings))
    }

    fn start(settings: VegasSettings) -> Self {
        let mut jitter = Jitter::new(settings.seed);
        Self {
            estimate: settings.bounds.initial.into(),
            no_load: None,
            samples: 0,
            patience: jitter.half_to_one(),
            jitter,
            settings,
        }
    }

    /// Whether the RTT without load is to be taken anew.
    fn probes(&mut self) -> bool {
        let interval = self.patience * f64::from(self.settings.probe) * self.estimate;
        self.samples += 1;
        #[expect(clippy::cast_precision_loss, reason = "2^53 samples are not waited for")]
        let due = self.samples as f64 >= interval;
        if due {
            self.samples = 0;
            self.patience = self.jitter.half_to_one();
        }
        due
    }

    /// How the limit should change while so many calls queue.
    fn step(&self, queue: f64, log: u32) -> f64 {
        let VegasSettings { alpha, beta, .. } = self.settings;
        let logs = |n: u32| f64::from(log) * f64::from(n);
        if queue <= logs(1) {
            logs(beta)
        } else if queue < logs(alpha) {
            logs(1)
        } else if queue > logs(beta) {
            -logs(1)
        } else {
            0.0
        }
    }
}

impl Default for Vegas {
    fn default() -> Self {
        Self::start(VegasSettings::default())
    }
}

impl Limit for Vegas {
    fn limit(&self) -> u32 {
        whole(self.estimate)
    }

    fn learn(&mut self, sample: Sample) {
        let log = self.limit().ilog10().max(1);
        let step = if sample.dropped {
            -f64::from(log)
        } else {
            let rtt = nanos(sample.rtt);
            let due = self.probes();
            let Some(no_load) = self.no_load.filter(|no_load| !due && rtt >= *no_load) else {
                self.no_load = Some(rtt);
                return;
            };
            if f64::from(sample.in_flight) * 2.0 < self.estimate {
                return;
            }
            self.step((self.estimate * (1.0 - no_load / rtt)).ceil(), log)
        };
        let VegasSettings { bounds, smoothing, .. } = self.settings;
        let next = bounds.clamp(self.estimate + step);
        self.estimate = bounds.clamp(self.estimate * (1.0 - smoothing) + next * smoothing);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Tick;

    /// Upper bound, and no probe within a test.
    fn vegas(initial: u32) -> Vegas {
        let bounds = Bounds { min: 1, initial, max: 1_000 };
        Vegas::new(VegasSettings { bounds, probe: 1_000_000, ..VegasSettings::default() }).unwrap()
    }

    fn learn(vegas: &mut Vegas, ms: u64, in_flight: u32) -> u32 {
        let rtt = Duration::from_millis(ms);
        vegas.learn(Sample { at: Tick(0), rtt, in_flight, dropped: false });
        vegas.limit()
    }

    fn drop_one(vegas: &mut Vegas) -> u32 {
        let rtt = Duration::from_nanos(1);
        vegas.learn(Sample { at: Tick(0), rtt, in_flight: 1, dropped: true });
        vegas.limit()
    }

    #[test]
    fn the_limit_follows_the_queue() {
        // 10 ms without load. Of 20 calls queue 0, 2 (1.8), 3 (2.3), 6 (5.9), 7 (6.2).
        for (rtt, limit) in [(10_000, 26), (11_000, 21), (11_300, 20), (14_200, 20), (14_500, 19)] {
            let mut vegas = vegas(20);
            assert_eq!(learn(&mut vegas, 10_000, 20), 20, "the first says what no load is");
            assert_eq!(learn(&mut vegas, rtt, 20), limit, "{rtt}");
        }
    }

    #[test]
    fn steps_and_queues_grow_with_the_log_of_the_limit() {
        for (initial, idle, busy) in [(1, 7, 7), (9, 15, 8), (99, 105, 98), (100, 112, 98)] {
            let mut up = vegas(initial);
            learn(&mut up, 10, initial);
            assert_eq!(learn(&mut up, 10, initial), idle);
            let mut down = vegas(initial);
            learn(&mut down, 10, initial);
            // Nine in ten queue: of a single call none does.
            assert_eq!(learn(&mut down, 100, initial), busy);
        }
    }

    #[test]
    fn a_drop_lowers_it_and_its_time_says_nothing() {
        let mut vegas = vegas(20);
        assert_eq!(drop_one(&mut vegas), 19);
        learn(&mut vegas, 10, 19);
        assert_eq!(drop_one(&mut vegas), 18);
        // Were the nanosecond of the drop the RTT without load, nearly all would seem to queue.
        assert_eq!(learn(&mut vegas, 10, 18), 24);
        (0..100).for_each(|_| assert!(drop_one(&mut vegas) > 0));
        assert_eq!(vegas.limit(), 1);
        assert_eq!(learn(&mut vegas, 500, 1), 7, "and one call never queues for itself");
    }

    #[test]
    fn below_half_of_it_in_flight_it_does_not_move() {
        let mut vegas = vegas(21);
        (0..1_000).for_each(|i| assert_eq!(learn(&mut vegas, 10 + i, 10), 21));
        assert_eq!(learn(&mut vegas, 10, 11), 27);
    }

    #[test]
    fn a_probe_takes_the_time_without_load_anew_within_the_interval() {
        for seed in 0..50 {
            let bounds = Bounds { min: 10, initial: 10, max: 10 };
            let mut vegas =
                Vegas::new(VegasSettings { bounds, seed, ..VegasSettings::default() }).unwrap();
            learn(&mut vegas, 10, 10);
            let at = (2..).find(|_| {
                learn(&mut vegas, 50, 10);
                vegas.no_load == Some(5e7)
            });
            // 30 × 10 samples, or from a half of that.
            assert!((150..=300).contains(&at.unwrap()), "{at:?}");
        }
    }

    #[test]
    fn smoothing_makes_a_part_of_the_step() {
        let settings = VegasSettings { smoothing: 0.5, ..VegasSettings::default() };
        let mut vegas = Vegas::new(settings).unwrap();
        learn(&mut vegas, 10, 20);
        assert_eq!(learn(&mut vegas, 10, 20), 23, "half of 6");
        assert_eq!(learn(&mut vegas, 100, 23), 22, "22.5");
        assert_eq!(learn(&mut vegas, 100, 23), 22, "22.0");
    }

    #[test]
    fn no_sample_leads_out_of_the_bounds() {
        let bounds = Bounds { min: 2, initial: 4, max: 9 };
        let mut vegas = Vegas::new(VegasSettings { bounds, ..VegasSettings::default() }).unwrap();
        let mut jitter = Jitter::new(1);
        for _ in 0..10_000 {
            let rtt = match jitter.below(4) {
                0 => Duration::ZERO,
                1 => Duration::MAX,
                _ => Duration::from_nanos(jitter.below(1_000_000)),
            };
            let in_flight = u32::try_from(jitter.below(u32::MAX.into())).unwrap();
            let dropped = jitter.below(3) == 0;
            vegas.learn(Sample { at: Tick(0), rtt, in_flight, dropped });
            assert!((2..=9).contains(&vegas.limit()));
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused_by_name() {
        let default = VegasSettings::default();
        for (settings, name) in [
            (VegasSettings { alpha: 7, ..default }, "alpha"),
            (VegasSettings { alpha: 0, beta: 0, ..default }, "beta"),
            (VegasSettings { smoothing: 0.0, ..default }, "smoothing"),
            (VegasSettings { smoothing: f64::NAN, ..default }, "smoothing"),
            (VegasSettings { probe: 3, ..default }, "probe"),
        ] {
            let refused = Vegas::new(settings).unwrap_err();
            assert!(refused.to_string().starts_with(name), "{refused}");
        }
    }
}
