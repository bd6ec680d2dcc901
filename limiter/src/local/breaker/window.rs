//! The calls that completed in the current window.

use crate::Tick;

/// One aligned window, which is emptied when the next begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    interval_ms: u64,
    /// Windows since the epoch.
    number: u64,
    pub(super) bad: u64,
    pub(super) total: u64,
}

impl Window {
    /// `interval_ms` of 0 is 1.
    pub(super) fn new(interval_ms: u32) -> Self {
        Self { interval_ms: u64::from(interval_ms.max(1)), number: 0, bad: 0, total: 0 }
    }

    /// Counts a call. One whose tick is from an earlier window counts in the current one.
    pub(super) fn count(&mut self, now: Tick, is_bad: bool) {
        let number = now.ms() / self.interval_ms;
        if number > self.number {
            self.number = number;
            self.clear();
        }
        self.bad += u64::from(is_bad);
        self.total += 1;
    }

    /// Whether nothing is in the window of `now`.
    pub(super) fn is_over(&self, now: Tick) -> bool {
        self.total == 0 || now.ms() / self.interval_ms > self.number
    }

    pub(super) fn clear(&mut self) {
        (self.bad, self.total) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(ticks: &[u64]) -> (u64, u64) {
        let mut window = Window::new(1_000);
        for &ms in ticks {
            window.count(Tick::from_ms(ms), ms % 2 == 1);
        }
        (window.bad, window.total)
    }

    #[test]
    fn a_window_begins_at_a_multiple_of_its_length() {
        assert_eq!(counted(&[]), (0, 0));
        assert_eq!(counted(&[0, 1, 999]), (2, 3));
        assert_eq!(counted(&[999, 1_000]), (0, 1));
        assert_eq!(counted(&[1_001, 1_999, 50_000]), (0, 1));
        assert_eq!(counted(&[1_000, 999]), (1, 2), "an older tick counts as the last");
        let mut window = Window::new(1_000);
        assert!(window.is_over(Tick(0)));
        window.count(Tick::from_ms(1_500), false);
        assert!(!window.is_over(Tick::from_ms(1_999)) && window.is_over(Tick::from_ms(2_000)));
    }
}
