//! Warm-up and pacing: a queue whose callers stand farther apart while the service is cold.

use std::time::Duration;

use super::{
    Algorithm, Invalid, Line, Rate, Reserve, Saved, Verdict, WarmUpCurve, exact::Wide,
    rate::UNITS_MAX,
};
use crate::Tick;

/// How often the time of a retry is corrected. Each step finds more tokens than the one before, by
/// a smaller and smaller step unless a single call is as large as half the reserve.
const RETRY_STEPS: u32 = 256;

/// Lets tokens go one interval of [`WarmUpCurve`] apart: `cold` times `1 / count` seconds when
/// cold, `1 / count` when warm.
///
/// *Formula* (Sentinel's `WarmUpRateLimiterController`): as [`super::LeakyQueue`], with
/// `n / threshold` for `n / count`. Warm intervals are exact; cold ones are rounded up to a
/// fraction of a nanosecond. Sentinel rounds to milliseconds, so that above 2 000 a second nothing
/// was limited, and a count of 0 let all through; here it blocks. *Burst*: none, as the queue.
/// *Memory*: 56 bytes. *Cost*: that of the queue, and a multiplication and division while cold.
///
/// Tokens count as passed in the second in which they are booked.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmUpPacing {
    rate: Rate,
    /// Units, below 2^126.
    longest: Wide,
    /// Apart, since most refusals do not look at it.
    curve: Box<WarmUpCurve>,
}

/// The reserve and the line of one key: 56 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmUpPacingState {
    reserve: Reserve,
    passed: u64,
    line: Line,
}

impl WarmUpPacing {
    /// `count` tokens a second in the end, see [`WarmUpCurve::new`], in a queue in which nobody
    /// waits longer than `longest`.
    ///
    /// # Errors
    ///
    /// Those of [`WarmUpCurve::new`] and [`Rate::new`].
    pub fn new(
        count: f64,
        period: Duration,
        cold: u32,
        longest: Duration,
    ) -> Result<Self, Invalid> {
        let rate = Rate::new(count, Duration::from_secs(1))?;
        let curve = WarmUpCurve::new(count, period, cold)?;
        let curve = Box::new(curve);
        Ok(Self { rate, longest: Wide::new(rate.units_in(longest)), curve })
    }

    /// As [`Algorithm::take`], for somebody who waits no longer than `max`.
    pub fn take_within(
        &self,
        state: &mut WarmUpPacingState,
        now: Tick,
        n: u64,
        max: Duration,
    ) -> Verdict {
        self.take_up_to(state, now, n, self.longest.get().min(self.rate.units_in(max)))
    }

    /// Gives up the booking whose turn is at `turn`, if nobody has booked behind it. Its time is
    /// free again as far as a warm interval of `n` tokens goes.
    pub fn cancel(&self, state: &mut WarmUpPacingState, turn: Tick, n: u64) -> bool {
        let Some(cost) = self.rate.units(n) else { return false };
        self.rate.per_ns() > 0 && state.line.leave(self.rate.per_ns(), turn, cost)
    }

    /// Puts whoever comes next behind a call for `n` tokens that somebody else lets go `wait` after
    /// `now`, as far as anybody waits here. The tokens warm up the service as others do.
    pub(crate) fn follow(&self, state: &mut WarmUpPacingState, now: Tick, wait: Duration, n: u64) {
        state.line.see(now);
        if self.rate.per_ns() > 0 {
            self.advance(state, now);
            let wait = self.rate.units_in(wait).min(self.longest.get());
            state.line.follow(self.rate.per_ns(), wait);
            state.passed = state.passed.saturating_add(n);
        }
    }

    /// As [`Algorithm::try_take`], for an owner who counts what passes by itself: `previous` tokens
    /// passed in the whole second before that of `now`.
    #[inline]
    pub fn take_after(
        &self,
        state: &mut WarmUpPacingState,
        now: Tick,
        n: u64,
        previous: u64,
    ) -> Verdict {
        self.curve.advance(&mut state.reserve, now, previous);
        self.try_take(state, now, n)
    }

    /// The pace when warm.
    pub(crate) const fn rate(&self) -> Rate {
        self.rate
    }

    /// A state with this reserve, and the line of a queue of that pace: the turns that were
    /// promised stay.
    pub(crate) fn state_from(
        &self,
        reserve: Reserve,
        (mut line, pace): (Line, Rate),
    ) -> WarmUpPacingState {
        line.convert(pace.per_ns(), self.rate.per_ns());
        WarmUpPacingState { reserve, passed: 0, line }
    }

    /// How slow the queue is while it is cold.
    #[must_use]
    pub fn curve(&self) -> &WarmUpCurve {
        &self.curve
    }

