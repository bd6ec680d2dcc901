//! All resources of an engine, found by name without a lock.
//!
//! A shard is a table that is replaced whole when a resource is new: that happens once a name,
//! while each call looks one up.

use std::{hash::BuildHasher, sync::Arc};

// Loom repeats what it runs, so the order of locks must be the same each time.
#[cfg(loom)]
use foldhash::fast::FixedState as RandomState;
#[cfg(not(loom))]
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::resource::{Name, Resource};
use crate::{
    swap::Swap,
    sync::{AtomicU64, Mutex, Ordering, lock},
};

/// Enough that a new name copies some hundred entries when there are 100 000. Two for loom, to which
/// each is two locks.
const SHARDS: usize = if cfg!(loom) { 2 } else { 256 };

type Table = HashTable<Arc<Resource>>;

pub(super) struct Resources {
    hasher: RandomState,
    shards: Box<[Shard]>,
    len: AtomicU64,
}

struct Shard {
    table: Swap<Table>,
    /// Held by who adds.
    adding: Mutex<()>,
}

impl Default for Resources {
    fn default() -> Self {
        let shard = || Shard { table: Swap::new(Table::new()), adding: Mutex::default() };
        Self {
            hasher: RandomState::default(),
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            len: AtomicU64::new(0),
        }
    }
}

impl Resources {
    /// Hash of a name, for the other methods. Names may come from outside, hence a seed.
    #[inline]
    pub(super) fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    #[inline]
    pub(super) fn get(&self, hash: u64, name: &str) -> Option<Arc<Resource>> {
        let table = self.shard(hash)?.table.hold();
        let is_it = |resource: &Arc<Resource>| match &resource.name {
            Name::Own(text) => **text == *name,
            // A pattern that stands for others may be spelled like a name.
            Name::Patterns(_) | Name::Other => false,
        };
        table.find(hash, is_it).cloned()
    }

    /// The resource of that name, or the one that `make` makes.
    pub(super) fn get_or_add(
        &self,
        hash: u64,
        name: &Name,
        make: impl FnOnce() -> Resource,
    ) -> Arc<Resource> {
        let Some(shard) = self.shard(hash) else { return Arc::new(make()) };
        let find = || shard.table.hold().find(hash, |other| other.name == *name).cloned();
        if let Some(resource) = find() {
            return resource;
        }
        let _adding = lock(&shard.adding);
        if let Some(resource) = find() {
            return resource;
        }
        let resource = Arc::new(make());
        let mut table = Table::clone(&shard.table.hold());
        table.insert_unique(hash, Arc::clone(&resource), |other| other.hash);
        shard.table.swap(Arc::new(table));
        // Relaxed: the count is the whole state.
        self.len.fetch_add(1, Ordering::Relaxed);
        resource
    }

    /// Resources that there are.
    pub(super) fn len(&self) -> u64 {
        // Relaxed: as in `get_or_add`.
        self.len.load(Ordering::Relaxed)
    }

    /// Every resource, in order of their names.
    pub(super) fn all(&self) -> Vec<Arc<Resource>> {
        let mut all = Vec::new();
        self.each(|resource| all.push(Arc::clone(resource)));
        all.sort_unstable_by(|a, b| a.name.text().cmp(b.name.text()));
        all
    }

    /// Visits every resource, in any order. Those that come meanwhile may be left out.
    pub(super) fn each(&self, mut visit: impl FnMut(&Arc<Resource>)) {
        for shard in &self.shards {
            shard.table.load().iter().for_each(&mut visit);
        }
    }

    #[inline]
    fn shard(&self, hash: u64) -> Option<&Shard> {
        // The table uses the lowest and the highest bits.
        self.shards.get((hash >> 32) as usize % SHARDS)
    }
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resources").field("len", &self.len()).finish_non_exhaustive()
    }
}
