//! How many retries there may be.

use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// What a retry costs; a call brings as many as the percentage says.
const RETRY: u64 = 100;

/// A part of all calls that may be retries, shared by clones.
///
/// Each call pays in a part of a retry, each retry takes a whole one. After any number of calls there
/// were at most `calls × percent / 100` retries and those of the [`reserve`](BudgetSettings::reserve),
/// which is none by default; so the load is at most 1.1 times the calls, always. What is not used is
/// kept, up to [`kept_max`](BudgetSettings::kept_max) retries: of the calls of any span, however the
/// ones before it went, at most the percentage and so many are retries.
///
/// It counts calls and not time. A token bucket would allow a fixed number of retries a second, which
/// is too many when there are few calls and too few when there are many; a budget that forgets with
/// time (as tower's and Finagle's) needs a minimum a second, in which a service with few calls may
/// retry all of them.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: BudgetSettings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In hundredths of a retry.
    left: u64,
    retries: u64,
    denied: u64,
}

/// The numbers of a [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSettings {
    /// Retries for a hundred calls; 10. 0 is no retry but those of the reserve, 100 a retry a call.
    pub percent: u32,
    /// Most retries that are kept for later; 100. At least one is, or there would never be any.
    pub kept_max: u32,
    /// Retries that are there at first; 0, so that the percentage holds from the first call on. A
    /// program that makes a few calls and ends needs some.
    pub reserve: u32,
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self { percent: 10, kept_max: 100, reserve: 0 }
    }
}

impl Budget {
    /// A budget with these numbers.
    #[must_use]
    pub fn new(settings: BudgetSettings) -> Self {
        let state = State { left: u64::from(settings.reserve) * RETRY, ..State::default() };
        Self(Arc::new(Shared { settings, state: Mutex::new(state) }))
    }

    /// Pays in for a call.
    pub(super) fn call(&self) {
        let BudgetSettings { percent, kept_max, .. } = self.0.settings;
        let state = &mut lock(&self.0.state);
        let kept_max = u64::from(kept_max.max(1)) * RETRY;
        // A reserve above the most that is kept is used up before anything is added.
        state.left = (state.left + u64::from(percent)).min(kept_max.max(state.left));
    }

    /// Takes a retry, if there is one.
    pub(super) fn take(&self) -> bool {
        let state = &mut lock(&self.0.state);
        let Some(left) = state.left.checked_sub(RETRY) else {
            state.denied += 1;
            return false;
        };
        state.left = left;
        state.retries += 1;
        true
    }

    /// Retries that were made.
    #[must_use]
    pub fn retries(&self) -> u64 {
        lock(&self.0.state).retries
    }

    /// Retries that were not made because the budget was spent.
    #[must_use]
    pub fn denied(&self) -> u64 {
        lock(&self.0.state).denied
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(BudgetSettings::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenth_call_pays_for_a_retry_and_the_first_nine_do_not() {
        let budget = Budget::default();
        let mut retried = Vec::new();
        for call in 1..=30 {
            budget.call();
            if budget.take() {
                retried.push(call);
            }
        }
        assert_eq!(retried, [10, 20, 30]);
        assert_eq!((budget.retries(), budget.denied()), (3, 27));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let budget = Budget::default();
        (0..1_000_000).for_each(|_| budget.call());
        assert_eq!((0..1_000).filter(|_| budget.take()).count(), 100);
    }

    #[test]
    fn a_reserve_is_there_at_first_and_does_not_come_back() {
        let settings = BudgetSettings { reserve: 3, kept_max: 0, percent: 0 };
        let budget = Budget::new(settings);
        (0..100).for_each(|_| budget.call());
        assert_eq!((0..10).filter(|_| budget.take()).count(), 3);
        (0..100).for_each(|_| budget.call());
        assert!(!budget.take());
    }

    #[test]
    fn a_budget_of_everything_allows_one_retry_a_call() {
        let budget = Budget::new(BudgetSettings { percent: 100, kept_max: 1, reserve: 0 });
        for _ in 0..5 {
            budget.call();
            assert!(budget.take() && !budget.take());
        }
    }

    #[test]
    fn threads_together_never_take_more_than_was_paid_in() {
        let budget = Budget::new(BudgetSettings { kept_max: u32::MAX, ..Default::default() });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        budget.call();
                        budget.take();
                    }
                });
            }
        });
        assert_eq!(budget.retries(), 4_000);
    }
}
