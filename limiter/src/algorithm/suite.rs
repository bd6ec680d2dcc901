//! What every algorithm is held to: a random walk beside a slow and obvious model that counts in
//! fractions of big integers.

use std::time::Duration;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use proptest::prelude::*;

use super::{Algorithm, Verdict};
use crate::Tick;

pub(super) type Outcome = Result<(), TestCaseError>;

/// 2023-11-14, a multiple of a second, a minute and no hour.
pub(super) const START: u64 = 1_700_000_040_000_000_000;

const CENTURY_NS: u64 = 3_155_760_000_000_000_000;

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Milliseconds after a tick that is a multiple of a minute.
pub(super) fn at(ms: u64) -> Tick {
    Tick(START + ms * 1_000_000)
}

pub(super) fn pass(remaining: u64) -> Verdict {
    Verdict::Pass { remaining }
}

pub(super) fn wait(wait: Duration) -> Verdict {
    Verdict::Wait { wait }
}

pub(super) fn retry(retry: Duration) -> Verdict {
    Verdict::Block { retry: Some(retry) }
}

/// How many of `calls` calls for one token at once are admitted.
pub(super) fn admitted<A: Algorithm>(
    algorithm: &A,
    state: &mut A::State,
    now: Tick,
    calls: u32,
) -> usize {
    (0..calls).filter(|_| algorithm.take(state, now, 1).is_admitted()).count()
}

/// How many calls for one token, one at each tick, are admitted by a fresh state.
pub(super) fn admitted_at<A: Algorithm>(
    algorithm: &A,
    ticks: impl IntoIterator<Item = Tick>,
) -> usize {
    let mut state = A::State::default();
    ticks.into_iter().map(|now| admitted(algorithm, &mut state, now, 1)).sum()
}

/// Case B02 of Sentinel's recorded scenarios: of 100 a second that warms up for 10 s, what passes in
/// each of the first 22 seconds of 120 calls, and the tokens that are stored then.
pub(super) fn sentinel_s_warm_up() -> Vec<(usize, u64)> {
    let mut seconds = vec![
        (33, 1_000),
        (34, 967),
        (36, 933),
        (38, 897),
        (41, 859),
        (44, 818),
        (47, 774),
        (52, 727),
        (58, 675),
        (68, 617),
        (83, 549),
    ];
    seconds.resize(22, (100, 466));
    seconds
}

pub(super) fn ratio(numerator: u128, denominator: u128) -> BigRational {
    BigRational::new(numerator.into(), denominator.into())
}

/// Tokens per nanosecond.
pub(super) fn per_ns(count: f64, window: Duration) -> BigRational {
    BigRational::from_float(count).unwrap() / BigInt::from(window.as_nanos())
}

pub(super) fn floor(number: &BigRational) -> u64 {
    number.floor().to_integer().to_u64().unwrap_or(u64::MAX)
}

pub(super) fn ceil(number: &BigRational) -> u64 {
    number.ceil().to_integer().to_u64().unwrap_or(u64::MAX)
}

/// A time that is rounded up to a nanosecond.
pub(super) fn ceil_ns(number: &BigRational) -> Duration {
    let ns = number.ceil().to_integer().to_u128().unwrap();
    super::exact::nanos(ns)
}

/// The obvious way to do it. Ticks never go back here.
pub(super) trait Model {
    /// The right answer; what stands in a `Block` is not looked at.
    fn take(&mut self, now: u64, n: u64) -> Verdict;
    fn give_back(&mut self, now: u64, n: u64);
    fn charge(&mut self, now: u64, n: u64);
    fn used(&mut self, now: u64) -> u64;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    gap: u64,
    back: bool,
    n: u64,
    what: What,
    /// Whether the state is written and read before.
    saves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Take,
    GiveBack,
    Charge,
}

