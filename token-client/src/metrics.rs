//! What a client counts.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{Reason, holds::Holds, line::Line, rules::Rules};

/// A number that only rises.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: the count is the whole state; no other memory is published with it.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        // Relaxed: as in `add`.
        self.0.load(Ordering::Relaxed)
    }
}

/// What is counted beside the lines' own tallies.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connects: Counter,
    pub(crate) connect_failures: Counter,
    pub(crate) disconnects: Counter,
    pub(crate) passed: Counter,
    pub(crate) waited: Counter,
    pub(crate) blocked: Counter,
    pub(crate) max_wait_blocked: Counter,
    pub(crate) leased: Counter,
    pub(crate) leases_granted: Counter,
    pub(crate) leases_refused: Counter,
    pub(crate) leases_returned: Counter,
    pub(crate) lease_tokens_granted: Counter,
    pub(crate) lease_tokens_spent: Counter,
    pub(crate) lease_tokens_returned: Counter,
    pub(crate) lease_tokens_lost: Counter,
    pub(crate) holds: Counter,
    pub(crate) holds_refused: Counter,
    pub(crate) holds_lost: Counter,
    pub(crate) holds_regained: Counter,
    fallback_passed: Counter,
    fallback_blocked: Counter,
    fallbacks: [Counter; Reason::ALL.len()],
}

impl Counters {
    pub(crate) fn fell_back(&self, reason: Reason, passed: bool) {
        if let Some(counter) = self.fallbacks.get(reason as usize) {
            counter.add(1);
        }
        let decided = if passed { &self.fallback_passed } else { &self.fallback_blocked };
        decided.add(1);
    }
}

/// A client's counters at one moment. All only rise but `waiting`, `holding`
/// and `clients`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Requests that were queued to be sent.
    pub calls: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that ran out of time.
    pub timed_out: u64,
    /// Calls for which no server was connected, or whose connection ended.
    pub unreachable: u64,
    /// Calls that were refused because too many wait.
    pub busy: u64,
    /// Calls whose callers went away before the answer.
    pub cancelled: u64,
    /// Answers to no call that waits: late ones, duplicates, and such as nobody asked for.
    pub stray_answers: u64,
    /// Answers of another type than the call of their number.
    pub mismatched_answers: u64,
    /// Frames from servers that were too short or too long.
    pub malformed_frames: u64,
    /// Calls that wait for an answer now.
    pub waiting: u64,
    /// Connections that were made.
    pub connections_opened: u64,
    /// Connections that ended.
    pub connections_closed: u64,
    /// Attempts that made no connection.
    pub connections_failed: u64,
    /// Clients of the namespace, as the server last said; 0 before it has.
    pub clients: u32,
    /// Checks that a server let pass at once.
    pub passed: u64,
    /// Checks that a server let pass after a wait.
    pub waited: u64,
    /// Checks that a server refused.
    pub blocked: u64,
    /// Checks that were refused because the wait was over the client's `max_wait`.
    pub max_wait_blocked: u64,
    /// Checks that passed by tokens of a lease, without a server.
    pub leased: u64,
    /// Leases that a server granted.
    pub leases_granted: u64,
    /// Leases that a server refused, since nothing was left or the rule grants none.
    pub leases_refused: u64,
    /// Leases that went back before their end, spent or not.
    pub leases_returned: u64,
    /// Tokens of the leases that were granted. What is neither spent, returned nor lost is held.
    pub lease_tokens_granted: u64,
    /// Tokens of leases that were spent.
    pub lease_tokens_spent: u64,
    /// Tokens of leases that went back unspent.
    pub lease_tokens_returned: u64,
    /// Tokens of leases that were neither spent nor could go back: the lease ended first, or its
    /// connection did.
    pub lease_tokens_lost: u64,
    /// Holds that a server granted.
    pub holds: u64,
    /// Holds that a server refused.
    pub holds_refused: u64,
    /// Times that a server no longer held what a guard stands for.
    pub holds_lost: u64,
    /// Times that a server held it again after that.
    pub holds_regained: u64,
    /// Guards that stand for a server's grant now, whether or not it is lost; and grants that are
    /// to be given back when there is a connection.
    pub holding: u64,
    /// Checks and holds that passed by the rule's fallback policy.
    pub fallback_passed: u64,
    /// Checks and holds that were refused by the rule's fallback policy.
    pub fallback_blocked: u64,
    /// Checks and holds that fell back, in the order of [`Reason::ALL`]; see [`fallbacks`](Self::fallbacks).
    pub fallbacks_by_reason: [u64; Reason::ALL.len()],
}

impl Metrics {
    /// Checks that fell back for `reason`.
    #[must_use]
    pub fn fallbacks(&self, reason: Reason) -> u64 {
        self.fallbacks_by_reason.get(reason as usize).copied().unwrap_or(0)
    }

    fn of(meters: &Meters) -> Self {
        let counters = &meters.counters;
        let mut metrics = Self {
            clients: meters.rules.clients(),
            connections_opened: counters.connects.get(),
            connections_closed: counters.disconnects.get(),
            connections_failed: counters.connect_failures.get(),
            passed: counters.passed.get(),
            waited: counters.waited.get(),
            blocked: counters.blocked.get(),
            max_wait_blocked: counters.max_wait_blocked.get(),
            leased: counters.leased.get(),
            leases_granted: counters.leases_granted.get(),
            leases_refused: counters.leases_refused.get(),
            leases_returned: counters.leases_returned.get(),
            lease_tokens_granted: counters.lease_tokens_granted.get(),
            lease_tokens_spent: counters.lease_tokens_spent.get(),
            lease_tokens_returned: counters.lease_tokens_returned.get(),
            lease_tokens_lost: counters.lease_tokens_lost.get(),
            holds: counters.holds.get(),
            holds_refused: counters.holds_refused.get(),
            holds_lost: counters.holds_lost.get(),
            holds_regained: counters.holds_regained.get(),
            holding: meters.holds.len() as u64,
            fallback_passed: counters.fallback_passed.get(),
            fallback_blocked: counters.fallback_blocked.get(),
            fallbacks_by_reason: std::array::from_fn(|i| {
                counters.fallbacks.get(i).map_or(0, Counter::get)
            }),
            ..Self::default()
        };
        for line in &*meters.lines {
            let tally = line.tally();
            metrics.calls += tally.sent;
            metrics.answered += tally.answered;
            metrics.timed_out += tally.timed_out;
            metrics.unreachable += tally.unreachable;
            metrics.busy += tally.busy;
            metrics.cancelled += tally.cancelled;
            metrics.stray_answers += tally.stray;
            metrics.mismatched_answers += tally.mismatched;
            metrics.malformed_frames += tally.malformed;
            metrics.waiting += tally.waiting;
        }
        metrics
    }
}

/// Where a client's numbers are; it keeps none of its tasks alive.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    pub(crate) counters: Arc<Counters>,
    pub(crate) lines: Arc<[Arc<Line>]>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) holds: Arc<Holds>,
}

impl Meters {
    pub(crate) fn read(&self) -> Metrics {
        Metrics::of(self)
    }
}
