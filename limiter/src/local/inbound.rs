//! What all inbound calls together do (`__total_inbound_traffic__`), and the limits on it.
//!
//! Every inbound call of every resource counts here, so it must not be one lock: as long as no
//! system rule limits anything, calls count in one of several nodes, by their resource, and a
//! reading adds them up. Once there is a limit, all new calls count in the first node, whose lock
//! is held from the check to the take, so that check and take are one step; in the others calls
//! only end.

use std::{sync::Arc, time::Duration};

use super::{
    Retry, SystemKind, SystemStatus,
    outlook::retry_at,
    stat::{Stat, as_f64},
    system::{self, SystemLimits},
};
use crate::{
    Tick,
    swap::Swap,
    sync::{AtomicBool, Mutex, MutexGuard, Ordering, lock},
};

/// Enough for the threads that make inbound calls at the very same time; a check adds up all. In
/// the models each more is one more lock to try in every order.
const SHARDS: u8 = if cfg!(loom) { 2 } else { 8 };
/// Not inbound.
pub(super) const NONE: u8 = u8::MAX;

pub(super) struct Inbound {
    shards: [Shard; SHARDS as usize],
    is_limited: AtomicBool,
    system: Swap<System>,
    /// Held by who changes a part of `system`.
    changing: Mutex<()>,
}

/// A node by itself in its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Stat>);

#[derive(Clone, Copy, Debug, Default)]
struct System {
    limits: SystemLimits,
    status: SystemStatus,
}

impl Default for Inbound {
    fn default() -> Self {
        Self {
            shards: Default::default(),
            is_limited: AtomicBool::new(false),
            system: Swap::new(System::default()),
            changing: Mutex::default(),
        }
    }
}

impl Inbound {
    /// Where a new call of the resource with this hash counts.
    #[inline]
    pub(super) fn place(&self, hash: u64) -> u8 {
        if self.is_limited() { 0 } else { u8::try_from(hash % u64::from(SHARDS)).unwrap_or(0) }
    }

