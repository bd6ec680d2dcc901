//! What one value has used, and how that is read.

use std::time::Duration;

use super::Measure;
use crate::{
    Tick, WindowShape,
    algorithm::SlidingLogState,
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

    /// Tokens that say at least as much as the counter at `now`, when another one that was never
    /// used is charged with them.
    pub(crate) fn weight(self, counter: &Counter, now: Tick) -> u64 {
        // Of calls in a queue the first goes at once.
        let first = match self {
            Self::Machines(machines) => u64::from(machines.get(0).machine.is_queue()),
            Self::Sliding(_) => 0,
        };
        self.used(counter, now).saturating_add(first)
    }

    /// Whether a counter allocates more as it is used.
    #[inline]
    pub(crate) fn grows(self) -> bool {
        match self {
            Self::Sliding(_) => false,
            Self::Machines(machines) => matches!(*machines.get(0).machine, Machine::Log(_)),
        }
    }

    /// Bytes that a counter allocates beside itself, at least.
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

    fn heap_bytes(self, counter: &Counter) -> u32 {
        let bytes = counter.heap_bytes().max(Gauge::heap_bytes(self));
        u32::try_from(bytes.next_multiple_of(16)).unwrap_or(u32::MAX)
    }

    fn grows(self) -> bool {
        Gauge::grows(self)
    }

    fn give_back_heap(self, counter: &mut Counter) {
        counter.give_back_heap();
    }

    fn make_do_with(self, counter: &mut Counter, bytes: u64) {
        counter.make_do_with(bytes);
    }
}

impl Counter {
    fn log(&mut self) -> Option<&mut SlidingLogState> {
        match &mut self.tally {
            Tally::Tuned(Tuned { state: State::Log(log), .. }) => Some(log),
            _ => None,
        }
    }

    /// Bytes that a log allocates; of any other counter they are known from the gauge.
    pub(crate) fn heap_bytes(&self) -> u64 {
        match &self.tally {
            Tally::Tuned(Tuned { state: State::Log(log), .. }) => log.heap_bytes(),
            _ => 0,
        }
    }

    /// Gives back what a log does not need.
    pub(crate) fn give_back_heap(&mut self) {
        if let Some(log) = self.log() {
            log.give_back_heap();
        }
    }

    /// Makes do with so many bytes, as far as a log can.
    pub(crate) fn make_do_with(&mut self, bytes: u64) {
        if let Some(log) = self.log() {
            log.make_do_with(bytes.saturating_sub(size_of::<SlidingLogState>() as u64));
        }
    }

    /// Takes `count` tokens that were granted elsewhere, as [`Machine::granted`] does.
    pub(crate) fn granted(&mut self, now: Tick, count: u64, wait: Duration) {
        match &mut self.tally {
            Tally::Ring(ring) => ring.charge(count),
            Tally::Tuned(Tuned { machine, state, .. }) => machine.granted(state, now, count, wait),
        }
    }

    /// Takes `count` tokens whatever the limit.
    pub(crate) fn charge(&mut self, now: Tick, count: u64) {
        match &mut self.tally {
            Tally::Ring(ring) => ring.charge(count),
            Tally::Tuned(Tuned { machine, state, .. }) => machine.charge(state, now, count),
        }
    }
}
