//! Who wants to know what happens.

use std::fmt::Debug;

use super::{Block, BreakerState, Seen};
use crate::{Tick, rule::DegradeRule};

/// Hears of refusals and of circuit breakers; see
/// [`LocalEngine::observe`](super::LocalEngine::observe). No lock of the engine is held meanwhile.
///
/// A panic goes to whoever made the call; what was counted stays right. But calls end while a panic
/// unwinds, too, and a second one aborts the process then.
pub trait Observer: Debug + Send + Sync {
    /// A call was refused: what a block log writes.
    fn blocked(&self, now: Tick, call: &Seen<'_>, block: &Block) {
        let _ = (now, call, block);
    }

    /// A breaker of a resource went from one state into another. When calls race, what happened
    /// first may be told last.
    fn turned(
        &self,
        now: Tick,
        resource: &str,
        rule: &DegradeRule,
        from: BreakerState,
        to: BreakerState,
    ) {
        let _ = (now, resource, rule, from, to);
    }
}
