//! The counters against a list of everything that ever happened.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Take(u64),
    Block(u64),
    Complete(u64, u64, bool),
    Borrow(u64, u64),
}

/// What happened, in milliseconds.
#[derive(Default)]
struct Log {
    /// When the tokens count in the second window: those that were borrowed, later.
    passed: Vec<(u64, u64)>,
    /// When they count in the minute.
    passed_in_minute: Vec<(u64, u64)>,
    blocked: Vec<(u64, u64)>,
    ended: Vec<(u64, u64)>,
    failed: Vec<(u64, u64)>,
    rt: Vec<(u64, u64)>,
}

fn sum(log: &[(u64, u64)], from: u64, until: u64) -> u64 {
    log.iter().filter(|(ms, _)| (from..until).contains(ms)).map(|(_, n)| n).sum()
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        (1_u64..9).prop_map(Event::Take),
        (1_u64..9).prop_map(Event::Block),
        (1_u64..9, 0_u64..9_000, any::<bool>())
            .prop_map(|(n, rt, bad)| Event::Complete(n, rt, bad)),
        (1_u64..9, 0_u64..20).prop_map(|(n, count)| Event::Borrow(n, count)),
    ];
    let after = prop_oneof![Just(0), 0_u64..200, 0_u64..900, 0_u64..9_000, 50_000_u64..130_000];
    prop::collection::vec((after, event), 0..80)
}

proptest! {
    #[test]
    fn every_reading_is_that_of_the_events_in_its_window(events in events()) {
        // Not at a border of anything.
        let (mut ms, mut stat, mut log) = (1_700_000_000_123, Stat::default(), Log::default());
        for (after, event) in events {
            ms += after;
            stat.advance(Tick::from_ms(ms));
            match event {
                Event::Take(n) => {
                    stat.take(n);
                    log.passed.push((ms, n));
                    log.passed_in_minute.push((ms, n));
                }
                Event::Block(n) => {
                    stat.block(n);
                    log.blocked.push((ms, n));
                }
                Event::Complete(n, rt, is_error) => {
                    stat.complete(n, rt, is_error);
                    log.ended.push((ms, n));
                    log.rt.push((ms, rt));
                    log.failed.extend(is_error.then_some((ms, n)));
                }
                Event::Borrow(n, count) => {
                    let next = ms - ms % 500 + 500;
                    let booked = sum(&log.passed, next, next + 500);
                    let fits = booked < count
                        && sum(&log.passed, next - 500, next + 500) + n <= count
                        && ms % 500 > 0;
                    let wait = stat.borrow(Tick::from_ms(ms), n, as_f64(count));
                    let right = fits.then(|| Duration::from_millis(next - ms));
                    prop_assert_eq!(wait, right);
                    if wait.is_some() {
                        log.passed.push((next, n));
                        log.passed_in_minute.push((ms, n));
                    }
                }
            }
            let (bucket, second) = (ms - ms % 500, ms - ms % 1_000);
            let (last, end) = (bucket - 500, bucket + 500);
            let minute = |log: &[(u64, u64)]| sum(log, second - 59_000, second + 1_000);
            let reading = stat.reading();
            prop_assert_eq!(reading.pass_qps, as_f64(sum(&log.passed, last, end)));
            prop_assert_eq!(reading.waiting, sum(&log.passed, end, end + 500));
            prop_assert_eq!(reading.block_qps, as_f64(sum(&log.blocked, last, end)));
            prop_assert_eq!(reading.success_qps, as_f64(sum(&log.ended, last, end)));
            prop_assert_eq!(reading.exception_qps, as_f64(sum(&log.failed, last, end)));
            prop_assert_eq!(reading.total_pass, minute(&log.passed_in_minute));
            prop_assert_eq!(reading.total_block, minute(&log.blocked));
            prop_assert_eq!(reading.total_success, minute(&log.ended));
            prop_assert_eq!(reading.total_exception, minute(&log.failed));
            let previous = sum(&log.passed_in_minute, second - 1_000, second);
            prop_assert_eq!(reading.previous_pass, previous);
            prop_assert_eq!(reading.previous_block, sum(&log.blocked, second - 1_000, second));
            let in_window = |(ms, _): &&(u64, u64)| (last..end).contains(ms);
            let shortest = log.rt.iter().filter(in_window).map(|(_, rt)| *rt).min();
            prop_assert_eq!(reading.min_rt, as_f64(shortest.unwrap_or(5_000).clamp(1, 5_000)));
            let best = sum(&log.ended, last, bucket).max(sum(&log.ended, bucket, end)).max(1);
            prop_assert_eq!(reading.max_success_qps, as_f64(2 * best));
            let ended = sum(&log.ended, last, end);
            let rt = as_f64(sum(&log.rt, last, end));
            let average = if ended == 0 { 0.0 } else { rt / as_f64(ended) };
            prop_assert_eq!(reading.avg_rt, average);
        }
    }
}
