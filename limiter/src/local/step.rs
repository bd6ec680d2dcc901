//! What becomes of a call: it passes, waits, or is refused.

use std::time::Duration;

use super::{Block, Entry, LocalEngine, passage::Passage};
use crate::{Tick, sync::Arc};

/// What the chain says to a call.
#[derive(Debug)]
#[must_use]
#[expect(clippy::large_enum_variant, reason = "a wait is no rarer than a pass, and none allocates")]
pub enum Step<'a> {
    /// The call may be made. The entry ends it.
    Passed(Entry),
    /// The call must wait, and then go on.
    Wait(Waiting<'a>),
    /// The call is refused.
    Blocked(Block),
}

/// A call that waits for its turn. Dropped, it is given up: the turn stays used, and no call in
/// progress is left behind.
#[derive(Debug)]
#[must_use = "a call that does not go on is given up"]
pub struct Waiting<'a> {
    engine: Arc<LocalEngine>,
    passage: Passage<'a>,
    wait: Duration,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(engine: &Arc<LocalEngine>, passage: Passage<'a>, wait: Duration) -> Self {
        Self { engine: Arc::clone(engine), passage, wait }
    }

    /// How long to wait from the tick that was given when it was asked.
    #[must_use]
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// Goes on with the rest of the chain at `now`, when the wait is over; the engine does not look
    /// whether it is. Another rule may make the call wait again. Rules that compare counters are
    /// asked once more, since others may have passed meanwhile; what was borrowed is promised.
    pub fn resume(self, now: Tick) -> Step<'a> {
        let Self { engine, mut passage, .. } = self;
        let ended = passage.run(&engine, now);
        passage.step(&engine, ended)
    }
}
