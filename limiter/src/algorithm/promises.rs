//! What every algorithm promises alike, whatever its numbers.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::WindowShape;
use suite::{Outcome, SECOND, START, ms, through_disk};

const YEAR: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Something that holds for an algorithm, and for a change to the same with other numbers.
trait Promise {
    fn holds<A: Algorithm>(&self, one: &A, other: &A) -> Outcome
    where
        A::State: Clone;
}

/// Numbers for each algorithm, twice.
#[derive(Clone, Debug)]
struct Numbers {
    count: (f64, f64),
    burst: (u64, u64),
    window: Duration,
    cold: (u32, u32),
}

fn windows(numbers: &Numbers, promise: &impl Promise) -> Outcome {
    let Numbers { count, window, .. } = numbers;
    let make = |count| FixedWindow::new(count, *window).unwrap();
    promise.holds(&make(count.0), &make(count.1))?;
    let make = |count| SlidingCounter::new(count, *window).unwrap();
    promise.holds(&make(count.0), &make(count.1))?;
    let make = |count: f64| SlidingLog::new(count.min(10_000.0), *window).unwrap();
    promise.holds(&make(count.0), &make(count.1))?;
    for (per, buckets) in [(Per::Window, 10), (Per::Second, 1), (Per::Second, 20)] {
        let make = |count| SlidingWindow::new(count, per, shape(*window, buckets)).unwrap();
        promise.holds(&make(count.0), &make(count.1))?;
    }
    let calendar = Calendar::new(Unit::Minute, "America/New_York").unwrap();
    let make = |count| CalendarWindow::new(count, calendar.clone()).unwrap();
    promise.holds(&make(count.0), &make(count.1))
}

/// The window cut into this many buckets, or one if they would not be whole milliseconds.
fn shape(window: Duration, buckets: u32) -> WindowShape {
    let ms = u64::try_from(window.as_millis()).unwrap();
    WindowShape::new(ms, buckets).or(WindowShape::new(ms, 1)).unwrap()
}

fn buckets(numbers: &Numbers, promise: &impl Promise) -> Outcome {
    let Numbers { count, burst, window, .. } = numbers;
    // What is refused as too slow is as fast as may be.
    let rate = |count| Rate::new(count, *window).or_else(|_| Rate::new(1.0, *window)).unwrap();
    let bucket = |count, burst| {
        let rate = rate(count);
        TokenBucket::new(rate, burst).or_else(|_| TokenBucket::new(rate, 1)).unwrap()
    };
    promise.holds(&bucket(count.0, burst.0), &bucket(count.1, burst.1))?;
    let bursty = |count, storage| SmoothBursty::new(rate(count), storage);
    promise.holds(&bursty(count.0, *window), &bursty(count.1, *window * 2))?;
    promise.holds(&bursty(count.0, Duration::ZERO), &bursty(count.1, Duration::MAX))
}

fn queues(numbers: &Numbers, promise: &impl Promise) -> Outcome {
    let Numbers { count, burst, window, .. } = numbers;
    let rate = |count| Rate::new(count, *window).or_else(|_| Rate::new(1.0, *window)).unwrap();
    let places = |count, places| {
        let rate = rate(count);
        LeakyQueue::with_places(rate, places).or_else(|_| LeakyQueue::with_places(rate, 1)).unwrap()
    };
    promise.holds(&places(count.0, burst.0), &places(count.1, burst.1))?;
    let long = |count| LeakyQueue::new(rate(count), Duration::MAX);
    promise.holds(&places(count.0, burst.0), &long(count.1))
}

fn warm_ups(numbers: &Numbers, promise: &impl Promise) -> Outcome {
    let Numbers { count, window, cold, .. } = numbers;
    let period = (*window).min(SECOND);
    let make = |count, cold| WarmUp::new(count, period, cold).unwrap();
    promise.holds(&make(count.0, cold.0), &make(count.1, cold.1))?;
    for longest in [Duration::ZERO, YEAR, Duration::MAX] {
        let make = |count, cold| WarmUpPacing::new(count, period, cold, longest).unwrap();
        promise.holds(&make(count.0, cold.0), &make(count.1, cold.1))?;
    }
    for (per, buckets) in [(Per::Window, 10), (Per::Second, 1), (Per::Second, 20)] {
        let shape = shape(*window, buckets);
        // A count a millisecond may be more than can be counted a second.
        let make = |count, cold| {
            let slower = |_| SlidingWarmUp::new(count / 1_000.0, per, shape, period, cold);
            SlidingWarmUp::new(count, per, shape, period, cold).or_else(slower).unwrap()
        };
        promise.holds(&make(count.0, cold.0), &make(count.1, cold.1))?;
    }
    let rate = |count| Rate::new(count, *window).or_else(|_| Rate::new(1.0, *window)).unwrap();
    let make = |count, cold| SmoothWarmingUp::new(rate(count), period, cold).unwrap();
    promise.holds(&make(count.0, cold.0), &make(count.1, cold.1))
}

