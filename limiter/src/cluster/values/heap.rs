//! Account of what counters allocate, as they grow and shrink.
//!
//! Only a log does: it takes 16 bytes for each tick of its window at which tokens were taken. A log
//! that finds no room to grow makes do with the entries that it has, by joining neighbours. So it
//! never admits more than it should, and may refuse what a longer log would have admitted: a token
//! may count for up to two windows.

use super::{At, Counter, Gauge, Room, Values};

impl Values {
    /// Takes account of a counter that was used.
    #[inline]
    pub(crate) fn weigh(&mut self, at: At, gauge: Gauge<'_>, room: &Room) {
        if gauge.grows() {
            self.weigh_log(at, gauge, room);
        }
    }

    fn weigh_log(&mut self, at: At, gauge: Gauge<'_>, room: &Room) {
        let (counter, heap) = match at {
            At::Own(at) => match self.chain.get_mut(at) {
                Some(slot) => (&mut slot.counter, &mut slot.heap),
                None => return,
            },
            At::Shared => (&mut self.shared, &mut self.shared_heap),
        };
        let had = *heap;
        counter.give_back_heap();
        *heap = heap_of(counter, gauge);
        if *heap > had && !room.has_bytes((*heap - had).into()) {
            counter.make_do_with(had.into());
            *heap = heap_of(counter, gauge);
        }
        let has = *heap;
        if has != had {
            self.beside = self.beside - u64::from(had) + u64::from(has);
            self.settle(room);
        }
    }
}

/// Bytes that a counter allocates, or soon will.
pub(super) fn heap_of(counter: &Counter, gauge: Gauge<'_>) -> u32 {
    let bytes = counter.heap_bytes().max(gauge.heap_bytes());
    u32::try_from(bytes.next_multiple_of(16)).unwrap_or(u32::MAX)
}
