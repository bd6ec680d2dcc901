//! Calendar periods through the engine: over changes of clocks, and with a wall clock that steps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limiter::{Ask, ClusterEngine, Decision, Explained, Param, Tick, What};

use super::{engine, load, rule};

/// An instant in wall time.
fn wall(text: &str) -> SystemTime {
    let at: jiff::Timestamp = text.parse().unwrap();
    UNIX_EPOCH + Duration::from_nanos(at.as_nanosecond().unsigned_abs() as u64)
}

const VALUE: [Param<'static>; 1] = [Param::Str(std::borrow::Cow::Borrowed("somebody"))];

/// A rule of `count` a period, for a flow and for values, and an engine whose tick started when
/// wall time was `start`.
fn periods(count: u32, calendar: &str, zone: &str) -> ClusterEngine {
    let engine = engine();
    let config = format!(r#","calendar":"{calendar}","timeZone":"{zone}""#);
    load(&engine, &[rule(count, "", &config), rule(count, r#""paramIdx":0,"#, &config)]);
    engine
}

fn whats(count: i32) -> [What<'static>; 2] {
    [What::Flow { id: 1, count }, What::Param { id: 1, count, values: &VALUE }]
}

/// Asks when the wall clock shows that, the tick being what it is.
fn ask(
    engine: &ClusterEngine,
    now: Tick,
    at: SystemTime,
    what: &What<'_>,
    peek: bool,
) -> Explained {
    engine.tidy(now, at);
    engine.rules().ask(now, what, Ask { peek, ..Ask::default() }).unwrap()
}

#[test]
fn a_day_has_the_hours_that_it_has_where_clocks_change() {
    const HOUR: u64 = 3_600_000;
    for (morning, hours) in
        [("2025-03-29T23:00:00Z", 23), ("2025-06-14T22:00:00Z", 24), ("2025-10-25T22:00:00Z", 25)]
    {
        for what in whats(2) {
            let engine = periods(2, "day", "Europe/Berlin");
            let first = ask(&engine, Tick(0), wall(morning), &what, false);
            assert_eq!(first.decision, Decision::Pass { remaining: 0 });
            assert_eq!((first.window_ms, first.limit()), (hours * HOUR, limit_of(hours)));
            let refused = ask(&engine, Tick(0), wall(morning), &what, false);
            assert_eq!(refused.decision, Decision::Block);
            let retry = Duration::from_millis(hours * HOUR);
            assert_eq!(refused.retry, Some(retry));
            let early = retry - Duration::from_nanos(1);
            for (after, passes) in [(early, false), (retry, true)] {
                let (now, at) = (Tick(0).plus(after), wall(morning) + after);
                let decision = ask(&engine, now, at, &what, true).decision;
                assert_eq!(decision != Decision::Block, passes, "{morning} and {after:?}");
            }
        }
    }
}

fn limit_of(hours: u64) -> String {
    if hours == 24 { "2 per 1 d".to_owned() } else { format!("2 per {hours} h") }
}

#[test]
fn an_hour_may_be_half_an_hour_and_a_month_is_what_it_is() {
    for what in whats(1) {
        let engine = periods(1, "hour", "Australia/Lord_Howe");
        let at = wall("2025-04-05T15:10:00Z");
        assert_eq!(ask(&engine, Tick(0), at, &what, false).window_ms, 30 * 60_000);
        let refused = ask(&engine, Tick(0), at, &what, false);
        assert_eq!(refused.retry, Some(Duration::from_secs(20 * 60)));

        let engine = periods(1, "month", "UTC");
        let at = wall("2024-02-10T00:00:00Z");
        assert_eq!(ask(&engine, Tick(0), at, &what, false).window_ms, 29 * 86_400_000);
        assert_eq!(
            ask(&engine, Tick(0), at, &what, false).retry,
            Some(Duration::from_secs(20 * 86_400))
        );
    }
}

#[test]
fn a_wall_clock_that_steps_back_opens_no_period_again_not_even_for_values_that_were_forgotten() {
    let midnight = wall("2025-03-02T00:00:00Z");
    let (before, after) = (midnight - Duration::from_secs(10), midnight + Duration::from_secs(10));
    for what in whats(1) {
        let engine = periods(1, "day", "UTC");
        let mut now = Tick::from_ms(5_000);
        let mut next = |engine: &ClusterEngine, at| {
            now = now.plus(Duration::from_secs(20));
            ask(engine, now, at, &what, false)
        };
        assert_eq!(next(&engine, before).decision, Decision::Pass { remaining: 0 });
        assert_eq!(next(&engine, before).decision, Decision::Block);
        // The next day; the value has fallen idle, and is forgotten before it is asked for.
        engine.tidy(Tick::from_ms(46_000), after);
        // An administrator sets the clock back.
        let refused = next(&engine, before);
        match what {
            // A flow that nobody asked for in the new period is still in the old one.
            What::Flow { .. } => assert_eq!(refused.decision, Decision::Block),
            // A value that was forgotten is in the new one, of which it has its token.
            What::Param { .. } => assert_eq!(refused.decision, Decision::Pass { remaining: 0 }),
        }
        let opened = next(&engine, after).decision != Decision::Block;
        assert_eq!(opened, matches!(what, What::Flow { .. }), "one a period and no more");
        assert_eq!(next(&engine, before).decision, Decision::Block);
        assert_eq!(next(&engine, after).decision, Decision::Block);
    }
}
