//! Leaky bucket as a queue, or pacing: callers go at even distances and wait for their turn.

use std::time::Duration;

use super::{Algorithm, Invalid, Line, Rate, Saved, Verdict, exact::Wide, rate::UNITS_MAX};
use crate::Tick;

/// Lets tokens go one interval apart; a caller is told how long to wait, and one that would wait
/// too long is refused and books nothing.
///
/// *Formula* (Sentinel's `ThrottlingController`): `turn = max(now, last turn + n × window / count)`;
/// refused if `turn - now > longest wait`. Turns are kept as exact fractions; a wait is rounded up
/// to the nanosecond, and the next one does not inherit the rounding. *Burst*: none. From `s` to
/// `t` go at most `(t - s) × rate` tokens and those of the first call, which may go at once
/// whatever its size. *Memory*: 24 bytes. *Cost*: one multiplication, one division for a wait.
///
/// What [`Verdict::Pass`] says to remain is always 0: a second token would have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyQueue {
    rate: Rate,
    /// Units, below 2^126.
    longest: Wide,
}

impl LeakyQueue {
    /// A queue in which nobody waits longer than `longest`; zero only spaces, exactly `longest` is
    /// still accepted. A rate of zero lets nothing through.
    #[must_use]
    pub fn new(rate: Rate, longest: Duration) -> Self {
        Self { rate, longest: Wide::new(rate.units_in(longest)) }
    }

    /// The same queue for somebody who waits no longer than `max`.
    #[must_use]
    pub fn within(mut self, max: Duration) -> Self {
        self.longest = Wide::new(self.longest.get().min(self.rate.units_in(max)));
        self
    }

    /// A queue of `places` single tokens, of which the first goes at once and the last waits
    /// `places - 1` intervals. No place lets nothing through.
    ///
    /// # Errors
    ///
    /// [`Invalid::TooSlow`] if the last would wait for a quarter of a million years.
    pub fn with_places(mut rate: Rate, places: u64) -> Result<Self, Invalid> {
        let longest = rate.units(places.saturating_sub(1));
        if places == 0 {
            rate = Rate::new(0.0, Duration::from_secs(1))?;
        }
        let longest = longest.ok_or(Invalid::TooSlow { tokens: places })?;
        Ok(Self { rate, longest: Wide::new(longest) })
    }

    /// Puts whoever comes next behind a call that somebody else lets go `wait` after `now`, as far
    /// as anybody waits here.
    pub(crate) fn follow(&self, state: &mut Line, now: Tick, wait: Duration) {
        state.see(now);
        if self.rate.per_ns() > 0 {
            let wait = self.rate.units_in(wait).min(self.longest.get());
            state.follow(self.rate.per_ns(), wait);
        }
    }

    /// The pace.
    pub(crate) const fn rate(&self) -> Rate {
        self.rate
    }

    /// The line of a queue of another pace as that of this one: the turns that were promised stay.
    pub(crate) fn line_from(&self, mut line: Line, pace: Rate) -> Line {
        line.convert(pace.per_ns(), self.rate.per_ns());
        line
    }

    /// Joins the queue, or says by how many units the wait would be too long; `None`: for ever. No
    /// tokens pass at once and leave the queue as it is.
    #[inline(always)]
    fn join(&self, state: &mut Line, now: Tick, n: u64) -> Result<Verdict, Option<u128>> {
        state.see(now);
        match self.rate.units(n).filter(|_| self.rate.per_ns() > 0) {
            None => Err(None),
            Some(0) => Ok(Verdict::Pass { remaining: 0 }),
            Some(cost) => state.join(self.rate.per_ns(), cost, self.longest.get()).map_err(Some),
        }
    }

    /// Gives up a booking of `n` tokens whose turn is at `turn`, which is the tick of the request
    /// plus its wait. `false` and no change if others have booked behind it: their turns are
    /// promised, and a place between them that was given again would bring two calls together.
    pub fn cancel(&self, state: &mut Line, turn: Tick, n: u64) -> bool {
        let Some(cost) = self.rate.units(n) else { return false };
        self.rate.per_ns() > 0 && state.leave(self.rate.per_ns(), turn, cost)
    }
}

impl Algorithm for LeakyQueue {
    type State = Line;

    #[inline]
    fn take(&self, state: &mut Line, now: Tick, n: u64) -> Verdict {
        self.join(state, now, n).unwrap_or_else(|over| self.rate.refusal(over))
    }

    #[inline(always)]
    fn try_take(&self, state: &mut Line, now: Tick, n: u64) -> Verdict {
        self.join(state, now, n).unwrap_or(Verdict::NEVER)
    }

