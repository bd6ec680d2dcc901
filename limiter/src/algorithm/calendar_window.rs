//! Calendar window: so many tokens a minute, hour, day or month of a time zone.

use std::time::Duration;

use super::{
    Algorithm, Calendar, Invalid, Saved, Verdict,
    rate::{check_count, whole},
    saved::back,
};
use crate::Tick;

/// Counts tokens in the periods of a [`Calendar`].
///
/// *Formula*: `used(period of the wall clock) + n <= ⌊count⌋`. *Burst*: as
/// [`super::FixedWindow`]: the count at once, twice that around a border. *Memory*: 16 bytes.
/// *Cost*: two comparisons; a microsecond of calendar when a period begins. *Exact*: to the
/// nanosecond of the clock; a period is as long as the calendar says.
///
/// The ticks are **wall time** here. A clock that steps back stays in the period that it had
/// reached, until it reaches the end of that again: a period is never opened twice. So a clock that
/// jumps far ahead by mistake keeps the period it jumped to.
#[derive(Clone, Debug, PartialEq)]
pub struct CalendarWindow {
    limit: u64,
    calendar: Calendar,
}

/// What one key has used of its period: 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalendarWindowState {
    /// First instant after the period; 0 before the first call.
    end: Tick,
    used: u64,
}

impl CalendarWindow {
    /// `count` (0 ..= 2^53) tokens in each period.
    ///
    /// # Errors
    ///
    /// [`Invalid::Count`].
    pub fn new(count: f64, calendar: Calendar) -> Result<Self, Invalid> {
        Ok(Self { limit: whole(check_count(count)?), calendar })
    }

    fn left(&self, state: &CalendarWindowState, wall: Tick) -> u64 {
        self.limit.saturating_sub(self.used(state, wall))
    }

    /// Turns to the period of `wall`, if the one before is over.
    #[inline]
    fn advance(&self, state: &mut CalendarWindowState, wall: Tick) {
        if wall >= state.end {
            *state = CalendarWindowState { end: self.calendar.period(wall).end, used: 0 };
        }
    }

    /// When the period of a state began.
    fn start(&self, state: &CalendarWindowState) -> Tick {
        self.calendar.period(Tick(state.end.0.saturating_sub(1))).start
    }
}

impl Algorithm for CalendarWindow {
    type State = CalendarWindowState;

    #[inline(always)]
    fn take(&self, state: &mut CalendarWindowState, wall: Tick, n: u64) -> Verdict {
        let verdict = self.peek(state, wall, n);
        if verdict.is_admitted() {
            self.advance(state, wall);
            state.used += n;
        }
        verdict
    }

    #[inline(always)]
    fn peek(&self, state: &CalendarWindowState, wall: Tick, n: u64) -> Verdict {
        if n > self.limit || self.limit == 0 {
            return Verdict::NEVER;
        }
        match self.left(state, wall).checked_sub(n) {
            Some(remaining) => Verdict::Pass { remaining },
            // Something was used, so the end of the period is known.
            None => Verdict::Block { retry: Some(state.end.since(wall)) },
        }
    }

    fn give_back(&self, state: &mut CalendarWindowState, wall: Tick, n: u64) {
        if wall < state.end {
            state.used = state.used.saturating_sub(n);
        }
    }

    fn give_back_since(&self, state: &mut CalendarWindowState, wall: Tick, since: Tick, n: u64) {
        if since >= self.start(state) {
            self.give_back(state, wall, n);
        }
    }

    fn charge(&self, state: &mut CalendarWindowState, wall: Tick, n: u64) {
        self.advance(state, wall);
        state.used = state.used.saturating_add(n);
    }

    #[inline]
    fn used(&self, state: &CalendarWindowState, wall: Tick) -> u64 {
        if wall >= state.end { 0 } else { state.used }
    }

    /// Not before the end of the period, used or not: forgetting it would let a clock that steps
    /// back open it again.
    fn is_idle(&self, state: &CalendarWindowState, wall: Tick) -> bool {
        wall >= state.end
    }

    fn save(&self, state: &CalendarWindowState, _wall: Tick) -> Saved {
        let CalendarWindowState { end, used } = *state;
        Saved::CalendarWindow { start: self.start(state).0, end: end.0, used }
    }

