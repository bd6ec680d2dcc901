//! Sentinel's local engine: one process protects its own resources.
//!
//! A *resource* is a name; a *call* of it passes a chain of *slots*, each of which may refuse it or
//! let it wait; a call that is let through has an *entry* until it ends. *Nodes* count: over all
//! calls of a resource, by the *context* that they were made in, by the *origin* that made them,
//! and over everything inbound. Specification: Sentinel 1.8.9, `sentinel-core`.
//!
//! ```
//! use std::sync::Arc;
//! use limiter::{Tick, local::{Call, LocalEngine, LocalSettings, Step}, rule};
//!
//! let engine = Arc::new(LocalEngine::new(LocalSettings::default()));
//! let text = r#"[{"resource": "GET:/orders", "count": 1}]"#;
//! engine.load_flow(rule::parse(text, "doc", "", rule::Contents::Flow, false)?.rules.flow);
//!
//! let now = Tick::from_ms(1_700_000_000_000);
//! let Step::Passed(entry) = engine.enter(now, Call::new("GET:/orders")) else { panic!() };
//! entry.exit(now);
//! let Step::Blocked(block) = engine.enter(now, Call::new("GET:/orders")) else { panic!() };
//! assert_eq!(block.to_string(), "flow rule of GET:/orders: 1 calls per second");
//! # Ok::<(), rule::RuleErrors>(())
//! ```
//!
//! Nothing here reads a clock, sleeps or knows a thread: time is an argument, what must wait is
//! told how long, and an entry may end anywhere. All that is known of a resource lies behind one
//! lock, so a limit holds exactly, however many threads ask.

mod arg;
mod asking;
mod authority;
mod block;
mod breaker;
mod breakers;
mod call;
mod chain;
mod check;
mod context;
mod engine;
mod entry;
mod flow;
mod gateway;
mod hot;
mod inbound;
mod load;
mod node;
mod observer;
mod open;
mod outlook;
mod param;
mod passage;
mod passed;
mod readings;
mod resource;
mod resources;
mod rules;
mod settings;
mod shared;
mod slot;
mod stat;
mod stay;
mod step;
mod succession;
mod system;
mod trace;
mod tree;
mod unserved;

pub use arg::Arg;
pub use asking::{Asking, Question};
pub use block::{Block, BlockKind};
pub use breaker::BreakerState;
pub use call::{Call, EntryType};
pub use check::Checked;
pub use context::{ContextHandle, DEFAULT_CONTEXT};
pub use engine::LocalEngine;
pub use entry::Entry;
pub use flow::WarmUpReading;
pub use gateway::GatewayRequest;
pub use load::Loaded;
pub use observer::Observer;
pub use outlook::{Outlook, Quota, Retry};
pub use readings::{BreakerReading, OpenReading, ParamReading, ResourceReading, TOTAL_INBOUND};
pub use settings::{LocalSettings, OVERFLOW, Overflow};
use shared::Shared;
pub use slot::{Done, Outcome, Seen, Slot};
pub use stat::{NodeReading, Second};
pub use step::{Step, Waiting};
pub use system::{SystemKind, SystemStatus};
pub use trace::{Mark, Said, SlotName, Trace};
pub use tree::TreeNode;