    #[inline]
    fn advance(&self, state: &mut WarmUpPacingState, now: Tick) {
        if !state.reserve.holds(now) {
            self.turn_over(state, now);
        }
    }

    #[inline(never)]
    fn turn_over(&self, state: &mut WarmUpPacingState, now: Tick) {
        let previous = self.curve.previous(&state.reserve, now, state.passed);
        self.curve.advance(&mut state.reserve, now, previous);
        state.passed = 0;
    }

    /// Joins the queue, or says by how many units the wait would be too long at what `n` tokens cost
    /// now; `None`: for ever. No tokens pass at once and leave the queue as it is.
    #[inline(always)]
    fn join(
        &self,
        state: &mut WarmUpPacingState,
        now: Tick,
        n: u64,
        longest: u128,
    ) -> Result<Verdict, Option<u128>> {
        state.line.see(now);
        if n == 0 && self.rate.per_ns() > 0 {
            return Ok(Verdict::Pass { remaining: 0 });
        }
        let cost = self.cost(state, now, n).ok_or(None)?;
        let joined = state.line.join(self.rate.per_ns(), cost, longest)?;
        state.passed = state.passed.saturating_add(n);
        Ok(joined)
    }

    /// Brings the reserve to `now`, and says what `n` tokens cost with it.
    #[inline(always)]
    fn cost(&self, state: &mut WarmUpPacingState, now: Tick, n: u64) -> Option<u128> {
        self.advance(state, now);
        let cost = self.rate.units(n).filter(|_| self.rate.per_ns() > 0)?;
        Some(self.curve.stretch(&state.reserve, cost)).filter(|cost| *cost < UNITS_MAX)
    }

    /// Whether `n` tokens would wait too long, however warm the service were.
    #[inline(always)]
    fn is_hopeless(&self, state: &WarmUpPacingState, n: u64) -> bool {
        let least = self.rate.units(n).filter(|_| n > 0);
        let longest = self.longest.get();
        least.is_some_and(|least| state.line.is_over(self.rate.per_ns(), least, longest))
    }

    fn take_up_to(
        &self,
        state: &mut WarmUpPacingState,
        now: Tick,
        n: u64,
        longest: u128,
    ) -> Verdict {
        let over = match self.join(state, now, n, longest) {
            Ok(verdict) => return verdict,
            Err(over) => over,
        };
        let Verdict::Block { retry: Some(retry) } = self.rate.refusal(over) else {
            return Verdict::NEVER;
        };
        // Until the next second the cost is what it is now.
        let left = state.reserve.until_next(state.line.seen());
        let retry = Some(retry).filter(|retry| *retry < left);
        Verdict::Block { retry: retry.or_else(|| self.retry(state, now, n, longest)) }
    }

    /// Time until `n` tokens that were refused at `now` are accepted.
    ///
    /// What they cost may fall at the start of the next second, when the reserve is charged with
    /// what has passed; from then on it only grows, as the reserve does. A call as large as half
    /// the reserve may be told a time later than need be, never an earlier one.
    fn retry(
        &self,
        state: &WarmUpPacingState,
        now: Tick,
        n: u64,
        longest: u128,
    ) -> Option<Duration> {
        let mut at = state.line.seen().max(now);
        let start = at;
        let next = state.reserve.end();
        for _ in 0..RETRY_STEPS {
            let cost = self.cost(&mut { *state }, at, n)?;
            let due = self.due(state, cost, longest);
            if due <= at {
                return Some(at.since(start));
            }
            at = if at < next { due.min(next) } else { due };
        }
        let coldest = self.curve.coldest(self.rate.units(n)?);
        Some(self.due(state, coldest, longest).since(start))
    }

    fn due(&self, state: &WarmUpPacingState, cost: u128, longest: u128) -> Tick {
        let due = state.line.due(self.rate.per_ns(), cost, longest);
        Tick(u64::try_from(due).unwrap_or(u64::MAX))
    }
}

impl WarmUpPacingState {
    /// How cold the service is.
    #[must_use]
    pub const fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// Who waits.
    pub(crate) const fn line(&self) -> &Line {
        &self.line
    }
}

impl Algorithm for WarmUpPacing {
    type State = WarmUpPacingState;

    #[inline]
    fn take(&self, state: &mut WarmUpPacingState, now: Tick, n: u64) -> Verdict {
        self.take_up_to(state, now, n, self.longest.get())
    }

    #[inline(always)]
    fn try_take(&self, state: &mut WarmUpPacingState, now: Tick, n: u64) -> Verdict {
        state.line.see(now);
        self.advance(state, now);
        if self.is_hopeless(state, n) {
            return Verdict::NEVER;
        }
        self.join(state, now, n, self.longest.get()).unwrap_or(Verdict::NEVER)
    }

