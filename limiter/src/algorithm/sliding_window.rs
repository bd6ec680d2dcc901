//! Sliding window: Sentinel's ring of buckets, by itself.

use std::time::Duration;

use super::{
    Algorithm, Invalid, Saved, Verdict,
    rate::{as_f64, check_count, whole},
};
use crate::{Tick, WindowShape, window::Ring};

/// Counts tokens in a ring of buckets that are aligned to the epoch; the window at a tick is the
/// bucket that holds it and those before it.
///
/// *Formula* (`ClusterFlowChecker.java`): `sum(buckets of the window) / seconds + n <= count`, or
/// without the division for a count per window, from left to right in doubles. *Burst*: the count
/// at once, and again when its bucket leaves the window, up to a bucket early. *Memory*: 128
/// bytes, and 8 a bucket where there are more than ten. *Cost*: a comparison, and a division for
/// an average over any other time than a second; the buckets one by one when it refuses. *Exact*:
/// every token counts, up to 2^53; times are cut to buckets.
///
/// It is what flow rules use by default, without their bookings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlidingWindow {
    count: f64,
    shape: WindowShape,
    /// What a sum is divided by before it is compared.
    divisor: f64,
}

/// What a count counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Tokens a second on average over the window, as Sentinel computes it: the tokens of a call
    /// itself are not divided.
    Second,
    /// Tokens in the window.
    Window,
}

/// What one key has used of its window: 128 bytes, and more on the heap with more than ten buckets.
#[derive(Clone, Debug, Default)]
pub struct SlidingWindowState(Ring);

impl SlidingWindow {
    /// `count` (0 ..= 2^53, fractions allowed) tokens per second or window.
    ///
    /// # Errors
    ///
    /// [`Invalid::Count`].
    pub fn new(count: f64, per: Per, shape: WindowShape) -> Result<Self, Invalid> {
        let divisor = match per {
            Per::Second => shape.interval_sec(),
            Per::Window => 1.0,
        };
        Ok(Self { count: check_count(count)?, shape, divisor })
    }

    pub(super) const fn shape(&self) -> WindowShape {
        self.shape
    }

    /// The whole tokens of a count that no average is compared with.
    pub(super) fn most(&self) -> Option<u64> {
        (self.divisor == 1.0).then(|| whole(self.count))
    }

    /// Tokens left when `n` are taken on top of `sum`; negative if they do not fit.
    #[inline]
    pub(super) fn room(&self, sum: u64, n: u64) -> f64 {
        // The usual window is a second long: dividing by 1 changes nothing but takes its time.
        let sum = if self.divisor == 1.0 { as_f64(sum) } else { as_f64(sum) / self.divisor };
        self.count - sum - as_f64(n)
    }

    /// Refuses `n` tokens until the window holds few enough, of those that come `later`.
    fn refuse(&self, mut later: impl Iterator<Item = (Tick, u64)>, now: Tick, n: u64) -> Verdict {
        let due = later.find(|(_, sum)| self.room(*sum, n) >= 0.0);
        Verdict::Block { retry: due.map(|(at, _)| at.since(now)) }
    }
}

impl Algorithm for SlidingWindow {
    type State = SlidingWindowState;

    #[inline]
    fn take(
        &self,
        SlidingWindowState(ring): &mut SlidingWindowState,
        now: Tick,
        n: u64,
    ) -> Verdict {
        ring.advance(self.shape, now);
        let room = self.room(ring.sum(), n);
        if room >= 0.0 {
            ring.charge(n);
            return Verdict::Pass { remaining: whole(room) };
        }
        self.refuse(ring.later(self.shape), ring.start(self.shape).max(now), n)
    }

    fn peek(&self, SlidingWindowState(ring): &SlidingWindowState, now: Tick, n: u64) -> Verdict {
        let (sum, later) = ring.at(self.shape, now);
        let room = self.room(sum, n);
        if room >= 0.0 {
            return Verdict::Pass { remaining: whole(room) };
        }
        self.refuse(later, ring.start(self.shape).max(now), n)
    }

    /// The oldest tokens of the window are forgotten.
    fn give_back(&self, SlidingWindowState(ring): &mut SlidingWindowState, now: Tick, n: u64) {
        ring.advance(self.shape, now);
        ring.give_back(self.shape, now, ring.oldest(self.shape), n);
    }

    fn give_back_since(&self, state: &mut SlidingWindowState, now: Tick, since: Tick, n: u64) {
        state.0.give_back(self.shape, now, since, n);
    }

    fn charge(&self, SlidingWindowState(ring): &mut SlidingWindowState, now: Tick, n: u64) {
        ring.advance(self.shape, now);
        ring.charge(n);
    }

    fn used(&self, state: &SlidingWindowState, now: Tick) -> u64 {
        state.0.at(self.shape, now).0
    }

    fn is_idle(&self, state: &SlidingWindowState, now: Tick) -> bool {
        self.used(state, now) == 0
    }

