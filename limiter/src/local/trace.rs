//! What each slot said to one call, and how long it took.

use std::{sync::Arc, time::Duration};

use crate::{Clock, Tick};

/// A slot of the chain, in Sentinel's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotName {
    /// Finds the node of the call's context: `NodeSelectorSlot`.
    NodeSelection,
    /// Finds the node of its origin, and brings all of them to now: `ClusterBuilderSlot`.
    ClusterNode,
    /// Tells observers of a refusal, once there is one: `LogSlot`.
    Log,
    /// Counts what passes and what is refused, once that is known: `StatisticSlot`.
    Statistics,
    /// `AuthoritySlot`.
    Authority,
    /// `SystemSlot`.
    System,
    /// `GatewayFlowSlot`.
    Gateway,
    /// `ParamFlowSlot`.
    Param,
    /// `FlowSlot`.
    Flow,
    /// `DefaultCircuitBreakerSlot`.
    DefaultBreaker,
    /// `DegradeSlot`.
    Breaker,
    /// A user's slot, with its order.
    User(i32),
}

/// What a slot said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Said {
    /// Go on.
    Pass,
    /// Wait, and go on from here.
    Wait(Duration),
    /// Ask a token server, and go on from here.
    Ask,
    /// Wait for what was borrowed, and skip the slots behind.
    Borrow(Duration),
    /// No.
    Block,
}

/// One slot's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which slot.
    pub slot: SlotName,
    /// What it said.
    pub said: Said,
    /// How long it took, waits for locks included, in nanoseconds of the trace's clock. What the
    /// log and the statistics do later, when slots behind them have spoken, is counted as theirs.
    pub took: Duration,
}

/// Collects what the slots say to one call; give it to [`Call::trace`](super::Call::trace).
///
/// The engine has no clock, so the trace brings its own. A call without trace pays for none of it.
#[derive(Debug)]
pub struct Trace {
    clock: Arc<dyn Clock>,
    since: Tick,
    marks: Vec<Mark>,
}

impl Trace {
    /// An empty trace that measures with `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let since = clock.now();
        Self { clock, since, marks: Vec::new() }
    }

    /// The slots that had their turn, in order. One that waited stands there once more for each
    /// time that it was asked again.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Starts the time of the next slot: a call begins, or goes on after a wait.
    pub(super) fn start(&mut self) {
        self.since = self.clock.now();
    }

    pub(super) fn mark(&mut self, slot: SlotName, said: Said) {
        let now = self.clock.now();
        self.marks.push(Mark { slot, said, took: now.since(self.since) });
        self.since = now;
    }

    /// Adds the time since the last mark to that of a slot that had its turn before.
    pub(super) fn add(&mut self, slot: SlotName) {
        let now = self.clock.now();
        if let Some(mark) = self.marks.iter_mut().rfind(|mark| mark.slot == slot) {
            mark.took += now.since(self.since);
        }
        self.since = now;
    }
}
