//! What becomes of a call: it passes, waits, or is refused.

use std::{sync::Arc, time::Duration};

use super::{
    Asking, Block, Entry, LocalEngine,
    passage::{Ended, Passage},
};
use crate::Tick;

/// What the chain says to a call.
///
/// ```
/// # use std::sync::Arc;
/// # use limiter::{Tick, local::{Call, LocalEngine, LocalSettings, Step}, rule};
/// # let engine = Arc::new(LocalEngine::new(LocalSettings::default()));
/// # let text = r#"[{"resource": "r", "count": 10, "controlBehavior": 2}]"#;
/// # engine.load_flow(rule::parse(text, "doc", "", rule::Contents::Flow, false)?.rules.flow);
/// # let mut now = Tick::from_ms(1_700_000_000_000);
/// # let first = engine.enter(now, Call::new("r"));
/// let mut step = engine.enter(now, Call::new("r"));
/// let entry = loop {
///     match step {
///         Step::Passed(entry) => break Some(entry),
///         Step::Blocked(_) => break None,
///         // Only with `LocalEngine::ask_servers`: whoever has a connection asks.
///         Step::Ask(asking) => step = asking.resume(now, Some(true)),
///         Step::Wait(waiting) => {
///             // Whoever has a clock sleeps here, and reads it again.
///             now = now.plus(waiting.wait());
///             step = waiting.resume(now);
///         }
///     }
/// };
/// # assert!(entry.is_some() && now == Tick::from_ms(1_700_000_000_100));
/// # Ok::<(), rule::RuleErrors>(())
/// ```
#[derive(Debug)]
#[must_use]
pub enum Step<'a> {
    /// The call may be made. The entry ends it.
    Passed(Entry),
    /// The call must wait, and then go on.
    Wait(Waiting<'a>),
    /// A token server must be asked, and then the call goes on. Only with
    /// [`LocalEngine::ask_servers`].
    Ask(Asking<'a>),
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
    pub fn resume(mut self, now: Tick) -> Step<'a> {
        match self.passage.run(&self.engine, now) {
            Ended::Through => Step::Passed(self.passage.admit()),
            Ended::Refused(block) => Step::Blocked(block),
            Ended::Wait(wait) => Step::Wait(Self { wait, ..self }),
            Ended::Ask(rule) => Step::Ask(Asking::new(&self.engine, self.passage, rule)),
        }
    }
}
