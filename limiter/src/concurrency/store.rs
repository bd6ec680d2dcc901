//! All concurrency tokens of an engine.

use super::{
    level::Level,
    live::{Live, TokensFull},
    shard::{Shard, Taken},
    tenant::Tenant,
    token::{HOMES, OwnerId, Place, Released, SLOTS, TokenId},
};
use crate::{
    Tick,
    sync::{Arc, AtomicU32, Mutex, Ordering, lock},
};

/// Locks that the levels are dealt to.
const SHARDS: usize = if cfg!(loom) { 2 } else { HOMES };

/// Tokens that are dealt with before a lock is let go of: some tens of microseconds.
const BATCH: usize = 256;

/// The concurrency tokens of all flows. Shared by reference; every method takes `&self`.
///
/// A tick older than the last one that the same shard saw counts as the last.
///
/// ```
/// use std::sync::Arc;
///
/// use limiter::{Concurrency, Hold, OwnerId, Released, Tenant, Tick};
///
/// let tokens = Concurrency::new(1_000_000, 0x5eed);
/// let namespace = Arc::new(Tenant::default());
/// let flow = tokens.level(&namespace);
/// let connection = OwnerId::new(7).ok_or("zero is nobody")?;
/// let hold =
///     Hold { count: 1, owner: connection, resource_timeout_ms: 2_000, client_offline_ms: 500 };
///
/// let first = tokens.acquire(Tick::from_ms(0), &flow, 1.0, hold)?.ok_or("there is room")?;
/// assert_eq!(tokens.acquire(Tick::from_ms(1_999), &flow, 1.0, hold)?, None);
/// let second = tokens.acquire(Tick::from_ms(2_000), &flow, 1.0, hold)?.ok_or("it has ended")?;
/// assert_eq!(tokens.release(Tick::from_ms(2_001), first), Released::AlreadyReleased);
/// assert_eq!(tokens.release(Tick::from_ms(2_001), second), Released::Ok);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Concurrency {
    shards: Box<[Mutex<Shard>]>,
    live: Arc<Live>,
    levels_made: AtomicU32,
}

/// What a caller wants to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// How much of the level; 0 takes nothing of it, but is a token.
    pub count: u32,
    /// Whose connection's end ends it.
    pub owner: OwnerId,
    /// `resourceTimeout`: how long it is held unless renewed; 0 ends it at once.
    pub resource_timeout_ms: u32,
    /// `clientOfflineTime`: how long it outlives its connection at most; 0 is not at all.
    pub client_offline_ms: u32,
}

impl Concurrency {
    /// Most tokens that may live at once, whatever the operator sets: one gigabyte.
    pub const TOKENS_MAX: u64 = SLOTS as u64;