/// Any calls at any ticks: nothing overflows, a peek agrees, and parameters can be changed, also
/// by a snapshot in which each number may be any.
#[derive(Clone, Debug)]
struct Survives(Vec<(u64, u64, u8)>);

impl Promise for Survives {
    fn holds<A: Algorithm>(&self, one: &A, other: &A) -> Outcome
    where
        A::State: Clone,
    {
        let mut state = A::State::default();
        for (now, n, what) in &self.0 {
            let (now, n) = (Tick(*now), *n);
            let before = one.used(&state, now);
            match what % 12 {
                0 => one.give_back(&mut state, now, n),
                1 => one.give_back_since(&mut state, now, Tick(n), n.rotate_left(7)),
                2 => {
                    one.charge(&mut state, now, n);
                    prop_assert!(one.used(&state, now) >= before.min(1 << 60));
                }
                3 => {
                    other.adopt(&mut state, one, now);
                    other.take(&mut state, now, n);
                    one.adopt(&mut state, other, now);
                }
                4 => {
                    let saved = one.save(&state, now);
                    state = other.restore(&saved, Duration::from_nanos(n)).unwrap();
                    other.take(&mut state, now, n);
                    let mut saved = other.save(&state, now);
                    corrupt(&mut saved, n);
                    if let Some(restored) = one.restore(&saved, Duration::from_nanos(n % 7)) {
                        state = restored;
                    }
                }
                _ => {
                    one.is_idle(&state, now);
                    let peek = one.peek(&state, now, n);
                    prop_assert_eq!(one.take(&mut state, now, n), peek);
                }
            }
        }
        Ok(())
    }
}

/// Puts any numbers into a snapshot, but for those that say whose it is.
fn corrupt(saved: &mut Saved, mut seed: u64) {
    let mut number = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match seed >> 62 {
            0 => seed >> 60 & 3,
            1 => u64::MAX - (seed >> 60 & 3),
            2 => seed.rotate_left(32) & ((1 << 53) - 1),
            _ => seed.rotate_left(32),
        }
    };
    match saved {
        Saved::FixedWindow { start, used, .. } => (*start, *used) = (number(), number()),
        Saved::CalendarWindow { used, .. } => *used = number(),
        Saved::SlidingCounter { last, previous, current, .. } => {
            (*last, *previous, *current) = (number(), number(), number());
        }
        Saved::SlidingLog { last, over, taken, .. } => {
            (*last, *over) = (number(), number());
            let entries = number() % 20;
            taken.extend((0..entries).map(|_| (number(), number())));
        }
        Saved::Bucket { per_token, last, units } => {
            (*per_token, *last, *units) = (wide(&mut number), number(), wide(&mut number));
        }
        Saved::LeakyQueue(line) => corrupt_line(line, number),
        Saved::WarmUp { reserve, passed } => {
            *passed = number();
            corrupt_reserve(reserve, number);
        }
        Saved::WarmUpPacing { reserve, passed, line } => {
            *passed = number();
            corrupt_reserve(reserve, &mut number);
            corrupt_line(line, number);
        }
        Saved::SlidingWindow(ring) => corrupt_ring(ring, number),
        Saved::SlidingWarmUp { ring, reserve, passed } => {
            *passed = number();
            corrupt_ring(ring, &mut number);
            corrupt_reserve(reserve, number);
        }
        Saved::SmoothBursty { per_ns, storage, last, units } => {
            (*per_ns, *last) = (number(), number());
            (*storage, *units) = (wide(&mut number), wide(&mut number));
        }
        Saved::SmoothWarmingUp { per_ns, storage, last, ahead, spent } => {
            (*per_ns, *last, *storage) = (number(), number(), wide(&mut number));
            (*ahead, *spent) = (wide(&mut number), wide(&mut number));
        }
    }
}

