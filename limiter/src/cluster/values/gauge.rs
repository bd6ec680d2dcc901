//! What one value has used, and how that is read.

use std::time::Duration;

use super::Measure;
use crate::{
    Tick, WindowShape,
    cluster::{
        machine::{Machine, State},
        param::{Machines, OfCount},
    },
    sync::Arc,
    window::Ring,
};

/// What one value has used, and what the request that is being decided asks of it: a value may
/// stand in it several times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    pub(crate) tally: Tally,
    /// Zero between two decisions.
    pub(crate) asked: u64,
}

/// What one value has used.
#[derive(Clone, Debug)]
pub(crate) enum Tally {
    /// Of a sliding window.
    Ring(Ring),
    /// Of every other algorithm.
    Tuned(Tuned),
}

/// A state, and the machine that it was used under last.
#[derive(Clone, Debug)]
pub(crate) struct Tuned {
    pub(crate) machine: Arc<Machine>,
    pub(crate) state: State,
    /// When the machine took the place of another.
    since: Tick,
}

impl Tuned {
    /// A state that was under this machine from `since` on.
    pub(crate) fn new(machine: &Arc<Machine>, state: State, since: Tick) -> Self {
        Self { machine: Arc::clone(machine), state, since }
    }

    /// Brings it to another machine.
    fn retune(&mut self, machine: &Arc<Machine>, now: Tick) {
        machine.adopt(&mut self.state, &self.machine, now);
        (self.machine, self.since) = (Arc::clone(machine), now);
    }

    pub(crate) fn give_back(&mut self, now: Tick, n: u64, age: Duration) {
        self.machine.give_back(&mut self.state, now, n, age, self.since);
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::Ring(Ring::default())
    }
}

/// How all values of a rule are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gauge<'a> {
    Sliding(WindowShape),
    Machines(&'a Machines),
}

impl<'a> Gauge<'a> {
    /// The gauge of a rule that has `machines`, or else the sliding window `shape`.
    pub(crate) fn of(shape: WindowShape, machines: Option<&'a Machines>) -> Self {
        machines.map_or(Self::Sliding(shape), Self::Machines)
    }

    /// Brings a counter to `now` and to its rule's count at `index`, or makes it one of this gauge.
    #[inline]
    pub(crate) fn turn(self, counter: &mut Counter, index: u32, now: Tick) {
        match (self, &mut counter.tally) {
            (Self::Sliding(shape), Tally::Ring(ring)) => ring.advance(shape, now),
            (Self::Machines(machines), Tally::Tuned(tuned)) => {
                let OfCount { machine, is_shut } = machines.get(index);
                if !Arc::ptr_eq(&tuned.machine, machine) && !is_shut {
                    tuned.retune(machine, now);
                }
            }
            (_, tally) => *tally = self.fresh(index),
        }
    }

    /// Lets a counter see that it is `now`: nothing of it goes back behind that.
    pub(crate) fn see(self, counter: &mut Counter, now: Tick) {
        self.turn(counter, 0, now);
        if let Tally::Tuned(Tuned { machine, state, .. }) = &mut counter.tally {
            machine.see(state, now);
        }
    }

    /// A tally with nothing used.
    fn fresh(self, index: u32) -> Tally {
        match self {
            Self::Sliding(_) => Tally::Ring(Ring::default()),
            Self::Machines(machines) => {
                let machine = &machines.get(index).machine;
                Tally::Tuned(Tuned::new(machine, machine.fresh(), Tick(0)))
            }
        }
    }

    /// Forgets what was used. Time does not go back.
    pub(crate) fn reset(self, counter: &mut Counter, index: u32, now: Tick) {
        match &mut counter.tally {
            Tally::Ring(ring) => ring.clear(),
            tally @ Tally::Tuned(_) => *tally = self.fresh(index),
        }
        self.see(counter, now);
    }

    /// Whether nothing of it counts at `now` and later.
    pub(crate) fn is_idle(self, counter: &Counter, now: Tick) -> bool {
        match (self, &counter.tally) {
            // A ring that was looked at is as young as that.
            (Self::Sliding(shape), Tally::Ring(ring)) => {
                (ring.sum() == 0 && ring.booked() == 0) || ring.is_idle(shape, now)
            }
            (Self::Machines(_), Tally::Tuned(tuned)) => tuned.machine.is_idle(&tuned.state, now),
            _ => true,
        }
    }

    /// Whether those that were used later may be idle before.
    pub(crate) fn is_out_of_order(self) -> bool {
        matches!(self, Self::Machines(_))
    }

    /// Tokens that count at `now`.
    pub(crate) fn used(self, counter: &Counter, now: Tick) -> u64 {
        match (self, &counter.tally) {
            (Self::Sliding(shape), Tally::Ring(ring)) => ring.at(shape, now).0,
            (Self::Machines(_), Tally::Tuned(tuned)) => tuned.machine.used(&tuned.state, now),
            _ => 0,
        }
    }

    /// Bytes that a counter allocates beside itself.
    pub(crate) fn heap_bytes(self) -> u64 {
        match self {
            Self::Sliding(shape) => Ring::heap_bytes(shape),
            Self::Machines(machines) => machines.get(0).machine.heap_bytes(),
        }
    }
}

impl Measure for Gauge<'_> {
    type Counter = Counter;

    fn begin(self, shared: &Counter) -> Counter {
        Counter { tally: shared.tally.clone(), asked: 0 }
    }

    fn is_idle(self, counter: &Counter, now: Tick) -> bool {
        Gauge::is_idle(self, counter, now)
    }

    fn is_out_of_order(self) -> bool {
        Gauge::is_out_of_order(self)
    }

    fn is_asked(self, counter: &Counter) -> bool {
        counter.asked > 0
    }

    fn see(self, counter: &mut Counter, now: Tick) {
        Gauge::see(self, counter, now);
    }

    fn heap_bytes(self) -> u64 {
        Gauge::heap_bytes(self)
    }
}

impl Counter {
    /// Takes `count` tokens whatever the limit.
    pub(crate) fn charge(&mut self, now: Tick, count: u64) {
        match &mut self.tally {
            Tally::Ring(ring) => ring.charge(count),
            Tally::Tuned(Tuned { machine, state, .. }) => machine.charge(state, now, count),
        }
    }
}
