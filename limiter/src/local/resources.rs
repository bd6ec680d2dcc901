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

/// Resources that are asked in one go whether they rest: some milliseconds.
const ASKED: usize = 8_192;

type Table = HashTable<Arc<Resource>>;

pub(super) struct Resources {
    hasher: RandomState,
    shards: Box<[Shard]>,
    len: AtomicU64,
    /// Those that stand for sets of patterns.
    patterns: AtomicU64,
    /// The shard that is tidied next.
    next: AtomicU64,
}

struct Shard {
    table: Swap<Table>,
    /// Held by who adds or takes out.
    changing: Mutex<()>,
}

impl Default for Resources {
    fn default() -> Self {
        let shard = || Shard { table: Swap::new(Table::new()), changing: Mutex::default() };
        Self {
            hasher: RandomState::default(),
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            len: AtomicU64::new(0),
            patterns: AtomicU64::new(0),
            next: AtomicU64::new(0),
        }
    }
}

impl Resources {
    /// Hash of a name, for the other methods. Names may come from outside, hence a seed.
    #[inline]
    pub(super) fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The same for a name [of patterns](Name::of_patterns).
    pub(super) fn hash_patterns(&self, texts: &[&str]) -> u64 {
        self.hasher.hash_one(texts)
    }

    /// The resource that stands for names which match these patterns.
    pub(super) fn get_by_patterns(&self, hash: u64, texts: &[&str]) -> Option<Arc<Resource>> {
        let table = self.shard(hash)?.table.hold();
        table.find(hash, |resource| resource.name.is_of_patterns(texts)).cloned()
    }

    #[inline]
    pub(super) fn get(&self, hash: u64, name: &str) -> Option<Arc<Resource>> {
        let table = self.shard(hash)?.table.hold();
        let is_it = |resource: &Arc<Resource>| match &resource.name {
            Name::Own(text) => **text == *name,
            // A pattern that stands for others may be spelled like a name.
            Name::Patterns(_) | Name::EveryPattern | Name::Other => false,
        };
        table.find(hash, is_it).cloned()
    }

    /// The resource of that name, which stands for others.
    pub(super) fn get_shared(&self, hash: u64, name: &Name) -> Option<Arc<Resource>> {
        self.shard(hash)?.find(hash, name)
    }

    /// The resource of that name, or the one that `make` makes.
    pub(super) fn get_or_add(
        &self,
        hash: u64,
        name: &Name,
        make: impl FnOnce() -> Resource,
    ) -> Arc<Resource> {
        let Some(shard) = self.shard(hash) else { return Arc::new(make()) };
        if let Some(resource) = shard.find(hash, name) {
            return resource;
        }
        let _changing = lock(&shard.changing);
        if let Some(resource) = shard.find(hash, name) {
            return resource;
        }
        let resource = Arc::new(make());
        shard.insert([Arc::clone(&resource)]);
        self.count(&resource.name, 1);
        resource
    }

    /// Whether there is this one that stands for a set of patterns, or there are fewer than `most`.
    pub(super) fn has_room_for(&self, hash: u64, name: &Name, most: usize) -> bool {
        // Relaxed: as in `count`.
        let patterns = usize::try_from(self.patterns.load(Ordering::Relaxed));
        patterns.is_ok_and(|patterns| patterns < most)
            || self.shard(hash).is_some_and(|shard| shard.find(hash, name).is_some())
    }

    /// Counts `more` of the kind; modulo 2^64, so that the largest number is one less.
    fn count(&self, name: &Name, more: u64) {
        // Relaxed: each count is the whole state.
        self.len.fetch_add(more, Ordering::Relaxed);
        if let Name::Patterns(_) = name {
            self.patterns.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Asks of every resource whether it `rests`, and takes out those that do and that nobody is
    /// about to call, each of them asked once more when it is sure that nobody is. Of very many
    /// some are asked, and others the next time.
    pub(super) fn tidy(&self, mut rests: impl FnMut(&Resource) -> bool) {
        let mut asked = 0;
        for _ in 0..SHARDS {
            // Relaxed: where to go on is the whole state.
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(shard) = self.shard(next << 32) else { continue };
            asked += shard.tidy(&mut rests, |gone| self.count(&gone.name, u64::MAX));
            if asked >= ASKED {
                return;
            }
        }
    }

    /// Resources that there are.
    pub(super) fn len(&self) -> u64 {
        // Relaxed: as in `count`.
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

impl Shard {
    fn find(&self, hash: u64, name: &Name) -> Option<Arc<Resource>> {
        self.table.hold().find(hash, |other| other.name == *name).cloned()
    }

    /// Adds resources that are not there; for who holds `changing`.
    fn insert(&self, resources: impl IntoIterator<Item = Arc<Resource>>) {
        let mut table = Table::clone(&self.table.hold());
        for resource in resources {
            table.insert_unique(resource.hash, resource, |other| other.hash);
        }
        self.table.swap(Arc::new(table));
    }

    /// Gives how many were asked.
    fn tidy(&self, rests: &mut impl FnMut(&Resource) -> bool, gone: impl Fn(&Resource)) -> usize {
        let table = self.table.load();
        let asked = table.len();
        // Every one is asked, since what is idle of it is given back thereby.
        let idle = table.iter().filter(|resource| rests(resource)).count();
        drop(table);
        if idle > 0 {
            self.take_out(rests, gone);
        }
        asked
    }

    fn take_out(&self, rests: &mut impl FnMut(&Resource) -> bool, gone: impl Fn(&Resource)) {
        let _changing = lock(&self.changing);
        let mut kept = Table::clone(&self.table.hold());
        kept.retain(|resource| !rests(resource));
        let old = self.table.swap(Arc::new(kept));
        // Whoever finds nothing now waits for the lock to add it. Whoever found one before holds it,
        // or the old table, or has called it meanwhile; then it goes back.
        let old = match Arc::try_unwrap(old) {
            Ok(old) => old,
            Err(old) => {
                self.table.swap(old);
                return;
            }
        };
        let mut back = Vec::new();
        for resource in old {
            let is_kept = self.find(resource.hash, &resource.name).is_some();
            if is_kept {
                continue;
            }
            if Arc::strong_count(&resource) == 1 && rests(&resource) {
                gone(&resource);
            } else {
                back.push(resource);
            }
        }
        if !back.is_empty() {
            self.insert(back);
        }
    }
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resources").field("len", &self.len()).finish_non_exhaustive()
    }
}
