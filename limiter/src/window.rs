//! Sliding windows: Sentinel's `LeapArray` as a ring of buckets aligned to the epoch.
//!
//! ```text
//!        oldest                    head   next
//!  ──┬──────┬──────┬─── … ──┬──────┬──────┐
//!    │  2   │  0   │        │  4   │  1   ┆ 3 booked ┆
//!  ──┴──────┴──────┴─── … ──┴──────┴──────┘
//!    └────────── sum: buckets ─────┘
//! ```
//!
//! The window at a tick is the bucket that holds the tick and the `buckets - 1` before it
//! (`LeapArray.java`, `values` after `currentWindow`).

mod counts;
mod ring;

pub(crate) use ring::Ring;
pub use ring::SavedRing;

/// How a window is cut: its length and the number of buckets in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowShape {
    interval_ms: u64,
    buckets: u32,
}

/// Most buckets that a window may have: the cost of a turn-over after a pause is proportional.
pub const BUCKETS_MAX: u32 = 1_000;

/// Longest window: 366 days, so that a leap year fits and ticks cannot overflow.
pub const INTERVAL_MS_MAX: u64 = 366 * 24 * 3_600 * 1_000;

impl WindowShape {
    /// Sentinel's default: one second in ten buckets.
    pub const SECOND: Self = Self { interval_ms: 1_000, buckets: 10 };

    /// A window of `interval_ms` in `buckets` equal parts; `None` when either is zero, the
    /// interval is over [`INTERVAL_MS_MAX`] or the parts are not whole milliseconds.
    #[must_use]
    pub const fn new(interval_ms: u64, buckets: u32) -> Option<Self> {
        if buckets == 0 || interval_ms == 0 || interval_ms > INTERVAL_MS_MAX {
            return None;
        }
        if !interval_ms.is_multiple_of(buckets as u64) {
            return None;
        }
        Some(Self { interval_ms, buckets })
    }

    /// Length of the window in milliseconds.
    #[must_use]
    pub const fn interval_ms(self) -> u64 {
        self.interval_ms
    }

    /// Number of buckets in the window.
    #[must_use]
    pub const fn buckets(self) -> u32 {
        self.buckets
    }

    /// Length of one bucket in nanoseconds.
    pub(crate) const fn bucket_ns(self) -> u64 {
        self.interval_ms / self.buckets as u64 * 1_000_000
    }

    /// Length of the window in seconds, as Sentinel divides by it.
    #[expect(clippy::cast_precision_loss, reason = "at most 3.2e10 ms, exact in f64")]
    pub(crate) const fn interval_sec(self) -> f64 {
        self.interval_ms as f64 / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_needs_whole_buckets() {
        assert_eq!(WindowShape::new(1_000, 10), Some(WindowShape::SECOND));
        assert_eq!(WindowShape::new(1_000, 0), None);
        assert_eq!(WindowShape::new(0, 10), None);
        assert_eq!(WindowShape::new(1_000, 3), None);
        assert_eq!(WindowShape::new(INTERVAL_MS_MAX + 1_000, 1), None);
    }
}
