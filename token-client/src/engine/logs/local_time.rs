//! Seconds as people read them, in the time zone of the machine.

use std::{fmt, time::UNIX_EPOCH};

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use limiter::Clock;

/// The time zone that logs are in.
#[derive(Clone, Debug)]
pub(super) struct LocalTime(TimeZone);

/// A second since the epoch, shown as `2023-11-14 22:13:20`.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) second: u64,
    local: DateTime,
}

impl LocalTime {
    /// That of the machine, or of the variable `TZ`; as it is now, for ever.
    pub(super) fn system() -> Self {
        Self(TimeZone::system())
    }

    #[cfg(test)]
    pub(super) const fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self(TimeZone::get(name).unwrap())
    }

    pub(super) fn at(&self, second: u64) -> Stamp {
        let timestamp = i64::try_from(second).ok().and_then(|s| Timestamp::from_second(s).ok());
        Stamp { second, local: self.0.to_datetime(timestamp.unwrap_or(Timestamp::MAX)) }
    }
}

impl Stamp {
    /// The day, as `2023-11-14`.
    pub(super) fn date(&self) -> String {
        self.local.date().to_string()
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.0}", self.local.date(), self.local.time())
    }
}

/// How many seconds wall time is ahead of ticks: those go on at their pace when a clock is set, and
/// stand still while a machine sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead(i64);

impl Ahead {
    /// Looks at both. What is less than a second changes nothing.
    pub(super) fn look(&mut self, clock: &dyn Clock) {
        let wall = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = |ms: u128| i64::try_from(ms).unwrap_or(i64::MAX);
        let ahead = ms(wall.as_millis()).saturating_sub(ms(clock.now().ms().into()));
        if ahead.saturating_sub(self.0.saturating_mul(1_000)).unsigned_abs() >= 1_000 {
            self.0 = ahead.saturating_add(500).div_euclid(1_000);
        }
    }

    /// The second of wall time for one of the engine.
    pub(super) const fn wall(self, second: u64) -> u64 {
        second.saturating_add_signed(self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::{Duration, SystemTime},
    };

    use limiter::Tick;

    use super::*;

    #[test]
    fn a_second_is_shown_in_its_zone() {
        let stamp = LocalTime::utc().at(1_700_000_000);
        assert_eq!(stamp.to_string(), "2023-11-14 22:13:20");
        let stamp = LocalTime::named("Asia/Shanghai").at(1_700_000_000);
        assert_eq!(
            (stamp.to_string(), stamp.date()),
            ("2023-11-15 06:13:20".into(), "2023-11-15".into())
        );
        assert_eq!(LocalTime::utc().at(0).to_string(), "1970-01-01 00:00:00");
        assert_eq!(LocalTime::utc().at(u64::MAX).date(), "9999-12-30");
    }

    /// Milliseconds of wall time; ticks stand at 100 s.
    #[derive(Debug)]
    struct Set(AtomicU64);

    impl Clock for Set {
        fn now(&self) -> Tick {
            Tick::from_ms(100_000)
        }

        fn wall(&self) -> SystemTime {
            UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_clock_that_is_set_moves_what_is_written_and_a_slow_one_does_not() {
        let mut ahead = Ahead::default();
        for (wall_ms, second) in [
            (100_000, 100),
            (100_999, 100),
            (99_001, 100),
            (101_400, 101),
            (100_200, 101),
            (3_700_000, 3_700),
            (50_000, 50),
            (0, 0),
        ] {
            ahead.look(&Set(wall_ms.into()));
            assert_eq!(ahead.wall(100), second, "{wall_ms}");
        }
    }
}
