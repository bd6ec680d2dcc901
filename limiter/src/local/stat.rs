//! What one node has counted: the last second in two buckets, the last minute in seconds, and the
//! calls in progress (`StatisticNode.java`).
//!
//! ```text
//!            last    head     next
//!   ──┬───────┬───────┬───────┐
//!     │ ½ s   │ ½ s   ┆ booked┆        second window: last + head
//!   ──┴───────┴───────┴───────┘
//!      └──> seconds of the minute, when a bucket ends
//! ```
//!
//! An event touches the head bucket only: the minute's seconds are the sums of two buckets each,
//! and get them when a bucket ends. A tick before the head bucket counts as one in it, so a clock
//! that steps back neither loses nor forgets anything (Java writes into buckets that it throws
//! away).

mod counts;
mod minute;
#[cfg(test)]
mod model;
mod reading;

use std::time::Duration;

use counts::Counts;
use minute::Minute;

pub use minute::Second;
pub use reading::NodeReading;

use crate::Tick;

/// `INTERVAL` / `SAMPLE_COUNT` of Sentinel: 1000 ms in two buckets.
const BUCKET_NS: u64 = 500_000_000;
/// Buckets a second, by which rates of one bucket are multiplied.
const BUCKETS: u64 = 2;
const SECOND_NS: u64 = 1_000_000_000;
/// `statisticMaxRt`: what the smallest response time starts from.
const MIN_RT_START: u64 = 5_000;

/// The counters of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stat {
    /// End of the head bucket in nanoseconds; 0 before the first tick.
    head_end: u64,
    head: Counts,
    /// The bucket before.
    last: Counts,
    /// Tokens that calls have borrowed from the bucket that comes next.
    booked: u64,
    /// Calls in progress.
    threads: i64,
    /// Made when the first bucket ends, so a node that is used once stays small, and given back
    /// when nothing was counted for a minute.
    minute: Option<Box<Minute>>,
}

/// The bucket that something was counted in, to take it back from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketId(u64);

impl Stat {
    /// Brings the windows to `now`. Must come first in whatever looks at them.
    #[inline]
    pub(crate) fn advance(&mut self, now: Tick) {
        if now.0 >= self.head_end {
            self.turn_over(now);
        }
    }

    #[inline(never)]
    fn turn_over(&mut self, now: Tick) {
        let steps = (now.0 / BUCKET_NS + 1).saturating_sub(self.head_end.div_ceil(BUCKET_NS));
        let ended = std::mem::take(&mut self.head);
        if ended.is_counted() {
            let second = self.second();
            self.minute.get_or_insert_default().add(second, &ended);
        }
        // A booking is for the very next bucket, wherever the head is by now.
        let borrowed = Counts::borrowed(std::mem::take(&mut self.booked));
        (self.last, self.head) = match steps {
            0 | 1 => (ended, borrowed),
            2 => (borrowed, Counts::default()),
            _ => <(Counts, Counts)>::default(),
        };
        self.head_end = (now.0 / BUCKET_NS + 1).saturating_mul(BUCKET_NS);
    }

    /// The second that the head bucket lies in, since the epoch.
    fn second(&self) -> u64 {
        self.head_end.saturating_sub(1) / SECOND_NS
    }

    /// Tokens that passed in the second window.
    #[inline]
    pub(crate) fn passed(&self) -> u64 {
        self.last.pass + self.head.pass
    }

    /// Tokens that passed in the whole second before that of the head bucket.
    pub(crate) fn previous_pass(&self) -> u64 {
        self.previous().map_or(0, |second| second.pass)
    }

    fn previous(&self) -> Option<&Second> {
        self.minute.as_ref()?.get(self.second().checked_sub(1)?)
    }

    /// Calls in progress.
    #[inline]
    pub(crate) fn threads(&self) -> i64 {
        self.threads
    }

    /// Counts `n` tokens that pass and a call that begins, and says where.
    #[inline]
    pub(crate) fn take(&mut self, n: u64) -> BucketId {
        self.head.pass += n;
        self.threads += 1;
        BucketId(self.head_end)
    }

    /// Counts a call that begins with tokens that are counted already.
    pub(crate) fn begin(&mut self) {
        self.threads += 1;
    }

    /// Counts the end of a call whose [`Self::take`] or [`Self::begin`] is undone.
    pub(crate) fn end(&mut self) {
        self.threads -= 1;
    }