fn wide(mut number: impl FnMut() -> u64) -> u128 {
    u128::from(number()) << 64 | u128::from(number())
}

fn corrupt_line(line: &mut SavedLine, mut number: impl FnMut() -> u64) {
    let turn = (!number().is_multiple_of(3)).then(|| wide(&mut number));
    *line = SavedLine { per_ns: number(), seen: number(), turn };
}

fn corrupt_reserve(reserve: &mut SavedReserve, mut number: impl FnMut() -> u64) {
    let (max, end, tokens, fraction) = (number(), number(), number(), number());
    *reserve = SavedReserve { max, end, tokens, fraction };
}

fn corrupt_ring(ring: &mut SavedRing, mut number: impl FnMut() -> u64) {
    (ring.head_end, ring.booked) = (number(), number());
    let tokens = (0..number() % 20).map(|_| (u32::try_from(number() % 30).unwrap(), number()));
    ring.tokens = tokens.collect();
}

/// A history of calls: a gap in nanoseconds, tokens, and what is done.
type History = Vec<(u64, u64, u8)>;

/// How bad an answer is for the caller: what passes, what waits and how long, what does not pass.
fn badness(verdict: Verdict) -> (Duration, u64) {
    match verdict {
        Verdict::Pass { remaining } => (Duration::ZERO, u64::MAX - remaining),
        Verdict::Wait { wait } => (wait, 0),
        Verdict::Block { .. } => (Duration::MAX, 0),
    }
}

/// Beside a state in which what was given back had never been taken: that is at least as good.
struct GivesBack(History);

impl Promise for GivesBack {
    fn holds<A: Algorithm>(&self, one: &A, _other: &A) -> Outcome
    where
        A::State: Clone,
    {
        let (mut state, mut taken, mut now) = (A::State::default(), Vec::new(), START);
        for (gap, n, what) in &self.0 {
            now += gap;
            if *what == 0 && !taken.is_empty() {
                let which = usize::try_from(n * 7).unwrap() % taken.len();
                let (then, n) = taken.remove(which);
                one.give_back_since(&mut state, Tick(now), Tick(then), n);
            } else if *what == 1 {
                one.charge(&mut state, Tick(now), *n);
                taken.push((now, *n));
            } else if one.take(&mut state, Tick(now), *n).is_admitted() {
                taken.push((now, *n));
            }
            let mut right = A::State::default();
            for (then, n) in &taken {
                one.charge(&mut right, Tick(*then), *n);
            }
            for later in [0, 1, *gap, 300_000_000, 1_000_000_000, 1_999_999_999] {
                for m in [0, 1, *n] {
                    let at = Tick(now + later);
                    let (ours, right) = (one.peek(&state, at, m), one.peek(&right, at, m));
                    prop_assert!(badness(ours) >= badness(right), "{ours:?}, not {right:?}");
                }
            }
        }
        Ok(())
    }
}

/// What becomes of a state over some calls.
fn after<A: Algorithm>(algorithm: &A, history: &History) -> (A::State, u64) {
    let (mut state, mut now) = (A::State::default(), START);
    for (gap, n, what) in history {
        now += gap;
        match what {
            0 => algorithm.give_back(&mut state, Tick(now), *n),
            1 => algorithm.charge(&mut state, Tick(now), *n),
            _ => {
                algorithm.take(&mut state, Tick(now), *n);
            }
        }
    }
    (state, now)
}

/// A restart on a clock that is behind: nothing is better for it, and nothing at all is different
/// if it is behind by whole windows.
struct Restarts {
    history: History,
    behind: Duration,
    is_whole: bool,
}

