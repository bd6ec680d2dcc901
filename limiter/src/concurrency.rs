//! Concurrency tokens: how many calls of a flow are in progress across the whole cluster.
//!
//! A caller takes a token, works, and gives it back. A token that nobody gives back ends by
//! itself: `resourceTimeout` after it was taken or renewed, or `clientOfflineTime` after the
//! connection that held it closed, whichever comes first. What is in use of a flow is the sum of
//! its tokens that have not ended, at every tick and to the nanosecond: an acquire that finds no
//! room first ends what is due, and a release or a renewal that comes too late is told so. How
//! often [`Concurrency::expire`] runs decides how soon memory comes back, and no answer.
//!
//! ```text
//!  Concurrency ── live tokens, all shards (bounded; no tenant may hold more than are free)
//!   │
//!   ├─ shard 0 ┬─ slots   ┌────┬────┬────┬────┐  one per token, 64 bytes, found by token id
//!   │  (lock)  │          │ a  │ b  │free│ c  │──► Level: tokens in use of one flow
//!   │          │          └────┴────┴────┴────┘
//!   │          ├─ ends     2 000 ms: a ⇄ c      one queue per time-out, the next to end first
//!   │          │             700 ms: b
//!   │          └─ owners   connection 7: a ⇄ b  one list per connection
//!   └─ shard 1 …
//! ```
//!
//! **Ends without a wheel.** Time in a shard never goes back (an older tick counts as the last
//! one), so tokens that are given the same time-out end in the order in which they were given it.
//! A queue per time-out is therefore sorted without sorting: taking, renewing, giving back and
//! ending a token are a few links each, however many live. A small heap holds one entry per
//! time-out in use and finds the queue whose first token ends next. A timing wheel does the same
//! for arbitrary times, and moves every token several times on its way down, a whole slot of them
//! in one step; here times are `now` plus one of the few time-outs that rules have.
//!
//! **Locks.** A level lives in one shard with all its tokens, so one lock covers check and take.
//! A token's id says where its slot is, so a release needs no table of rules and works after the
//! rule is gone: the token holds its level. A lock per level would be finer, but then ids need a
//! table of levels and a connection's tokens lie behind many locks; one lock for all is what the
//! engine avoids elsewhere. Levels are dealt to the shards in turn. No two locks are ever held
//! at once, and long work (a mass of tokens that end, a connection that held many) lets go of the
//! lock after every 256 tokens.
//!
//! What Sentinel does instead (`ConcurrentClusterFlowChecker.java`, `RegularExpireStrategy.java`):
//! tokens end when a sweeper comes by, up to twice the time-out and two seconds late; the sum is an
//! `int` that overflows; a token of a removed rule stops the sweeper for good.

mod ends;
mod level;
mod list;
mod live;
#[cfg(test)]
mod model;
mod shard;
mod slots;
mod store;
mod tenant;
mod token;

pub use level::Level;
pub use live::TokensFull;
pub use store::{Concurrency, Hold};
pub use tenant::Tenant;
pub use token::{OwnerId, Released, TokenId};
