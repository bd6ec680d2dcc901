//! Leases: tokens that a client holds and may spend at any time until the lease ends.
//!
//! When a leased token is spent is not known, so it counts all the time: while the lease lives, and
//! from its end for one window more, as if it had been taken at the last moment. So no window ever
//! admits more than the rule allows; what a client does not spend is missing meanwhile.

use crate::{Tick, WindowShape, window::Ring};

/// Leases of one flow that may live at once; each holds at least one token.
pub(crate) const LEASES_MAX: usize = 4_096;

/// A lease. Ids rise with time, so that none comes again after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// The leases of one flow that have not ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// The next to end first.
    leases: Vec<Held>,
    /// Tokens of all of them.
    tokens: u64,
    last_id: i64,
    /// It grants no more.
    is_closed: bool,
}

/// One lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) id: LeaseId,
    pub(crate) until: Tick,
    pub(crate) tokens: u32,
}

impl Ledger {
    /// Tokens that are on lease.
    #[inline]
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Whether it grants no lease: there are as many as may live at once, or it was closed.
    pub(crate) fn is_full(&self) -> bool {
        self.is_closed || self.leases.len() >= LEASES_MAX
    }

    /// Grants no lease from now on: another has taken over those there are.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(crate) fn leases(&self) -> &[Held] {
        &self.leases
    }

    /// When the last lease ends; `None` when there is none.
    pub(crate) fn last_end(&self) -> Option<Tick> {
        self.leases.last().map(|held| held.until)
    }

    /// Whether no window at `now` and later holds a token of any of them, ended ones included.
    pub(crate) fn is_idle(&self, shape: WindowShape, now: Tick) -> bool {
        let bucket = |tick: Tick| tick.0 / shape.bucket_ns();
        let has_left = |until| bucket(now) >= bucket(until) + u64::from(shape.buckets());
        self.last_end().is_none_or(has_left)
    }

    /// Whether nothing is on lease, and every lease to come, granted at `now` or later, has an id
    /// that none had: a ledger that begins anew does as well. One that was closed stays.
    pub(crate) fn is_over(&self, now: Tick) -> bool {
        !self.is_closed && self.leases.is_empty() && now.0.cast_signed() > self.last_id
    }

    /// Charges `ring` with the leases that have ended by `now`, each at its end, and gives the
    /// tokens. Comes before the ring is turned over to `now`.
    pub(crate) fn settle(&mut self, ring: &mut Ring, shape: WindowShape, now: Tick) -> u64 {
        if self.leases.first().is_none_or(|held| held.until > now) {
            return 0;
        }
        let ended = self.leases.partition_point(|held| held.until <= now);
        let mut sum = 0;
        for held in self.leases.drain(..ended) {
            held.settle(ring, shape);
            sum += u64::from(held.tokens);
        }
        self.tokens -= sum;
        sum
    }

    /// A lease of `tokens` until `until`, granted at `now` as the window knows it: that never goes
    /// back, and so no id comes again.
    pub(crate) fn grant(&mut self, now: Tick, until: Tick, tokens: u32) -> LeaseId {
        let id = LeaseId(self.last_id.saturating_add(1).max(now.0.cast_signed()));
        self.put(Held { id, until, tokens });
        id
    }

    /// Puts a lease in, new or from before a restart.
    pub(crate) fn put(&mut self, held: Held) {
        self.last_id = self.last_id.max(held.id.0);
        let place = self.leases.partition_point(|other| other.until <= held.until);
        self.leases.insert(place, held);
        self.tokens += u64::from(held.tokens);
    }

    /// Ends a lease early, and gives its tokens; `None` if it has ended.
    pub(crate) fn end(&mut self, id: LeaseId) -> Option<u32> {
        let place = self.leases.iter().position(|held| held.id == id)?;
        let held = self.leases.remove(place);
        self.tokens -= u64::from(held.tokens);
        Some(held.tokens)
    }
}

impl FromIterator<Held> for Ledger {
    fn from_iter<I: IntoIterator<Item = Held>>(leases: I) -> Self {
        let mut ledger = Self::default();
        leases.into_iter().for_each(|held| ledger.put(held));
        ledger
    }
}

impl Held {
    /// Charges `ring` with its tokens at its end.
    pub(crate) fn settle(&self, ring: &mut Ring, shape: WindowShape) {
        ring.advance(shape, self.until);
        ring.charge(self.tokens.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: WindowShape = WindowShape::SECOND;

    #[test]
    fn a_lease_counts_until_one_window_after_its_end() {
        let (mut ledger, mut ring) = (Ledger::default(), Ring::default());
        let now = Tick::from_ms(5_000);
        ledger.grant(now, Tick::from_ms(5_250), 3);
        let mut counted = |ms| {
            let now = Tick::from_ms(ms);
            ledger.settle(&mut ring, SHAPE, now);
            ring.advance(SHAPE, now);
            (ledger.tokens(), ring.sum())
        };
        assert_eq!(counted(5_249), (3, 0));
        assert_eq!(counted(6_100), (0, 3), "it ended in the bucket of 5 200");
        assert_eq!(counted(6_199), (0, 3));
        assert_eq!(counted(6_200), (0, 0));
    }

    #[test]
    fn leases_end_in_their_order_and_an_ended_one_is_nobodys() {
        let mut ledger = Ledger::default();
        let at = Tick::from_ms;
        let late = ledger.grant(at(10), at(900), 1);
        let soon = ledger.grant(at(10), at(100), 2);
        assert!(late < soon && ledger.last_end() == Some(at(900)));
        assert_eq!(ledger.settle(&mut Ring::default(), SHAPE, at(100)), 2);
        assert_eq!(ledger.end(soon), None);
        assert_eq!((ledger.end(late), ledger.end(late)), (Some(1), None));
        assert_eq!((ledger.last_end(), ledger.tokens()), (None, 0));
    }

    #[test]
    fn no_id_comes_again_on_a_clock_that_is_behind() {
        let (mut ledger, at) = (Ledger::default(), Tick::from_ms);
        let before = ledger.grant(at(5_000), at(5_100), 1);
        let mut restored = Ledger::default();
        restored.put(Held { id: before, until: at(100), tokens: 1 });
        assert!(restored.grant(at(10), at(90), 1) > before);
    }

    #[test]
    fn leases_are_forgotten_one_window_after_the_last_has_ended() {
        let (mut ledger, at) = (Ledger::default(), Tick::from_ms);
        assert!(ledger.is_idle(SHAPE, at(0)));
        ledger.grant(at(5_000), at(5_250), 3);
        assert!(!ledger.is_idle(SHAPE, at(6_199)));
        assert!(ledger.is_idle(SHAPE, at(6_200)));
    }
}
