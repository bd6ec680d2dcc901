//! Account of what counters allocate, as they grow and shrink.
//!
//! Only a log does: it takes 16 bytes for each tick of its window at which tokens were taken. A log
//! that finds no room to grow makes do with the entries that it has, by joining neighbours. So it
//! never admits more than it should, and may refuse what a longer log would have admitted: a token
//! may count for up to two windows.

use super::{At, Measure, Room, Values};

impl<C: Default> Values<C> {
    /// Takes account of a counter that was used.
    #[inline]
    pub(crate) fn weigh(&mut self, at: At, gauge: impl Measure<Counter = C>, room: &Room) {
        if gauge.grows() {
            self.weigh_log(at, gauge, room);
        }
    }

    fn weigh_log(&mut self, at: At, gauge: impl Measure<Counter = C>, room: &Room) {
        let (counter, heap) = match at {
            At::Own(at) => match self.chain.get_mut(at) {
                Some(slot) => (&mut slot.counter, &mut slot.heap),
                None => return,
            },
            At::Shared => (&mut self.shared, &mut self.shared_heap),
        };
        let had = *heap;
        gauge.give_back_heap(counter);
        *heap = gauge.heap_bytes(counter);
        if *heap > had && !room.has_bytes((*heap - had).into()) {
            gauge.make_do_with(counter, had.into());
            *heap = gauge.heap_bytes(counter);
        }
        let has = *heap;
        if has != had {
            self.beside = self.beside - u64::from(had) + u64::from(has);
            self.settle(room);
        }
    }
}
