//! Sentinel's local engine: the parts that its chain is made of.

#![cfg_attr(not(test), expect(dead_code, reason = "what is here is called by the engine's chain"))]

mod arg;
mod authority;
mod breaker;
mod gateway;
mod param;
mod system;

pub use arg::Arg;
pub use breaker::BreakerState;
pub use gateway::GatewayRequest;
pub use system::{SystemKind, SystemStatus};
