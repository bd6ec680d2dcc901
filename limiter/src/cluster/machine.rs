//! The algorithms that a rule can name, behind one face: parameters in a [`Machine`], what one flow
//! or one hot value has used in a [`State`].
//!
//! The sliding window is not among them: it is what nearly all rules use, and is decided in place
//! ([`super::sliding`]).

use std::time::Duration;

use super::wall::Wall;
use crate::{
    Tick,
    algorithm::{
        Algorithm, CalendarWindow, CalendarWindowState, FixedWindow, FixedWindowState, LeakyQueue,
        Level, Line, Saved, SlidingLog, SlidingLogState, SlidingWarmUp, SlidingWarmUpState,
        TokenBucket, Verdict, WarmUpPacing, WarmUpPacingState,
    },
    sync::Arc,
};

/// The parameters of one algorithm. Each flow that is in use has its own, so what is large is
/// apart.
#[derive(Clone, Debug)]
pub(crate) enum Machine {
    Fixed(FixedWindow),
    Calendar(CalendarWindow, Arc<Wall>),
    Log(SlidingLog),
    /// Token bucket, leaky bucket and GCRA, which are one machine.
    Bucket(TokenBucket),
    Queue(LeakyQueue),
    WarmUp(Box<SlidingWarmUp>),
    WarmUpQueue(Box<WarmUpPacing>),
    /// Lets nothing through and keeps account of nothing.
    Never,
}

/// What one key has used under one algorithm; what is larger than a line of a cache is apart.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Fixed(FixedWindowState),
    Calendar(CalendarWindowState),
    Log(SlidingLogState),
    Bucket(Level),
    Queue(Line),
    WarmUp(Box<SlidingWarmUpState>),
    WarmUpQueue(WarmUpPacingState),
}

/// Calls the algorithm with the state that belongs to it. A state of another algorithm, which a
/// rule never leaves behind, counts as one that was never used.
macro_rules! with {
    ($machine:expr, $state:expr, $now:expr, |$algorithm:ident, $its:ident, $at:ident| $do:expr) => {
        match ($machine, $state) {
            (Machine::Fixed($algorithm), State::Fixed($its)) => {
                let $at = $now;
                Some($do)
            }
            (Machine::Calendar($algorithm, wall), State::Calendar($its)) => {
                let $at = wall.at($now);
                Some($do)
            }
            (Machine::Log($algorithm), State::Log($its)) => {
                let $at = $now;
                Some($do)
            }
            (Machine::Bucket($algorithm), State::Bucket($its)) => {
                let $at = $now;
                Some($do)
            }
            (Machine::Queue($algorithm), State::Queue($its)) => {
                let $at = $now;
                Some($do)
            }
            (Machine::WarmUp($algorithm), State::WarmUp($its)) => {
                let $at = $now;
                Some($do)
            }
            (Machine::WarmUpQueue($algorithm), State::WarmUpQueue($its)) => {
                let $at = $now;
                Some($do)
            }
            _ => None,
        }
    };
}

impl Machine {
    /// A state that was never used.
    pub(crate) fn fresh(&self) -> State {
        match self {
            Self::Fixed(_) | Self::Never => State::Fixed(FixedWindowState::default()),
            Self::Calendar(..) => State::Calendar(CalendarWindowState::default()),
            Self::Log(_) => State::Log(SlidingLogState::default()),
            Self::Bucket(_) => State::Bucket(Level::default()),
            Self::Queue(_) => State::Queue(Line::default()),
            Self::WarmUp(_) => State::WarmUp(Box::default()),
            Self::WarmUpQueue(_) => State::WarmUpQueue(WarmUpPacingState::default()),
        }
    }

    /// Takes `n` tokens, or books them. A refusal may not say when to come back.
    #[inline(always)]
    pub(crate) fn take(&self, state: &mut State, now: Tick, n: u64) -> Verdict {
        with!(self, state, now, |a, s, at| a.try_take(s, at, n)).unwrap_or(NEVER)
    }

    /// Takes `n` tokens, or books them for one who waits no longer than `max`; `None`: for as long
    /// as the algorithm lets anybody wait.
    pub(crate) fn take_within(
        &self,
        state: &mut State,
        now: Tick,
        n: u64,
        max: Option<Duration>,
    ) -> Verdict {
        match (self, &mut *state, max) {
            (Self::Queue(queue), State::Queue(line), Some(max)) => {
                queue.within(max).take(line, now, n)
            }
            (Self::WarmUpQueue(queue), State::WarmUpQueue(state), Some(max)) => {
                queue.take_within(state, now, n, max)
            }
            (_, state, _) => with!(self, state, now, |a, s, at| a.take(s, at, n)).unwrap_or(NEVER),
        }
    }

    /// What [`take_within`](Self::take_within) would answer.
    pub(crate) fn peek(&self, state: &State, now: Tick, n: u64, max: Option<Duration>) -> Verdict {
        match (self, state, max) {
            (Self::Queue(queue), State::Queue(line), Some(max)) => {
                queue.within(max).peek(line, now, n)
            }
            (Self::WarmUpQueue(queue), State::WarmUpQueue(state), Some(max)) => {
                queue.take_within(&mut { *state }, now, n, max)
            }
            _ => with!(self, state, now, |a, s, at| a.peek(s, at, n)).unwrap_or(NEVER),
        }
    }

    /// Takes `n` tokens whatever the limit.
    pub(crate) fn charge(&self, state: &mut State, now: Tick, n: u64) {
        with!(self, state, now, |a, s, at| a.charge(s, at, n));
    }

