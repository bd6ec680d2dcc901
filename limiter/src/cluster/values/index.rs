//! From a value's hash to its slot.
//!
//! One hash table at first, [`PARTS`] of them once it has grown: a table that grows moves all its
//! entries at once, under the rule's lock, and a part of a million is moved in the time in which
//! a client still waits.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use crate::cluster::key::KeyRef;

/// Parts of a large index.
const PARTS: usize = 64;
/// Entries from which an index is large.
const LARGE: usize = 16_384;

#[derive(Debug)]
pub(super) struct Index {
    /// Seeded at random: the keys are chosen by clients.
    hasher: RandomState,
    parts: Vec<HashTable<(u64, u32)>>,
    bytes: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self { hasher: RandomState::default(), parts: vec![HashTable::new()], bytes: 0 }
    }
}

impl Index {
    pub(super) fn hash(&self, key: KeyRef<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let part = self.parts.get(self.part(hash))?;
        part.find(hash, |&(h, at)| h == hash && is_it(at)).map(|&(_, at)| at)
    }

    /// Bytes that are allocated.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn insert(&mut self, hash: u64, at: u32) {
        if self.parts.len() == 1 && self.parts.first().is_some_and(|part| part.len() >= LARGE) {
            self.split();
        }
        self.change(hash, |part| {
            part.insert_unique(hash, (hash, at), |&(hash, _)| hash);
        });
    }

    pub(super) fn remove(&mut self, hash: u64, at: u32) {
        self.change(hash, |part| {
            if let Ok(entry) = part.find_entry(hash, |&(_, entry)| entry == at) {
                entry.remove();
            }
            // Far less than what a flood left behind; as much again may come before it grows.
            if part.len() < part.capacity() / 8 {
                part.shrink_to(2 * part.len(), |&(hash, _)| hash);
            }
        });
    }

    /// Changes the part that a hash is in, and keeps account of it.
    fn change(&mut self, hash: u64, change: impl FnOnce(&mut HashTable<(u64, u32)>)) {
        let part = self.part(hash);
        if let Some(part) = self.parts.get_mut(part) {
            let before = part.allocation_size();
            change(part);
            self.bytes = self.bytes - before as u64 + part.allocation_size() as u64;
        }
    }

    fn split(&mut self) {
        let old = std::mem::take(&mut self.parts);
        (self.bytes, self.parts) = (0, Vec::with_capacity(PARTS));
        self.parts.resize_with(PARTS, HashTable::new);
        for (hash, at) in old.into_iter().flatten() {
            self.insert(hash, at);
        }
    }

    /// The table uses the low and the very high bits of a hash, so the part is taken from others.
    fn part(&self, hash: u64) -> usize {
        (hash >> 40) as usize & (self.parts.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_before_and_after_the_index_has_split() {
        let mut index = Index::default();
        let hash = |index: &Index, key: u32| index.hash(KeyRef::Bits(1, key.into()));
        for key in 0..40_000 {
            let hash = hash(&index, key);
            index.insert(hash, key);
        }
        assert_eq!(index.parts.len(), PARTS);
        for key in (0..40_000).step_by(2) {
            let hash = hash(&index, key);
            index.remove(hash, key);
        }
        for key in 0..40_000 {
            let found = index.find(hash(&index, key), |at| at == key);
            assert_eq!(found, (key % 2 == 1).then_some(key));
        }
    }

    #[test]
    fn what_a_flood_took_is_given_back_when_it_has_gone() {
        let mut index = Index::default();
        let hash = |index: &Index, key: u32| index.hash(KeyRef::Bits(1, key.into()));
        let allocated =
            |index: &Index| -> usize { index.parts.iter().map(HashTable::allocation_size).sum() };
        for key in 0..100_000 {
            let hash = hash(&index, key);
            index.insert(hash, key);
        }
        assert_eq!(index.bytes(), allocated(&index) as u64);
        assert!(index.bytes() > 100_000 * 16);
        for key in 10..100_000 {
            let hash = hash(&index, key);
            index.remove(hash, key);
        }
        assert_eq!(index.bytes(), allocated(&index) as u64);
        assert!(index.bytes() < 64 * 256, "{} bytes", index.bytes());
        for key in 0..20 {
            assert_eq!(index.find(hash(&index, key), |at| at == key), (key < 10).then_some(key));
        }
    }
}
