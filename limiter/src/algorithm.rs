//! The classic rate limiting algorithms as state machines: no I/O, no clock, no allocation for a
//! decision, and exact to the nanosecond.
//!
//! Each algorithm is two types. The *parameters* are validated and pre-computed once for a rule
//! and never change; the *state* is small, starts as `Default` and exists once per key. Whoever
//! keeps the states also decides how they are locked.
//!
//! ```
//! use std::time::Duration;
//! use limiter::{Tick, algorithm::{Algorithm, Rate, TokenBucket, Verdict}};
//!
//! let bucket = TokenBucket::new(Rate::new(5.0, Duration::from_secs(1))?, 5)?;
//! let mut state = Default::default();
//! assert_eq!(bucket.take(&mut state, Tick::from_ms(0), 5), Verdict::Pass { remaining: 0 });
//! let retry = Some(Duration::from_millis(200));
//! assert_eq!(bucket.take(&mut state, Tick::from_ms(0), 1), Verdict::Block { retry });
//! # Ok::<(), limiter::algorithm::Invalid>(())
//! ```
//!
//! | algorithm | most in any window | state | a full burst again after |
//! |---|---|---|---|
//! | [`FixedWindow`] | 2 × count, around a border | 16 bytes | the next border |
//! | [`CalendarWindow`] | 2 × count, around a border | 16 bytes | the next period |
//! | [`SlidingCounter`] | just under 2 × count, see there | 24 bytes | one to two windows |
//! | [`SlidingLog`] | count | 40 bytes + 8 a token | one window |
//! | [`TokenBucket`], [`LeakyMeter`], [`Gcra`] | burst + count | 24 bytes | burst / rate |
//! | [`LeakyQueue`] | count + the first call | 24 bytes | no burst: calls wait |
//! | [`WarmUp`] | 2 × the threshold in force | 32 bytes | the next second |
//! | [`WarmUpPacing`] | count + the first call | 56 bytes | no burst: calls wait |
//! | [`SmoothBursty`] | burst + count + the last call | 24 bytes | burst / rate |
//! | [`SmoothWarmingUp`] | count + the last call | 40 bytes | no burst: the next call waits |
//!
//! The sliding window that rules use by default is not here: it is Sentinel's ring of buckets,
//! `window::Ring`, which counts every token exactly but forgets a whole bucket at a time.
//! [`SlidingLog`] forgets each token by itself, [`SlidingCounter`] guesses where in the previous
//! window the tokens were.

mod calendar;
mod calendar_window;
mod exact;
mod fixed_window;
mod gcra;
mod invalid;
mod leaky_meter;
mod leaky_queue;
mod level;
mod line;
mod rate;
mod sliding_counter;
mod sliding_log;
mod smooth_bursty;
mod smooth_warming_up;
#[cfg(test)]
mod suite;
mod token_bucket;
mod verdict;
mod warm_up;
mod warm_up_curve;
mod warm_up_pacing;

pub use calendar::{Calendar, Period, Unit};
pub use calendar_window::{CalendarWindow, CalendarWindowState};
pub use fixed_window::{FixedWindow, FixedWindowState};
pub use gcra::Gcra;
pub use invalid::Invalid;
pub use leaky_meter::LeakyMeter;
pub use leaky_queue::LeakyQueue;
pub use level::Level;
pub use line::Line;
pub use rate::Rate;
pub use sliding_counter::{SlidingCounter, SlidingCounterState};
pub use sliding_log::{SlidingLog, SlidingLogState};
pub use smooth_bursty::SmoothBursty;
pub use smooth_warming_up::{SmoothWarmingUp, SmoothWarmingUpState};
pub use token_bucket::TokenBucket;
pub use verdict::Verdict;
pub use warm_up::{WarmUp, WarmUpState};
pub use warm_up_curve::{Reserve, WarmUpCurve};
pub use warm_up_pacing::{WarmUpPacing, WarmUpPacingState};

use crate::Tick;

/// What every algorithm here can do.
///
/// A tick older than the last one seen counts as the last one, and waits count from that. (Windows
/// with borders store no tick but the border: they decide the same, and count the wait to the
/// border from the tick given, or from the window's start if that is later.)
pub trait Algorithm {
    /// What is kept per key. A default one has never been used.
    type State: Default;

    /// Takes `n` tokens, books them for later, or refuses; check and take are one step.
    fn take(&self, state: &mut Self::State, now: Tick, n: u64) -> Verdict;

    /// What [`Self::take`] would answer; changes nothing.
    fn peek(&self, state: &Self::State, now: Tick, n: u64) -> Verdict;

    /// Gives back `n` tokens that were taken and not used: as many more may pass, never more than
    /// a fresh state allows.
    ///
    /// The tokens are credited at `now`, whenever they were taken. Who gives back tokens that a
    /// window has forgotten, or a bucket has refilled, since they were taken, lets others take
    /// them twice.
    fn give_back(&self, state: &mut Self::State, now: Tick, n: u64);