    /// Of another calendar if it has no such period. On a wall clock that is `behind`, what was
    /// used counts in the period that holds the last instant of the saved one on that clock.
    fn restore(&self, saved: &Saved, behind: Duration) -> Option<CalendarWindowState> {
        let Saved::CalendarWindow { start, end, used } = *saved else { return None };
        let Some(last) = end.checked_sub(1) else { return Some(CalendarWindowState::default()) };
        let period = self.calendar.period(Tick(last));
        let is_same = (period.start, period.end) == (Tick(start), Tick(end));
        let end = self.calendar.period(back(last, behind)).end;
        is_same.then_some(CalendarWindowState { end, used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{
        Unit,
        suite::{admitted, pass, retry},
    };

    fn wall(text: &str) -> Tick {
        let at: jiff::Timestamp = text.parse().unwrap();
        Tick(u64::try_from(at.as_nanosecond()).unwrap())
    }

    fn a_day(count: f64, zone: &str) -> CalendarWindow {
        CalendarWindow::new(count, Calendar::new(Unit::Day, zone).unwrap()).unwrap()
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn the_state_is_16_bytes() {
        assert_eq!(size_of::<CalendarWindowState>(), 16);
    }

    #[test]
    fn five_a_day_begin_again_at_midnight_of_the_zone() {
        let (five, mut state) = (a_day(5.0, "Asia/Tokyo"), CalendarWindowState::default());
        let late = wall("2025-03-01T14:59:59.999999999Z");
        assert_eq!(admitted(&five, &mut state, late, 9), 5);
        assert_eq!(five.take(&mut state, late, 1), retry(Duration::from_nanos(1)));
        assert_eq!(five.take(&mut state, wall("2025-03-01T15:00:00Z"), 5), pass(0));
        assert_eq!(five.take(&mut state, wall("2025-03-01T15:00:00Z"), 1), retry(HOUR * 24));
        assert_eq!(five.take(&mut state, wall("2029-07-01T00:00:00Z"), 5), pass(0), "years later");
    }

    #[test]
    fn a_day_of_23_hours_ends_an_hour_early() {
        let (one, mut state) = (a_day(1.0, "Europe/Berlin"), CalendarWindowState::default());
        assert_eq!(one.take(&mut state, wall("2025-03-29T23:00:00Z"), 1), pass(0));
        assert_eq!(one.take(&mut state, wall("2025-03-29T23:00:00Z"), 1), retry(HOUR * 23));
    }

    #[test]
    fn a_clock_that_steps_back_never_opens_a_period_again() {
        let (one, mut state) = (a_day(1.0, "UTC"), CalendarWindowState::default());
        assert_eq!(one.take(&mut state, wall("2025-03-01T23:59:00Z"), 1), pass(0));
        assert_eq!(one.take(&mut state, wall("2025-03-02T00:00:30Z"), 1), pass(0));
        assert!(!one.is_idle(&state, wall("2025-03-02T00:00:30Z")));
        let back = wall("2025-03-01T23:59:30Z");
        assert_eq!(one.take(&mut state, back, 1), retry(HOUR * 24 + Duration::from_secs(30)));
        assert!(!one.is_idle(&state, back));
        assert_eq!(one.take(&mut state, wall("2025-03-02T00:00:00Z"), 1), retry(HOUR * 24));
        assert_eq!(one.take(&mut state, wall("2025-03-03T00:00:00Z"), 1), pass(0));
    }

    #[test]
    fn what_is_given_back_can_be_taken_in_the_same_period() {
        let (five, mut state) = (a_day(5.0, "UTC"), CalendarWindowState::default());
        let noon = wall("2025-03-01T12:00:00Z");
        assert_eq!(five.take(&mut state, noon, 4), pass(1));
        five.give_back(&mut state, noon, 2);
        assert_eq!(five.peek(&state, noon, 0), pass(3));
        five.give_back(&mut state, noon, 9);
        assert_eq!(five.peek(&state, noon, 5), pass(0));
        assert_eq!(five.peek(&state, noon, 6), Verdict::NEVER);
    }

    #[test]
    fn a_cost_that_is_known_later_is_paid_until_the_period_ends() {
        let (five, mut state) = (a_day(5.0, "Asia/Tokyo"), CalendarWindowState::default());
        let noon = wall("2025-03-01T12:00:00Z");
        five.charge(&mut state, noon, 731);
        assert_eq!(five.used(&state, noon), 731);
        assert_eq!(five.take(&mut state, noon, 1), retry(HOUR * 3));
        five.give_back_since(&mut state, noon, wall("2025-02-28T14:59:59Z"), 731);
        assert_eq!(five.used(&state, noon), 731, "of the day before");
        five.give_back_since(&mut state, noon, wall("2025-02-28T15:00:00Z"), 727);
        assert_eq!(five.take(&mut state, noon, 1), pass(0));
        five.charge(&mut state, noon, u64::MAX);
        assert_eq!(five.used(&state, noon), u64::MAX);
        assert_eq!(five.used(&state, wall("2025-03-01T15:00:00Z")), 0);
    }

    #[test]
    fn a_snapshot_keeps_the_period_and_no_other_calendar_takes_it() {
        let (five, mut state) = (a_day(5.0, "Europe/Berlin"), CalendarWindowState::default());
        let night = wall("2025-03-30T00:00:00Z");
        assert_eq!(five.take(&mut state, night, 4), pass(1));
        let saved = five.save(&state, night);
        assert_eq!(five.restore(&saved, Duration::ZERO), Some(state));
        assert_eq!(a_day(9.0, "Europe/Paris").restore(&saved, Duration::ZERO), Some(state));
        assert_eq!(a_day(5.0, "UTC").restore(&saved, Duration::ZERO), None);
        let minutes = Calendar::new(Unit::Minute, "Europe/Berlin").unwrap();
        let minutes = CalendarWindow::new(5.0, minutes).unwrap();
        assert_eq!(minutes.restore(&saved, Duration::ZERO), None, "though both end with it");
        // The day has 23 hours, so an hour and two days earlier it is two days earlier.
        let behind = five.restore(&saved, HOUR * 49).unwrap();
        assert_eq!(behind.end, wall("2025-03-28T23:00:00Z"));
        assert_eq!(five.restore(&saved, Duration::MAX).unwrap().end, wall("1970-01-01T23:00:00Z"));
        let fresh = five.save(&Default::default(), night);
        assert_eq!(five.restore(&fresh, Duration::ZERO), Some(CalendarWindowState::default()));
    }

    #[test]
    fn none_and_the_most_of_tokens() {
        let noon = wall("2025-03-01T12:00:00Z");
        let mut state = CalendarWindowState::default();
        assert_eq!(a_day(0.0, "UTC").take(&mut state, noon, 1), Verdict::NEVER);
        assert_eq!(a_day(9_007_199_254_740_992.0, "UTC").take(&mut state, noon, 1 << 53), pass(0));
        let calendar = Calendar::new(Unit::Month, "UTC").unwrap();
        assert_eq!(CalendarWindow::new(-1.0, calendar), Err(Invalid::Count(-1.0)));
    }
}
