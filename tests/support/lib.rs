//! What the end-to-end tests share: a server in this process on a manual clock, servers and
//! clients as processes of their own, and peers that are scripts.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects, in its helpers too"
)]

mod cable;
mod http;
mod in_process;
mod java;
mod process;
mod programs;
mod realtime;
mod rules;
mod skip;
mod text_codec;
mod wait;
mod wire;

pub use cable::{Cable, Family, Relay};
pub use http::{Http, HttpAnswer};
pub use in_process::InProcess;
pub use java::{JavaClient, JavaServer, Oracle, java_class_path};
pub use process::{Process, server};
pub use programs::{example, token_server};
pub use realtime::{Passed, Realtime};
pub use rules::{flow_rule, param_rule, parsed};
pub use skip::skip;
pub use text_codec::TextCodec;
pub use wait::{eventually, within};
pub use wire::{Answer, Wire, flow_answers, flow_request, hex, ping_request, status, unhex};

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

/// Compiles the Rust of the guide for who comes from Sentinel.
#[cfg(doctest)]
#[doc = include_str!("../../docs/from-sentinel.md")]
mod from_sentinel {}
