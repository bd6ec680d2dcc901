//! The slots, chained by last use.

use super::slab::Slab;
use crate::cluster::key::{Key, KeyRef};

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) key: Key,
    pub(super) counter: C,
    /// Bytes that key and counter take beside the slot.
    pub(super) bytes: u32,
    before: u32,
    after: u32,
}

impl<C> Slot<C> {
    pub(super) fn new(key: KeyRef<'_>, counter: C, bytes: u32) -> Self {
        Self { key: key.to_key(), counter, bytes, before: NONE, after: NONE }
    }
}

#[derive(Debug)]
pub(super) struct Chain<C> {
    slots: Slab<C>,
    /// The longest unused.
    first: u32,
    /// The last used.
    last: u32,
}

impl<C> Default for Chain<C> {
    fn default() -> Self {
        Self { slots: Slab::default(), first: NONE, last: NONE }
    }
}

impl<C> Chain<C> {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.slots.bytes()
    }

    pub(super) fn is(&self, at: u32, key: KeyRef<'_>) -> bool {
        self.get(at).is_some_and(|slot| key.is(&slot.key))
    }

    /// Places that slots may be at.
    pub(super) fn places(&self) -> u32 {
        self.slots.places()
    }

    pub(super) fn get(&self, at: u32) -> Option<&Slot<C>> {
        self.slots.get(at)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Slot<C>> {
        self.slots.get_mut(at)
    }

    /// The longest unused slot.
    pub(super) fn first(&self) -> Option<(u32, &Slot<C>)> {
        self.get(self.first).map(|slot| (self.first, slot))
    }

    /// Puts a slot in as the last used.
    pub(super) fn push(&mut self, slot: Slot<C>) -> u32 {
        let at = self.slots.put(slot);
        self.link_last(at);
        at
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<Slot<C>> {
        self.unlink(at);
        self.slots.remove(at)
    }

    pub(super) fn move_to_end(&mut self, at: u32) {
        if self.last != at {
            self.unlink(at);
            self.link_last(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(slot) = self.get(at) else { return };
        let (before, after) = (slot.before, slot.after);
        match self.get_mut(before) {
            Some(slot) => slot.after = after,
            None => self.first = after,
        }
        match self.get_mut(after) {
            Some(slot) => slot.before = before,
            None => self.last = before,
        }
    }

    fn link_last(&mut self, at: u32) {
        let last = self.last;
        if let Some(slot) = self.get_mut(at) {
            (slot.before, slot.after) = (last, NONE);
        }
        match self.get_mut(last) {
            Some(slot) => slot.after = at,
            None => self.first = at,
        }
        self.last = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys in the order of the chain.
    fn order(chain: &Chain<()>) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut at = chain.first;
        while let Some(slot) = chain.get(at) {
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
            (0..4).map(|key| chain.push(Slot::new(KeyRef::Bits(0, key), (), 0))).collect();
        chain.move_to_end(at[0]);
        chain.move_to_end(at[2]);
        chain.move_to_end(at[2]);
        assert_eq!(order(&chain), [1, 3, 0, 2]);
        chain.remove(at[3]);
        chain.remove(at[1]);
        assert_eq!(order(&chain), [0, 2]);
        assert_eq!(
            chain.push(Slot::new(KeyRef::Bits(0, 9), (), 0)),
            at[1],
            "places are used again"
        );
        assert_eq!(order(&chain), [0, 2, 9]);
        chain.remove(at[2]);
        chain.remove(at[0]);
        chain.remove(at[1]);
        assert_eq!(order(&chain), [0_u64; 0]);
    }
}
