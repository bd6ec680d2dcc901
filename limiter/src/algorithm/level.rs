//! A level that time drains: the one state machine behind token bucket, leaky bucket as meter,
//! GCRA and Guava's bursty limiter.
//!
//! The level is work not yet done, in the units of [`Rate`]. A take adds `n` tokens' units, each
//! nanosecond drains `p` of them, and zero is the floor: so the tokens of a bucket are its
//! capacity less the level, and the theoretical arrival time of GCRA is the last tick plus the
//! time that the level takes to drain.

use std::time::Duration;

use super::{
    Invalid, Rate, Saved, Verdict,
    exact::{Wide, div_floor, mul_div_ceil, tokens_in},
    rate::UNITS_MAX,
    saved::back,
};
use crate::Tick;

/// What one key has used of a bucket: 24 bytes. Empty by default: nothing used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    last: Tick,
    units: Wide,
}

impl Level {
    /// A level of `units` at `now`.
    pub(super) const fn at(now: Tick, units: u128) -> Self {
        Self { last: now, units: Wide::new(units) }
    }

    /// The last tick seen, and the level then.
    pub(super) const fn last(&self) -> (Tick, u128) {
        (self.last, self.units.get())
    }

    /// Brings the level to `now`, or leaves it where it is if that is in the past, and returns it.
    #[inline(always)]
    pub(super) fn drain(&mut self, rate: &Rate, now: Tick) -> u128 {
        let units = self.units.get();
        if now <= self.last {
            return units;
        }
        let drained = u128::from(now.0 - self.last.0) * u128::from(rate.per_ns());
        self.last = now;
        let units = units.saturating_sub(drained);
        self.units = Wide::new(units);
        units
    }

    #[inline]
    pub(super) const fn set(&mut self, units: u128) {
        self.units = Wide::new(units);
    }

    /// The level at `now` if `n` tokens are given back: at least zero.
    pub(super) fn give_back(&mut self, rate: &Rate, now: Tick, n: u64) {
        let used = self.drain(rate, now);
        self.set(rate.units(n).map_or(0, |units| used.saturating_sub(units)));
    }

    /// As [`Self::give_back`], less what has drained since the tokens were taken: if the bucket ran
    /// empty meanwhile, so much of them is gone already.
    pub(super) fn give_back_since(&mut self, rate: &Rate, now: Tick, since: Tick, n: u64) {
        let used = self.drain(rate, now);
        let drained = rate.units_in(self.last.since(since));
        let units = rate.units(n).map_or(u128::MAX, |units| units.saturating_sub(drained));
        self.set(used.saturating_sub(units));
    }

    /// The level at `now` if `n` tokens are taken whatever it is, with a rate that is not zero.
    pub(super) fn charge(&mut self, rate: &Rate, now: Tick, n: u64) {
        let used = self.drain(rate, now);
        self.set((used + rate.units(n).unwrap_or(UNITS_MAX)).min(UNITS_MAX));
    }

    /// Tokens of the level at `now`, rounded up.
    pub(super) fn tokens(mut self, rate: &Rate, now: Tick) -> u64 {
        tokens_in(self.drain(rate, now), rate.per_token())
    }
}

/// A level with a top: at most `capacity` units fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    rate: Rate,
    /// Below 2^126; zero lets nothing through.
    capacity: Wide,
}

impl Bucket {
    /// A bucket of `burst` tokens. Of a rate of zero it has room for none.
    pub(super) fn new(rate: Rate, burst: u64) -> Result<Self, Invalid> {
        let capacity = rate.units(burst).ok_or(Invalid::TooSlow { tokens: burst })?;
        Ok(Self::with_capacity(rate, capacity))
    }

    pub(super) fn with_capacity(rate: Rate, capacity: u128) -> Self {
        let capacity = if rate.per_ns() == 0 { 0 } else { capacity };
        Self { rate, capacity: Wide::new(capacity) }
    }

    pub(super) const fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Pours `n` tokens in, or says how many units too many are in it; `None`: they never fit.
    #[inline(always)]
    fn pour(&self, level: &mut Level, now: Tick, n: u64) -> Result<Verdict, Option<u128>> {
        let used = level.drain(&self.rate, now);
        let capacity = self.capacity.get();
        let cost = self.rate.units(n).filter(|cost| *cost <= capacity && capacity > 0);
        let used = used + cost.ok_or(None)?;
        let room = capacity.checked_sub(used).ok_or_else(|| Some(used - capacity))?;
        level.set(used);
        Ok(Verdict::Pass { remaining: div_floor(room, self.rate.per_token()) })
    }

    #[inline]
    pub(super) fn take(&self, level: &mut Level, now: Tick, n: u64) -> Verdict {
        self.pour(level, now, n).unwrap_or_else(|over| self.rate.refusal(over))
    }

    #[inline(always)]
    pub(super) fn try_take(&self, level: &mut Level, now: Tick, n: u64) -> Verdict {
        self.pour(level, now, n).unwrap_or(Verdict::NEVER)
    }

    #[inline]
    pub(super) fn peek(&self, level: &Level, now: Tick, n: u64) -> Verdict {
        self.take(&mut { *level }, now, n)
    }

    /// A bucket that lets nothing through keeps no debt.
    pub(super) fn charge(&self, level: &mut Level, now: Tick, n: u64) {
        if self.capacity != Wide::default() {
            level.charge(&self.rate, now, n);
        }
    }

    /// As [`Self::charge`], but what does not fit runs over: the level is the capacity then.
    pub(super) fn fill(&self, level: &mut Level, now: Tick, n: u64) {
        self.charge(level, now, n);
        level.set(level.units.get().min(self.capacity.get()));
    }

    pub(super) fn is_idle(&self, level: &Level, now: Tick) -> bool {
        self.capacity == Wide::default() || { *level }.drain(&self.rate, now) == 0
    }

    /// Used tokens stay used, to less than a unit in favour of the limit; more of them than the
    /// new capacity holds drain at the new rate first.
    pub(super) fn adopt(&self, level: &mut Level, old: &Self, now: Tick) {
        let used = level.drain(&old.rate, now);
        level.set(self.convert(used, old.rate.per_token()));
    }

    fn convert(&self, units: u128, per_token: u128) -> u128 {
        // Above 2^126 it would take a quarter of a million years to drain.
        mul_div_ceil(units, self.rate.per_token(), per_token).min(UNITS_MAX)
    }

    pub(super) fn save(&self, mut level: Level, now: Tick) -> Saved {
        let units = level.drain(&self.rate, now);
        Saved::Bucket { per_token: self.rate.per_token(), last: level.last.0, units }
    }

    pub(super) fn restore(&self, saved: &Saved, behind: Duration) -> Option<Level> {
        let Saved::Bucket { per_token, last, units } = *saved else { return None };
        let units = self.convert(units.min(UNITS_MAX), per_token.clamp(1, UNITS_MAX));
        Some(Level::at(back(last, behind), units))
    }
}