    fn save(&self, state: &SlidingWindowState, _now: Tick) -> Saved {
        Saved::SlidingWindow(state.0.save(self.shape))
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<SlidingWindowState> {
        let Saved::SlidingWindow(ring) = saved else { return None };
        Ring::restore(ring, self.shape, behind).map(SlidingWindowState)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, Model, SECOND, admitted, at, ms, pass, retry};

    fn window(count: f64, per: Per, interval_ms: u64, buckets: u32) -> SlidingWindow {
        SlidingWindow::new(count, per, WindowShape::new(interval_ms, buckets).unwrap()).unwrap()
    }

    fn a_second(count: f64) -> SlidingWindow {
        window(count, Per::Second, 1_000, 10)
    }

    #[test]
    fn the_state_is_128_bytes() {
        assert_eq!(size_of::<SlidingWindowState>(), 128);
    }

    #[test]
    fn five_per_2_s_of_3_pass_3_then_in_a_new_window_of_14_pass_5_and_not_6() {
        let (five, mut state) = (window(5.0, Per::Window, 2_000, 20), Default::default());
        assert_eq!(admitted(&five, &mut state, at(0), 3), 3);
        assert_eq!(admitted(&five, &mut state, at(2_000), 14), 5);
    }

    #[test]
    fn a_token_leaves_with_its_bucket_and_the_wait_ends_there() {
        let (five, mut state) = (a_second(5.0), Default::default());
        assert_eq!(five.take(&mut state, at(50), 3), pass(2));
        assert_eq!(five.take(&mut state, at(350), 2), pass(0));
        assert_eq!(five.take(&mut state, at(420), 1), retry(ms(580)));
        assert_eq!(five.take(&mut state, at(420), 3), retry(ms(580)));
        assert_eq!(five.take(&mut state, at(420), 4), retry(ms(880)));
        assert_eq!(five.take(&mut state, at(420), 6), Verdict::NEVER);
        assert_eq!(five.take(&mut state, at(0), 1), retry(ms(600)), "from the bucket of the last");
        assert_eq!(five.take(&mut state, at(1_000), 3), pass(0));
    }

    #[test]
    fn an_average_does_not_divide_the_tokens_of_the_call() {
        // As Sentinel: 2 a second over 3 s let 4 ones pass, and one more.
        let (two, mut state) = (window(2.0, Per::Second, 3_000, 3), Default::default());
        assert_eq!(admitted(&two, &mut state, at(0), 9), 4);
        assert_eq!(two.take(&mut state, at(0), 1), retry(SECOND * 3));
        let (two, mut state) = (window(2.0, Per::Window, 3_000, 3), Default::default());
        assert_eq!(admitted(&two, &mut state, at(0), 9), 2);
    }

    #[test]
    fn the_edges_of_counts_and_of_time() {
        let max = 9_007_199_254_740_992.0;
        let (most, mut state) =
            (window(max, Per::Window, 366 * 86_400_000, 1_000), Default::default());
        assert_eq!(most.take(&mut state, Tick(0), 1 << 53), pass(0));
        let bucket = Duration::from_secs(366 * 86_400) / 1_000;
        assert_eq!(
            most.take(&mut state, Tick(1), 1),
            retry(bucket * 1_000 - Duration::from_nanos(1))
        );
        assert_eq!(most.take(&mut state, Tick(u64::MAX), 1 << 53), pass(0));
        assert!(!most.take(&mut state, Tick(u64::MAX), 1).is_admitted());
        assert_eq!(a_second(0.0).take(&mut Default::default(), at(0), 1), Verdict::NEVER);
        assert_eq!(a_second(0.9).take(&mut Default::default(), at(0), 1), Verdict::NEVER);
        assert_eq!(
            SlidingWindow::new(-1.0, Per::Window, WindowShape::SECOND),
            Err(Invalid::Count(-1.0))
        );
    }

    /// Tokens and their buckets.
    struct Listed {
        limit: u64,
        bucket_ns: u64,
        buckets: u64,
        taken: Vec<(u64, u64)>,
    }

    impl Listed {
        fn sum(&self, now: u64) -> u64 {
            let end = now / self.bucket_ns;
            let is_in = |bucket: u64| bucket + self.buckets > end;
            self.taken.iter().filter(|(bucket, _)| is_in(*bucket)).map(|(_, n)| n).sum()
        }
    }

    impl Model for Listed {
        fn take(&mut self, now: u64, n: u64) -> Verdict {
            match self.limit.checked_sub(self.sum(now) + n) {
                Some(remaining) => {
                    self.charge(now, n);
                    pass(remaining)
                }
                None => Verdict::NEVER,
            }
        }

        fn give_back(&mut self, now: u64, mut n: u64) {
            let end = now / self.bucket_ns;
            for (bucket, tokens) in &mut self.taken {
                let gone = if *bucket + self.buckets > end { n.min(*tokens) } else { 0 };
                (*tokens, n) = (*tokens - gone, n - gone);
            }
        }

        fn charge(&mut self, now: u64, n: u64) {
            self.taken.push((now / self.bucket_ns, n));
        }

        fn used(&mut self, now: u64) -> u64 {
            self.sum(now)
        }
    }

    proptest! {
        #[test]
        fn it_counts_as_a_list_of_tokens_does(
            (limit, buckets, bucket_ms, steps) in (0_u32..20, 1_u32..13, 1_u64..200)
                .prop_flat_map(|(limit, buckets, bucket_ms)| {
                    let steps = suite::steps(ms(bucket_ms * u64::from(buckets)), 1e6, u64::from(limit) + 1);
                    (Just(limit), Just(buckets), Just(bucket_ms), steps)
                }),
        ) {
            let interval_ms = bucket_ms * u64::from(buckets);
            let window = window(f64::from(limit), Per::Window, interval_ms, buckets);
            let mut model = Listed {
                limit: limit.into(),
                bucket_ns: bucket_ms * 1_000_000,
                buckets: buckets.into(),
                taken: Vec::new(),
            };
            suite::walk(&window, &mut model, &steps, u64::MAX)?;
        }
    }
}
