//! The numbers that the literature on rate limiting works its examples with, for every algorithm
//! that they are about. Each call is for one token, on a fresh state; the first tick is a border of
//! a second and of a minute.
#![expect(clippy::unwrap_used, reason = "a test says what it expects, in its helpers too")]

use std::{ops::RangeInclusive, time::Duration};

use limiter::{
    Tick, WindowShape,
    algorithm::{
        Algorithm, FixedWindow, Gcra, LeakyMeter, LeakyQueue, Level, Per, Rate, SlidingCounter,
        SlidingLog, SlidingWindow, SmoothBursty, TokenBucket, Verdict,
    },
};

/// 2023-11-14T22:14:00Z.
const START: Tick = Tick(1_700_000_040_000_000_000);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn at(ms: u64) -> Tick {
    START.plus(Duration::from_millis(ms))
}

fn per_second(count: f64) -> Rate {
    Rate::new(count, SECOND).unwrap()
}

/// How many are admitted of crowds that come at once: the milliseconds, and how many come.
fn admitted<A: Algorithm, const N: usize>(algorithm: &A, crowds: [(u64, u32); N]) -> [usize; N] {
    let mut state = A::State::default();
    crowds.map(|(ms, calls)| {
        let admits = |_: &u32| algorithm.take(&mut state, at(ms), 1).is_admitted();
        (0..calls).filter(admits).count()
    })
}

/// How many are admitted of single calls.
fn admitted_of<A: Algorithm>(algorithm: &A, calls_ms: impl Iterator<Item = u64>) -> usize {
    let mut state = A::State::default();
    calls_ms.filter(|ms| algorithm.take(&mut state, at(*ms), 1).is_admitted()).count()
}

mod a_window_of_5_per_2_s {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(2);

    /// Three at once, then fourteen at once in a new window.
    const CROWDS: [(u64, u32); 2] = [(0, 3), (2_000, 14)];

    #[test]
    fn fixed_admits_3_of_3_and_then_5_of_14() {
        assert_eq!(admitted(&FixedWindow::new(5.0, WINDOW).unwrap(), CROWDS), [3, 5]);
    }

    #[test]
    fn sliding_admits_3_of_3_and_then_5_of_14_and_not_6() {
        for buckets in [1, 2, 4, 10, 20, 1_000] {
            let shape = WindowShape::new(2_000, buckets).unwrap();
            let sliding = SlidingWindow::new(5.0, Per::Window, shape).unwrap();
            assert_eq!(admitted(&sliding, CROWDS), [3, 5], "{buckets} buckets");
        }
        assert_eq!(admitted(&SlidingLog::new(5.0, WINDOW).unwrap(), CROWDS), [3, 5]);
    }

    #[test]
    fn sliding_counted_by_two_windows_admits_5_when_the_3_have_faded_out() {
        let counter = SlidingCounter::new(5.0, WINDOW).unwrap();
        assert_eq!(admitted(&counter, CROWDS), [3, 2], "a window later they still count in full");
        assert_eq!(admitted(&counter, [(0, 3), (4_000, 14)]), [3, 5]);
    }
}

mod a_bucket_of_5_at_1_a_second {
    use super::*;

    fn each(holds: impl Fn(&dyn Fn(&[u64]) -> Vec<bool>)) {
        fn calls<A: Algorithm>(algorithm: &A, calls_ms: &[u64]) -> Vec<bool> {
            let mut state = A::State::default();
            let admits = |ms: &u64| algorithm.take(&mut state, at(*ms), 1).is_admitted();
            calls_ms.iter().map(admits).collect()
        }
        let rate = per_second(1.0);
        let (meter, bucket) =
            (LeakyMeter::new(rate, 5).unwrap(), TokenBucket::new(rate, 5).unwrap());
        let gcra = Gcra::new(rate, 5).unwrap();
        holds(&|ms| calls(&meter, ms));
        holds(&|ms| calls(&bucket, ms));
        holds(&|ms| calls(&gcra, ms));
    }

    fn count(admitted: &[bool]) -> usize {
        admitted.iter().filter(|admitted| **admitted).count()
    }

    #[test]
    fn admits_3_of_3_and_5_s_later_5_of_14() {
        each(|calls| {
            let admitted = calls(&[[0; 3].as_slice(), &[5_000; 14]].concat());
            let (first, later) = admitted.split_at(3);
            assert_eq!((count(first), count(later)), (3, 5));
        });
    }

    #[test]
    fn refills_a_token_and_a_half_in_a_second_and_a_half() {
        each(|calls| {
            let admitted = calls(&[0, 0, 0, 0, 0, 1_500, 1_500, 1_999, 2_000, 2_000]);
            let five = [true; 5];
            assert_eq!(admitted, [&five[..], &[true, false, false, true, false]].concat());
        });
    }

    #[test]
    fn is_not_starved_by_polling() {
        each(|calls| {
            let polls: Vec<u64> = (0..100).map(|i| i * 100).collect();
            assert_eq!(count(&calls(&polls)), 14, "five, and nine that drip in");
            let polls: Vec<u64> = (0..60).map(|i| i * 999).collect();
            assert_eq!(count(&calls(&polls)), 60, "each loses a thousandth of a full bucket");
        });
    }
}

