//! Additive increase, multiplicative decrease.

use std::time::Duration;

use super::{
    Bounds, Invalid, Limit, Sample,
    bounds::{check, whole},
};

/// Grows by one for each call that ends well, and shrinks by a factor for each that does not.
///
/// *Formula*: `limit × backoff`, rounded down, on a drop or when `rtt > timeout`; else `limit + 1`
/// if `2 × in_flight >= limit`. *Defaults*: see [`AimdSettings`]. *Where it settles*: it swings
/// between the limit at which calls take as long as the time-out and the tenth below. Without
/// drops or slow calls it grows to the upper bound, so it needs a time-out that says what is too
/// slow. *Memory*: 48 bytes. *Cost*: one multiplication at most.
///
/// Each dropped call of a crowd lowers it again, and each good one raises it: alone it swings far
/// and fast. Behind [`super::Windowed`] it moves once a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aimd {
    settings: AimdSettings,
    limit: u32,
}

/// The numbers of [`Aimd`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AimdSettings {
    /// 20, first 20, 200 (`AIMDLimit.Builder`).
    pub bounds: Bounds,
    /// What is left of the limit after a drop, in 0.5 ..< 1; 0.9 (`AIMDLimit.Builder`).
    pub backoff: f64,
    /// A call that took longer counts as dropped; 5 s (`AIMDLimit.DEFAULT_TIMEOUT`).
    pub timeout: Duration,
}

impl Default for AimdSettings {
    fn default() -> Self {
        let bounds = Bounds { min: 20, initial: 20, max: 200 };
        Self { bounds, backoff: 0.9, timeout: Duration::from_secs(5) }
    }
}

impl Aimd {
    /// A limit with these numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid::Bounds`]; [`Invalid::Number`] for a factor outside of 0.5 ..< 1.
    pub fn new(settings: AimdSettings) -> Result<Self, Invalid> {
        let bounds = settings.bounds.check()?;
        check("backoff", settings.backoff, (0.5..1.0).contains(&settings.backoff))?;
        Ok(Self { settings, limit: bounds.initial })
    }
}

impl Default for Aimd {
    fn default() -> Self {
        let settings = AimdSettings::default();
        Self { limit: settings.bounds.initial, settings }
    }
}

impl Limit for Aimd {
    fn limit(&self) -> u32 {
        self.limit
    }

    fn learn(&mut self, sample: Sample) {
        let AimdSettings { bounds, backoff, timeout } = self.settings;
        let next = if sample.dropped || sample.rtt > timeout {
            whole(f64::from(self.limit) * backoff)
        } else if sample.in_flight >= self.limit.div_ceil(2) {
            self.limit + 1
        } else {
            self.limit
        };
        self.limit = next.clamp(bounds.min, bounds.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tick;

    fn sample(rtt: Duration, in_flight: u32, dropped: bool) -> Sample {
        Sample { at: Tick(0), rtt, in_flight, dropped }
    }

    fn aimd(min: u32, initial: u32, max: u32) -> Aimd {
        let bounds = Bounds { min, initial, max };
        Aimd::new(AimdSettings { bounds, ..AimdSettings::default() }).unwrap()
    }

    const FAST: Duration = Duration::from_millis(1);

    #[test]
    fn a_good_call_raises_it_by_one_and_a_bad_one_lowers_it_by_a_tenth() {
        let mut aimd = aimd(1, 10, 200);
        aimd.learn(sample(FAST, 10, false));
        assert_eq!(aimd.limit(), 11);
        aimd.learn(sample(FAST, 11, true));
        assert_eq!(aimd.limit(), 9, "9.9, rounded down");
    }

    #[test]
    fn a_call_as_long_as_the_time_out_is_good_and_a_longer_one_is_not() {
        let mut aimd = aimd(1, 10, 200);
        let timeout = Duration::from_secs(5);
        aimd.learn(sample(timeout, 10, false));
        assert_eq!(aimd.limit(), 11);
        aimd.learn(sample(timeout + Duration::from_nanos(1), 10, false));
        assert_eq!(aimd.limit(), 9);
    }

    #[test]
    fn below_half_of_it_in_flight_it_does_not_grow() {
        let mut aimd = aimd(1, 11, 200);
        for _ in 0..1_000 {
            aimd.learn(sample(FAST, 5, false));
        }
        assert_eq!(aimd.limit(), 11);
        aimd.learn(sample(FAST, 6, false));
        assert_eq!(aimd.limit(), 12);
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut aimd = aimd(2, 3, 5);
        let mut over = |dropped, n| {
            (0..n).for_each(|_| aimd.learn(sample(FAST, u32::MAX, dropped)));
            aimd.limit()
        };
        assert_eq!(over(false, 100), 5);
        assert_eq!(over(true, 100), 2);
        assert_eq!(over(false, 1), 3, "and comes back");
    }

    #[test]
    fn a_drop_lowers_every_limit_whatever_the_factor() {
        let backoff = 1.0 - f64::EPSILON / 2.0;
        let bounds = Bounds { min: 1, initial: 1_000_000, max: 1_000_000 };
        let timeout = Duration::MAX;
        let mut aimd = Aimd::new(AimdSettings { bounds, backoff, timeout }).unwrap();
        aimd.learn(sample(FAST, 1, true));
        assert_eq!(aimd.limit(), 999_999);
    }

    #[test]
    fn a_factor_that_is_none_is_refused() {
        for backoff in [0.49, 1.0, f64::NAN, -1.0] {
            let settings = AimdSettings { backoff, ..AimdSettings::default() };
            let refused = Aimd::new(settings);
            assert!(matches!(refused, Err(Invalid::Number { name: "backoff", .. })), "{backoff}");
        }
    }
}