    /// Locks the node at a place, brought to `now`; `None` for a call that is not inbound. No
    /// other node is locked meanwhile.
    #[inline]
    pub(super) fn lock(&self, place: u8, now: Tick) -> Option<MutexGuard<'_, Stat>> {
        let Shard(node) = self.shards.get(usize::from(place))?;
        let mut node = lock(node);
        node.advance(now);
        Some(node)
    }

    /// The sum of all nodes but the one at `place`, if there is anything to check for a call there.
    #[inline]
    pub(super) fn others(&self, place: u8, now: Tick) -> Option<Stat> {
        if place == NONE || !self.is_limited() {
            return None;
        }
        let mut sum = Stat::default();
        sum.advance(now);
        for other in (0..SHARDS).filter(|other| *other != place) {
            if let Some(node) = self.lock(other, now) {
                sum.add_second(&node);
            }
        }
        Some(sum)
    }

    /// Whether `n` more tokens may come in, and which limit refuses them. `sum` are the
    /// [`Self::others`] of a call, and `own` is its node.
    pub(super) fn check(&self, mut sum: Stat, own: &Stat, n: u32) -> Result<(), SystemKind> {
        sum.add_second(own);
        let System { limits, status } = *self.system.hold();
        let reading = system::Inbound {
            pass_qps: as_f64(sum.passed()),
            threads: sum.threads(),
            avg_rt: sum.avg_rt(),
            max_success_qps: sum.max_success_qps(),
            min_rt: sum.min_rt(),
        };
        limits.check(&reading, status, n)
    }

    /// When `n` more tokens may come in.
    pub(super) fn retry(&self, now: Tick, n: u32) -> Retry {
        let free = Retry::After(Duration::ZERO);
        let Some(sum) = self.others(SHARDS, now) else { return free };
        let coming = sum.coming();
        match self.check(sum, &Stat::default(), n) {
            Ok(()) => free,
            Err(SystemKind::Qps) => {
                retry_at(now, n.into(), self.system.hold().limits.qps(), coming)
            }
            Err(_) => Retry::Unknown,
        }
    }

    /// All nodes together.
    pub(super) fn sum(&self, now: Tick) -> Stat {
        let mut sum = Stat::default();
        sum.advance(now);
        for place in 0..SHARDS {
            if let Some(node) = self.lock(place, now) {
                sum.add(&node);
            }
        }
        sum
    }

    /// Whether these limits are others than those before.
    pub(super) fn set_limits(&self, limits: SystemLimits) -> bool {
        let _changing = lock(&self.changing);
        let before = *self.system.hold();
        self.system.swap(Arc::new(System { limits, ..before }));
        // Relaxed: which of the two a call finds that is made meanwhile does not matter.
        self.is_limited.store(limits.is_set(), Ordering::Relaxed);
        limits != before.limits
    }

    pub(super) fn set_status(&self, status: SystemStatus) {
        let _changing = lock(&self.changing);
        let system = System { status, ..*self.system.hold() };
        self.system.swap(Arc::new(system));
    }

    pub(super) fn status(&self) -> SystemStatus {
        self.system.hold().status
    }

    #[inline]
    fn is_limited(&self) -> bool {
        // Relaxed: as in `set_limits`.
        self.is_limited.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::SystemRule;

    fn qps(limit: f64) -> SystemLimits {
        SystemLimits::of(&[SystemRule { qps: Some(limit), ..SystemRule::default() }])
    }

    #[test]
    fn calls_from_before_the_limit_count_against_it() {
        let (inbound, now) = (Inbound::default(), Tick::from_ms(1_000));
        for hash in 0..16 {
            inbound.lock(inbound.place(hash), now).unwrap().take(1);
        }
        assert_eq!((inbound.sum(now).reading().pass_qps, inbound.place(5)), (16.0, 5));
        assert!(inbound.others(5, now).is_none());
        inbound.set_limits(qps(17.0));
        for (place, fits) in [(inbound.place(5), true), (7, true), (0, false)] {
            let others = inbound.others(place, now).unwrap();
            let mut own = inbound.lock(place, now).unwrap();
            assert_eq!(inbound.check(others, &own, 1).is_ok(), fits);
            if place == 7 {
                own.take(1);
            }
        }
        inbound.set_limits(SystemLimits::default());
        assert_eq!(inbound.place(5), 5);
    }

    #[test]
    fn what_is_known_of_the_machine_stays_when_limits_change() {
        let inbound = Inbound::default();
        inbound.set_status(SystemStatus { load: 9.0, cpu: 1.0 });
        let rule = SystemRule { cpu: Some(0.5), ..SystemRule::default() };
        inbound.set_limits(SystemLimits::of(&[rule]));
        let refused = inbound.check(Stat::default(), &Stat::default(), 1);
        assert_eq!(refused, Err(SystemKind::Cpu));
        assert_eq!(inbound.status(), SystemStatus { load: 9.0, cpu: 1.0 });
    }

    #[test]
    fn limits_are_not_lost_to_a_status_that_is_said_meanwhile() {
        let (inbound, done) = (Inbound::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut load = 0.0;
                // Relaxed: nothing else is published.
                while !done.load(Ordering::Relaxed) {
                    inbound.set_status(SystemStatus { load, cpu: 0.0 });
                    load += 1.0;
                }
            });
            let kept = (0..100).all(|limit| {
                inbound.set_limits(qps(f64::from(limit)));
                // What was on its way is in force with the second status that is said from now.
                let seen = inbound.status().load;
                while inbound.status().load < seen + 2.0 {
                    std::thread::yield_now();
                }
                inbound.system.hold().limits == qps(f64::from(limit))
            });
            done.store(true, Ordering::Relaxed);
            assert!(kept);
        });
    }
}