impl Promise for Restarts {
    fn holds<A: Algorithm>(&self, one: &A, _other: &A) -> Outcome
    where
        A::State: Clone,
    {
        let (state, now) = after(one, &self.history);
        let mut twin = through_disk(one, &state, Tick(now), self.behind)?;
        let behind = u64::try_from(self.behind.as_nanos()).unwrap();
        for later in [0, 1, 99_999_999, 300_000_000, 1_000_000_000, 1_999_999_999, 60_000_000_000] {
            for m in [0, 1, 2, 5] {
                let right = one.peek(&state, Tick(now + later), m);
                let ours = one.peek(&twin, Tick(now + later - behind), m);
                prop_assert!(badness(ours) >= badness(right), "{ours:?}, not {right:?}");
                prop_assert!(!self.is_whole || ours == right, "{ours:?}, not {right:?}");
            }
        }
        if self.is_whole {
            let mut state = state;
            for later in (0..20).map(|i| now + i * 130_000_000) {
                let right = one.take(&mut state, Tick(later), 1);
                prop_assert_eq!(one.take(&mut twin, Tick(later - behind), 1), right);
            }
        }
        Ok(())
    }
}

/// What two have used, joined to one: that refuses whatever either would have refused.
struct Joins(History, History);

impl Promise for Joins {
    fn holds<A: Algorithm>(&self, one: &A, other: &A) -> Outcome
    where
        A::State: Clone,
    {
        let ((a, now), (b, then)) = (after(one, &self.0), after(other, &self.1));
        let now = now.max(then);
        let both = [one.save(&a, Tick(now)), other.save(&b, Tick(now))];
        let is_of_values = |saved: &Saved| {
            matches!(
                saved,
                Saved::SlidingWindow(_)
                    | Saved::FixedWindow { .. }
                    | Saved::CalendarWindow { .. }
                    | Saved::SlidingLog { .. }
                    | Saved::Bucket { .. }
                    | Saved::LeakyQueue(_)
            )
        };
        if !both.iter().all(is_of_values) {
            return Ok(());
        }
        let [mut joined, second] = both.clone();
        joined.join(second);
        let state = |saved: &Saved| one.restore(saved, Duration::ZERO).unwrap();
        let joined = state(&joined);
        for (alone, later) in both.iter().map(state).flat_map(|it| {
            let later = [0, 1, 99_999_999, 300_000_000, 1_000_000_000, 1_999_999_999];
            later.map(|later| (it.clone(), Tick(now + later)))
        }) {
            for m in [0, 1, 2, 5] {
                let (ours, right) = (one.peek(&joined, later, m), one.peek(&alone, later, m));
                prop_assert!(badness(ours) >= badness(right), "{ours:?}, not {right:?}");
            }
        }
        Ok(())
    }
}

/// A restart with other numbers is the change to those numbers.
struct Changes {
    history: History,
    /// From the last call to the restart.
    idle: u64,
}

impl Promise for Changes {
    fn holds<A: Algorithm>(&self, one: &A, other: &A) -> Outcome
    where
        A::State: Clone,
    {
        let (mut state, now) = after(one, &self.history);
        let now = now + self.idle;
        let restored = other.restore(&one.save(&state, Tick(now)), Duration::ZERO).unwrap();
        other.adopt(&mut state, one, Tick(now));
        for later in [0, 1, 300_000_000, 1_000_000_000, 1_999_999_999, 60_000_000_000] {
            for m in [0, 1, 5] {
                let at = Tick(now + later);
                prop_assert_eq!(other.peek(&restored, at, m), other.peek(&state, at, m));
            }
        }
        Ok(())
    }
}

fn calls() -> impl Strategy<Value = Vec<(u64, u64, u8)>> {
    let number = || prop_oneof![any::<u64>(), 0_u64..4, u64::MAX - 3..=u64::MAX, 0_u64..1 << 53];
    prop::collection::vec((number(), number(), any::<u8>()), 1..40)
}

/// The edges of what each number may be.
fn wild() -> impl Strategy<Value = Numbers> {
    let edges = vec![0.0, 0.2, 1.0, 2.5, 1e-9, 1e6 + 0.1, 9_007_199_254_740_992.0];
    let count = || prop_oneof![prop::sample::select(edges.clone()), 0.0..100.0];
    let window = prop::sample::select(vec![ms(1), YEAR]);
    ((count(), count()), (0_u64..100, any::<u64>()), window)
        .prop_map(|(count, burst, window)| Numbers { count, burst, window, cold: (100, 2) })
}

