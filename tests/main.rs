//! One binary of end-to-end tests: real sockets, real processes, real peers.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects, in its helpers too"
)]

mod adaptive;
mod architecture;
mod concurrency;
mod documents;
mod embedded;
mod extension;
mod fairness;
mod guards;
mod guava;
mod hostile;
mod java_client;
mod leases;
mod logs_java;
mod overload;
mod pacing;
mod process;
mod redis;
mod restart;
mod rule_files;
mod rules_java;
mod rust_client;
mod shutdown;
mod snapshot;
mod switches;
mod transcripts;
mod vanished;
mod web;
mod windows;
