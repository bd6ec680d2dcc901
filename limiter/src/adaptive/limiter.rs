//! How many calls are in flight, and whether one more may be.

use std::time::Duration;

use super::{LIMIT_MAX, Limit, Sample, Shares};
use crate::{
    Tick,
    sync::{Arc, Mutex, lock},
};

/// Lets calls through while fewer than the limit are in flight, and tells the limit how they went.
///
/// Clones are the same limiter. Check and take are one step under one lock, as is a release with
/// what is learnt from it: in flight, shares and limit must hold together.
///
/// **Shares.** While fewer than the limit are in flight, anybody goes, whoever's share it is. At the
/// limit only those go who have not used up their share; so nobody waits for what others borrowed,
/// and until the borrowers' calls have ended, more than the limit are in flight: at most by the
/// unused shares, as in `AbstractPartitionedLimiter`. There a name without a share is refused at
/// the limit too, and a share of 0 % is one call.
#[derive(Debug)]
pub struct AdaptiveLimiter<L: Limit>(Arc<Shared<L>>);

#[derive(Debug)]
struct Shared<L> {
    shares: Shares,
    state: Mutex<State<L>>,
}

#[derive(Debug)]
struct State<L> {
    limit: L,
    in_flight: u32,
    /// Of each share.
    of_share: Box<[u32]>,
}

impl<L: Limit> Clone for AdaptiveLimiter<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L: Limit> AdaptiveLimiter<L> {
    /// A limiter without shares, nothing in flight.
    pub fn new(limit: L) -> Self {
        Self::with_shares(limit, Shares::default())
    }

    /// A limiter in which some have a right to a part.
    pub fn with_shares(limit: L, shares: Shares) -> Self {
        let of_share = vec![0; shares.len()].into();
        let state = Mutex::new(State { limit, in_flight: 0, of_share });
        Self(Arc::new(Shared { shares, state }))
    }

    /// Lets a call through that has no share, or says no.
    #[must_use]
    pub fn acquire(&self) -> Option<Permit<L>> {
        self.admit(None)
    }

    /// Lets a call of `name` through, or says no. A name without a share is as [`Self::acquire`].
    #[must_use]
    pub fn acquire_for(&self, name: &str) -> Option<Permit<L>> {
        self.admit(self.0.shares.find(name))
    }

    fn admit(&self, share: Option<usize>) -> Option<Permit<L>> {
        let shared = &self.0;
        let mut state = lock(&shared.state);
        let limit = state.limit.limit().min(LIMIT_MAX);
        let is_within = |share: usize| {
            let used = state.of_share.get(share).copied().unwrap_or(u32::MAX);
            used < shared.shares.calls(share, limit)
        };
        if state.in_flight >= limit && !share.is_some_and(is_within) {
            return None;
        }
        // No overflow: at most a limit of a million and a hundred shares of it.
        state.in_flight += 1;
        if let Some(used) = share.and_then(|share| state.of_share.get_mut(share)) {
            *used += 1;
        }
        let in_flight = state.in_flight;
        drop(state);
        Some(Permit { shared: Arc::clone(shared), share, in_flight, sample: None })
    }

    /// Calls that hold a permit.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        lock(&self.0.state).in_flight
    }

    /// Those of them that are of a share; `None` for a name without one.
    #[must_use]
    pub fn in_flight_for(&self, name: &str) -> Option<u32> {
        let share = self.0.shares.find(name)?;
        lock(&self.0.state).of_share.get(share).copied()
    }

    /// Most calls that may be in flight, as far as is known.
    #[must_use]
    pub fn limit(&self) -> u32 {
        lock(&self.0.state).limit.limit()
    }
}

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server served it, after `rtt`. Whether the caller likes the answer is another matter.
    Success {
        /// From the start of the call to its end.
        rtt: Duration,
    },
    /// The server had no room for it, or no time: a time-out, a refusal.
    Dropped,
    /// It says nothing about the server: an answer from a cache, a call that was given up.
    Ignored,
}

/// A call in flight. Dropped without [`Self::release`], by an early return, a panic or a cancelled
/// task, it counts as [`Outcome::Ignored`].
#[derive(Debug)]
#[must_use = "a permit that is dropped ends its call"]
pub struct Permit<L: Limit> {
    shared: Arc<Shared<L>>,
    share: Option<usize>,
    /// With this one, when it was let through.
    in_flight: u32,
    sample: Option<Sample>,
}

impl<L: Limit> Permit<L> {
    /// Ends the call, which is no longer in flight at `now`, and says how it went.
    pub fn release(mut self, now: Tick, outcome: Outcome) {
        let sample = |rtt, dropped| Sample { at: now, rtt, in_flight: self.in_flight, dropped };
        self.sample = match outcome {
            Outcome::Success { rtt } => Some(sample(rtt, false)),
            Outcome::Dropped => Some(sample(Duration::ZERO, true)),
            Outcome::Ignored => None,
        };
    }
}

