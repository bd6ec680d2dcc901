//! Who wants to know what happens.

use std::{
    any::Any,
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

use super::{Block, BreakerState, Seen};
use crate::{Tick, rule::DegradeRule};

/// Hears of refusals and of circuit breakers; see
/// [`LocalEngine::observe`](super::LocalEngine::observe). No lock of the engine is held meanwhile.
///
/// A panic goes to whoever made the call, after everybody else was told; what was counted stays
/// right. Of several the first goes on. Calls end while a panic unwinds, too: one of an observer
/// ends here then, reported by the panic hook and no further, since a second one on its way would
/// abort the process.
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

/// Tells what is the user's, of which any may panic: the others are told all the same.
#[derive(Default)]
#[must_use = "it ends with the first panic"]
pub(super) struct Telling {
    first: Option<Box<dyn Any + Send>>,
}

impl Telling {
    /// Runs what gives no answer.
    pub(super) fn tell(&mut self, call: impl FnOnce()) {
        // Nothing that it may have left half done is looked at here.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            self.first.get_or_insert(panic);
        }
    }

    /// Goes on with the first panic; while another unwinds, all end here.
    #[inline]
    pub(super) fn end(self) {
        if let Some(panic) = self.first
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}
