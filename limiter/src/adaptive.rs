//! Limits on how many calls may be in progress that find themselves from the times that calls
//! take: AIMD, Vegas and Gradient2 as in Netflix' `concurrency-limits`.
//!
//! A server with `N` workers that serve a call in `S` finishes `N / S` calls a second; more than `N`
//! at once only queue (Little's law). Nobody knows `N`, and it changes. So each call that ends tells
//! a [`Limit`] its round trip time (RTT) and how many were in flight, and the limit moves towards
//! `N` and a short queue.
//!
//! ```text
//!  acquire ──► AdaptiveLimiter ── in flight < limit? ──► Permit ─ ─ the call ─ ─ ► release
//!                    │                                                               │
//!                    └─ limit() ◄── Aimd │ Vegas │ Gradient2 ◄── Windowed ◄── Sample ┘
//!                                                               a window's samples as one
//! ```
//!
//! ```
//! use std::time::Duration;
//! use limiter::{Tick, adaptive::{AdaptiveLimiter, Outcome, Vegas, Windowed}};
//!
//! let limiter = AdaptiveLimiter::new(Windowed::averages(Vegas::default()));
//! let permit = limiter.acquire().expect("fewer than 20 are in flight");
//! // …the call…
//! let rtt = Duration::from_millis(7);
//! permit.release(Tick::from_ms(7), Outcome::Success { rtt });
//! assert_eq!(limiter.in_flight(), 0);
//! ```
//!
//! | limit | goes up | goes down | needs | memory |
//! |---|---|---|---|---|
//! | [`Aimd`] | by 1 a sample | × 0.9 on a drop, or an RTT above the time-out | a time-out that says "too long" | 48 bytes |
//! | [`Vegas`] | while little queues, by 6 × log10 and less | while much queues, by log10 | a no-load RTT that is seen now and then | 88 bytes |
//! | [`Gradient2`] | by 0.8 a sample | as RTTs rise above 1.5 times their long average | an overload that ends | 72 bytes |
//!
//! None of them grows while less than half of the limit is in flight: what nobody asks for says
//! nothing about the server. All stay within their [`Bounds`], whatever the samples say. A sample
//! costs some float operations and no allocation; taking and giving back a permit, two locks
//! (`examples/adaptive-cost.rs` measures both). Beside its limit a limiter is 4 bytes a share, and a
//! permit is 64.
//!
//! Like the rest of this crate they read no clock: the caller measures and says when it is.
//!
//! Formulas and defaults are those of `concurrency-limits` (`AIMDLimit`, `VegasLimit`,
//! `Gradient2Limit`, `WindowedLimit`, `AbstractPartitionedLimiter`), and the same samples lead to the
//! same limits, which `tests/adaptive.rs` shows beside the real ones. Where ours differ, the type
//! says so. The main difference is that a *dropped* call lowers every limit and never counts as a
//! fast one. There, Vegas may take the RTT of a call that failed at once for the RTT without load,
//! and Gradient2 does not look at drops.

mod aimd;
mod bounds;
mod gradient2;
mod jitter;
mod limiter;
#[cfg(test)]
mod promises;
mod rtts;
#[cfg(test)]
mod server;
mod shares;
#[cfg(test)]
mod simulated;
mod vegas;
mod windowed;

pub use aimd::{Aimd, AimdSettings};
pub use bounds::{Bounds, Invalid, LIMIT_MAX};
pub use gradient2::{Gradient2, Gradient2Settings};
pub use limiter::{AdaptiveLimiter, Outcome, Permit};
pub use rtts::Tracked;
pub use shares::Shares;
pub use vegas::{Vegas, VegasSettings};
pub use windowed::{Windowed, WindowedSettings};

use std::time::Duration;

use crate::Tick;

/// What is learnt when a call ends, or when a window of calls does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it ended.
    pub at: Tick,
    /// From the start of the call to its end. Zero counts as a nanosecond; that of a dropped call
    /// says nothing.
    pub rtt: Duration,
    /// Calls in flight when it started, itself among them; the most of a window.
    pub in_flight: u32,
    /// Whether it was dropped: timed out, or refused for want of room.
    pub dropped: bool,
}

/// A limit that learns.
pub trait Limit {
    /// Most calls that may be in flight; more than [`LIMIT_MAX`] are that many.
    fn limit(&self) -> u32;

    /// Learns from calls that ended. Samples may come in any order of `at`.
    fn learn(&mut self, sample: Sample);
}

impl<L: Limit + ?Sized> Limit for Box<L> {
    fn limit(&self) -> u32 {
        (**self).limit()
    }

    fn learn(&mut self, sample: Sample) {
        (**self).learn(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_documented() {
        let sizes = [
            size_of::<Aimd>(),
            size_of::<Vegas>(),
            size_of::<Gradient2>(),
            size_of::<Windowed<()>>(),
            size_of::<Permit<Aimd>>(),
        ];
        assert_eq!(sizes, [48, 88, 72, 208, 64]);
    }
}
