//! A point in time as every decision sees it.

use std::time::Duration;

/// Nanoseconds since the Unix epoch as the clock saw it at start; monotonic from there, whatever
/// the wall clock does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The tick `ms` milliseconds after the epoch; saturates at the end of time (the year 2554).
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Whole milliseconds since the epoch.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later, since two threads that read
    /// the clock and then a shared timestamp can see them in either order.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The tick `by` later; saturates.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_zero_when_the_other_reading_is_later() {
        assert_eq!(Tick(5).since(Tick(9)), Duration::ZERO);
        assert_eq!(Tick(9).since(Tick(5)), Duration::from_nanos(4));
    }

    #[test]
    fn the_end_of_time_saturates() {
        assert_eq!(Tick::from_ms(u64::MAX), Tick(u64::MAX));
        assert_eq!(Tick(u64::MAX).plus(Duration::MAX), Tick(u64::MAX));
    }
}
