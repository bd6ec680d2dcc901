//! Wall time for calendar windows, which alone look at it.
//!
//! A decision is told the tick and nothing else. How far wall time is ahead of it is kept here and
//! brought up to date about once a second, so a step of the wall clock is seen that much later, and
//! between two steps nothing is lost: both clocks run at the same pace.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{
    Tick,
    sync::{AtomicU64, Ordering},
};

/// How far wall time is ahead of the tick, in nanoseconds, as a number that may be negative.
#[derive(Debug, Default)]
pub(crate) struct Wall(AtomicU64);

impl Wall {
    /// Takes note of what the wall clock says at `now`. Before 1970 counts as 1970.
    pub(crate) fn set(&self, now: Tick, wall: SystemTime) {
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed, here and below: the number is the whole state.
        self.0.store(wall.wrapping_sub(now.0), Ordering::Relaxed);
    }

    /// Wall time at `now`.
    pub(crate) fn at(&self, now: Tick) -> Tick {
        let ahead = self.0.load(Ordering::Relaxed).cast_signed();
        Tick(now.0.saturating_add_signed(ahead))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn wall_time_runs_with_the_tick_from_where_it_was_seen() {
        let wall = Wall::default();
        assert_eq!(wall.at(Tick(7)), Tick(7), "never told: the same");
        for ms in [1_000, 9_000] {
            wall.set(Tick::from_ms(5_000), UNIX_EPOCH + Duration::from_millis(ms));
            assert_eq!(wall.at(Tick::from_ms(5_003)), Tick::from_ms(ms + 3));
        }
        wall.set(Tick::from_ms(5_000), UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(wall.at(Tick::from_ms(4_000)), Tick(0), "before 1970 is 1970");
    }
}