    #[inline]
    fn peek(&self, state: &Line, now: Tick, n: u64) -> Verdict {
        self.take(&mut { *state }, now, n)
    }

    /// Gives back nothing: a booked turn stays used, since turns behind it are promised. Use
    /// [`LeakyQueue::cancel`], which knows whether there are any.
    fn give_back(&self, state: &mut Line, now: Tick, _n: u64) {
        state.see(now);
    }

    /// Gives back nothing, as [`Self::give_back`].
    fn give_back_since(&self, state: &mut Line, now: Tick, _since: Tick, _n: u64) {
        state.see(now);
    }

    fn charge(&self, state: &mut Line, now: Tick, n: u64) {
        state.see(now);
        if self.rate.per_ns() > 0 {
            let all = self.rate.units(n).unwrap_or(UNITS_MAX);
            state.charge(self.rate.per_ns(), self.rate.per_token(), all);
        }
    }

    fn used(&self, state: &Line, now: Tick) -> u64 {
        if self.rate.per_ns() == 0 {
            return 0;
        }
        state.tokens(self.rate.per_ns(), now, self.rate.per_token())
    }

    /// Idle once a call as large as the whole queue would go at once. A larger one has to wait for
    /// longer than that, and finds a line that was forgotten empty: it goes at once, as the first of
    /// all does whatever its size.
    fn is_idle(&self, state: &Line, now: Tick) -> bool {
        let whole = self.longest.get() + self.rate.per_token();
        state.is_clear(self.rate.per_ns(), now, whole)
    }

    /// The turns that were promised stay as they are, also through a rate of zero.
    fn adopt(&self, state: &mut Line, old: &Self, _now: Tick) {
        state.convert(old.rate.per_ns(), self.rate.per_ns());
    }

    fn save(&self, state: &Line, _now: Tick) -> Saved {
        Saved::LeakyQueue(state.save(self.rate.per_ns()))
    }

    fn restore(&self, saved: &Saved, behind: Duration) -> Option<Line> {
        let Saved::LeakyQueue(line) = saved else { return None };
        Some(Line::restore(line, self.rate.per_ns(), behind))
    }
}

#[cfg(test)]
mod tests {
    use num_rational::BigRational;
    use num_traits::Zero;
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{
        self, Model, SECOND, admitted, at, ms, pass, ratio, retry, wait,
    };

    fn queue(count: f64, longest: Duration) -> LeakyQueue {
        LeakyQueue::new(Rate::new(count, SECOND).unwrap(), longest)
    }

    fn at_once(queue: &LeakyQueue, calls: u32) -> Vec<Duration> {
        let mut state = Line::default();
        (0..calls)
            .filter_map(|_| match queue.take(&mut state, at(0), 1) {
                Verdict::Pass { .. } => Some(Duration::ZERO),
                Verdict::Wait { wait } => Some(wait),
                Verdict::Block { .. } => None,
            })
            .collect()
    }

    #[test]
    fn the_state_is_24_bytes() {
        assert_eq!(size_of::<Line>(), 24);
    }

    #[test]
    fn queue_of_5_at_2_a_second_of_7_at_once_5_are_accepted_500_ms_apart() {
        let queue = LeakyQueue::with_places(Rate::new(2.0, SECOND).unwrap(), 5).unwrap();
        assert_eq!(at_once(&queue, 7), [0, 500, 1_000, 1_500, 2_000].map(ms));
    }

    #[test]
    fn three_thousand_calls_at_once_are_paced_precisely() {
        // TC-14: rates, and how many fit into half a second.
        for (rate, right) in
            [(160_u32, 81), (170, 86), (1_000, 501), (2_000, 1_001), (5_000, 2_501)]
        {
            let waits = at_once(&queue(f64::from(rate), ms(500)), 3_000);
            assert_eq!(waits.len(), right, "{rate} a second");
            for (k, wait) in waits.iter().enumerate() {
                let exact = (k as u128 * 1_000_000_000).div_ceil(u128::from(rate));
                assert_eq!(wait.as_nanos(), exact, "call {k} at {rate} a second");
            }
        }
    }

    #[test]
    fn a_crowd_without_a_queue_is_let_through_once() {
        // TC-14.
        assert_eq!(at_once(&queue(1.0, Duration::ZERO), 1_000).len(), 1);
    }

    #[test]
    fn a_rate_below_one_a_second_waits_as_long_as_it_takes() {
        // TC-14. An f64 of 0.2 is a little more than a fifth: some attoseconds, rounded up.
        let (fifth, mut state) = (queue(0.2, ms(500)), Line::default());
        assert_eq!(fifth.take(&mut state, at(0), 1), pass(0));
        assert_eq!(fifth.take(&mut state, at(4_400), 1), retry(ms(100)));
        assert_eq!(fifth.take(&mut state, at(4_600), 1), wait(ms(400)));
    }