    #[inline]
    fn peek(&self, state: &WarmUpPacingState, now: Tick, n: u64) -> Verdict {
        self.take(&mut { *state }, now, n)
    }

    /// Gives back nothing, as [`super::LeakyQueue`]; see [`WarmUpPacing::cancel`].
    fn give_back(&self, state: &mut WarmUpPacingState, now: Tick, _n: u64) {
        state.line.see(now);
    }

    /// Gives back nothing, as [`Self::give_back`].
    fn give_back_since(&self, state: &mut WarmUpPacingState, now: Tick, _since: Tick, _n: u64) {
        state.line.see(now);
    }

    /// The tokens warm up the service as others do.
    fn charge(&self, state: &mut WarmUpPacingState, now: Tick, n: u64) {
        state.line.see(now);
        if let Some(one) = self.cost(state, now, 1) {
            let all = self.cost(state, now, n).unwrap_or(UNITS_MAX);
            state.line.charge(self.rate.per_ns(), one, all);
            state.passed = state.passed.saturating_add(n);
        }
    }

    /// Tokens whose turn is ahead, at the distance in which they stand now.
    fn used(&self, state: &WarmUpPacingState, now: Tick) -> u64 {
        let one = self.cost(&mut { *state }, now, 1);
        one.map_or(0, |one| state.line.tokens(self.rate.per_ns(), now, one))
    }

    /// Idle once cold, and once a call as large as the whole queue would go at once; of larger ones
    /// as [`super::LeakyQueue`].
    fn is_idle(&self, state: &WarmUpPacingState, now: Tick) -> bool {
        let mut state = *state;
        // Of a rate of zero none is known: then the turns that are promised are waited for.
        let cost = self.cost(&mut state, now, 1).unwrap_or(0);
        let is_cold = state.passed == 0 && self.curve.is_cold(&state.reserve);
        is_cold && state.line.is_clear(self.rate.per_ns(), now, self.longest.get() + cost)
    }

    /// The turns that were promised stay as they are, and the service as warm as it is.
    fn adopt(&self, state: &mut WarmUpPacingState, old: &Self, now: Tick) {
        old.advance(state, now);
        self.curve.adopt(&mut state.reserve, &old.curve);
        state.line.convert(old.rate.per_ns(), self.rate.per_ns());
    }