    /// Takes `n` tokens that were granted elsewhere, to be used after `wait`. A window forgets them
    /// as it does others. A bucket is empty at worst, and a queue goes on behind the last of them:
    /// more than its share makes nobody wait longer than one who just had it.
    pub(crate) fn granted(&self, state: &mut State, now: Tick, n: u64, wait: Duration) {
        match (self, state) {
            (Self::Bucket(bucket), State::Bucket(level)) => bucket.drain(level, now, n),
            (Self::Queue(queue), State::Queue(line)) => queue.follow(line, now, wait),
            (Self::WarmUpQueue(queue), State::WarmUpQueue(state)) => {
                queue.follow(state, now, wait, n);
            }
            (_, state) => self.charge(state, now, n),
        }
    }

    /// Lets a state see that it is `now`: nothing of it goes back behind that.
    pub(crate) fn see(&self, state: &mut State, now: Tick) {
        match (self, state) {
            // What is given back opens no period.
            (Self::Calendar(calendar, wall), State::Calendar(state)) => {
                calendar.charge(state, wall.at(now), 0);
            }
            // A charge of nothing would stand in a queue.
            (_, state) => self.give_back(state, now, 0, Duration::ZERO, Tick(0)),
        }
    }

    /// Gives back `n` tokens that were taken at most `age` ago: no more than still count, so that
    /// nobody gets a token twice. This machine has been in force since `tuned`: what a bucket has
    /// refilled at another rate since it was taken is not known.
    pub(crate) fn give_back(
        &self,
        state: &mut State,
        now: Tick,
        n: u64,
        age: Duration,
        tuned: Tick,
    ) {
        let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        if matches!(self, Self::Bucket(_)) && now.0.saturating_sub(age) < tuned.0 {
            return;
        }
        with!(self, state, now, |a, s, at| {
            a.give_back_since(s, at, Tick(at.0.saturating_sub(age)), n);
        });
    }

    /// Tokens that count at `now`.
    pub(crate) fn used(&self, state: &State, now: Tick) -> u64 {
        with!(self, state, now, |a, s, at| a.used(s, at)).unwrap_or(0)
    }

    /// Whether the state decides at `now` and later as a fresh one would.
    pub(crate) fn is_idle(&self, state: &State, now: Tick) -> bool {
        with!(self, state, now, |a, s, at| a.is_idle(s, at)).unwrap_or(true)
    }

    /// The state as plain data.
    pub(crate) fn save(&self, state: &State, now: Tick) -> Option<Saved> {
        with!(self, state, now, |a, s, at| a.save(s, at))
    }

    /// What was saved, brought to these parameters; `None` where it means something else.
    pub(crate) fn restore(&self, saved: &Saved, behind: Duration) -> Option<State> {
        Some(match self {
            Self::Fixed(a) => State::Fixed(a.restore(saved, behind)?),
            // Wall time is what it is, however far the tick is behind.
            Self::Calendar(a, _) => State::Calendar(a.restore(saved, Duration::ZERO)?),
            Self::Log(a) => State::Log(a.restore(saved, behind)?),
            Self::Bucket(a) => State::Bucket(a.restore(saved, behind)?),
            Self::Queue(a) => State::Queue(a.restore(saved, behind)?),
            Self::WarmUp(a) => State::WarmUp(Box::new(a.restore(saved, behind)?)),
            Self::WarmUpQueue(a) => State::WarmUpQueue(a.restore(saved, behind)?),
            Self::Never => return None,
        })
    }

    /// Brings a state that was used under `old` to these parameters: what was used stays used. A
    /// state of another algorithm begins anew.
    pub(crate) fn adopt(&self, state: &mut State, old: &Self, now: Tick) {
        match (self, &mut *state, old) {
            (Self::Bucket(new), State::Bucket(state), Self::Bucket(old)) => {
                // When the rule changed is not known: since the state was last used, the slower of
                // both was in force.
                let drained = if new.speed() < old.speed() { Tick(0) } else { now };
                new.adopt(state, old, drained);
            }
            (Self::Queue(new), State::Queue(state), Self::Queue(old)) => {
                new.adopt(state, old, now);
            }
            (Self::WarmUp(new), State::WarmUp(state), Self::WarmUp(old)) => {
                new.adopt(state, old, now);
            }
            (Self::WarmUpQueue(new), State::WarmUpQueue(state), Self::WarmUpQueue(old)) => {
                new.adopt(state, old, now);
            }
            // Plain counts mean the same whatever the limit.
            (Self::Fixed(_), State::Fixed(_), _)
            | (Self::Calendar(..), State::Calendar(_), _)
            | (Self::Log(_), State::Log(_), _) => {}
            _ => *state = self.fresh(),
        }
    }

    /// Whether who comes waits for those before.
    pub(crate) fn is_queue(&self) -> bool {
        matches!(self, Self::Queue(_) | Self::WarmUpQueue(_))
    }

    /// Bytes that a state which was hardly used allocates beside itself.
    pub(crate) fn heap_bytes(&self) -> u64 {
        match self {
            Self::Log(_) => SlidingLog::HEAP_MIN,
            Self::WarmUp(_) => size_of::<SlidingWarmUpState>() as u64,
            _ => 0,
        }
    }
}

pub(super) const NEVER: Verdict = Verdict::Block { retry: None };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_states_are_small() {
        assert_eq!((size_of::<Machine>(), size_of::<State>()), (48, 64));
    }
}