    /// Takes back `n` tokens from where [`Self::take`] counted them.
    pub(crate) fn untake(&mut self, from: BucketId, n: u64) {
        if from.0 == self.head_end {
            self.head.pass = self.head.pass.saturating_sub(n);
            return;
        }
        if from.0.saturating_add(BUCKET_NS) == self.head_end {
            self.last.pass = self.last.pass.saturating_sub(n);
        }
        let second = from.0.saturating_sub(1) / SECOND_NS;
        if let Some(second) = self.minute.as_mut().and_then(|minute| minute.get_mut(second)) {
            second.pass = second.pass.saturating_sub(n);
        }
    }

    /// Counts `n` refused tokens.
    #[inline]
    pub(crate) fn block(&mut self, n: u64) {
        self.head.block += n;
    }

    /// Counts a call that ends after `rt_ms`, with the `n` tokens of its exit.
    #[inline]
    pub(crate) fn complete(&mut self, n: u64, rt_ms: u64, is_error: bool) {
        self.threads -= 1;
        self.head.complete(n, rt_ms, is_error);
    }

    /// Whether `n` more tokens keep the window that ends with the *next* bucket within `count`.
    /// Without a booking there, that window is no concern of a call that passes now.
    #[inline]
    pub(crate) fn spares_booked(&self, n: u64, count: f64) -> bool {
        self.booked == 0 || as_f64(self.head.pass + self.booked + n) <= count
    }

    /// How many more tokens may pass in the second window, and in the one that ends with the next
    /// bucket if something is booked there.
    pub(crate) fn room(&self, count: f64) -> f64 {
        let next = if self.booked == 0 { 0 } else { self.head.pass + self.booked };
        count - as_f64(self.passed().max(next))
    }

    /// What will count as passed in the second window from each of the ticks on at which that
    /// changes, if nothing comes.
    pub(crate) fn coming(&self) -> [(Tick, u64); 3] {
        let at = |buckets: u64| Tick(self.head_end.saturating_add(buckets * BUCKET_NS));
        [(at(0), self.head.pass + self.booked), (at(1), self.booked), (at(2), 0)]
    }

    /// Borrows `n` tokens from the next bucket if the window that ends there allows them, and
    /// gives the time until it begins (`StatisticNode.tryOccupyNext`). At the exact start of a
    /// bucket the wait would be a whole one, which is Sentinel's time-out.
    pub(crate) fn borrow(&mut self, now: Tick, n: u64, count: f64) -> Option<Duration> {
        let next = self.head.pass + self.booked + n;
        if as_f64(self.booked) >= count || as_f64(next) > count {
            return None;
        }
        let wait = Tick(self.head_end).since(now);
        if wait >= Duration::from_nanos(BUCKET_NS) {
            return None;
        }
        self.booked += n;
        self.head.occupied += n;
        Some(wait)
    }

    /// Whether a limit may see anything of it: tokens of the last second or of the next bucket, or
    /// calls in progress.
    pub(crate) fn is_seen(&mut self, now: Tick) -> bool {
        self.advance(now);
        self.passed() > 0 || self.booked > 0 || self.threads != 0
    }

    /// Gives back the minute if nothing is in it at `now`. True when nothing was counted for a
    /// minute, so that a new node would show and decide the same.
    pub(crate) fn rest(&mut self, now: Tick) -> bool {
        self.advance(now);
        let second = self.second();
        self.minute.take_if(|minute| minute.is_over(second));
        let nothing = Counts::default();
        self.minute.is_none()
            && (self.head, self.last) == (nothing, nothing)
            && (self.booked, self.threads) == (0, 0)
    }

    /// Adds the last second of another node, and its calls in progress. It was brought to the tick
    /// of this one, or has seen a later one, to which this one goes.
    pub(crate) fn add_second(&mut self, other: &Self) {
        self.advance(Tick(other.head_end.saturating_sub(1)));
        self.head.add(&other.head);
        self.last.add(&other.last);
        self.booked += other.booked;
        self.threads += other.threads;
    }

