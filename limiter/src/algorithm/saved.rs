//! States as plain data, for a snapshot on disk.

mod joined;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Tick, window::SavedRing};

/// What one key has used, as [`super::Algorithm::save`] writes it and
/// [`super::Algorithm::restore`] reads it.
///
/// Times are nanoseconds since the epoch. Whatever the units of a state depend on stands beside
/// them, so that it keeps its meaning when the numbers of the rule are others by then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Saved {
    /// Of a [`super::SlidingWindow`].
    SlidingWindow(SavedRing),
    /// Of a [`super::SlidingWarmUp`].
    SlidingWarmUp {
        /// The tokens of the window.
        ring: SavedRing,
        /// How warm it is.
        reserve: SavedReserve,
        /// Tokens that passed in the second of the reserve.
        passed: u64,
    },
    /// Of a [`super::FixedWindow`].
    FixedWindow {
        /// Length of the window.
        window_ns: u64,
        /// When the window began.
        start: u64,
        /// Tokens used since.
        used: u64,
    },
    /// Of a [`super::CalendarWindow`].
    CalendarWindow {
        /// When the period began, in wall time.
        start: u64,
        /// The first instant after it; 0 if there was no period yet.
        end: u64,
        /// Tokens used in the period.
        used: u64,
    },
    /// Of a [`super::SlidingCounter`].
    SlidingCounter {
        /// Length of the window.
        window_ns: u64,
        /// The last tick seen.
        last: u64,
        /// Tokens of the window before that of `last`.
        previous: u64,
        /// Tokens of the window of `last`.
        current: u64,
    },
    /// Of a [`super::SlidingLog`].
    SlidingLog {
        /// Length of the window.
        window_ns: u64,
        /// The last tick seen.
        last: u64,
        /// Tokens over the limit, which leave with the oldest of `taken` at the latest.
        over: u64,
        /// When tokens were taken and how many, oldest first.
        taken: Vec<(u64, u64)>,
    },
    /// Of a [`super::TokenBucket`], a [`super::LeakyMeter`] or a [`super::Gcra`], which are the
    /// same bucket.
    Bucket {
        /// Units of a token.
        per_token: u128,
        /// The last tick seen.
        last: u64,
        /// Units that were used at that tick.
        units: u128,
    },
    /// Of a [`super::LeakyQueue`].
    LeakyQueue(SavedLine),
    /// Of a [`super::WarmUp`].
    WarmUp {
        /// How warm it is.
        reserve: SavedReserve,
        /// Tokens that passed in the second of the reserve.
        passed: u64,
    },
    /// Of a [`super::WarmUpPacing`].
    WarmUpPacing {
        /// How warm it is.
        reserve: SavedReserve,
        /// Tokens that were booked in the second of the reserve.
        passed: u64,
        /// The callers in line.
        line: SavedLine,
    },
    /// Of a [`super::SmoothBursty`].
    SmoothBursty {
        /// Units that a nanosecond works off.
        per_ns: u64,
        /// Units of a full storage.
        storage: u128,
        /// The last tick seen.
        last: u64,
        /// Units missing from a full storage at that tick, debt included.
        units: u128,
    },
    /// Of a [`super::SmoothWarmingUp`].
    SmoothWarmingUp {
        /// Units that a nanosecond works off.
        per_ns: u64,
        /// Size of the storage.
        storage: u128,
        /// The last tick seen.
        last: u64,
        /// Units from then until the next call may go.
        ahead: u128,
        /// What is spent of the storage.
        spent: u128,
    },
}

impl Saved {
    /// Bytes that it allocates.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::SlidingWindow(ring) | Self::SlidingWarmUp { ring, .. } => {
                ring.tokens.capacity() * size_of::<(u32, u64)>()
            }
            Self::SlidingLog { taken, .. } => taken.capacity() * size_of::<(u64, u64)>(),
            _ => 0,
        }
    }

    /// When it was used last, as exactly as its kind tells.
    pub(crate) fn seen(&self) -> u64 {
        match self {
            Self::SlidingWindow(ring) | Self::SlidingWarmUp { ring, .. } => ring.head_end,
            Self::FixedWindow { start, .. } | Self::CalendarWindow { start, .. } => *start,
            Self::SlidingCounter { last, .. }
            | Self::SlidingLog { last, .. }
            | Self::Bucket { last, .. }
            | Self::SmoothBursty { last, .. }
            | Self::SmoothWarmingUp { last, .. } => *last,
            Self::LeakyQueue(line) | Self::WarmUpPacing { line, .. } => line.seen,
            Self::WarmUp { reserve, .. } => reserve.end,
        }
    }
}

/// The callers of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedLine {
    /// Units that a nanosecond works off.
    pub per_ns: u64,
    /// The last tick seen.
    pub seen: u64,
    /// Units from the epoch to the turn of the last caller; `None` if there was none.
    pub turn: Option<u128>,
}

/// The reserve of a service that warms up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedReserve {
    /// Most tokens that it holds: then the service is cold.
    pub max: u64,
    /// End of the second it was brought to; 0 before the first.
    pub end: u64,
    /// Tokens in it.
    pub tokens: u64,
    /// The fraction of a token that belongs to it, times 2^64.
    pub fraction: u64,
}

/// A time in nanoseconds; longer ones than ticks can hold are as long as those.
pub(super) fn whole_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The tick on a clock that is `behind`.
pub(super) fn back(tick: u64, behind: Duration) -> Tick {
    Tick(tick.saturating_sub(whole_ns(behind)))
}

/// The tick on a clock that is `behind`, moved by whole windows only: as far into its window as
/// it was, and not earlier than it should be.
pub(super) fn back_by_windows(tick: u64, window_ns: u64, behind: Duration) -> Tick {
    let windows = (whole_ns(behind) / window_ns).min(tick / window_ns);
    Tick(tick - windows * window_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_move_by_whole_ones_and_not_before_the_epoch() {
        let moved = |tick, behind| back_by_windows(tick, 10, Duration::from_nanos(behind)).0;
        assert_eq!([0, 9, 10, 19, 20].map(|behind| moved(57, behind)), [57, 57, 47, 47, 37]);
        assert_eq!(moved(57, 60), 7);
        assert_eq!(back_by_windows(u64::MAX, 1, Duration::MAX), Tick(0));
        assert_eq!(back(57, Duration::from_nanos(58)), Tick(0));
    }
}