impl<L: Limit> Drop for Permit<L> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.in_flight -= 1;
        if let Some(used) = self.share.and_then(|share| state.of_share.get_mut(share)) {
            *used -= 1;
        }
        if let Some(sample) = self.sample {
            state.limit.learn(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::{Aimd, AimdSettings, Bounds};

    /// Ten until a call is dropped, then nine; never above.
    fn ten(shares: &[(&str, u32)]) -> AdaptiveLimiter<Aimd> {
        let bounds = Bounds { min: 1, initial: 10, max: 10 };
        let aimd = Aimd::new(AimdSettings { bounds, ..AimdSettings::default() }).unwrap();
        AdaptiveLimiter::with_shares(aimd, Shares::new(shares.iter().copied()).unwrap())
    }

    fn many(limiter: &AdaptiveLimiter<Aimd>, name: &str, calls: usize) -> Vec<Permit<Aimd>> {
        (0..calls).filter_map(|_| limiter.acquire_for(name)).collect()
    }

    #[test]
    fn as_many_as_the_limit_are_in_flight_and_one_more_when_one_has_ended() {
        let limiter = ten(&[]);
        let mut permits: Vec<_> = (0..11).filter_map(|_| limiter.acquire()).collect();
        assert_eq!((permits.len(), limiter.in_flight()), (10, 10));
        let rtt = Duration::from_millis(1);
        permits.pop().unwrap().release(Tick(0), Outcome::Success { rtt });
        assert!(limiter.acquire().is_some());
        drop(permits);
        assert_eq!(limiter.in_flight(), 0);
    }

    #[test]
    fn the_limit_learns_from_what_ended_and_not_from_what_is_ignored() {
        let limiter = ten(&[]);
        let release = |outcome| limiter.acquire().unwrap().release(Tick(0), outcome);
        release(Outcome::Ignored);
        drop(limiter.acquire());
        assert_eq!(limiter.limit(), 10);
        release(Outcome::Dropped);
        assert_eq!(limiter.limit(), 9);
        let permits = many(&limiter, "", 9);
        let rtt = Duration::from_millis(1);
        for permit in permits {
            // The first was alone in flight, the last was the ninth.
            permit.release(Tick(0), Outcome::Success { rtt });
        }
        assert_eq!(limiter.limit(), 10);
        assert_eq!(limiter.in_flight(), 0);
    }

    #[test]
    fn a_lower_limit_waits_for_the_calls_that_are_in_flight() {
        let limiter = ten(&[]);
        let mut permits = many(&limiter, "", 10);
        permits.pop().unwrap().release(Tick(0), Outcome::Dropped);
        permits.pop().unwrap().release(Tick(0), Outcome::Dropped);
        assert_eq!((limiter.limit(), limiter.in_flight()), (8, 8));
        assert!(limiter.acquire().is_none());
        permits.pop().unwrap().release(Tick(0), Outcome::Ignored);
        assert!(limiter.acquire().is_some());
    }

    #[test]
    fn an_unused_share_is_lent_until_the_limit_and_given_back_on_demand() {
        let limiter = ten(&[("batch", 30), ("live", 70)]);
        let batch = many(&limiter, "batch", 99);
        assert_eq!(batch.len(), 10);
        let live = many(&limiter, "live", 99);
        assert_eq!((live.len(), limiter.in_flight()), (7, 17), "its share, above the limit");
        assert!(many(&limiter, "batch", 1).is_empty());
        // What batch borrowed comes back as its calls end, and not to batch.
        drop(batch.into_iter().take(7));
        assert_eq!(limiter.in_flight_for("batch"), Some(0), "all dropped");
        assert_eq!(many(&limiter, "batch", 99).len(), 3, "of ten, seven are live");
    }

    #[test]
    fn who_has_no_share_uses_what_is_left() {
        let limiter = ten(&[("live", 70)]);
        let mut live = many(&limiter, "live", 7);
        assert_eq!(many(&limiter, "other", 99).len(), 3);
        let other = many(&limiter, "other", 99);
        assert_eq!((other.len(), limiter.in_flight_for("other")), (3, None));
        assert!(limiter.acquire().is_none());
        assert!(many(&limiter, "live", 1).is_empty(), "its share is used up");
        live.truncate(6);
        assert_eq!(limiter.in_flight_for("live"), Some(6));
        assert_eq!(many(&limiter, "live", 99).len(), 1);
    }

    #[test]
    fn shares_follow_the_limit() {
        let limiter = ten(&[("batch", 30), ("live", 70)]);
        let live = many(&limiter, "live", 10);
        for _ in 0..5 {
            // 10 -> 9 -> 8 -> 7 -> 6 -> 5
            many(&limiter, "batch", 1).pop().unwrap().release(Tick(0), Outcome::Dropped);
        }
        assert_eq!(limiter.limit(), 5);
        assert_eq!(many(&limiter, "batch", 99).len(), 2, "30 % of 5, rounded up");
        drop(live);
    }

    #[test]
    fn in_flight_is_never_more_than_the_limit_and_the_unused_shares() {
        let names: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        let shares: Vec<_> = names.iter().map(|name| (&**name, 1)).collect();
        let limiter = ten(&shares);
        let _first = many(&limiter, "0", 99);
        let _others: Vec<_> = names.iter().map(|name| many(&limiter, name, 99)).collect();
        assert_eq!(limiter.in_flight(), 10 + 99);
    }

    #[test]
    fn threads_never_hold_more_than_the_limit_and_leave_nothing_behind() {
        let limiter = ten(&[]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let limiter = limiter.clone();
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        let permits = many(&limiter, "", 4);
                        assert!(limiter.in_flight() <= 10);
                        drop(permits);
                    }
                });
            }
        });
        assert_eq!(limiter.in_flight(), 0);
    }
}