/// Numbers of which something can be seen in a few seconds.
fn tame() -> impl Strategy<Value = Numbers> {
    let count = || prop_oneof![0.5..30.0, prop::sample::select(vec![1.0, 2.0, 5.0, 10.0])];
    let burst = (1_u64..20, 1_u64..20);
    let window = prop::sample::select(vec![ms(500), SECOND, SECOND * 2]);
    ((count(), count()), burst, window, (2_u32..9, 2_u32..9))
        .prop_map(|(count, burst, window, cold)| Numbers { count, burst, window, cold })
}

fn history() -> impl Strategy<Value = History> {
    let gap = prop_oneof![Just(0), 0_u64..400_000_000, Just(1_000_000_000), 0_u64..4_000_000_000];
    prop::collection::vec((gap, 0_u64..12, 0_u8..6), 1..30)
}

proptest! {
    #[test]
    fn no_call_overflows_a_window(calls in calls(), numbers in wild()) {
        windows(&numbers, &Survives(calls))?;
    }

    #[test]
    fn no_call_overflows_a_bucket(calls in calls(), numbers in wild()) {
        buckets(&numbers, &Survives(calls.clone()))?;
        queues(&numbers, &Survives(calls))?;
    }

    #[test]
    fn no_call_overflows_a_warm_up(calls in calls(), numbers in wild()) {
        warm_ups(&numbers, &Survives(calls))?;
    }

    #[test]
    fn what_is_given_back_lets_no_more_pass_than_if_it_had_not_been_taken(
        history in history(), numbers in tame(),
    ) {
        let promise = GivesBack(history);
        windows(&numbers, &promise)?;
        buckets(&numbers, &promise)?;
    }

    #[test]
    fn what_two_have_used_joined_to_one_refuses_what_either_would_have_refused(
        one in history(), other in history(), numbers in tame(),
    ) {
        let promise = Joins(one, other);
        windows(&numbers, &promise)?;
        buckets(&numbers, &promise)?;
        queues(&numbers, &promise)?;
    }

    #[test]
    fn after_a_restart_it_decides_as_before(
        history in history(), numbers in tame(), minutes in 0_u64..5,
    ) {
        let behind = SECOND * 60 * u32::try_from(minutes).unwrap();
        let promise = Restarts { history, behind, is_whole: true };
        windows(&numbers, &promise)?;
        buckets(&numbers, &promise)?;
        queues(&numbers, &promise)?;
        warm_ups(&numbers, &promise)?;
    }

    #[test]
    fn after_a_restart_on_a_clock_that_is_behind_no_more_passes(
        history in history(), numbers in tame(), behind in 0_u64..100_000_000_000,
    ) {
        let promise = Restarts { history, behind: Duration::from_nanos(behind), is_whole: false };
        windows(&numbers, &promise)?;
        buckets(&numbers, &promise)?;
        queues(&numbers, &promise)?;
    }

    #[test]
    fn after_a_restart_with_other_numbers_it_decides_as_after_a_change(
        mut history in history(), numbers in tame(), idle in 0_u64..3_000_000_000,
    ) {
        let promise = Changes { history: history.clone(), idle };
        windows(&numbers, &promise)?;
        buckets(&numbers, &promise)?;
        queues(&numbers, &promise)?;
        // Each call brings a reserve to its second; in between it is kept for the one who calls.
        history.push((0, 1, 2));
        warm_ups(&numbers, &Changes { history, idle: 0 })?;
    }
}

#[test]
fn a_state_of_another_kind_or_window_is_not_restored() {
    let second = FixedWindow::new(5.0, SECOND).unwrap();
    let saved = second.save(&Default::default(), Tick(START));
    assert!(FixedWindow::new(5.0, SECOND * 2).unwrap().restore(&saved, SECOND).is_none());
    assert!(SlidingCounter::new(5.0, SECOND).unwrap().restore(&saved, SECOND).is_none());
    let log = SlidingLog::new(5.0, SECOND).unwrap();
    let saved = log.save(&Default::default(), Tick(START));
    assert!(SlidingLog::new(5.0, SECOND * 2).unwrap().restore(&saved, SECOND).is_none());
    let rate = Rate::new(5.0, SECOND).unwrap();
    let bucket = TokenBucket::new(rate, 5).unwrap();
    let saved = bucket.save(&Level::default(), Tick(START));
    assert!(Gcra::new(rate, 7).unwrap().restore(&saved, SECOND).is_some(), "the same bucket");
    assert!(LeakyQueue::new(rate, SECOND).restore(&saved, SECOND).is_none());
}
