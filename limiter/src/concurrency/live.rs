//! How many tokens live, and how many may.

use super::tenant::Tenant;
use crate::sync::{AtomicU64, Ordering};

/// No decision was made: no more tokens are free than the tenant holds already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("of {max} concurrency tokens no more are free than are held here")]
pub struct TokensFull {
    /// Tokens that may live at once, of all tenants together.
    pub max: u64,
}

/// The live tokens of all shards.
#[derive(Debug)]
pub(super) struct Live {
    count: AtomicU64,
    max: u64,
}

impl Live {
    pub(super) fn new(max: u64) -> Self {
        Self { count: AtomicU64::new(0), max }
    }

    pub(super) fn count(&self) -> u64 {
        // Relaxed, here and below: the count is the whole state.
        self.count.load(Ordering::Relaxed)
    }

    /// Counts one more of `tenant`, if more are free than it holds. The look at what is free and
    /// the count are one compare-exchange, so that a refusal never stands in the way of another
    /// tenant's token.
    pub(super) fn add(&self, tenant: &Tenant) -> Result<(), TokensFull> {
        let held = tenant.add(1);
        let next = |count| (held < self.max - count).then_some(count + 1);
        match self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(()),
            Err(_) => {
                tenant.sub(1);
                Err(TokensFull { max: self.max })
            }
        }
    }

    /// Counts one less; for each [`add`](Self::add) once.
    pub(super) fn sub(&self, tenant: &Tenant) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        tenant.sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many each of `tenants` gets when all take all they can, in turn.
    fn greedy(live: &Live, tenants: &[Tenant]) -> Vec<u64> {
        loop {
            let taken: Vec<bool> = tenants.iter().map(|it| live.add(it).is_ok()).collect();
            if !taken.contains(&true) {
                return tenants.iter().map(Tenant::held).collect();
            }
        }
    }

    #[test]
    fn however_many_take_all_they_can_as_much_as_each_has_stays_free() {
        for (max, tenants, each) in [(1_000, 1, 500), (1_000, 3, 250), (1_000, 9, 100), (2, 1, 1)] {
            let live = Live::new(max);
            let tenants: Vec<Tenant> = (0..tenants).map(|_| Tenant::default()).collect();
            assert!(greedy(&live, &tenants).iter().all(|held| *held == each), "{max} {each}");
            assert_eq!(live.add(&Tenant::default()), Ok(()), "one who comes later is served");
        }
    }

    #[test]
    fn what_one_may_hold_shrinks_as_others_come_and_grows_when_they_have_gone() {
        let (live, first, second) = (Live::new(90), Tenant::default(), Tenant::default());
        assert_eq!(greedy(&live, std::slice::from_ref(&first)), [45]);
        assert_eq!(greedy(&live, std::slice::from_ref(&second)), [23]);
        live.sub(&first);
        assert_eq!(live.add(&first), Err(TokensFull { max: 90 }), "44 held, 23 free");
        assert_eq!(greedy(&live, std::slice::from_ref(&second)), [23], "22 are free");
        for _ in 0..23 {
            live.sub(&second);
        }
        assert_eq!(greedy(&live, std::slice::from_ref(&first)), [45]);
        assert_eq!((live.count(), first.held()), (45, 45), "a refusal counts nothing");
    }

    #[test]
    fn where_one_token_may_live_one_does_and_where_none_may_none() {
        let tenant = Tenant::default();
        assert_eq!(Live::new(0).add(&tenant), Err(TokensFull { max: 0 }));
        let live = Live::new(1);
        assert_eq!(live.add(&tenant), Ok(()));
        assert_eq!(live.add(&Tenant::default()), Err(TokensFull { max: 1 }));
        assert_eq!((live.count(), tenant.held()), (1, 1));
    }
}
