//! Calls in progress: the level of a thread-grade rule.

use super::Flow;
use crate::{Concurrency, Hold, OwnerId, Tick, TokenId, Undecided, rule::Mode, sync::lock};

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
        tokens: &Concurrency,
    ) -> Result<Option<TokenId>, Undecided> {
        let (Some(level), Some(config)) = (&self.level, &self.rule.cluster) else {
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
        let mode = self.mode();
        let threshold = match mode {
            Mode::Enforce => self.threshold(),
            Mode::Block => -1.0,
            Mode::Shadow | Mode::Pass => f64::MAX,
        };
        let is_over = mode == Mode::Shadow && !level.fits(count, self.threshold());
        let taken = tokens.acquire(now, level, threshold, hold);
        if is_over {
            let used = &mut *lock(&self.used().0);
            used.others.shadow_requests += 1;
            used.others.shadow_tokens += u64::from(count);
        }
        taken.map_err(|_full| Undecided::TooManyRequests)
    }

    /// Calls in progress of a thread-grade rule; `None` for a rate. Tokens that are due but not
    /// yet swept may still be counted.
    #[must_use]
    pub fn in_use(&self) -> Option<u64> {
        self.level.as_ref().map(|level| level.in_use())
    }
}
