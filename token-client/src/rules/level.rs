//! How many calls of a thread-grade rule are in progress in this process, and how many may be while
//! no server decides.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use limiter::rule::{ClusterConfig, FlowRule, Grade, Scope};

/// The calls in progress of one rule, whoever granted them. It goes on when rules are replaced.
#[derive(Debug, Default)]
pub(crate) struct Level(AtomicU64);

/// A part of a level, given back on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    level: Arc<Level>,
    count: u64,
}

/// A level, and how much of it the fallback policies allow.
#[derive(Debug)]
pub(crate) struct InProgress {
    level: Arc<Level>,
    own: f64,
    count: f64,
    /// Whether the count is that of all clients together.
    is_global: bool,
}

impl Level {
    /// Whether any call is in progress.
    pub(crate) fn is_used(&self) -> bool {
        // Relaxed, here and below: the count is the whole state.
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl InProgress {
    /// For a rule that counts calls in progress.
    pub(crate) fn new(rule: &FlowRule, config: &ClusterConfig, level: Arc<Level>) -> Option<Self> {
        if rule.grade != Grade::Thread {
            return None;
        }
        let (count, is_global) = (rule.count, config.scope == Scope::Global);
        Some(Self { level, own: config.local_count().unwrap_or(count), count, is_global })
    }

    pub(crate) fn level(&self) -> &Arc<Level> {
        &self.level
    }

    /// Counts calls that a server let in: they are in progress here whatever the local limits say.
    pub(crate) fn enter(&self, count: u32) -> Slot {
        let count = u64::from(count);
        self.level.0.fetch_add(count, Ordering::Relaxed);
        Slot { level: Arc::clone(&self.level), count }
    }

    /// Enters if the calls fit under the rule's `localCount`, or its count.
    pub(crate) fn enter_own(&self, count: u32) -> Option<Slot> {
        self.enter_below(self.own, count)
    }

    /// Enters if the calls fit under the share that one of so many clients (0 counts as 1) has of the
    /// rule's count.
    pub(crate) fn enter_share(&self, count: u32, clients: u32) -> Option<Slot> {
        let parts = if self.is_global { clients.max(1) } else { 1 };
        self.enter_below(self.count / f64::from(parts), count)
    }

    /// The check and the entry are one step: two calls that pass a check together would both enter.
    fn enter_below(&self, limit: f64, count: u32) -> Option<Slot> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast to u64 cuts towards zero, a part of a call being none, and saturates"
        )]
        let limit = limit as u64;
        let count = u64::from(count);
        let enter = |used: u64| used.checked_add(count).filter(|&used| used <= limit);
        let entered = self.level.0.try_update(Ordering::Relaxed, Ordering::Relaxed, enter);
        entered.is_ok().then(|| Slot { level: Arc::clone(&self.level), count })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // What was added once is taken off once: never below zero.
        self.level.0.fetch_sub(self.count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_progress(own: f64, count: f64) -> InProgress {
        InProgress { level: Arc::default(), own, count, is_global: true }
    }

    #[test]
    fn a_level_is_never_passed_and_never_negative() {
        let calls = in_progress(3.9, 8.0);
        let first = calls.enter_own(2).unwrap();
        assert!(calls.enter_own(2).is_none(), "a part of a request does not enter");
        assert!(calls.enter_share(1, 4).is_none(), "one level, whichever the policy");
        let second = calls.enter_own(1).unwrap();
        assert!(calls.enter_own(1).is_none(), "3.9 are 3");
        drop((first, second));
        assert!(!calls.level().is_used());
        assert!(calls.enter_own(u32::MAX).is_none());
        assert!(in_progress(f64::NAN, -1.0).enter_own(1).is_none());
        assert!(in_progress(f64::NAN, -1.0).enter_share(1, 1).is_none());
    }

    #[test]
    fn what_a_server_grants_is_in_progress_here_too() {
        let calls = in_progress(2.0, 1.0);
        let granted = [calls.enter(2), calls.enter(2)];
        assert!(calls.enter_own(1).is_none());
        drop(granted);
        assert!(calls.enter_own(1).is_some());
    }

    #[test]
    fn a_share_of_the_level_is_the_count_through_the_clients_if_they_have_it_together() {
        let enters = |calls: &InProgress, clients| calls.enter_share(3, clients).is_some();
        let global = in_progress(0.0, 6.0);
        assert_eq!([0, 1, 2, 3].map(|clients| enters(&global, clients)), [true, true, true, false]);
        assert!(enters(&InProgress { is_global: false, ..global }, 3), "each has it");
    }

    #[test]
    fn of_many_threads_only_as_many_enter_as_fit() {
        let calls = in_progress(10.0, 1.0);
        let entered = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let slots: Vec<_> = (0..1_000).map_while(|_| calls.enter_own(1)).collect();
                    entered.fetch_add(slots.len() as u64, Ordering::Relaxed);
                    // Held until the scope ends: a slot that came back could be taken again.
                    std::mem::forget(slots);
                });
            }
        });
        assert_eq!(entered.into_inner(), 10);
    }
}