    /// As [`Self::add_second`], with the minute.
    pub(crate) fn add(&mut self, other: &Self) {
        self.add_second(other);
        if let Some(minute) = &other.minute {
            self.minute.get_or_insert_default().add_all(minute);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are exact up to 2^53, as thresholds are")]
#[inline]
pub(crate) const fn as_f64(tokens: u64) -> f64 {
    tokens as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_700_000_000_000;

    fn at(stat: &mut Stat, ms: u64) -> Tick {
        let now = Tick::from_ms(T + ms);
        stat.advance(now);
        now
    }

    #[test]
    fn the_window_is_the_bucket_of_now_and_the_one_before() {
        let mut stat = Stat::default();
        at(&mut stat, 0);
        stat.take(5);
        for (ms, passed) in [(499, 5), (500, 5), (999, 5), (1_000, 0)] {
            at(&mut stat, ms);
            assert_eq!(stat.passed(), passed, "{ms}");
        }
        assert_eq!(stat.previous_pass(), 5);
    }

    #[test]
    fn after_a_pause_nothing_is_left_but_the_minute() {
        let mut stat = Stat::default();
        at(&mut stat, 900);
        stat.take(5);
        at(&mut stat, 1_900);
        assert_eq!((stat.passed(), stat.previous_pass()), (0, 5));
        at(&mut stat, 2_000);
        assert_eq!(stat.previous_pass(), 0);
        assert_eq!(stat.reading().total_pass, 5);
        at(&mut stat, 59_999);
        assert_eq!(stat.reading().total_pass, 5);
        at(&mut stat, 60_000);
        assert_eq!(stat.reading().total_pass, 0);
    }

    #[test]
    fn a_clock_that_steps_back_loses_nothing_and_reopens_nothing() {
        let mut stat = Stat::default();
        at(&mut stat, 1_000);
        stat.take(3);
        at(&mut stat, 300);
        stat.block(4);
        let reading = stat.reading();
        assert_eq!((reading.pass_qps, reading.block_qps), (3.0, 4.0));
    }

    #[test]
    fn a_node_rests_when_nothing_of_it_counts() {
        let mut stat = Stat::default();
        assert!(stat.rest(Tick::from_ms(T)));
        let now = at(&mut stat, 600);
        stat.take(1);
        assert!(!stat.rest(now));
        stat.complete(1, 0, true);
        assert!(stat.borrow(now, 1, 2.0).is_some());
        assert!(!stat.rest(Tick::from_ms(T + 59_999)) && stat.minute.is_some());
        assert!(stat.rest(Tick::from_ms(T + 60_000)) && stat.minute.is_none());
        stat.begin();
        assert!(!stat.rest(Tick::from_ms(T + 999_000)), "it is called");
    }

    #[test]
    fn the_end_of_time_is_a_bucket_like_others() {
        let mut stat = Stat::default();
        stat.advance(Tick(u64::MAX));
        stat.take(1);
        stat.advance(Tick(u64::MAX));
        assert_eq!(stat.reading().threads, 1);
    }

    #[test]
    fn what_is_borrowed_is_in_the_minute_at_once_and_in_the_window_when_its_bucket_comes() {
        // E07.
        let mut stat = Stat::default();
        at(&mut stat, 100);
        stat.take(2);
        let now = at(&mut stat, 600);
        assert_eq!(stat.borrow(now, 1, 2.0), Some(Duration::from_millis(400)));
        let reading = stat.reading();
        assert_eq!((reading.pass_qps, reading.total_pass, reading.waiting), (2.0, 3, 1));
        for (ms, passed, total) in [(1_000, 1.0, 3), (1_500, 1.0, 3), (2_000, 0.0, 3)] {
            at(&mut stat, ms);
            let reading = stat.reading();
            assert_eq!((reading.pass_qps, reading.total_pass), (passed, total), "{ms}");
        }
    }

    #[test]
    fn a_booking_counts_in_its_own_bucket_when_nobody_came_meanwhile() {
        let mut stat = Stat::default();
        let now = at(&mut stat, 600);
        assert!(stat.borrow(now, 2, 2.0).is_some());
        at(&mut stat, 1_700);
        assert_eq!(stat.passed(), 2, "booked for 1000, so in the window of 1000 to 1999");
        at(&mut stat, 2_000);
        assert_eq!(stat.passed(), 0);
    }

    #[test]
    fn a_take_is_taken_back_where_it_was() {
        for later in [0, 500, 1_000] {
            let mut stat = Stat::default();
            at(&mut stat, 0);
            stat.take(1);
            let bucket = stat.take(3);
            at(&mut stat, later);
            stat.untake(bucket, 3);
            stat.end();
            let reading = stat.reading();
            assert_eq!((reading.total_pass, reading.threads), (1, 1), "{later}");
            assert_eq!(stat.passed(), u64::from(later < 1_000), "{later}");
        }
    }
}
