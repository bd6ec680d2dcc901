//! A line of callers that are let go one by one: what the pacing algorithms share.
//!
//! The state is the time at which the last caller in line goes. As in Sentinel's
//! `ThrottlingController`, a caller of `n` tokens goes `n` intervals after the one before it, or at
//! once if that is already past.

use std::time::Duration;

use super::{
    Rate, SavedLine, Verdict,
    exact::{Wide, convert, div_ceil, nanos, tokens_in},
    rate::UNITS_MAX,
    saved::{back, whole_ns},
};
use crate::Tick;

/// When the last caller of one key goes: 24 bytes. Nobody has come by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    seen: Tick,
    /// Units of work from the epoch to the last caller's turn, plus one; 0 if there was none. At a
    /// rate of zero, which nobody joins, a unit is a nanosecond: turns that are promised stay.
    turn: Wide,
}

impl Line {
    /// Time is `now`, or what it was if that is later.
    #[inline]
    pub(super) fn see(&mut self, now: Tick) {
        self.seen = self.seen.max(now);
    }

    /// Joins the line with a call of `cost` units (below 2^126) if the wait is at most `longest`
    /// units (below 2^126), or says by how many units it is longer. A nanosecond is `per_ns` units
    /// and is not zero.
    #[inline(always)]
    pub(super) fn join(&mut self, per_ns: u64, cost: u128, longest: u128) -> Result<Verdict, u128> {
        // Below 2^64 × 2^54, so the sums below stay under 2^128.
        let now = u128::from(self.seen.0) * u128::from(per_ns);
        let turn = self.turn.get().checked_sub(1).map_or(now, |last| last + cost);
        let Some(wait) = turn.checked_sub(now).filter(|wait| *wait > 0) else {
            self.turn = Wide::new(now + 1);
            return Ok(Verdict::Pass { remaining: 0 });
        };
        if wait > longest {
            return Err(wait - longest);
        }
        self.turn = Wide::new(turn + 1);
        Ok(Verdict::Wait { wait: nanos(div_ceil(wait, per_ns)) })
    }

    /// Whether [`Self::join`] would say that the wait is longer.
    #[inline(always)]
    pub(super) fn is_over(&self, per_ns: u64, cost: u128, longest: u128) -> bool {
        let now = u128::from(self.seen.0) * u128::from(per_ns);
        self.turn.get().checked_sub(1).is_some_and(|last| last + cost > now + longest)
    }

    /// Moves the line back by calls of `one` unit each that cost `all` units together, as if they
    /// had joined it and nobody minded the wait; both are at most 2^126.
    pub(super) fn charge(&mut self, per_ns: u64, one: u128, all: u128) {
        let Some(others) = all.checked_sub(one) else { return };
        let now = u128::from(self.seen.0) * u128::from(per_ns);
        let first = self.turn.get().checked_sub(1).map_or(0, |last| last + one).max(now);
        // A turn never lies farther ahead than one that waits for the longest time there is.
        self.turn = Wide::new((first + others).min(now + UNITS_MAX) + 1);
    }

    /// Moves the line back behind somebody who goes `wait` units from now, if its last goes earlier.
    /// The wait is below 2^126.
    pub(super) fn follow(&mut self, per_ns: u64, wait: u128) {
        let turn = u128::from(self.seen.0) * u128::from(per_ns) + wait;
        self.turn = Wide::new(self.turn.get().max(turn + 1));
    }

    /// Calls of `one` unit each whose turn is ahead at `now`, rounded up.
    pub(super) fn tokens(&self, per_ns: u64, now: Tick, one: u128) -> u64 {
        let now = u128::from(self.seen.max(now).0) * u128::from(per_ns);
        let last = self.turn.get().saturating_sub(1);
        tokens_in(last.saturating_sub(now), one)
    }

    /// Steps back out of the line; `false` and no change if it was not the last who joined.
    pub(super) fn leave(&mut self, per_ns: u64, turn: Tick, cost: u128) -> bool {
        let Some(last) = self.turn.get().checked_sub(1) else { return false };
        let is_last = div_ceil(last, per_ns) == u128::from(turn.0);
        if is_last {
            self.turn = Wide::new((last + 1).saturating_sub(cost));
        }
        is_last
    }

    /// Whether a call of at most `cost` units goes at once at `now`, as in an empty line.
    pub(super) fn is_clear(&self, per_ns: u64, now: Tick, cost: u128) -> bool {
        let now = u128::from(self.seen.max(now).0) * u128::from(per_ns.max(1));
        self.turn.get().checked_sub(1).is_none_or(|last| last + cost <= now)
    }

    /// The last tick seen.
    pub(super) const fn seen(&self) -> Tick {
        self.seen
    }

    /// The nanosecond since the epoch from which on a call of `cost` units would wait no longer
    /// than `longest`.
    pub(super) fn due(&self, per_ns: u64, cost: u128, longest: u128) -> u128 {
        let turn = self.turn.get().checked_sub(1).map_or(0, |last| last + cost);
        div_ceil(turn.saturating_sub(longest), per_ns)
    }

    /// The nanosecond since the epoch at which the last in line goes, 0 for nobody.
    pub(crate) fn last_turn(&self, pace: &Rate) -> u128 {
        self.due(pace.per_ns().max(1), 0, 0)
    }

    /// The same turn in the units of another rate, rounded up to one of them.
    pub(super) fn convert(&mut self, from_per_ns: u64, to_per_ns: u64) {
        if let Some(last) = self.turn.get().checked_sub(1) {
            self.turn = Wide::new(convert(last, from_per_ns.max(1), to_per_ns.max(1)) + 1);
        }
    }

    pub(super) fn save(&self, per_ns: u64) -> SavedLine {
        SavedLine { per_ns: per_ns.max(1), seen: self.seen.0, turn: self.turn.get().checked_sub(1) }
    }

    pub(super) fn restore(saved: &SavedLine, per_ns: u64, behind: Duration) -> Self {
        let from = saved.per_ns.max(1);
        let earlier = u128::from(whole_ns(behind)) * u128::from(from);
        let turn = saved.turn.map(|turn| turn.saturating_sub(earlier));
        let turn = turn.map_or(0, |turn| convert(turn, from, per_ns.max(1)) + 1);
        Self { seen: back(saved.seen, behind), turn: Wide::new(turn) }
    }
}
