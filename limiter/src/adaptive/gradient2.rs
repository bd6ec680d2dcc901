//! By the ratio of the usual RTT to the present one.

use super::{
    Bounds, Invalid, LIMIT_MAX, Limit, Sample,
    bounds::{check, nanos, whole},
};

/// Shrinks as calls take longer than they use to.
///
/// *Formula*: `long` is the average of all RTTs, in which each new one weighs `2 / (long_window + 1)`
/// (the plain mean of the first ten); where it is more than twice the present RTT it also shrinks by
/// 5 %. From it
///
/// ```text
/// gradient = clamp(tolerance × long / rtt, 0.5, 1)
/// limit    = (1 − smoothing) × limit + smoothing × (gradient × limit + queue)
/// ```
///
/// unless less than half of the limit is in flight. So calls may take `tolerance` times as long as
/// usual before it shrinks, by at most half of `smoothing` at once, and `queue` lets it grow while
/// they do not.
///
/// *Defaults*: see [`Gradient2Settings`]. *Where it settles*: where
/// `limit × (1 − gradient) = queue`, above the workers of the server by the tolerance. *Memory*:
/// 72 bytes. *Cost*: two divisions and a few multiplications.
///
/// Under an overload that goes on, the long average rises to the RTT of the overload, and the
/// limit with it, to its upper bound; it needs one that is sane, or pauses. That is so in
/// `concurrency-limits` too. Ours differs for dropped calls: their RTT is in no average, and their
/// gradient is 0.5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradient2 {
    settings: Gradient2Settings,
    /// Within the bounds.
    estimate: f64,
    /// Nanoseconds.
    long: f64,
    /// Of the first [`PLAIN`] samples.
    sum: f64,
    /// How many of them there were.
    samples: u32,
}

/// The numbers of [`Gradient2`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradient2Settings {
    /// 20, first 20, 200 (`Gradient2Limit.Builder`).
    pub bounds: Bounds,
    /// Part of the way to the new limit that a sample goes, above 0, up to 1; 0.2
    /// (`Gradient2Limit.Builder`).
    pub smoothing: f64,
    /// Calls that may queue; up to [`LIMIT_MAX`]; 4 (`Gradient2Limit.Builder`).
    pub queue: u32,
    /// Times the usual RTT that is still fine, 1 ..= 100; 1.5 (`Gradient2Limit.Builder`).
    pub tolerance: f64,
    /// Samples in the long average, at least 1; 600 (`Gradient2Limit.Builder`): ten minutes of
    /// windows of a second.
    pub long_window: u32,
}

/// Samples of which the average is the plain mean (`Gradient2Limit`, `ExpAvgMeasurement`).
const PLAIN: u32 = 10;

impl Default for Gradient2Settings {
    fn default() -> Self {
        let bounds = Bounds { min: 20, initial: 20, max: 200 };
        Self { bounds, smoothing: 0.2, queue: 4, tolerance: 1.5, long_window: 600 }
    }
}

impl Gradient2 {
    /// A limit with these numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid::Bounds`]; [`Invalid::Number`] for one that is out of its range.
    pub fn new(settings: Gradient2Settings) -> Result<Self, Invalid> {
        let Gradient2Settings { smoothing, queue, tolerance, long_window, .. } = settings;
        settings.bounds.check()?;
        check("smoothing", smoothing, smoothing > 0.0 && smoothing <= 1.0)?;
        check("queue", queue.into(), queue <= LIMIT_MAX)?;
        check("tolerance", tolerance, (1.0..=100.0).contains(&tolerance))?;
        check("long_window", long_window.into(), long_window > 0)?;
        Ok(Self::start(settings))
    }

    fn start(settings: Gradient2Settings) -> Self {
        let estimate = settings.bounds.initial.into();
        Self { estimate, long: 0.0, sum: 0.0, samples: 0, settings }
    }

    /// The long average with this RTT in it.
    fn average(&mut self, rtt: f64) -> f64 {
        let long = if self.samples < PLAIN {
            self.samples += 1;
            self.sum += rtt;
            self.sum / f64::from(self.samples)
        } else {
            let weight = 2.0 / (f64::from(self.settings.long_window) + 1.0);
            self.long * (1.0 - weight) + rtt * weight
        };
        // After an overload calls are short again long before the average is.
        self.long = if long / rtt > 2.0 { long * 0.95 } else { long };
        long
    }
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self::start(Gradient2Settings::default())
    }
}

impl Limit for Gradient2 {
    fn limit(&self) -> u32 {
        whole(self.estimate)
    }

    fn learn(&mut self, sample: Sample) {
        let Gradient2Settings { bounds, smoothing, queue, tolerance, .. } = self.settings;
        let gradient = if sample.dropped {
            0.5
        } else {
            let rtt = nanos(sample.rtt);
            let long = self.average(rtt);
            if f64::from(sample.in_flight) < self.estimate / 2.0 {
                return;
            }
            (tolerance * long / rtt).clamp(0.5, 1.0)
        };
        let aim = self.estimate * gradient + f64::from(queue);
        self.estimate = bounds.clamp(self.estimate * (1.0 - smoothing) + aim * smoothing);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Tick, adaptive::jitter::Jitter};