    /// A store for at most `tokens_max` live tokens (and at most [`TOKENS_MAX`](Self::TOKENS_MAX)),
    /// 64 bytes each while they live. `seed` makes token ids unguessable: a random number that no
    /// client knows, another one in each process, so that ids from before a restart name nothing.
    #[must_use]
    pub fn new(tokens_max: u64, seed: u64) -> Self {
        let live = Arc::new(Live::new(tokens_max.min(Self::TOKENS_MAX)));
        let shard = |home| Mutex::new(Shard::new(home, seed, Arc::clone(&live)));
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            live: Arc::clone(&live),
            levels_made: AtomicU32::new(0),
        }
    }

    /// A level for a flow of `tenant`, with nothing in use. It is for this store alone.
    #[must_use]
    pub fn level(&self, tenant: &Arc<Tenant>) -> Arc<Level> {
        // Relaxed: levels need not be dealt out evenly to be right.
        let made = self.levels_made.fetch_add(1, Ordering::Relaxed);
        Arc::new(Level::new(made as usize % SHARDS, Arc::clone(tenant)))
    }

    /// Makes a level `tenant`'s, with all tokens that are held of it.
    pub fn move_to(&self, level: &Level, tenant: &Arc<Tenant>) {
        if let Some(shard) = self.shards.get(level.home()) {
            let _unchanged = lock(shard);
            level.move_to(tenant);
        }
    }

    /// Takes a token, or `None` when the level would then be over `threshold`: check and take are
    /// one step under the lock of the level's shard. Tokens that are due at `now` stand in nobody's
    /// way.
    ///
    /// The tokens of a level are held to the threshold of each call, so a threshold that shrank
    /// refuses until enough tokens have come back.
    ///
    /// # Errors
    ///
    /// [`TokensFull`] when the level has room but no more tokens are free than its tenant holds;
    /// nothing was taken.
    pub fn acquire(
        &self,
        now: Tick,
        level: &Arc<Level>,
        threshold: f64,
        hold: Hold,
    ) -> Result<Option<TokenId>, TokensFull> {
        let taken = self.try_acquire(now, level, threshold, hold);
        if taken.is_ok() {
            return taken;
        }
        // Full, but perhaps of tokens that are due, in whatever shard.
        self.expire(now);
        let taken = self.try_acquire(now, level, threshold, hold);
        if taken.is_err() {
            level.tenant().refuse();
        }
        taken
    }

    fn try_acquire(
        &self,
        now: Tick,
        level: &Arc<Level>,
        threshold: f64,
        hold: Hold,
    ) -> Result<Option<TokenId>, TokensFull> {
        let Some(shard) = self.shards.get(level.home()) else { return Ok(None) };
        loop {
            // The lock is let go of between two batches of tokens that end.
            match lock(shard).acquire(now, level, threshold, hold, BATCH)? {
                Taken::Token(token) => return Ok(Some(token)),
                Taken::Refused => return Ok(None),
                Taken::Again => {}
            }
        }
    }

    /// Gives a token back. Any number of times and at any time: only a token that is held at `now`
    /// is given back, and only once, whoever asks and whether or not its rule is still there.
    pub fn release(&self, now: Tick, token: TokenId) -> Released {
        let place = Place::of(token);
        match self.shards.get(place.home) {
            Some(shard) => lock(shard).release(now, place),
            None => Released::AlreadyReleased,
        }
    }

    /// Holds a token for another `resource_timeout_ms` from `now`. It is `owner`'s from now on, so
    /// that a client that lost its connection keeps what it renews over the next one. False when
    /// it is not held at `now`: it cannot be had back.
    pub fn renew(&self, now: Tick, token: TokenId, owner: OwnerId) -> bool {
        let place = Place::of(token);
        self.shards.get(place.home).is_some_and(|shard| lock(shard).renew(now, place, owner))
    }

    /// Lets all tokens of a connection that has closed end `client_offline_ms` after `now`, unless
    /// they end earlier, and gives their number. To be called after the connection's last acquire:
    /// a later one's token lasts until its `resource_timeout_ms`.
    ///
    /// The work is proportional to the owner's tokens, plus one look at each shard.
    pub fn owner_gone(&self, now: Tick, owner: OwnerId) -> usize {
        let of_shard =
            |shard: &Mutex<Shard>| in_batches(|| lock(shard).owner_gone(now, owner, BATCH));
        self.shards.iter().map(of_shard).sum()
    }

    /// Ends all tokens that are due and gives their number. No decision waits for it; memory and
    /// [`Level::in_use`] do. Memory of a shard without tokens is freed.
    ///
    /// The work is proportional to the tokens that end, plus one look at each shard.
    pub fn expire(&self, now: Tick) -> usize {
        self.shards.iter().map(|shard| expire(shard, now)).sum()
    }

    /// What is in use of a level at `now`, to the nanosecond: what is due ends first.
    pub fn in_use(&self, now: Tick, level: &Level) -> u64 {
        if let Some(shard) = self.shards.get(level.home()) {
            expire(shard, now);
        }
        level.in_use()
    }

    /// When the next token ends: the time to call [`expire`](Self::expire) again. A token that is
    /// taken or renewed meanwhile may end earlier.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Tick> {
        self.shards.iter().filter_map(|shard| lock(shard).next_expiry()).min()
    }

    /// Tokens that are held, and such as are due and not yet ended by anybody.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.live.count()
    }
}

