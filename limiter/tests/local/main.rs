//! The local engine from outside: the scenarios of the specification, and what they do not show.
#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "what the helpers read is what the tests wrote"
)]

mod bounds;
mod gates;
mod golden;
mod life;
mod loading;
mod nodes;
mod outlook;
mod promises;
mod racing;
mod rules;
mod scenario;
mod slots;
mod support;
