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
//! | [`SlidingWindow`] | count, in whole buckets | 128 bytes + 8 a bucket over ten | less than one window |
//! | [`SlidingCounter`] | just under 2 × count, see there | 24 bytes | one to two windows |
//! | [`SlidingLog`] | count | 56 bytes + 16 a tick of the window | one window |
//! | [`TokenBucket`], [`LeakyMeter`], [`Gcra`] | burst + count | 24 bytes | burst / rate |
//! | [`LeakyQueue`] | count + the first call | 24 bytes | no burst: calls wait |
//! | [`WarmUp`] | 2 × the threshold in force | 40 bytes | the next second |
//! | [`SlidingWarmUp`] | the threshold in force, in whole buckets | 168 bytes + 8 a bucket over ten | less than one window |
//! | [`WarmUpPacing`] | count + the first call | 56 bytes | no burst: calls wait |
//! | [`SmoothBursty`] | burst + count + the last call | 24 bytes | burst / rate |
//! | [`SmoothWarmingUp`] | count + the last call | 40 bytes | no burst: the next call waits |
//!
//! [`SlidingWindow`] is what rules use by default, Sentinel's ring of buckets: it counts every token
//! exactly but forgets a whole bucket at a time. [`SlidingLog`] forgets each token by itself,
//! [`SlidingCounter`] guesses where in the previous window the tokens were.
//!
//! *Cost* is given in operations. What that is in nanoseconds, beside the sliding window, is
//! measured through the engine by `benches/algorithms.rs`, for the algorithms of rules, and stands in
//! `docs/benchmarks.md`; `examples/algorithm-cost.rs` measures each algorithm alone.
//!
//! *Exactness*: tokens are whole, up to 2^53; times are whole nanoseconds, and a rate is a fraction of
//! whole numbers ([`Rate`]), so that neither a division nor many small steps lose anything. Where an
//! algorithm rounds, it says where. `tests/literature.rs` holds them to the numbers that the
//! literature works its examples with.

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
#[cfg(test)]
mod promises;
mod rate;
mod saved;
mod sliding_counter;
mod sliding_log;
mod sliding_warm_up;
mod sliding_window;
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
pub use saved::{Saved, SavedLine, SavedReserve};
pub use sliding_counter::{SlidingCounter, SlidingCounterState};
pub use sliding_log::{SlidingLog, SlidingLogState};
pub use sliding_warm_up::{SlidingWarmUp, SlidingWarmUpState};
pub use sliding_window::{Per, SlidingWindow, SlidingWindowState};
pub use smooth_bursty::SmoothBursty;
pub use smooth_warming_up::{SmoothWarmingUp, SmoothWarmingUpState};
pub use token_bucket::TokenBucket;
pub use verdict::Verdict;
pub use warm_up::{WarmUp, WarmUpState};
pub use warm_up_curve::{Reserve, WarmUpCurve};
pub use warm_up_pacing::{WarmUpPacing, WarmUpPacingState};

pub use crate::window::SavedRing;

use std::time::Duration;

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

    /// As [`Self::take`], for who does not ask when to come back: a refusal may not say.
    #[inline(always)]
    fn try_take(&self, state: &mut Self::State, now: Tick, n: u64) -> Verdict {
        self.take(state, now, n)
    }

    /// What [`Self::take`] would answer; changes nothing.
    fn peek(&self, state: &Self::State, now: Tick, n: u64) -> Verdict;

    /// Gives back `n` tokens that were taken and not used: as many more may pass, never more than
    /// a fresh state allows.
    ///
    /// The tokens are credited at `now`, whenever they were taken. Who gives back tokens that a
    /// window has forgotten, or a bucket has refilled, since they were taken, lets others take
    /// them twice.
    fn give_back(&self, state: &mut Self::State, now: Tick, n: u64);

    /// Gives back `n` tokens that were taken at `since` or later, so that never more passes than
    /// if they had not been taken. What a window may have forgotten since then, or a bucket
    /// refilled, stays used; and a service stays as warm as they made it.
    fn give_back_since(&self, state: &mut Self::State, now: Tick, since: Tick, n: u64);

    /// Takes `n` tokens whatever the limit, for a cost that is known only afterwards. Later takes
    /// are refused, or wait, until so much is free again; a queue moves back as if `n` calls for
    /// one token each had joined it.
    ///
    /// Any number is fine. A debt that would take a quarter of a million years to pay is cut to
    /// that, and a bucket or queue that lets nothing through has none.
    fn charge(&self, state: &mut Self::State, now: Tick, n: u64);

    /// Tokens that count at `now`: those in the window; of a bucket what is missing from full, of
    /// a queue those whose turn is ahead, both rounded up.
    fn used(&self, state: &Self::State, now: Tick) -> u64;

    /// Whether the state may be forgotten: at `now` and later it decides as a fresh one would.
    fn is_idle(&self, state: &Self::State, now: Tick) -> bool;

    /// Brings a state that was made under `old` to these parameters, when a rule's numbers change:
    /// tokens that were used stay used. The default leaves the state as it is, which is right for
    /// states that hold plain counts; other lengths of window need a fresh state.
    fn adopt(&self, state: &mut Self::State, old: &Self, now: Tick) {
        let _ = (state, old, now);
    }

    /// The state at `now` as plain data, from which [`Self::restore`] makes one that decides as
    /// this one does at every later tick.
    fn save(&self, state: &Self::State, now: Tick) -> Saved;

    /// A state from what was saved, perhaps under other numbers, to which it is brought as by
    /// [`Self::adopt`]. `None` if it was saved by an algorithm of another kind or with another
    /// window, where used tokens mean something else; start with a fresh state then.
    ///
    /// The clock may be `behind` the one it was saved by: every time in it moves back by so much,
    /// borders of windows by whole windows, rounded down, so that nothing is forgotten early.
    /// Numbers that no state can hold are cut to ones that it can.
    fn restore(&self, saved: &Saved, behind: Duration) -> Option<Self::State>;
}
