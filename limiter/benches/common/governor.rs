//! What others are compared with: a keyed limiter of the `governor` crate whose limit is never
//! reached, on a clock that is a number in memory.

use std::{error::Error, hash::Hash, num::NonZeroU32, time::Duration};

use governor::{
    Quota, RateLimiter, clock::FakeRelativeClock, middleware::NoOpMiddleware, nanos::Nanos,
    state::keyed::DashMapStateStore,
};

pub(crate) struct Governor<K: Clone + Eq + Hash> {
    limiter: RateLimiter<K, DashMapStateStore<K>, FakeRelativeClock, NoOpMiddleware<Nanos>>,
    clock: FakeRelativeClock,
}

impl<K: Clone + Eq + Hash> Governor<K> {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        // One token a nanosecond, and four seconds' worth of them to start with.
        let quota = Quota::with_period(Duration::from_nanos(1)).ok_or("quota")?;
        let clock = FakeRelativeClock::default();
        let store = DashMapStateStore::default();
        let limiter = RateLimiter::new(quota.allow_burst(NonZeroU32::MAX), store, clock.clone());
        Ok(Self { limiter, clock })
    }

    #[inline]
    pub(crate) fn passes(&self, key: &K) -> bool {
        self.limiter.check_key(key).is_ok()
    }

    pub(crate) fn move_on(&self, time: Duration) {
        self.clock.advance(time);
    }
}