/// Walks with gaps that matter to a window and to an interval of this length, and to neither.
pub(super) fn steps(window: Duration, interval: f64, n_max: u64) -> BoxedStrategy<Vec<Step>> {
    let window = u64::try_from(window.as_nanos()).unwrap();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rough time")]
    let interval = (interval.min(1e18) as u64).max(1);
    let gap = prop_oneof![
        3 => Just(0),
        1 => Just(1),
        4 => 0..=interval.saturating_mul(2),
        2 => interval - 1..=interval + 1,
        3 => 0..=window,
        2 => window - 1..=window + 1,
        1 => window..=window.saturating_mul(3),
        1 => Just(CENTURY_NS),
    ];
    let n = prop_oneof![3 => Just(1), 2 => 0..=n_max, 1 => Just(n_max)];
    let what =
        prop_oneof![10 => Just(What::Take), 1 => Just(What::GiveBack), 1 => Just(What::Charge)];
    let step = (gap, 0_u8..12, n, what, 0_u8..6);
    let step = step.prop_map(|(gap, back, n, what, saves)| Step {
        gap,
        back: back == 0,
        n,
        what,
        saves: saves == 0,
    });
    prop::collection::vec(step, 1..60).boxed()
}

/// Walks an algorithm beside its model; the result is when tokens went, and how many.
///
/// `idle_n` is the largest call for which an idle state must decide as a fresh one.
pub(super) fn walk<A: Algorithm>(
    algorithm: &A,
    model: &mut impl Model,
    steps: &[Step],
    idle_n: u64,
) -> Result<Vec<(u64, u64)>, TestCaseError>
where
    A::State: Clone,
{
    let mut state = A::State::default();
    let mut went = Vec::new();
    let (mut now, mut last) = (START, 0);
    for step in steps {
        // Back by a quarter of an hour at most, so that the models need no time before 1970.
        let back = step.gap % 1_000_000_000_000;
        now = if step.back { now - back } else { now.saturating_add(step.gap) };
        if now > u64::MAX - CENTURY_NS {
            break;
        }
        last = last.max(now);
        if step.saves {
            state = through_disk(algorithm, &state, Tick(last), Duration::ZERO)?;
        }
        prop_assert_eq!(algorithm.used(&state, Tick(now)), model.used(last));
        match step.what {
            What::Take => {}
            What::GiveBack => {
                algorithm.give_back(&mut state, Tick(now), step.n);
                model.give_back(last, step.n);
                continue;
            }
            What::Charge => {
                algorithm.charge(&mut state, Tick(now), step.n);
                model.charge(last, step.n);
                continue;
            }
        }
        let before = state.clone();
        let verdict = algorithm.take(&mut state, Tick(now), step.n);
        prop_assert_eq!(algorithm.peek(&before, Tick(now), step.n), verdict, "peek agrees");
        tries_alike(algorithm, before.clone(), (&state, verdict), Tick(now), step.n)?;
        let right = model.take(last, step.n);
        let blocks = |verdict| matches!(verdict, Verdict::Block { .. });
        prop_assert!(verdict == right || blocks(verdict) && blocks(right), "{verdict:?} {right:?}");
        if algorithm.is_idle(&before, Tick(last)) && step.n <= idle_n {
            let fresh = algorithm.take(&mut A::State::default(), Tick(last), step.n);
            prop_assert_eq!(fresh, verdict, "an idle state decides as a fresh one");
        }
        match verdict {
            Verdict::Pass { .. } => went.push((last, step.n)),
            Verdict::Wait { wait } => {
                prop_assert!(!wait.is_zero());
                went.push((Tick(last).plus(wait).0, step.n));
            }
            Verdict::Block { retry: None } => {
                let later = algorithm.peek(&state, Tick(u64::MAX), step.n);
                prop_assert_eq!(later, verdict, "never is never");
            }
            Verdict::Block { retry: Some(retry) } if now == last => {
                is_exact(algorithm, &state, now, step.n, retry)?;
            }
            Verdict::Block { .. } => {}
        }
    }
    Ok(went)
}

/// Who does not ask when to come back gets the same answer, and leaves the same `state`.
pub(super) fn tries_alike<A: Algorithm>(
    algorithm: &A,
    mut before: A::State,
    (state, verdict): (&A::State, Verdict),
    now: Tick,
    n: u64,
) -> Outcome {
    let tried = algorithm.try_take(&mut before, now, n);
    prop_assert!(tried == verdict || !tried.is_admitted() && !verdict.is_admitted(), "{tried:?}");
    prop_assert_eq!(algorithm.save(&before, now), algorithm.save(state, now));
    Ok(())
}

