//! How much of one flow is in use.

use super::tenant::Tenant;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// The tokens in use of one flow. Made by [`Concurrency::level`](super::Concurrency::level), kept
/// by the flow's rule, and by each of its tokens for as long as it lives.
///
/// A rule that replaces another of the same flow takes its level over. So must a rule that comes
/// back after it was removed, as long as [`in_use`](Self::in_use) is not zero: a new level knows
/// nothing of the old one's tokens.
#[derive(Debug)]
pub struct Level {
    home: usize,
    /// Written under the lock of the shard `home`, read by anyone.
    in_use: AtomicU64,
    /// Live tokens, of whatever count. Only under the lock of the shard.
    tokens: AtomicU64,
    /// Whose they are. Only under the lock of the shard, so nobody waits for it.
    tenant: Mutex<Arc<Tenant>>,
}

impl Level {
    pub(super) fn new(home: usize, tenant: Arc<Tenant>) -> Self {
        let tenant = Mutex::new(tenant);
        Self { home, in_use: AtomicU64::new(0), tokens: AtomicU64::new(0), tenant }
    }

    /// Tokens in use. Such as are due and stand in nobody's way may still be counted until
    /// [`expire`](super::Concurrency::expire) comes by; after a refusal none is.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        // Relaxed, here and below: the count is the whole state, and its writers are ordered by
        // the shard's lock.
        self.in_use.load(Ordering::Relaxed)
    }

    /// The shard that all its tokens are in.
    pub(super) fn home(&self) -> usize {
        self.home
    }

    /// Whether `count` more would still be at most `threshold`. Compared as whole numbers, which
    /// loses nothing: a fraction of a token is no token. Less than nothing and NaN allow nothing.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast to u64 cuts towards zero and saturates, NaN is 0"
    )]
    pub(crate) fn fits(&self, count: u32, threshold: f64) -> bool {
        // At most 2^24 tokens of less than 2^32 each: no overflow.
        self.in_use() + u64::from(count) <= threshold as u64
    }

    /// Under the shard's lock.
    pub(super) fn add(&self, count: u32) {
        self.in_use.store(self.in_use() + u64::from(count), Ordering::Relaxed);
        self.tokens.store(self.tokens() + 1, Ordering::Relaxed);
    }

    /// Under the shard's lock, with what [`add`](Self::add) was given once.
    pub(super) fn sub(&self, count: u32) {
        self.in_use.store(self.in_use() - u64::from(count), Ordering::Relaxed);
        self.tokens.store(self.tokens() - 1, Ordering::Relaxed);
    }

    fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// Whose the tokens are. Under the shard's lock.
    pub(super) fn tenant(&self) -> MutexGuard<'_, Arc<Tenant>> {
        lock(&self.tenant)
    }

    /// Makes the tokens, those that live included, `tenant`'s. Under the shard's lock.
    pub(super) fn move_to(&self, tenant: &Arc<Tenant>) {
        let mut now = self.tenant();
        if !Arc::ptr_eq(&now, tenant) {
            tenant.add(self.tokens());
            now.sub(self.tokens());
            *now = Arc::clone(tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_compared_exactly_at_every_size() {
        let level = Level::new(0, Arc::default());
        level.add(2);
        assert!(level.fits(1, 3.0));
        assert!(level.fits(1, 3.999));
        assert!(!level.fits(1, 2.999));
        assert!(!level.fits(u32::MAX, 3.0), "Sentinel's sum overflows here and admits");
        assert!(!level.fits(1, 0.0));
        for nothing in [-1.0, f64::NAN, f64::NEG_INFINITY] {
            assert!(!level.fits(1, nothing));
        }
        assert!(level.fits(u32::MAX, f64::INFINITY));
        // Beyond 2^53 doubles stand four and more apart, sums of tokens do not.
        level.in_use.store(1 << 54, Ordering::Relaxed);
        assert!(!level.fits(1, 18_014_398_509_481_984.0));
    }
}
