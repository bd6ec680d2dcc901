//! Minutes, hours, days and months of a time zone.

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use super::Invalid;
use crate::Tick;

const NANOSECOND: jiff::SignedDuration = jiff::SignedDuration::from_nanos(1);

/// Which period of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// From second 0 to second 0.
    Minute,
    /// From minute 0 to minute 0.
    Hour,
    /// From the first instant of a date to that of the next: 23 to 25 hours where clocks change.
    Day,
    /// From the first instant of a month to that of the next.
    Month,
}

/// A period in wall time, in nanoseconds since the epoch: `start` belongs to it, `end` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its first instant.
    pub start: Tick,
    /// The first instant after it.
    pub end: Tick,
}

/// Cuts wall time into the periods of one time zone, with the rules of the IANA database that is
/// compiled in, so no file is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Calendar {
    unit: Unit,
    zone: TimeZone,
}

impl Calendar {
    /// Periods of `unit` in the zone with this IANA name, such as `Europe/Berlin` or `UTC`.
    ///
    /// # Errors
    ///
    /// [`Invalid::TimeZone`].
    pub fn new(unit: Unit, zone: &str) -> Result<Self, Invalid> {
        let zone = TimeZone::get(zone).map_err(|_| Invalid::TimeZone(zone.to_owned()))?;
        Ok(Self { unit, zone })
    }

    /// The period that holds `wall`: `start <= wall < end`. Costs a microsecond.
    #[must_use]
    pub fn period(&self, wall: Tick) -> Period {
        match self.unit {
            Unit::Minute => self.even(wall, 60_000_000_000),
            Unit::Hour => self.even(wall, 3_600_000_000_000),
            Unit::Day => self.dated(wall, |date| date, Date::tomorrow),
            Unit::Month => {
                self.dated(wall, Date::first_of_month, |date| date.last_of_month().tomorrow())
            }
        }
    }

    /// Periods of `length` nanoseconds of local time. One ends early, and one begins, when the
    /// clock changes by less than the length, as on Lord Howe Island.
    fn even(&self, wall: Tick, length: i64) -> Period {
        let at = timestamp(wall);
        let offset = i64::from(self.zone.to_offset(at).seconds()) * 1_000_000_000;
        // Modulo the length first: the sum of a late tick and an offset need not fit.
        let wall_ns = wall.0 % length.unsigned_abs();
        let into = (wall_ns.cast_signed() + offset).rem_euclid(length).unsigned_abs();
        let start = Tick(wall.0.saturating_sub(into));
        let end = Tick(wall.0.saturating_add(length.unsigned_abs() - into));
        // One later, to find a change at `at` itself, which begins a period, too. Changes of the
        // name only split nothing: they all happen on the hour.
        let after = at.checked_add(NANOSECOND).unwrap_or(at);
        let last = self.zone.preceding(after).next().map(|change| tick(change.timestamp()));
        let next = self.zone.following(at).next().map(|change| tick(change.timestamp()));
        Period {
            start: last.map_or(start, |change| change.max(start)),
            end: next.map_or(end, |change| change.min(end)),
        }
    }

    /// Periods that are made of dates: `first` is the first date of the one that holds a date,
    /// `next` the first after it.
    fn dated(
        &self,
        wall: Tick,
        first: impl Fn(Date) -> Date,
        next: impl Fn(Date) -> Result<Date, jiff::Error>,
    ) -> Period {
        let mut date = first(self.zone.to_datetime(timestamp(wall)).date());
        loop {
            let following = next(date).expect("a tick is a date from 1970 to 2554");
            let (start, end) = (self.first_instant(date), self.first_instant(following));
            // A clock that goes back over midnight shows the end of a date that is over.
            if wall < end || end == Tick(u64::MAX) {
                return Period { start, end };
            }
            date = following;
        }
    }

    fn first_instant(&self, date: Date) -> Tick {
        let day = date.to_zoned_datetime(self.zone.clone());
        tick(day.expect("a tick is a date from 1970 to 2554").timestamp())
    }
}

fn timestamp(wall: Tick) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(wall.0)).expect("a tick is a date from 1970 to 2554")
}

