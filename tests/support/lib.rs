//! What the end-to-end tests share: a server in this process on a manual clock, servers and
//! clients as processes of their own, and peers that are scripts.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects, in its helpers too"
)]

mod in_process;
mod java;
mod process;
mod rules;
mod wait;
mod wire;

pub use in_process::InProcess;
pub use java::{JavaClient, JavaServer, java_class_path};
pub use process::{Process, binary, server};
pub use rules::{flow_rule, param_rule, parsed};
pub use wait::eventually;
pub use wire::{Wire, hex, unhex};
