//! Between which numbers a limit stays, and which settings are refused.

use std::time::Duration;

/// Most that a limit may allow: as many as the cluster keeps concurrency tokens. Every count below
/// it is exact in the floats that estimate it.
pub const LIMIT_MAX: u32 = 1_000_000;

/// Where a limit starts and stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Never less, and at least 1: a limit of zero would never see a sample again.
    pub min: u32,
    /// Before the first sample.
    pub initial: u32,
    /// Never more; at most [`LIMIT_MAX`].
    pub max: u32,
}

impl Bounds {
    /// The bounds, if they are ones.
    pub(super) fn check(self) -> Result<Self, Invalid> {
        let Self { min, initial, max } = self;
        let sane = 1 <= min && min <= initial && initial <= max && max <= LIMIT_MAX;
        if sane { Ok(self) } else { Err(Invalid::Bounds(self)) }
    }

    /// The nearest estimate within the bounds.
    pub(super) fn clamp(self, estimate: f64) -> f64 {
        estimate.clamp(self.min.into(), self.max.into())
    }
}

/// The whole calls of an estimate that is within its bounds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 1 to a million; half a call is none"
)]
pub(super) const fn whole(estimate: f64) -> u32 {
    estimate as u32
}

/// A round trip time in nanoseconds, at least one, so that it can be divided by.
#[expect(clippy::cast_precision_loss, reason = "of a time of more than 104 days, nanoseconds")]
pub(super) const fn nanos(rtt: Duration) -> f64 {
    let ns = rtt.as_nanos();
    if ns == 0 { 1.0 } else { ns as f64 }
}

/// A setting that is no number or outside of its range.
pub(super) fn check(name: &'static str, value: f64, within: bool) -> Result<(), Invalid> {
    if within { Ok(()) } else { Err(Invalid::Number { name, value }) }
}

/// Settings with which no limit can work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// Bounds that hold no number, or too large ones.
    #[error("bounds {0:?} are not 1 <= min <= initial <= max <= {LIMIT_MAX}")]
    Bounds(Bounds),
    /// A number outside of the range that its documentation names.
    #[error("{name} {value} is out of range")]
    Number {
        /// The setting.
        name: &'static str,
        /// What it was set to.
        value: f64,
    },
    /// A window that is shorter than nothing, or that ends before it may.
    #[error("a window from {min:?} to {max:?} long; it must be 1 ms ..= 1 h")]
    Window {
        /// The shortest window.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A share that is no part of the whole.
    #[error("a share of {percent} % for {name:?} is not in 1 ..= 100")]
    Share {
        /// Whose share.
        name: String,
        /// How much.
        percent: u32,
    },
    /// Two shares of one name.
    #[error("{0:?} has two shares")]
    Twice(String),
    /// Shares of more than the whole.
    #[error("the shares add up to {0} %")]
    Shares(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_in_order_and_not_zero() {
        let check = |min, initial, max| Bounds { min, initial, max }.check().is_ok();
        assert!(check(1, 1, 1));
        assert!(check(1, 20, LIMIT_MAX));
        for (min, initial, max) in
            [(0, 1, 2), (3, 2, 4), (1, 5, 4), (1, 1, LIMIT_MAX + 1), (2, 2, 1)]
        {
            assert!(!check(min, initial, max), "{min} {initial} {max}");
        }
    }

    #[test]
    fn a_time_that_divides_is_never_zero() {
        assert!(nanos(Duration::ZERO) >= 1.0);
        assert!(nanos(Duration::MAX).is_finite());
    }
}