    #[test]
    fn sentinel_s_worked_examples() {
        // C02.
        let (ten, mut state) = (queue(10.0, ms(500)), Line::default());
        assert_eq!(admitted(&ten, &mut state, at(0), 20), 6);
        assert_eq!(ten.take(&mut state, at(99), 1), retry(ms(1)));
        assert_eq!(ten.take(&mut state, at(100), 1), wait(ms(500)));
        assert_eq!(ten.take(&mut state, at(100), 1), retry(ms(100)));
        assert_eq!(ten.take(&mut state, at(550), 1), wait(ms(150)));
        assert_eq!(ten.take(&mut state, at(550), 1), wait(ms(250)));
        assert_eq!(ten.take(&mut state, at(2_000), 1), pass(0));
        // C03.
        let mut state = Line::default();
        let answers = [2, 2, 2, 2, 1].map(|n| ten.take(&mut state, at(0), n));
        let right = [pass(0), wait(ms(200)), wait(ms(400)), retry(ms(100)), wait(ms(500))];
        assert_eq!(answers, right);
        // C06, C08, C11.
        assert_eq!(at_once(&queue(0.5, ms(500)), 2), [ms(0)]);
        let thirds = [0, 333_333_334, 666_666_667, 1_000_000_000].map(Duration::from_nanos);
        assert_eq!(at_once(&queue(3.0, SECOND), 6), thirds);
        assert_eq!(at_once(&queue(2.5, ms(800)), 4), [0, 400, 800].map(ms));
    }

    #[test]
    fn a_million_turns_do_not_drift() {
        let (seven, mut state) = (queue(7.0, Duration::MAX), Line::default());
        for k in 0..1_000_000_u64 {
            let verdict = seven.take(&mut state, at(0), 1);
            let exact = Duration::from_nanos((k * 1_000_000_000).div_ceil(7));
            assert_eq!(verdict, if k == 0 { pass(0) } else { wait(exact) });
        }
    }

    #[test]
    fn the_last_booking_can_be_given_up_and_no_other() {
        let (ten, mut state) = (queue(10.0, ms(500)), Line::default());
        let answers = [1, 1, 2].map(|n| ten.take(&mut state, at(0), n));
        assert_eq!(answers, [pass(0), wait(ms(100)), wait(ms(300))]);
        assert!(!ten.cancel(&mut state, at(100), 1), "two have booked behind it");
        assert!(ten.cancel(&mut state, at(300), 2));
        assert!(ten.cancel(&mut state, at(100), 1), "now it is the last");
        assert_eq!(ten.take(&mut state, at(0), 1), wait(ms(100)));
        ten.give_back(&mut state, at(0), 9);
        assert_eq!(ten.take(&mut state, at(0), 1), wait(ms(200)));
        assert!(!ten.cancel(&mut Line::default(), at(0), 1));
    }

    #[test]
    fn a_cost_that_is_known_later_moves_the_line_back() {
        let (ten, mut state) = (queue(10.0, SECOND * 100), Line::default());
        assert_eq!(ten.take(&mut state, at(0), 1), pass(0));
        ten.charge(&mut state, at(0), 731);
        assert_eq!(ten.used(&state, at(50)), 731, "73.05 s at ten a second");
        assert_eq!(ten.peek(&state, at(0), 1), wait(ms(73_200)));
        ten.charge(&mut state, at(0), 731);
        assert_eq!(ten.take(&mut state, at(0), 1), retry(ms(46_300)));
        // From an empty line it is as if as many calls for one had come.
        let mut state = Line::default();
        ten.charge(&mut state, at(0), 3);
        assert_eq!(ten.take(&mut state, at(0), 1), wait(ms(300)));
        ten.charge(&mut state, at(9_000), 0);
        assert_eq!(ten.take(&mut state, at(9_000), 1), pass(0));
    }

    #[test]
    fn a_new_rate_keeps_the_turns_that_were_promised() {
        let (ten, three) = (queue(10.0, ms(500)), queue(3.0, SECOND));
        let mut state = Line::default();
        assert_eq!(admitted(&ten, &mut state, at(0), 4), 4);
        three.adopt(&mut state, &ten, at(0));
        assert_eq!(three.take(&mut state, at(0), 1), wait(Duration::from_nanos(633_333_334)));
    }