#[test]
fn a_queue_of_5_at_2_a_second_accepts_5_of_7_at_once_and_releases_them_500_ms_apart() {
    let queue = LeakyQueue::with_places(per_second(2.0), 5).unwrap();
    let mut state = Default::default();
    let verdicts = [(); 7].map(|()| queue.take(&mut state, at(0), 1));
    let wait = |ms| Verdict::Wait { wait: Duration::from_millis(ms) };
    let at_once = Verdict::Pass { remaining: 0 };
    let full = Verdict::Block { retry: Some(Duration::from_millis(500)) };
    let right = [at_once, wait(500), wait(1_000), wait(1_500), wait(2_000), full, full];
    assert_eq!(verdicts, right);
}

#[test]
fn borders_do_not_drift_with_the_times_of_calls() {
    // Five or six calls fall into a second, and it begins where seconds begin: only two seconds
    // of the minute hold six. Were a border where the first call of a window is, more would.
    let five = FixedWindow::new(5.0, SECOND).unwrap();
    assert_eq!(admitted_of(&five, (0..302).map(|i| i * 199)), 300);
}

mod at_the_edge_of_a_window {
    use super::*;

    /// Milliseconds around the border of a second, each with a call.
    const BEFORE: RangeInclusive<u64> = 900..=999;
    const AFTER: RangeInclusive<u64> = 1_000..=1_100;

    /// Of 5 a second, those admitted in the tenth before the border, and in the one after it.
    fn of_5_a_second<A: Algorithm>(algorithm: &A) -> [usize; 2] {
        let before = admitted_of(algorithm, BEFORE);
        [before, admitted_of(algorithm, BEFORE.chain(AFTER)) - before]
    }

    /// Of 100 a minute, those admitted of 100 each, a tenth of a second before and after the border.
    fn of_100_a_minute<A: Algorithm>(algorithm: &A) -> [usize; 2] {
        admitted(algorithm, [(59_900, 100), (60_000, 100)])
    }

    #[test]
    fn a_fixed_window_admits_twice_the_count() {
        assert_eq!(of_5_a_second(&FixedWindow::new(5.0, SECOND).unwrap()), [5, 5]);
        assert_eq!(of_100_a_minute(&FixedWindow::new(100.0, MINUTE).unwrap()), [100, 100]);
    }

    #[test]
    fn a_sliding_window_admits_the_count() {
        for buckets in [2, 10, 20, 1_000] {
            let shape = WindowShape::new(1_000, buckets).unwrap();
            let five = SlidingWindow::new(5.0, Per::Second, shape).unwrap();
            assert_eq!(of_5_a_second(&five), [5, 0], "{buckets} buckets");
            let shape = WindowShape::new(60_000, buckets).unwrap();
            let hundred = SlidingWindow::new(100.0, Per::Window, shape).unwrap();
            assert_eq!(of_100_a_minute(&hundred), [100, 0], "{buckets} buckets");
        }
        assert_eq!(of_5_a_second(&SlidingLog::new(5.0, SECOND).unwrap()), [5, 0]);
        assert_eq!(of_100_a_minute(&SlidingLog::new(100.0, MINUTE).unwrap()), [100, 0]);
        assert_eq!(of_5_a_second(&SlidingCounter::new(5.0, SECOND).unwrap()), [5, 0]);
        assert_eq!(of_100_a_minute(&SlidingCounter::new(100.0, MINUTE).unwrap()), [100, 0]);
    }

    #[test]
    fn a_bucket_admits_its_burst_and_what_refills() {
        // A fifth of a second refills one token of five, and a third of a token of 100 a minute.
        let rate = per_second(5.0);
        assert_eq!(of_5_a_second(&TokenBucket::new(rate, 5).unwrap()), [5, 1]);
        assert_eq!(of_5_a_second(&LeakyMeter::new(rate, 5).unwrap()), [5, 1]);
        assert_eq!(of_5_a_second(&Gcra::new(rate, 5).unwrap()), [5, 1]);
        let rate = Rate::new(100.0, MINUTE).unwrap();
        assert_eq!(of_100_a_minute(&TokenBucket::new(rate, 100).unwrap()), [100, 0]);
        assert_eq!(of_100_a_minute(&LeakyMeter::new(rate, 100).unwrap()), [100, 0]);
        assert_eq!(of_100_a_minute(&Gcra::new(rate, 100).unwrap()), [100, 0]);
    }
}

#[test]
fn guava_lets_a_call_of_any_size_go_at_once_and_the_next_one_pays() {
    // What its documentation promises; tests/guava replays what the real one answers.
    let five = SmoothBursty::new(per_second(5.0), SECOND);
    let mut state: Level = five.start(at(0));
    assert_eq!(five.take(&mut state, at(0), 10), Verdict::Pass { remaining: 0 });
    assert_eq!(five.take(&mut state, at(0), 1), Verdict::Wait { wait: Duration::from_secs(2) });
}