/// Ends all tokens of a shard that are due and gives their number.
fn expire(shard: &Mutex<Shard>, now: Tick) -> usize {
    in_batches(|| {
        let (ended, spare) = lock(shard).expire(now, BATCH);
        drop(spare);
        ended
    })
}

/// Does `work` until there was less than a batch of it; gives the sum.
fn in_batches(work: impl Fn() -> usize) -> usize {
    let mut sum = 0;
    loop {
        let done = work();
        sum += done;
        if done < BATCH {
            return sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(owner: u64, count: u32) -> Hold {
        let owner = OwnerId::new(owner).unwrap();
        Hold { count, owner, resource_timeout_ms: 2_000, client_offline_ms: 500 }
    }

    fn ms(ms: u64) -> Tick {
        Tick::from_ms(ms)
    }

    #[test]
    fn a_token_is_held_until_one_nanosecond_before_its_end() {
        let tokens = Concurrency::new(10, 1);
        let level = tokens.level(&Arc::default());
        let take = |now| tokens.acquire(now, &level, 1.0, hold(1, 1)).unwrap();
        let first = take(Tick(7)).unwrap();
        assert_eq!(take(Tick(2_000_000_006)), None);
        let second = take(Tick(2_000_000_007)).unwrap();
        assert_eq!(tokens.release(Tick(2_000_000_007), first), Released::AlreadyReleased);
        assert_eq!(level.in_use(), 1);
        assert!(tokens.renew(Tick(4_000_000_006), second, hold(1, 1).owner));
        assert_eq!(take(Tick(6_000_000_005)), None);
        assert_eq!(tokens.release(Tick(6_000_000_006), second), Released::AlreadyReleased);
        assert!(!tokens.renew(Tick(6_000_000_006), second, hold(1, 1).owner));
        assert_eq!((level.in_use(), tokens.live(), tokens.next_expiry()), (0, 0, None));
    }

    #[test]
    fn tokens_of_a_gone_connection_end_early_but_never_later() {
        let tokens = Concurrency::new(10, 1);
        let level = tokens.level(&Arc::default());
        let take = |now, owner| tokens.acquire(now, &level, 9.0, hold(owner, 1)).unwrap().unwrap();
        let (old, young, other) = (take(ms(0), 1), take(ms(1_400), 1), take(ms(1_400), 2));
        assert_eq!(tokens.owner_gone(ms(1_600), hold(1, 1).owner), 2);
        assert_eq!(tokens.owner_gone(ms(1_600), hold(1, 1).owner), 0, "twice");
        assert_eq!(tokens.next_expiry(), Some(ms(2_000)), "2 100 would be later");
        assert_eq!(tokens.expire(ms(2_000)), 1);
        assert_eq!(tokens.release(ms(2_000), old), Released::AlreadyReleased);
        assert_eq!(tokens.next_expiry(), Some(ms(2_100)));
        assert_eq!(tokens.expire(ms(2_100)), 1);
        assert_eq!(tokens.release(ms(2_100), young), Released::AlreadyReleased);
        assert_eq!(tokens.release(ms(2_100), other), Released::Ok);
        assert_eq!(tokens.expire(ms(9_999)), 0);
    }

    #[test]
    fn a_token_that_is_renewed_over_another_connection_is_that_connections() {
        let tokens = Concurrency::new(10, 1);
        let level = tokens.level(&Arc::default());
        let (first, second) = (hold(1, 1).owner, hold(2, 1).owner);
        let token = tokens.acquire(ms(0), &level, 1.0, hold(1, 1)).unwrap().unwrap();
        tokens.owner_gone(ms(100), first);
        assert!(tokens.renew(ms(599), token, second), "at 600 it would be over");
        assert_eq!(tokens.owner_gone(ms(600), first), 0);
        assert_eq!(tokens.next_expiry(), Some(ms(2_599)));
        assert_eq!(tokens.owner_gone(ms(700), second), 1);
        assert_eq!(tokens.next_expiry(), Some(ms(1_200)));
    }

    #[test]
    fn a_level_keeps_what_is_in_use_when_its_threshold_changes() {
        let tokens = Concurrency::new(10, 1);
        let level = tokens.level(&Arc::default());
        let take = |threshold| tokens.acquire(ms(0), &level, threshold, hold(1, 2)).unwrap();
        let (a, b) = (take(5.0).unwrap(), take(5.0).unwrap());
        assert_eq!(take(5.0), None, "a part of a request is not granted");
        assert_eq!(take(2.0), None);
        assert_eq!(tokens.release(ms(1), a), Released::Ok);
        assert_eq!(take(2.0), None);
        assert_eq!(tokens.release(ms(1), b), Released::Ok);
        assert!(take(2.0).is_some());
        assert_eq!(take(1.0e300).map(|_| level.in_use()), Some(4));
    }

    #[test]
    fn a_token_is_given_back_after_its_rule_and_everything_of_it_are_gone() {
        let tokens = Concurrency::new(10, 1);
        let level = tokens.level(&Arc::default());
        let token = tokens.acquire(ms(0), &level, 1.0, hold(1, 1)).unwrap().unwrap();
        drop(level);
        assert_eq!(tokens.release(ms(1), token), Released::Ok);
        assert_eq!(tokens.release(ms(1), token), Released::AlreadyReleased);
        assert_eq!(tokens.live(), 0);
    }

    #[test]
    fn ids_that_no_token_has_were_released_already() {
        let tokens = Concurrency::new(10, 1);
        let level = tokens.level(&Arc::default());
        let token = tokens.acquire(ms(0), &level, 1.0, hold(1, 1)).unwrap().unwrap();
        let near =
            [0, 1, -1, 12_345, i64::MIN, i64::MAX, token.0 + 1, token.0 ^ (1 << 40), -token.0];
        for id in near.map(TokenId) {
            assert_eq!(tokens.release(ms(1), id), Released::AlreadyReleased);
            assert!(!tokens.renew(ms(1), id, hold(1, 1).owner));
        }
        assert_eq!(level.in_use(), 1);
    }

    #[test]
    fn at_the_bound_a_level_with_room_is_told_so_until_a_token_of_any_level_ends() {
        let tokens = Concurrency::new(4, 1);
        let tenants = [(); 2].map(|()| Arc::new(Tenant::default()));
        let levels = [tokens.level(&tenants[0]), tokens.level(&tenants[1])];
        let take = |at, level: usize| tokens.acquire(at, &levels[level], 2.0, hold(1, 1));
        let full = Err(TokensFull { max: 4 });
        let first = take(ms(0), 0).unwrap().unwrap();
        assert!(take(ms(5), 0).unwrap().is_some());
        assert!(take(ms(5), 1).unwrap().is_some());
        assert_eq!(take(ms(5), 1), full, "it holds one, and one is free");
        assert_eq!(take(ms(5), 0), Ok(None), "its own level refuses first");
        assert_eq!([tenants[0].refused(), tenants[1].refused()], [0, 1]);
        assert_eq!(tokens.release(ms(5), first), Released::Ok);
        let last = take(ms(5), 1).unwrap().unwrap();
        assert_eq!(take(ms(5), 0), full);
        assert_eq!(tokens.release(ms(5), last), Released::Ok);
        assert!(take(ms(6), 0).unwrap().is_some());
        assert_eq!(take(ms(2_004), 1), full);
        assert!(take(ms(2_005), 1).unwrap().is_some(), "two have ended, in both shards");
        assert_eq!(tokens.live(), 2);
        assert_eq!([tenants[0].held(), tenants[1].held()], [1, 1]);
        assert_eq!(Concurrency::new(u64::MAX, 1).live.add(&Tenant::default()), Ok(()));
    }

    #[test]
    fn a_level_that_becomes_anothers_takes_its_tokens_along() {
        let tokens = Concurrency::new(6, 1);
        let (from, to) = (Arc::new(Tenant::default()), Arc::new(Tenant::default()));
        let level = tokens.level(&from);
        let take = || tokens.acquire(ms(0), &level, 9.0, hold(1, 2));
        let (a, b) = (take().unwrap().unwrap(), take().unwrap().unwrap());
        assert_eq!(tokens.release(ms(0), a), Released::Ok);
        tokens.move_to(&level, &to);
        tokens.move_to(&level, &to);
        assert_eq!([from.held(), to.held()], [0, 1]);
        assert_eq!(tokens.release(ms(0), b), Released::Ok);
        assert_eq!([from.held(), to.held()], [0, 0]);
        assert_eq!((0..9).filter(|_| take().is_ok()).count(), 3);
        assert_eq!([from.refused(), to.refused()], [0, 6]);
    }

    #[test]
    fn an_older_tick_counts_as_the_last() {
        let tokens = Concurrency::new(10, 1);
        let level = tokens.level(&Arc::default());
        assert_eq!(tokens.expire(ms(10_000)), 0);
        let token = tokens.acquire(ms(3), &level, 1.0, hold(1, 1)).unwrap().unwrap();
        assert_eq!(tokens.next_expiry(), Some(ms(12_000)));
        assert!(tokens.renew(ms(11_999), token, hold(1, 1).owner));
        assert_eq!(tokens.owner_gone(ms(3), hold(1, 1).owner), 1);
        assert_eq!(tokens.next_expiry(), Some(ms(12_499)));
        assert_eq!(tokens.expire(ms(12_499)), 1);
        assert_eq!(tokens.release(ms(3), token), Released::AlreadyReleased);
    }

    #[test]
    fn the_ends_of_time_and_of_time_outs_hold() {
        let tokens = Concurrency::new(10, 1);
        let level = tokens.level(&Arc::default());
        let with = |resource_timeout_ms, client_offline_ms| Hold {
            resource_timeout_ms,
            client_offline_ms,
            ..hold(1, 1)
        };
        assert!(tokens.acquire(ms(0), &level, 1.0, with(0, 0)).unwrap().is_some());
        assert!(tokens.acquire(ms(0), &level, 1.0, with(u32::MAX, 0)).unwrap().is_some());
        assert_eq!(tokens.next_expiry(), Some(ms(u64::from(u32::MAX))));
        assert_eq!(tokens.owner_gone(ms(9), hold(1, 1).owner), 1);
        assert_eq!(tokens.expire(ms(9)), 1, "a client-offline time of 0 is at once");
        let end = Tick(u64::MAX);
        assert!(tokens.acquire(Tick(end.0 - 1), &level, 1.0, hold(1, 1)).unwrap().is_some());
        assert_eq!(tokens.acquire(Tick(end.0 - 1), &level, 1.0, hold(1, 1)), Ok(None));
        assert_eq!((tokens.next_expiry(), tokens.expire(end)), (Some(end), 1));
    }

    #[test]
    fn long_work_is_done_in_batches_and_wholly() {
        let tokens = Concurrency::new(10_000, 1);
        let levels = [tokens.level(&Arc::default()), tokens.level(&Arc::default())];
        for level in levels.iter().cycle().take(3 * BATCH) {
            tokens.acquire(ms(0), level, 1e9, hold(1, 2)).unwrap();
        }
        assert_eq!(tokens.owner_gone(ms(10), hold(1, 1).owner), 3 * BATCH);
        assert_eq!(tokens.expire(ms(510)), 3 * BATCH);
        assert_eq!((levels[0].in_use(), levels[1].in_use(), tokens.live()), (0, 0, 0));
    }
}