    fn save(&self, state: &WarmUpPacingState, _now: Tick) -> Saved {
        Saved::WarmUpPacing {
            reserve: self.curve.save(&state.reserve),
            passed: state.passed,
            line: state.line.save(self.rate.per_ns()),
        }
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<WarmUpPacingState> {
        let Saved::WarmUpPacing { reserve, passed, line } = saved else { return None };
        Some(WarmUpPacingState {
            reserve: self.curve.restore(reserve, behind),
            passed: *passed,
            line: Line::restore(line, self.rate.per_ns(), behind),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{self, SECOND, at, ms, pass, retry, wait};

    fn pacing(count: f64, seconds: u32, longest: Duration) -> WarmUpPacing {
        WarmUpPacing::new(count, SECOND * seconds, 3, longest).unwrap()
    }

    #[test]
    fn the_state_is_56_bytes() {
        assert_eq!(size_of::<WarmUpPacingState>(), 56);
    }

    #[test]
    fn cold_calls_are_30_ms_apart_and_warm_ones_10() {
        // D01.
        let (hundred, mut state) = (pacing(100.0, 10, ms(100)), WarmUpPacingState::default());
        let answers = [(); 6].map(|()| hundred.take(&mut state, at(0), 1));
        let waits = [30, 60, 90].map(|t| wait(ms(t)));
        assert_eq!(answers[..4], [pass(0), waits[0], waits[1], waits[2]]);
        assert_eq!(answers[4..], [retry(ms(20)), retry(ms(20))]);
        // Call as often as it lets us for 30 s.
        let (mut now, mut turns) = (at(0), Vec::new());
        while now < at(30_000) {
            match hundred.take(&mut state, now, 1) {
                Verdict::Block { retry } => now = now.plus(retry.unwrap()),
                Verdict::Wait { wait } => turns.push(now.plus(wait)),
                Verdict::Pass { .. } => turns.push(now),
            }
        }
        assert!(state.reserve.tokens() < 500);
        assert!(
            turns[turns.len() - 1_000..].windows(2).all(|pair| pair[1].since(pair[0]) == ms(10))
        );
    }

    #[test]
    fn more_than_2_000_a_second_are_limited_and_zero_blocks() {
        let (fast, mut state) = (pacing(10_000.0, 1, ms(1)), WarmUpPacingState::default());
        let accepted = (0..1_000).filter(|_| fast.take(&mut state, at(0), 1).is_admitted()).count();
        assert_eq!(accepted, 4, "at 0, 0.3, 0.6 and 0.9 ms");
        let zero = pacing(0.0, 10, ms(100));
        for n in [0, 1] {
            assert_eq!(zero.take(&mut WarmUpPacingState::default(), at(0), n), Verdict::NEVER);
        }
    }

    #[test]
    fn a_warm_service_is_paced_without_drift() {
        let mut state = WarmUpPacingState::default();
        let three = pacing(3.0, 10, SECOND);
        let mut now = at(0);
        let mut turns = Vec::new();
        for _ in 0..20_000 {
            match three.take(&mut state, now, 1) {
                Verdict::Block { retry } => now = now.plus(retry.unwrap()),
                Verdict::Wait { wait } => turns.push(now.plus(wait).0),
                Verdict::Pass { .. } => turns.push(now.0),
            }
        }
        let (from, to) = (turns[100], turns[9_100]);
        assert!(to - from == 3_000_000_000_000, "9 000 turns take 3 000 s: {}", to - from);
    }

    #[test]
    fn less_than_one_a_second_warms_up_too() {
        let (slow, mut state) = (pacing(0.25, 100, SECOND * 30), WarmUpPacingState::default());
        assert_eq!(slow.take(&mut state, at(0), 1), pass(0));
        assert_eq!(slow.take(&mut state, at(0), 1), wait(SECOND * 12));
        assert_eq!(slow.take(&mut state, at(0), 1), wait(SECOND * 24));
        assert!(slow.cancel(&mut state, at(24_000), 1));
        assert!(
            !slow.cancel(&mut state, at(12_000), 1),
            "its time is free, but for a warm interval"
        );
    }

    #[test]
    fn a_cost_that_is_known_later_moves_the_line_back_at_the_cold_distance() {
        let (hundred, mut state) = (pacing(100.0, 10, SECOND), WarmUpPacingState::default());
        hundred.charge(&mut state, at(0), 3);
        assert_eq!(hundred.used(&state, at(0)), 2, "and one whose turn it is");
        assert_eq!(hundred.take(&mut state, at(0), 1), wait(ms(90)));
        hundred.charge(&mut state, at(0), u64::MAX);
        assert!(matches!(hundred.take(&mut state, at(0), 1), Verdict::Block { retry: Some(_) }));
        assert!(!hundred.is_idle(&state, at(3_600_000)));
    }

    proptest! {
        /// Callers go at least a warm interval apart, nobody waits too long, and a refusal names
        /// the exact time.
        #[test]
        fn turns_are_apart_and_each_retry_is_exact(
            count in prop::sample::select(vec![0.25, 1.0, 2.5, 7.0, 100.0]),
            cold in 2_u32..8,
            longest in 0_u64..5_000,
            calls in prop::collection::vec((0_u64..3_000, 1_u64..4, 0_u8..12), 1..60),
        ) {
            let longest = ms(longest);
            let pacing = WarmUpPacing::new(count, SECOND * 20, cold, longest).unwrap();
            let (mut state, mut now) = (WarmUpPacingState::default(), suite::START);
            let mut last = None;
            for (gap, n, what) in calls {
                now += gap * 1_000_000;
                match what {
                    0 => pacing.charge(&mut state, Tick(now), n),
                    1 => state = suite::through_disk(&pacing, &state, Tick(now), Duration::ZERO)?,
                    _ => {}
                }
                let before = state;
                let verdict = pacing.take(&mut state, Tick(now), n);
                prop_assert_eq!(pacing.peek(&before, Tick(now), n), verdict);
                suite::tries_alike(&pacing, before, (&state, verdict), Tick(now), n)?;
                let turn = match verdict {
                    Verdict::Pass { .. } => now,
                    Verdict::Wait { wait } => {
                        prop_assert!(wait <= longest);
                        Tick(now).plus(wait).0
                    }
                    Verdict::Block { retry } => {
                        suite::is_exact(&pacing, &state, now, n, retry.unwrap())?;
                        continue;
                    }
                };
                let interval = suite::per_ns(count, SECOND).recip() * suite::ratio(n.into(), 1);
                if let Some(last) = last.replace(turn) {
                    prop_assert!(turn - last + 1 >= suite::floor(&interval), "{turn} after {last}");
                }
            }
            prop_assert!(pacing.is_idle(&state, Tick(now + 40_000_000_000_000)));
        }
    }
}