/// The state as it comes back from a snapshot.
pub(super) fn through_disk<A: Algorithm>(
    algorithm: &A,
    state: &A::State,
    now: Tick,
    behind: Duration,
) -> Result<A::State, TestCaseError> {
    let saved = algorithm.save(state, now);
    let text = serde_json::to_string(&saved).unwrap();
    let read = serde_json::from_str(&text).unwrap();
    prop_assert_eq!(&saved, &read);
    let restored = algorithm.restore(&read, behind);
    restored.ok_or_else(|| TestCaseError::fail("of the same kind"))
}

/// A nanosecond before the time to retry it is too early; then it is not.
pub(super) fn is_exact<A: Algorithm>(
    algorithm: &A,
    state: &A::State,
    now: u64,
    n: u64,
    retry: Duration,
) -> Outcome {
    prop_assert!(!retry.is_zero());
    let Ok(due) = u64::try_from(u128::from(now) + retry.as_nanos()) else { return Ok(()) };
    let early = algorithm.peek(state, Tick(due - 1), n);
    prop_assert!(!early.is_admitted(), "{retry:?} is too long: {early:?}");
    let then = algorithm.peek(state, Tick(due), n);
    prop_assert!(then.is_admitted(), "{retry:?} is too short: {then:?}");
    Ok(())
}

/// Never more than `burst + rate × elapsed` from any token to any later one.
pub(super) fn is_bounded(
    went: &[(u64, u64)],
    burst: &BigRational,
    per_ns: &BigRational,
) -> Outcome {
    for (first, (start, _)) in went.iter().enumerate() {
        let mut sum = BigRational::zero();
        for (end, n) in went.iter().skip(first) {
            sum += BigRational::from_integer((*n).into());
            let most = burst + per_ns * BigRational::from_integer((end - start).into());
            prop_assert!(sum <= most, "{sum} tokens from {start} to {end}, at most {most}");
        }
    }
    Ok(())
}

/// The model of token bucket, meter and GCRA: tokens, dripping in.
pub(super) struct Tokens {
    pub(super) burst: BigRational,
    pub(super) per_ns: BigRational,
    pub(super) tokens: BigRational,
    pub(super) last: u64,
}

impl Tokens {
    pub(super) fn full(burst: BigRational, per_ns: BigRational) -> Self {
        Self { tokens: burst.clone(), burst, per_ns, last: 0 }
    }

    fn refill(&mut self, now: u64) {
        let elapsed = BigRational::from_integer((now - self.last).into());
        self.tokens = (&self.tokens + elapsed * &self.per_ns).min(self.burst.clone());
        self.last = now;
    }
}

impl Model for Tokens {
    fn take(&mut self, now: u64, n: u64) -> Verdict {
        self.refill(now);
        let left = &self.tokens - BigRational::from_integer(n.into());
        if left < BigRational::zero() || self.per_ns.is_zero() {
            return Verdict::NEVER;
        }
        self.tokens = left;
        pass(floor(&self.tokens))
    }

    fn give_back(&mut self, now: u64, n: u64) {
        self.refill(now);
        self.tokens += BigRational::from_integer(n.into());
        self.tokens = self.tokens.clone().min(self.burst.clone());
    }

    fn charge(&mut self, now: u64, n: u64) {
        self.refill(now);
        if !self.per_ns.is_zero() {
            self.tokens -= BigRational::from_integer(n.into());
        }
    }

    fn used(&mut self, now: u64) -> u64 {
        self.refill(now);
        ceil(&(&self.burst - &self.tokens))
    }
}

/// The same walk with takes only: with refunds more may be taken than is used, and charges take
/// more than they may.
pub(super) fn takes_only(steps: Vec<Step>) -> Vec<Step> {
    steps.into_iter().map(|step| Step { what: What::Take, ..step }).collect()
}

/// The same walk with takes in the place of refunds.
pub(super) fn without_refunds(mut steps: Vec<Step>) -> Vec<Step> {
    for step in steps.iter_mut().filter(|step| step.what == What::GiveBack) {
        step.what = What::Take;
    }
    steps
}
