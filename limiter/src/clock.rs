//! Where ticks come from. Nothing else in this crate reads a clock: decisions take the tick as an
//! argument, and the edge reads it once per batch of requests.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::Tick;

/// A source of ticks for decisions and of wall time for people and calendars.
pub trait Clock: Debug + Send + Sync {
    /// The tick to decide with: monotonic, and aligned to the epoch as the wall clock stood when
    /// the clock was made.
    fn now(&self) -> Tick;

    /// Wall time now, which may step either way. For what people read and for calendar periods.
    fn wall(&self) -> SystemTime;
}

/// The system's clock: wall time once at start, monotonic from there.
#[derive(Debug, Clone, Copy)]
pub struct MonotonicClock {
    started: Instant,
    /// Nanoseconds since the epoch at `started`.
    origin: u64,
}

impl MonotonicClock {
    /// Reads both clocks once. A wall clock before 1970 counts as 1970.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        Self { started: Instant::now(), origin }
    }
}

impl Clock for MonotonicClock {
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    fn now(&self) -> Tick {
        Tick(self.origin).plus(Instant::now().saturating_duration_since(self.started))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that stands still until it is told to move. Clones of the `Arc` that holds it share it.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that stands at `at`.
    #[must_use]
    pub fn new(at: Tick) -> Self {
        Self(AtomicU64::new(at.0))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().plus(by));
    }

    /// Puts the clock to `at`, which may be earlier.
    pub fn set(&self, at: Tick) {
        // Relaxed: the reading is the whole state; no other memory is published with it.
        self.0.store(at.0, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Tick {
        // Relaxed: as in `set`.
        Tick(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.now().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_starts_at_wall_time_and_never_goes_back() {
        let clock = MonotonicClock::start();
        let wall = clock.wall().duration_since(UNIX_EPOCH).unwrap();
        let first = clock.now();
        assert!(first.since(Tick(0)).abs_diff(wall) < Duration::from_secs(5));
        assert!(clock.now() >= first);
    }

    #[test]
    fn the_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(Tick::from_ms(7));
        assert_eq!(clock.now(), Tick::from_ms(7));
        clock.advance(Duration::from_millis(3));
        assert_eq!(clock.now(), Tick::from_ms(10));
        clock.set(Tick::from_ms(1));
        assert_eq!(clock.now(), Tick::from_ms(1));
        assert_eq!(clock.wall(), UNIX_EPOCH + Duration::from_millis(1));
    }
}
