//! What a node's counters say (`StatisticNode.java`, its getters).

use super::{BUCKETS, MIN_RT_START, Second, Stat, as_f64, minute};
use crate::Tick;

/// The readings of one node at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeReading {
    /// Tokens that passed in the last second (the second window).
    pub pass_qps: f64,
    /// Tokens that were refused in it.
    pub block_qps: f64,
    /// Tokens of calls that ended in it.
    pub success_qps: f64,
    /// Tokens of calls that ended with an error in it.
    pub exception_qps: f64,
    /// Tokens that were borrowed in it.
    pub occupied_pass_qps: f64,
    /// Milliseconds of ended calls over their tokens, in it; 0 if none ended.
    pub avg_rt: f64,
    /// The shortest call that ended in it in milliseconds: at least 1; 5000 if none ended, and if
    /// none was shorter.
    pub min_rt: f64,
    /// Twice the tokens of the better half of it, at least 2.
    pub max_success_qps: f64,
    /// Calls in progress.
    pub threads: i64,
    /// Tokens that passed in the last minute, and those that were borrowed.
    pub total_pass: u64,
    /// Tokens that were refused in the last minute.
    pub total_block: u64,
    /// Tokens of calls that ended in the last minute.
    pub total_success: u64,
    /// Tokens of calls that ended with an error in the last minute.
    pub total_exception: u64,
    /// Tokens that passed in the whole second before this one.
    pub previous_pass: u64,
    /// Tokens that were refused in the whole second before this one.
    pub previous_block: u64,
    /// Tokens that are borrowed from the next half second.
    pub waiting: u64,
}

impl NodeReading {
    /// Tokens asked for in the last second.
    #[must_use]
    pub fn total_qps(&self) -> f64 {
        self.pass_qps + self.block_qps
    }

    /// Tokens asked for in the last minute.
    #[must_use]
    pub const fn total_request(&self) -> u64 {
        self.total_pass + self.total_block
    }
}

impl Stat {
    /// What the counters say, at the tick that they were brought to.
    pub(crate) fn reading(&self) -> NodeReading {
        let (last, head) = (&self.last, &self.head);
        let success = last.success + head.success;
        let total = minute::sum(self.seconds(), head);
        let previous = self.previous().copied().unwrap_or_default();
        NodeReading {
            pass_qps: as_f64(self.passed()),
            block_qps: as_f64(last.block + head.block),
            success_qps: as_f64(success),
            exception_qps: as_f64(last.exception + head.exception),
            occupied_pass_qps: as_f64(last.occupied + head.occupied),
            avg_rt: self.avg_rt(),
            min_rt: self.min_rt(),
            max_success_qps: self.max_success_qps(),
            threads: self.threads,
            total_pass: total.pass,
            total_block: total.block,
            total_success: total.success,
            total_exception: total.exception,
            previous_pass: previous.pass,
            previous_block: previous.block,
            waiting: self.booked,
        }
    }

    pub(crate) fn avg_rt(&self) -> f64 {
        match self.last.success + self.head.success {
            0 => 0.0,
            success => as_f64(self.last.rt + self.head.rt) / as_f64(success),
        }
    }

    pub(crate) fn min_rt(&self) -> f64 {
        as_f64(self.last.min_rt.min(self.head.min_rt).clamp(1, MIN_RT_START))
    }

    pub(crate) fn max_success_qps(&self) -> f64 {
        as_f64(self.last.success.max(self.head.success).max(1) * BUCKETS)
    }

    /// The seconds that have ended, after the one that holds `since` and before the one that holds
    /// now, in which anything was counted; oldest first (`StatisticNode.java`, `metrics`).
    pub(crate) fn seconds_after(&self, since: Tick) -> Vec<Second> {
        let (after, now) = (since.0 / super::SECOND_NS, self.second());
        let mut ended: Vec<Second> = self.seconds().copied().collect();
        ended.retain(|second| after < second.second && second.second < now);
        ended.sort_unstable_by_key(|second| second.second);
        ended
    }

    fn seconds(&self) -> impl Iterator<Item = &Second> {
        let now = self.second();
        self.minute.iter().flat_map(move |minute| minute.until(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_a_node_that_nobody_used() {
        let reading = Stat::default().reading();
        let unused =
            NodeReading { min_rt: 5_000.0, max_success_qps: 2.0, ..NodeReading::default() };
        assert_eq!(reading, unused);
    }

    #[test]
    fn the_metric_log_gets_each_ended_second_once() {
        let mut stat = Stat::default();
        for ms in [1_000, 1_600, 2_100, 3_000] {
            stat.advance(Tick::from_ms(ms));
            stat.take(1);
            stat.complete(1, 30, false);
        }
        let seconds = stat.seconds_after(Tick::from_ms(500));
        let shape: Vec<_> = seconds.iter().map(|s| (s.second, s.pass, s.rt_for_log())).collect();
        assert_eq!(shape, [(1, 2, 30), (2, 1, 30)]);
        assert_eq!(stat.seconds_after(Tick::from_ms(1_999)).len(), 1);
        assert!(stat.seconds_after(Tick::from_ms(2_000)).is_empty());
    }

    #[test]
    fn a_call_of_several_tokens_dilutes_the_average() {
        // L01.
        let mut stat = Stat::default();
        stat.advance(Tick::from_ms(1_000));
        stat.begin();
        stat.complete(1, 20, false);
        stat.begin();
        stat.complete(2, 50, true);
        let reading = stat.reading();
        assert!((reading.avg_rt - 70.0 / 3.0).abs() < 1e-9);
        assert_eq!((reading.min_rt, reading.max_success_qps), (20.0, 6.0));
        assert_eq!((reading.exception_qps, reading.threads), (2.0, 0));
    }
}