/// Instants before the epoch become the epoch, and those after the last tick the last tick.
fn tick(at: Timestamp) -> Tick {
    Tick(u64::try_from(at.as_nanosecond().max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Tick {
        tick(text.parse().unwrap())
    }

    fn period(unit: Unit, zone: &str, wall: &str) -> (String, String) {
        let Period { start, end } = Calendar::new(unit, zone).unwrap().period(at(wall));
        (timestamp(start).to_string(), timestamp(end).to_string())
    }

    fn is(unit: Unit, zone: &str, wall: &str, start: &str, end: &str) {
        assert_eq!(period(unit, zone, wall), (start.to_owned(), end.to_owned()), "{zone} {wall}");
    }

    #[test]
    fn periods_of_utc() {
        let wall = "2024-02-29T23:59:59.999999999Z";
        is(Unit::Minute, "UTC", wall, "2024-02-29T23:59:00Z", "2024-03-01T00:00:00Z");
        is(Unit::Hour, "UTC", wall, "2024-02-29T23:00:00Z", "2024-03-01T00:00:00Z");
        is(Unit::Day, "UTC", wall, "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z");
        is(Unit::Month, "UTC", wall, "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
        is(
            Unit::Month,
            "UTC",
            "2024-12-31T00:00:00Z",
            "2024-12-01T00:00:00Z",
            "2025-01-01T00:00:00Z",
        );
    }

    #[test]
    fn a_day_has_23_or_25_hours_when_clocks_change() {
        let zone = "Europe/Berlin";
        is(Unit::Day, zone, "2025-03-30T12:00:00Z", "2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z");
        is(Unit::Day, zone, "2025-10-26T12:00:00Z", "2025-10-25T22:00:00Z", "2025-10-26T23:00:00Z");
        is(
            Unit::Month,
            zone,
            "2025-03-30T12:00:00Z",
            "2025-02-28T23:00:00Z",
            "2025-03-31T22:00:00Z",
        );
    }

    #[test]
    fn an_hour_that_clocks_show_twice_is_two_hours() {
        let zone = "America/New_York";
        is(
            Unit::Hour,
            zone,
            "2025-11-02T05:30:00Z",
            "2025-11-02T05:00:00Z",
            "2025-11-02T06:00:00Z",
        );
        is(
            Unit::Hour,
            zone,
            "2025-11-02T06:30:00Z",
            "2025-11-02T06:00:00Z",
            "2025-11-02T07:00:00Z",
        );
        // Half an hour more or less, in the middle of local hours.
        let zone = "Australia/Lord_Howe";
        is(
            Unit::Hour,
            zone,
            "2025-04-05T14:59:00Z",
            "2025-04-05T14:00:00Z",
            "2025-04-05T15:00:00Z",
        );
        is(
            Unit::Hour,
            zone,
            "2025-04-05T15:00:00Z",
            "2025-04-05T15:00:00Z",
            "2025-04-05T15:30:00Z",
        );
        is(
            Unit::Hour,
            "Asia/Kolkata",
            "2025-01-01T00:29:59Z",
            "2024-12-31T23:30:00Z",
            "2025-01-01T00:30:00Z",
        );
    }

    #[test]
    fn a_day_may_begin_at_one_oclock_and_may_not_exist_at_all() {
        let zone = "America/Sao_Paulo";
        is(Unit::Day, zone, "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z");
        let zone = "Pacific/Apia";
        is(Unit::Day, zone, "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z");
        is(Unit::Day, zone, "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z");
    }

    #[test]
    fn midnight_that_comes_twice_begins_one_day() {
        // At 00:01 the clocks of St. John's went back to 23:01 of the day before.
        let (zone, start, end) =
            ("America/St_Johns", "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z");
        for wall in ["2006-10-29T02:30:30Z", "2006-10-29T02:31:00Z", "2006-10-29T03:00:00Z"] {
            is(Unit::Day, zone, wall, start, end);
        }
    }

    #[test]
    fn an_unknown_zone_is_named() {
        let refused = Calendar::new(Unit::Day, "Europe/Atlantis").unwrap_err();
        assert_eq!(refused, Invalid::TimeZone("Europe/Atlantis".to_owned()));
    }

    #[test]
    fn the_first_and_the_last_tick_have_a_period() {
        for unit in [Unit::Minute, Unit::Hour, Unit::Day, Unit::Month] {
            let calendar = Calendar::new(unit, "Pacific/Kiritimati").unwrap();
            assert_eq!(calendar.period(Tick(0)).start, Tick(0));
            assert_eq!(calendar.period(Tick(u64::MAX)).end, Tick(u64::MAX));
        }
    }

    proptest! {
        /// Periods tile the time: each holds the tick it was asked for, and its last instant and
        /// its end lie in it and in the next one.
        #[test]
        fn periods_have_no_gap_and_no_overlap(
            unit in prop::sample::select(vec![Unit::Minute, Unit::Hour, Unit::Day, Unit::Month]),
            zone in prop::sample::select(vec![
                "UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia",
                "Africa/Casablanca", "America/Havana", "Asia/Kathmandu",
            ]),
            wall in 0_u64..4_000_000_000_000_000_000,
        ) {
            let calendar = Calendar::new(unit, zone).unwrap();
            let period = calendar.period(Tick(wall));
            prop_assert!(period.start.0 <= wall && wall < period.end.0);
            prop_assert_eq!(calendar.period(period.start), period);
            prop_assert_eq!(calendar.period(Tick(period.end.0 - 1)), period);
            prop_assert_eq!(calendar.period(period.end).start, period.end);
        }
    }
}
