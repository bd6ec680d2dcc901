//! The local engine from outside: the scenarios of the specification, and what they do not show.
#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "what the helpers read is what the tests wrote"
)]

mod asking;
mod bounds;
mod checks;
mod free_running;
mod gates;
mod golden;
mod idle;
mod life;
mod loading;
mod nodes;
mod outlook;
mod pairs;
mod promises;
mod racing;
mod reload;
mod rounds;
mod rules;
mod scenario;
mod slots;
mod support;
mod unchanged;
mod unserved;
