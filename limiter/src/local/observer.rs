//! Who wants to know what happens.

use std::{
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use super::{Block, BreakerState, Seen};
use crate::{Tick, rule::DegradeRule};

/// Hears of refusals and of circuit breakers; see
/// [`LocalEngine::observe`](super::LocalEngine::observe). No lock of the engine is held meanwhile.
///
/// A panic goes to whoever made the call; what was counted stays right. Calls end while a panic
/// unwinds, too: one of an observer ends here then, reported by the panic hook and no further, since
/// a second one on its way would abort the process.
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

/// Runs what is the user's and gives no answer. While a panic unwinds, one of this ends here.
#[inline]
pub(super) fn tell(call: impl FnOnce()) {
    if thread::panicking() {
        // Nothing that it may have left half done is looked at here.
        drop(catch_unwind(AssertUnwindSafe(call)));
    } else {
        call();
    }
}