    #[test]
    fn a_rate_of_zero_keeps_them_until_they_have_come() {
        let (ten, none) = (queue(10.0, SECOND), queue(0.0, SECOND));
        let mut state = Line::default();
        assert_eq!(admitted(&ten, &mut state, at(0), 8), 8);
        none.adopt(&mut state, &ten, at(0));
        assert_eq!(none.take(&mut state, at(0), 1), Verdict::NEVER);
        assert_eq!(none.used(&state, at(0)), 0);
        assert!(!none.is_idle(&state, at(700)) && none.is_idle(&state, at(701)));
        state = none.restore(&none.save(&state, at(0)), Duration::ZERO).unwrap();
        ten.adopt(&mut state, &none, at(0));
        assert_eq!(ten.take(&mut state, at(0), 1), wait(ms(800)));
    }

    #[test]
    fn zero_the_largest_count_and_the_ends_of_time() {
        assert_eq!(queue(0.0, SECOND).take(&mut Line::default(), at(0), 1), Verdict::NEVER);
        let none = LeakyQueue::with_places(Rate::new(5.0, SECOND).unwrap(), 0).unwrap();
        assert_eq!(none.take(&mut Line::default(), at(0), 1), Verdict::NEVER);
        let (fast, mut state) = (queue(9_007_199_254_740_992.0, Duration::MAX), Line::default());
        assert_eq!(fast.take(&mut state, Tick(0), 1 << 53), pass(0));
        assert_eq!(fast.take(&mut state, Tick(0), 1 << 53), wait(SECOND));
        assert_eq!(fast.take(&mut state, Tick(u64::MAX), 1), pass(0));
        assert_eq!(fast.take(&mut state, Tick(0), 1 << 53), wait(SECOND), "as at the last tick");
        assert_eq!(queue(1e-9, SECOND).take(&mut state, Tick(0), u64::MAX), Verdict::NEVER);
    }

    /// The time of the last turn as a fraction.
    struct Turns {
        interval: BigRational,
        longest: BigRational,
        last: Option<BigRational>,
    }

    impl Model for Turns {
        fn take(&mut self, now: u64, n: u64) -> Verdict {
            let now = BigRational::from_integer(now.into());
            let turn = self.last.as_ref().map(|last| last + &self.interval * ratio(n.into(), 1));
            let turn = turn.filter(|turn| *turn > now).unwrap_or_else(|| now.clone());
            let after = &turn - &now;
            if n == 0 {
                return pass(0);
            }
            if after > self.longest {
                return Verdict::NEVER;
            }
            self.last = Some(turn);
            if after.is_zero() { pass(0) } else { wait(suite::ceil_ns(&after)) }
        }

        fn give_back(&mut self, _now: u64, _n: u64) {}

        fn charge(&mut self, now: u64, n: u64) {
            let now = BigRational::from_integer(now.into());
            for _ in 0..n {
                let turn = self.last.as_ref().map(|last| last + &self.interval);
                self.last = Some(turn.map_or_else(|| now.clone(), |turn| turn.max(now.clone())));
            }
        }

        fn used(&mut self, now: u64) -> u64 {
            let ahead = self.last.as_ref().map(|last| last - BigRational::from_integer(now.into()));
            let ahead = ahead.filter(|ahead| *ahead > ratio(0, 1));
            ahead.map_or(0, |ahead| suite::ceil(&(ahead / &self.interval)))
        }
    }

    proptest! {
        #[test]
        fn turns_are_an_interval_apart_and_waits_are_bounded(
            (count, places, steps) in (
                prop::sample::select(vec![0.2, 1.0, 2.5, 7.0, 160.0, 1e6]),
                1_u64..20,
            ).prop_flat_map(|(count, places)| {
                (Just(count), Just(places), suite::steps(SECOND, 1e9 / count, places + 1))
            }),
            charges: bool,
        ) {
            let rate = Rate::new(count, SECOND).unwrap();
            let queue = LeakyQueue::with_places(rate, places).unwrap();
            let interval = suite::per_ns(count, SECOND).recip();
            let longest = &interval * ratio(u128::from(places - 1), 1);
            let mut model = Turns { interval: interval.clone(), longest, last: None };
            let steps = if charges { steps } else { suite::takes_only(steps) };
            let went = suite::walk(&queue, &mut model, &steps, places)?;
            let went = if charges { Vec::new() } else { went };
            for pair in went.windows(2).filter(|pair| pair[1].1 > 0 && pair[0].1 > 0) {
                let apart = BigRational::from_integer((pair[1].0 - pair[0].0 + 1).into());
                prop_assert!(apart > &interval * ratio(pair[1].1.into(), 1));
            }
        }
    }
}
