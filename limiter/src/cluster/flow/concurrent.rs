//! Calls in progress: the level of a thread-grade rule.

use super::Flow;
use crate::{
    Concurrency, Hold, Level, OwnerId, Tenant, Tick, TokenId, Undecided,
    rule::{Grade, Mode},
    sync::{Arc, lock},
};

/// The level of a flow, and where its tokens are kept.
#[derive(Debug)]
pub(crate) struct Calls {
    level: Arc<Level>,
    tokens: Arc<Concurrency>,
}

impl Calls {
    /// None in progress, yet.
    pub(crate) fn new(tokens: &Arc<Concurrency>, tenant: &Arc<Tenant>) -> Self {
        Self { level: tokens.level(tenant), tokens: Arc::clone(tokens) }
    }

    /// They are the tenant's from now on.
    pub(crate) fn move_to(&self, tenant: &Arc<Tenant>) {
        self.tokens.move_to(&self.level, tenant);
    }

    /// Calls in progress, and such whose tokens are due but not yet swept.
    pub(crate) fn counted(&self) -> u64 {
        self.level.in_use()
    }

    /// Calls in progress at `now`: what is due ends first.
    pub(super) fn in_use(&self, now: Tick) -> u64 {
        self.tokens.in_use(now, &self.level)
    }
}

impl Flow {
    /// Takes a concurrency token for `count` calls in progress, or `None` when the level is full.
    ///
    /// The level is the rule's count, times the connected clients for a rule that counts per
    /// client; `exceedCount` is for rates only (`ConcurrentClusterFlowChecker.java`). In the modes
    /// that refuse nobody the token is held all the same, above the level if need be.
    ///
    /// # Errors
    ///
    /// [`Undecided::BadRequest`] for a rule that is not of thread grade;
    /// [`Undecided::TooManyRequests`] from the namespace's guard, and when the namespace holds as
    /// many tokens as are free.
    pub(crate) fn acquire_concurrent(
        &self,
        now: Tick,
        count: u32,
        owner: OwnerId,
    ) -> Result<Option<TokenId>, Undecided> {
        let (Some(calls), Some(config)) = (self.level(), &self.rule.cluster) else {
            return Err(Undecided::BadRequest);
        };
        if !self.namespace.admit(now) {
            return Err(Undecided::TooManyRequests);
        }
        let hold = Hold {
            count,
            owner,
            resource_timeout_ms: config.resource_timeout_ms(),
            client_offline_ms: config.client_offline_ms(),
        };
        let acquire = |threshold| {
            let taken = calls.tokens.acquire(now, &calls.level, threshold, hold);
            taken.map_err(|_full| Undecided::TooManyRequests)
        };
        match self.mode() {
            Mode::Enforce => acquire(self.threshold()),
            Mode::Block => Ok(None),
            Mode::Pass => acquire(f64::MAX),
            Mode::Shadow => {
                let taken = acquire(self.threshold())?;
                if taken.is_some() {
                    return Ok(taken);
                }
                let used = &mut *lock(&self.used().0);
                used.others.shadow_requests += 1;
                used.others.shadow_tokens += u64::from(count);
                acquire(f64::MAX)
            }
        }
    }

    /// Calls in progress of a thread-grade rule; `None` for a rate. Tokens that are due but not
    /// yet swept may still be counted.
    #[must_use]
    pub fn in_use(&self) -> Option<u64> {
        self.level().map(|calls| calls.counted())
    }

    /// The level in force: a rate has none, though it keeps the one that its id had before.
    fn level(&self) -> Option<&Arc<Calls>> {
        self.calls.as_ref().filter(|_| self.rule.grade == Grade::Thread)
    }
}
