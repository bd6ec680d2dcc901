//! What one flow has used, under one lock.

use super::{
    Ask,
    counting::Counting,
    ledger::{Held, Ledger},
    totals::{Others, Passed},
    tuned::Tuned,
    weighed::Weighed,
};
use crate::{
    Tick, WindowShape,
    algorithm::Verdict,
    sync::{Mutex, lock},
    window::Ring,
};

/// What a flow has used; shared by the rule sets before and after a rule change.
#[derive(Debug, Default)]
pub(crate) struct FlowCounter(pub(super) Mutex<Used>);

/// In this order, so that a pass of the usual rule touches 72 bytes in a row: the lock, what passed,
/// and the first words of the ring.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Used {
    pub(super) passed: Passed,
    pub(super) tally: Tally,
    pub(super) others: Others,
}

/// What counts. A rule that counts in another way finds nothing here.
#[derive(Debug)]
pub(super) enum Tally {
    /// Of a sliding window.
    Ring(Ring),
    /// Of a sliding window of which tokens are on lease, or were until a moment ago.
    Lent(Box<Lent>),
    /// Of every other algorithm.
    Tuned(Tuned),
}

/// A sliding window, and what is on lease of it.
#[derive(Debug, Default)]
pub(super) struct Lent {
    pub(super) ring: Ring,
    pub(super) ledger: Ledger,
}

impl Default for Tally {
    fn default() -> Self {
        Self::Ring(Ring::default())
    }
}

impl FlowCounter {
    /// The leases of it that have not ended, as far as is known, for a rule that counts in another
    /// way. From now on there are none but these: who still decides with the rule before would
    /// grant some that nobody knows.
    pub(super) fn hand_over_leases(&self) -> Vec<Held> {
        let used = &mut *lock(&self.0);
        if matches!(used.tally, Tally::Ring(_) | Tally::Lent(_)) {
            used.lent().ledger.close();
        }
        used.leases().to_vec()
    }

    /// Whether nothing of it counts any more, for a rule that counts so.
    pub(super) fn is_idle(&self, counting: &Counting, now: Tick) -> bool {
        lock(&self.0).is_idle(counting, now)
    }
}

impl Used {
    /// The sliding window at `now`, and the tokens that are on lease of it.
    pub(super) fn window(&mut self, shape: WindowShape, now: Tick) -> (&mut Ring, u64) {
        if let Tally::Lent(lent) = &mut self.tally {
            let Lent { ring, ledger } = &mut **lent;
            self.passed.add_tokens(ledger.settle(ring, shape, now));
            ring.advance(shape, now);
            if ledger.is_over(ring.start(shape)) {
                // What its leases were charged with is in the ring.
                self.tally = Tally::Ring(std::mem::take(ring));
            }
        }
        match self.tally {
            Tally::Ring(ref mut ring) => {
                ring.advance(shape, now);
                (ring, 0)
            }
            Tally::Lent(ref mut lent) => (&mut lent.ring, lent.ledger.tokens()),
            Tally::Tuned(_) => {
                self.tally = Tally::default();
                self.window(shape, now)
            }
        }
    }

    /// The leases that have not ended, as far as is known.
    pub(super) fn leases(&self) -> &[Held] {
        match &self.tally {
            Tally::Ring(_) => &[],
            Tally::Lent(lent) => lent.ledger.leases(),
            Tally::Tuned(tuned) => tuned.leases(),
        }
    }

    /// The sliding window with its leases.
    pub(super) fn lent(&mut self) -> &mut Lent {
        if let Tally::Ring(ring) = &mut self.tally {
            let ring = std::mem::take(ring);
            self.tally = Tally::Lent(Box::new(Lent { ring, ledger: Ledger::default() }));
        }
        match self.tally {
            Tally::Lent(ref mut lent) => lent,
            Tally::Ring(_) | Tally::Tuned(_) => {
                self.tally = Tally::default();
                self.lent()
            }
        }
    }

    pub(super) fn is_idle(&self, counting: &Counting, now: Tick) -> bool {
        match (&self.tally, counting) {
            (Tally::Ring(ring), Counting::Sliding(shape)) => ring.is_idle(*shape, now),
            (Tally::Lent(lent), Counting::Sliding(shape)) => {
                lent.ring.is_idle(*shape, now) && lent.ledger.is_idle(*shape, now)
            }
            (Tally::Tuned(tuned), _) => tuned.is_idle(now),
            (Tally::Ring(_) | Tally::Lent(_), _) => true,
        }
    }

    /// Takes and counts what a peek found, at the same moment and under the same lock: so whatever
    /// has become of the threshold and of the mode meanwhile.
    pub(super) fn take_weighed(&mut self, now: Tick, count: u64, ask: Ask, weighed: Weighed) {
        if weighed.takes() {
            match &mut self.tally {
                Tally::Ring(ring) => take(ring, weighed.verdict, count),
                Tally::Lent(lent) => take(&mut lent.ring, weighed.verdict, count),
                Tally::Tuned(tuned) => _ = tuned.ask(now, count, ask),
            }
        }
        self.note_weighed(weighed, count);
    }

    /// Counts what came of a request in any mode.
    pub(super) fn note_weighed(&mut self, weighed: Weighed, count: u64) {
        if weighed.is_shadowed() {
            self.others.shadow_requests += 1;
            self.others.shadow_tokens += count;
        } else {
            self.note(weighed.answer(), count);
        }
    }

    /// Counts what came of a request.
    #[inline]
    pub(super) fn note(&mut self, verdict: Verdict, count: u64) {
        match verdict {
            Verdict::Pass { .. } => self.passed.add(count),
            Verdict::Wait { .. } => {
                self.others.wait_requests += 1;
                self.others.wait_tokens += count;
            }
            Verdict::Block { .. } => {
                self.others.block_requests += 1;
                self.others.block_tokens += count;
            }
        }
    }
}

/// Takes or books in a ring what was admitted of it.
fn take(ring: &mut Ring, verdict: Verdict, count: u64) {
    match verdict {
        Verdict::Pass { .. } => ring.add(count),
        Verdict::Wait { .. } => ring.book(count),
        Verdict::Block { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_flow_uses_of_memory_is_what_a_million_of_them_were_measured_with() {
        assert_eq!((size_of::<Ring>(), size_of::<Tuned>()), (128, 136));
        assert_eq!((size_of::<Tally>(), size_of::<FlowCounter>()), (144, 256));
        assert_eq!(size_of::<crate::Flow>(), 192);
    }
}
