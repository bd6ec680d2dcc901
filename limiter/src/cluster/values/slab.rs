//! Slots at places that stay theirs, in small chunks: a chunk that no slot is in any more is freed,
//! and new slots go into the first chunk with room, so that what a flood took is given back.

use std::collections::BTreeSet;

use super::chain::Slot;

/// Slots of one chunk.
const CHUNK: u32 = 64;

#[derive(Debug)]
pub(super) struct Slab<C> {
    chunks: Vec<Chunk<C>>,
    /// Chunks with room.
    roomy: BTreeSet<u32>,
    len: usize,
    bytes: u64,
}

#[derive(Debug)]
struct Chunk<C> {
    /// As long as is needed: most rules have few values.
    slots: Vec<Option<Slot<C>>>,
    /// A bit for each slot that is taken.
    taken: u64,
}

impl<C> Default for Slab<C> {
    fn default() -> Self {
        Self { chunks: Vec::new(), roomy: BTreeSet::new(), len: 0, bytes: 0 }
    }
}

impl<C> Slab<C> {
    /// Slots.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that are allocated for slots, taken or not.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Places that slots may be at.
    pub(super) fn places(&self) -> u32 {
        u32::try_from(self.chunks.len()).unwrap_or(u32::MAX).saturating_mul(CHUNK)
    }

    pub(super) fn get(&self, at: u32) -> Option<&Slot<C>> {
        self.chunks.get((at / CHUNK) as usize)?.slots.get((at % CHUNK) as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Slot<C>> {
        self.chunks.get_mut((at / CHUNK) as usize)?.slots.get_mut((at % CHUNK) as usize)?.as_mut()
    }

    /// Puts `slot` in, and says where.
    pub(super) fn put(&mut self, slot: Slot<C>) -> u32 {
        let number = self.roomy.first().copied().unwrap_or_else(|| {
            let number = self.places() / CHUNK;
            self.chunks.push(Chunk { slots: Vec::new(), taken: 0 });
            self.roomy.insert(number);
            number
        });
        let mut place = 0;
        self.change(number, |chunk| {
            place = chunk.taken.trailing_ones();
            chunk.taken |= 1 << place;
            match chunk.slots.get_mut(place as usize) {
                Some(free) => *free = Some(slot),
                None => chunk.slots.push(Some(slot)),
            }
        });
        self.len += 1;
        number * CHUNK + place
    }

    /// Takes the slot out of its place.
    pub(super) fn remove(&mut self, at: u32) -> Option<Slot<C>> {
        let (number, place) = (at / CHUNK, at % CHUNK);
        let slot = self.chunks.get_mut(number as usize)?.slots.get_mut(place as usize)?.take()?;
        self.change(number, |chunk| {
            chunk.taken &= !(1 << place);
            if chunk.taken == 0 {
                chunk.slots = Vec::new();
            }
        });
        self.len -= 1;
        Some(slot)
    }

    /// Changes one chunk, and keeps account of it.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Chunk<C>)) {
        let Some(chunk) = self.chunks.get_mut(number as usize) else { return };
        let before = (chunk.bytes(), chunk.taken == u64::MAX);
        change(chunk);
        self.bytes = self.bytes - before.0 + chunk.bytes();
        match (before.1, chunk.taken == u64::MAX) {
            (false, true) => {
                self.roomy.remove(&number);
            }
            (true, false) => {
                self.roomy.insert(number);
            }
            _ => {}
        }
    }
}

impl<C> Chunk<C> {
    fn bytes(&self) -> u64 {
        (self.slots.capacity() * size_of::<Option<Slot<C>>>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::key::KeyRef;

    fn slot(key: u64) -> Slot<()> {
        Slot::new(KeyRef::Bits(0, key), (), 0)
    }

    #[test]
    fn places_are_used_again_from_the_first_and_empty_chunks_are_freed() {
        let mut slab = Slab::default();
        let places: Vec<u32> = (0..200).map(|key| slab.put(slot(key))).collect();
        assert_eq!((slab.len(), slab.places()), (200, 256));
        let all = slab.bytes();
        for at in places.iter().copied().filter(|at| (64..128).contains(at) || *at == 7) {
            assert!(slab.remove(at).is_some() && slab.remove(at).is_none());
        }
        assert_eq!(slab.bytes(), all - 64 * size_of::<Option<Slot<()>>>() as u64);
        assert_eq!([slab.put(slot(1_000)), slab.put(slot(1_001))], [7, 64]);
        for at in 0..slab.places() {
            slab.remove(at);
        }
        assert_eq!((slab.len(), slab.bytes()), (0, 0));
    }

    #[test]
    fn a_slot_stays_where_it_was_put() {
        let mut slab = Slab::default();
        let places: Vec<(u32, u64)> = (0..1_000).map(|key| (slab.put(slot(key)), key)).collect();
        for (at, key) in places {
            assert!(KeyRef::Bits(0, key).is(&slab.get(at).unwrap().key));
        }
    }
}
