//! The local engine: Sentinel's rules for the calls of one process, decided where they are made.

#![cfg_attr(not(test), expect(dead_code, reason = "what is here is called by the engine's chain"))]

mod authority;
mod breaker;
mod gateway;
mod system;

pub use breaker::BreakerState;
pub use gateway::GatewayRequest;
pub use system::{SystemKind, SystemStatus};
