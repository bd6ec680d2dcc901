//! The local engine, two threads, every interleaving of few preemptions: limits hold exactly,
//! nothing is lost, nobody waits for ever.
//!
//! Run as `tests/loom.rs` is; `LOOM_MAX_PREEMPTIONS` raises the bound of three. A thread that is
//! interrupted in the middle of a step, and the one that answers in the middle of its own, are two.
#![cfg(loom)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what the helpers read is what the tests wrote"
)]

mod breakers;
mod limits;
mod nodes;
mod reloads;
mod support;
mod tidying;