    /// Whether the state may be forgotten: at `now` and later it decides as a fresh one would.
    fn is_idle(&self, state: &Self::State, now: Tick) -> bool;

    /// Brings a state that was made under `old` to these parameters, when a rule's numbers change:
    /// tokens that were used stay used. The default leaves the state as it is, which is right for
    /// states that hold plain counts; other lengths of window need a fresh state.
    fn adopt(&self, state: &mut Self::State, old: &Self, now: Tick) {
        let _ = (state, old, now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const YEAR: Duration = Duration::from_secs(366 * 24 * 3_600);

    /// Any calls at any ticks: nothing overflows, a peek agrees, and parameters can be changed.
    fn survives<A: Algorithm>(calls: &[(u64, u64, u8)], one: &A, other: &A) {
        let mut state = A::State::default();
        for (now, n, what) in calls {
            let (now, n) = (Tick(*now), *n);
            match what % 8 {
                0 => one.give_back(&mut state, now, n),
                1 => {
                    other.adopt(&mut state, one, now);
                    other.take(&mut state, now, n);
                    one.adopt(&mut state, other, now);
                }
                _ => {
                    one.is_idle(&state, now);
                    let peek = one.peek(&state, now, n);
                    assert_eq!(one.take(&mut state, now, n), peek);
                }
            }
        }
    }

    fn calls() -> impl Strategy<Value = Vec<(u64, u64, u8)>> {
        let number =
            || prop_oneof![any::<u64>(), 0_u64..4, u64::MAX - 3..=u64::MAX, 0_u64..1 << 53];
        prop::collection::vec((number(), number(), any::<u8>()), 1..40)
    }

    fn counts() -> impl Strategy<Value = f64> {
        let edges = vec![0.0, 0.2, 1.0, 2.5, 1e-9, 1e6 + 0.1, 9_007_199_254_740_992.0];
        prop_oneof![prop::sample::select(edges), 0.0..100.0]
    }

    proptest! {
        #[test]
        fn no_call_overflows_a_bucket(
            calls in calls(),
            counts in (counts(), counts()),
            bursts in (0_u64..100, any::<u64>()),
            window in prop::sample::select(vec![Duration::from_millis(1), YEAR]),
        ) {
            // What is refused as too slow is as fast as may be.
            let rate = |count| Rate::new(count, window).or_else(|_| Rate::new(1.0, window));
            let (one, other) = (rate(counts.0).unwrap(), rate(counts.1).unwrap());
            let bucket = |rate, burst| TokenBucket::new(rate, burst).or_else(|_| TokenBucket::new(rate, 1));
            survives(&calls, &bucket(one, bursts.0).unwrap(), &bucket(other, bursts.1).unwrap());
            let queue = |rate, places| LeakyQueue::with_places(rate, places).or_else(|_| LeakyQueue::with_places(rate, 1));
            survives(&calls, &queue(one, bursts.1).unwrap(), &LeakyQueue::new(other, Duration::MAX));
            survives(&calls, &SmoothBursty::new(one, YEAR), &SmoothBursty::new(other, Duration::MAX));
            let slow = SmoothWarmingUp::new(one, YEAR, 100).unwrap();
            survives(&calls, &slow, &SmoothWarmingUp::new(other, Duration::from_millis(1), 2).unwrap());
        }

        #[test]
        fn no_call_overflows_a_window(
            calls in calls(),
            counts in (counts(), counts()),
            window in prop::sample::select(vec![Duration::from_millis(1), YEAR]),
        ) {
            let fixed = |count| FixedWindow::new(count, window).unwrap();
            survives(&calls, &fixed(counts.0), &fixed(counts.1));
            let sliding = |count| SlidingCounter::new(count, window).unwrap();
            survives(&calls, &sliding(counts.0), &sliding(counts.1));
            let log = |count: f64| SlidingLog::new(count.min(10_000.0), window).unwrap();
            survives(&calls, &log(counts.0), &log(counts.1));
            let calendar = Calendar::new(Unit::Month, "America/New_York").unwrap();
            let month = |count| CalendarWindow::new(count, calendar.clone()).unwrap();
            survives(&calls, &month(counts.0), &month(counts.1));
        }

        #[test]
        fn no_call_overflows_a_warm_up(
            calls in calls(),
            counts in (counts(), counts()),
            period in prop::sample::select(vec![Duration::from_millis(1), Duration::from_secs(1)]),
            longest in prop::sample::select(vec![Duration::ZERO, YEAR, Duration::MAX]),
        ) {
            let warm_up = |count, cold| WarmUp::new(count, period, cold).unwrap();
            survives(&calls, &warm_up(counts.0, 100), &warm_up(counts.1, 2));
            let pacing = |count, cold| WarmUpPacing::new(count, period, cold, longest).unwrap();
            survives(&calls, &pacing(counts.0, 100), &pacing(counts.1, 2));
        }
    }
}
