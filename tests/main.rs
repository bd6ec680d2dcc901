//! One binary of end-to-end tests: real sockets, real processes, real peers.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects, in its helpers too"
)]

mod architecture;
mod embedded;
mod hostile;
mod java_client;
mod process;
mod rust_client;
mod transcripts;
