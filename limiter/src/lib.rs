//! Every decision that Tollgate makes, without I/O, without async and without a clock of its own:
//! state, rule, tick and request in, [`Decision`] out.

pub mod adaptive;
pub mod algorithm;
mod clock;
mod cluster;
mod concurrency;
mod decision;
pub mod local;
pub mod rule;
mod swap;
mod sync;
mod tick;
mod window;

pub use clock::{Clock, ManualClock, MonotonicClock};
pub use cluster::*;
pub use concurrency::{Concurrency, Hold, Level, OwnerId, Released, Tenant, TokenId, TokensFull};
pub use decision::{Decision, Undecided};
pub use tick::Tick;
pub use window::{BUCKETS_MAX, INTERVAL_MS_MAX, WindowShape};
