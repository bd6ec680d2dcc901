//! The slots, chained by last use.

use super::Counter;
use crate::{
    WindowShape,
    cluster::key::{Key, KeyRef},
    window::Ring,
};

/// No slot.
const NONE: u32 = u32::MAX;

/// Slots of one allocation: slots never move, however many come.
const CHUNK: usize = 1_024;

/// What a slot costs beside its key's text and what its ring allocates: the slot, its place in the index, and
/// what the allocator rounds up.
const SLOT_BYTES: usize = size_of::<Slot>() + 32;

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: Key,
    pub(super) counter: Counter,
    /// What it was charged with.
    pub(super) bytes: u64,
    before: u32,
    after: u32,
}

impl Slot {
    pub(super) fn new(key: KeyRef<'_>, bytes: u64) -> Self {
        let counter = Counter::default();
        Self { key: key.to_key(), counter, bytes, before: NONE, after: NONE }
    }

    /// Bytes of memory that a value takes, about.
    pub(super) fn bytes(key: KeyRef<'_>, shape: WindowShape) -> u64 {
        let text = match key {
            KeyRef::Bits(..) => 0,
            KeyRef::Str(text) => text.len() + 16,
        };
        (SLOT_BYTES + text) as u64 + Ring::heap_bytes(shape)
    }
}

#[derive(Debug)]
pub(super) struct Chain {
    chunks: Vec<Vec<Option<Slot>>>,
    free: Vec<u32>,
    len: usize,
    /// The longest unused.
    first: u32,
    /// The last used.
    last: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), len: 0, first: NONE, last: NONE }
    }
}

impl Chain {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is(&self, at: u32, key: KeyRef<'_>) -> bool {
        self.slot(at).is_some_and(|slot| key.is(&slot.key))
    }

    pub(super) fn counter(&mut self, at: u32) -> Option<&mut Counter> {
        self.slot_mut(at).map(|slot| &mut slot.counter)
    }

    /// The longest unused slot.
    pub(super) fn first(&self) -> Option<(u32, &Slot)> {
        self.slot(self.first).map(|slot| (self.first, slot))
    }

    /// Puts a slot in as the last used.
    pub(super) fn push(&mut self, slot: Slot) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| self.room());
        if let Some(place) = self.place(at) {
            *place = Some(slot);
            self.len += 1;
        }
        self.link_last(at);
        at
    }

    pub(super) fn remove(&mut self, at: u32) {
        self.unlink(at);
        if let Some(place) = self.place(at)
            && place.take().is_some()
        {
            self.len -= 1;
            self.free.push(at);
        }
    }

    pub(super) fn move_to_end(&mut self, at: u32) {
        if self.last != at {
            self.unlink(at);
            self.link_last(at);
        }
    }

    /// A place that was never used.
    fn room(&mut self) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut().map_or(0, |chunk| {
            chunk.push(None);
            chunk.len() - 1
        });
        u32::try_from(before + chunk).unwrap_or(NONE)
    }

    fn unlink(&mut self, at: u32) {
        let Some(slot) = self.slot(at) else { return };
        let (before, after) = (slot.before, slot.after);
        match self.slot_mut(before) {
            Some(slot) => slot.after = after,
            None => self.first = after,
        }
        match self.slot_mut(after) {
            Some(slot) => slot.before = before,
            None => self.last = before,
        }
    }

    fn link_last(&mut self, at: u32) {
        let last = self.last;
        if let Some(slot) = self.slot_mut(at) {
            (slot.before, slot.after) = (last, NONE);
        }
        match self.slot_mut(last) {
            Some(slot) => slot.after = at,
            None => self.first = at,
        }
        self.last = at;
    }

    fn slot(&self, at: u32) -> Option<&Slot> {
        self.chunks.get(at as usize / CHUNK)?.get(at as usize % CHUNK)?.as_ref()
    }

    fn slot_mut(&mut self, at: u32) -> Option<&mut Slot> {
        self.place(at)?.as_mut()
    }

    fn place(&mut self, at: u32) -> Option<&mut Option<Slot>> {
        self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys in the order of the chain.
    fn order(chain: &Chain) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut at = chain.first;
        while let Some(slot) = chain.slot(at) {
            let Key::Bits(_, key) = slot.key else { panic!() };
            keys.push(key);
            at = slot.after;
        }
        assert_eq!(keys.len(), chain.len());
        keys
    }

    #[test]
    fn the_longest_unused_is_first_whatever_is_used_and_removed() {
        let mut chain = Chain::default();
        let at: Vec<u32> =
            (0..4).map(|key| chain.push(Slot::new(KeyRef::Bits(0, key), 0))).collect();
        chain.move_to_end(at[0]);
        chain.move_to_end(at[2]);
        chain.move_to_end(at[2]);
        assert_eq!(order(&chain), [1, 3, 0, 2]);
        chain.remove(at[3]);
        chain.remove(at[1]);
        assert_eq!(order(&chain), [0, 2]);
        assert_eq!(chain.push(Slot::new(KeyRef::Bits(0, 9), 0)), at[1], "places are used again");
        assert_eq!(order(&chain), [0, 2, 9]);
        chain.remove(at[2]);
        chain.remove(at[0]);
        chain.remove(at[1]);
        assert_eq!(order(&chain), [0_u64; 0]);
    }
}