    fn sample(ms: u64, in_flight: u32, dropped: bool) -> Sample {
        Sample { at: Tick(0), rtt: Duration::from_millis(ms), in_flight, dropped }
    }

    /// From 100, in whole steps.
    fn hundred() -> Gradient2 {
        let bounds = Bounds { min: 10, initial: 100, max: 1_000 };
        Gradient2::new(Gradient2Settings { bounds, smoothing: 1.0, ..Default::default() }).unwrap()
    }

    /// Whose usual RTT is 100 ms.
    fn used_to_hundred_ms() -> Gradient2 {
        let mut limit = hundred();
        (0..10).for_each(|_| limit.learn(sample(100, 1, false)));
        assert_eq!(limit.limit(), 100, "nobody asked for more");
        limit
    }

    #[test]
    fn it_grows_by_the_queue_while_calls_are_within_the_tolerance() {
        for (ms, next) in [(50, 104), (100, 104), (150, 104), (160, 97), (200, 79), (1_000, 54)] {
            let mut limit = used_to_hundred_ms();
            limit.learn(sample(ms, 50, false));
            // The sample itself moves the average: 160 ms to 100.2, and 150.3 / 160 × 100 + 4 = 97.9.
            assert_eq!(limit.limit(), next, "{ms}");
        }
    }

    #[test]
    fn a_part_of_the_way_is_gone_at_once() {
        let mut limit = Gradient2::default();
        limit.learn(sample(100, 20, false));
        assert!((limit.estimate - 20.8).abs() < 1e-9, "a fifth of four: {limit:?}");
    }

    #[test]
    fn below_half_of_it_in_flight_it_does_not_move_but_the_average_does() {
        let mut limit = used_to_hundred_ms();
        (0..10_000).for_each(|_| limit.learn(sample(50, 49, false)));
        assert_eq!(limit.limit(), 100);
        limit.learn(sample(150, 50, false));
        assert_eq!(limit.limit(), 54, "150 ms are three times as long as usual");
    }

    #[test]
    fn ten_calls_are_averaged_and_each_later_one_weighs_little() {
        let mut limit = hundred();
        (1..=10).for_each(|i| limit.learn(sample(i * 10, 1, false)));
        assert!((limit.long / 1e6 - 55.0).abs() < 1e-9, "{limit:?}");
        limit.learn(sample(655, 1, false));
        assert!((limit.long / 1e6 - (55.0 + 600.0 * 2.0 / 601.0)).abs() < 1e-9, "{limit:?}");
    }

    #[test]
    fn after_an_overload_the_average_comes_down_quickly() {
        let mut limit = used_to_hundred_ms();
        // 0.95 ^ 14 is below a half.
        (0..14).for_each(|_| limit.learn(sample(10, 1, false)));
        assert!(limit.long / 1e6 < 50.0, "{limit:?}");
        (0..10_000).for_each(|_| limit.learn(sample(10, 1, false)));
        assert!((10.0..20.0).contains(&(limit.long / 1e6)), "{limit:?}");
    }

    #[test]
    fn a_drop_lowers_it_and_its_time_says_nothing() {
        let mut limit = used_to_hundred_ms();
        limit.learn(sample(0, 1, true));
        assert_eq!(limit.limit(), 54);
        limit.learn(sample(100, 54, false));
        assert_eq!(limit.limit(), 58, "100 ms are still usual");
    }

    #[test]
    fn no_sample_leads_out_of_the_bounds() {
        let bounds = Bounds { min: 2, initial: 4, max: 9 };
        let settings = Gradient2Settings { bounds, ..Default::default() };
        let mut limit = Gradient2::new(settings).unwrap();
        let mut jitter = Jitter::new(2);
        for _ in 0..10_000 {
            let rtt = match jitter.below(4) {
                0 => Duration::ZERO,
                1 => Duration::MAX,
                _ => Duration::from_nanos(jitter.below(1_000_000)),
            };
            let in_flight = u32::try_from(jitter.below(u32::MAX.into())).unwrap();
            let dropped = jitter.below(3) == 0;
            limit.learn(Sample { at: Tick(0), rtt, in_flight, dropped });
            assert!((2..=9).contains(&limit.limit()));
            assert!(limit.estimate.is_finite() && limit.long.is_finite());
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused_by_name() {
        let default = Gradient2Settings::default();
        for (settings, name) in [
            (Gradient2Settings { smoothing: 1.1, ..default }, "smoothing"),
            (Gradient2Settings { queue: LIMIT_MAX + 1, ..default }, "queue"),
            (Gradient2Settings { tolerance: 0.9, ..default }, "tolerance"),
            (Gradient2Settings { tolerance: f64::INFINITY, ..default }, "tolerance"),
            (Gradient2Settings { long_window: 0, ..default }, "long_window"),
        ] {
            let refused = Gradient2::new(settings).unwrap_err();
            assert!(refused.to_string().starts_with(name), "{refused}");
        }
    }
}
