//! The sliding window, which nearly all rules use: `ClusterFlowChecker.acquireClusterToken`, exact.

use std::time::Duration;

use super::{ledger::Held, limit::Limit};
use crate::{Tick, WindowShape, window::Ring};

/// A window and how much it may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sliding {
    pub(crate) limit: Limit,
    pub(crate) shape: WindowShape,
}

impl Sliding {
    /// Room that `count` plain tokens would leave beside `leased` ones: in this window, and in the
    /// next one when somebody has booked there. Negative when they do not fit.
    #[inline]
    pub(crate) fn room(&self, ring: &Ring, leased: u64, threshold: f64, count: u64) -> f64 {
        let room = self.limit.room(threshold, ring.sum().saturating_add(leased), count);
        // With one bucket the next window begins where this one ends, so they share no token.
        if ring.booked() == 0 || self.shape.buckets() == 1 {
            return room;
        }
        room.min(self.room_next(ring, leased, threshold, count))
    }

    /// Room that `count` more tokens would leave in the window that ends with the next bucket.
    pub(crate) fn room_next(&self, ring: &Ring, leased: u64, threshold: f64, count: u64) -> f64 {
        self.limit.room(threshold, ring.sum_next(self.shape).saturating_add(leased), count)
    }

    /// Whether `count` tokens may be booked for the next bucket, when `ratio` of the threshold may
    /// wait there already.
    pub(crate) fn may_book(
        &self,
        ring: &Ring,
        leased: u64,
        (threshold, ratio): (f64, f64),
        count: u64,
    ) -> bool {
        self.limit.average(ring.booked()) <= ratio * threshold
            && self.room_next(ring, leased, threshold, count) >= 0.0
    }

    /// Time until `count` plain tokens fit if nobody else asks and no lease comes back early;
    /// `None` if they never will.
    pub(crate) fn retry(
        &self,
        used: (&Ring, &[Held]),
        now: Tick,
        threshold: f64,
        count: u64,
    ) -> Option<Duration> {
        self.first(used, now, threshold, count, |ring, leased, at| {
            (self.room(ring, leased, threshold, count) >= 0.0).then_some(at)
        })
    }

    /// Time until `count` tokens can be booked with a wait of `max` at most.
    pub(crate) fn retry_booking(
        &self,
        used: (&Ring, &[Held]),
        now: Tick,
        bounds: (f64, f64),
        count: u64,
        max: Option<Duration>,
    ) -> Option<Duration> {
        // Whoever books waits, be it for a nanosecond.
        if max == Some(Duration::ZERO) {
            return None;
        }
        self.first(used, now, bounds.0, count, |ring, leased, at| {
            if !self.may_book(ring, leased, bounds, count) {
                return None;
            }
            let early = max.map_or(Duration::ZERO, |max| ring.until_next(at).saturating_sub(max));
            Some(at.plus(early))
        })
    }

    /// Goes on in time, from one end of a bucket or a lease to the next, until `found` says when.
    fn first(
        &self,
        (ring, mut leases): (&Ring, &[Held]),
        now: Tick,
        threshold: f64,
        count: u64,
        found: impl Fn(&Ring, u64, Tick) -> Option<Tick>,
    ) -> Option<Duration> {
        if self.limit.room(threshold, 0, count) < 0.0 {
            return None;
        }
        let mut leased = leases.iter().map(|held| u64::from(held.tokens)).sum();
        let (mut ring, mut at) = (ring.clone(), now);
        // Every step ends a lease or a bucket, and when nothing is left the tokens fit.
        loop {
            if let Some(found) = found(&ring, leased, at) {
                return Some(found.since(now));
            }
            let bucket = at.plus(ring.until_next(at));
            let lease = leases.first().map_or(bucket, |held| held.until);
            let is_empty = ring.sum() == 0 && ring.booked() == 0;
            let next = if is_empty { lease } else { bucket.min(lease) };
            if next <= at {
                // The end of time.
                return None;
            }
            at = next;
            while let [held, rest @ ..] = leases
                && held.until <= at
            {
                held.settle(&mut ring, self.shape);
                leased -= u64::from(held.tokens);
                leases = rest;
            }
            ring.advance(self.shape, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::ledger::Ledger, rule, rule::Contents};

    const AT: Tick = Tick::from_ms(5_000);

    fn sliding(count: u32) -> Sliding {
        let text = format!(
            r#"[{{"resource":"a","count":{count},"clusterMode":true,
                "clusterConfig":{{"flowId":1,"thresholdType":1}}}}]"#
        );
        let rules = rule::parse(&text, "t", "n", Contents::Mixed, true).unwrap().rules;
        let config = rules.flow[0].cluster.clone().unwrap();
        Sliding { limit: Limit::new(f64::from(count), &config), shape: config.window }
    }

    fn used(sliding: Sliding, tokens: &[(u64, u64)]) -> Ring {
        let mut ring = Ring::default();
        for (ms, count) in tokens {
            ring.advance(sliding.shape, Tick::from_ms(*ms));
            ring.add(*count);
        }
        ring.advance(sliding.shape, AT);
        ring
    }

    #[test]
    fn tokens_fit_again_when_the_buckets_that_hold_enough_have_left() {
        let ten = sliding(10);
        let ring = used(ten, &[(4_250, 4), (4_830, 6)]);
        let retry = |count| ten.retry((&ring, &[]), AT, 10.0, count);
        assert_eq!(retry(4), Some(Duration::from_millis(200)));
        assert_eq!(retry(5), Some(Duration::from_millis(800)));
        assert_eq!(retry(10), Some(Duration::from_millis(800)));
        assert_eq!(retry(11), None);
    }

    #[test]
    fn a_booking_is_possible_a_bucket_before_and_waits_no_longer_than_it_may() {
        let ten = sliding(10);
        let ring = used(ten, &[(4_250, 4), (4_830, 6)]);
        let retry = |max| {
            let max = Some(Duration::from_millis(max));
            ten.retry_booking((&ring, &[]), AT, (10.0, 1.0), 4, max)
        };
        assert_eq!(retry(100), Some(Duration::from_millis(100)));
        assert_eq!(retry(30), Some(Duration::from_millis(170)));
        assert_eq!(retry(0), None, "whoever books waits");
    }

    #[test]
    fn tokens_on_lease_fit_again_one_window_after_the_lease() {
        let ten = sliding(10);
        let (ring, mut ledger) = (used(ten, &[(4_250, 4)]), Ledger::default());
        ledger.grant(AT, Tick::from_ms(5_330), 6);
        let retry = |count| ten.retry((&ring, ledger.leases()), AT, 10.0, count);
        assert_eq!(retry(4), Some(Duration::from_millis(200)));
        assert_eq!(retry(5), Some(Duration::from_millis(1_300)));
    }
}
