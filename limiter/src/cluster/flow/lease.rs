//! Tokens in advance, for a client that asks often.

use std::time::Duration;

use super::Flow;
use crate::{
    Tick,
    cluster::{
        counter::{Lent, Tally},
        ledger::LeaseId,
        limit::whole,
    },
    rule::Mode,
    window::Ring,
};

/// Tokens that a client may spend by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// `None` when there was nothing to be had.
    pub id: Option<LeaseId>,
    /// Tokens to spend.
    pub granted: u32,
    /// How long they may be spent, from the moment at which the request was *sent*: the server
    /// counts from when it came, so it never ends before the client's does.
    pub ttl: Duration,
}

/// The rule grants no leases, or is switched to a mode other than enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule grants no leases")]
pub struct LeaseRefused;

impl Flow {
    /// Takes a lease back of which so many tokens were spent, and grants one of up to `want`
    /// tokens: at most what the rule says and half of what is left, rounded up, so that one client
    /// does not hold everything.
    ///
    /// # Errors
    ///
    /// [`LeaseRefused`], after the old lease was taken back.
    pub(crate) fn lease(
        &self,
        now: Tick,
        want: u32,
        returned: Option<(LeaseId, u32)>,
    ) -> Result<Leased, LeaseRefused> {
        let used = &mut *self.lock();
        used.passed.advance(&mut used.others, now);
        let none = Leased { id: None, granted: 0, ttl: Duration::ZERO };
        let lease = self.rule.cluster.as_ref().and_then(|config| config.lease());
        if let (Tally::Ring(_), None) | (Tally::Tuned(_), _) = (&used.tally, lease) {
            // There never was one.
            return if want == 0 { Ok(none) } else { Err(LeaseRefused) };
        }
        used.window(self.sliding.shape, now);
        let Lent { ring, ledger } = used.lent();
        if let Some((id, spent)) = returned
            && let Some(tokens) = ledger.end(id)
        {
            // As if it had been spent just now, which is the latest that it can have been. A lease
            // that has ended was charged whole.
            let spent = u64::from(spent.min(tokens));
            ring.charge(spent);
            used.passed.add_tokens(spent);
        }
        if want == 0 {
            return Ok(none);
        }
        let lease = lease.filter(|_| self.mode() == Mode::Enforce).ok_or(LeaseRefused)?;
        let Lent { ring, ledger } = used.lent();
        let granted = want.min(lease.max_tokens).min(self.half_of_rest(ring, ledger.tokens()));
        if granted == 0 || ledger.is_full() {
            used.others.block_requests += 1;
            return Ok(none);
        }
        let ttl = Duration::from_millis(lease.ttl_ms.into());
        let id = ledger.grant(now, now.plus(ttl), granted);
        Ok(Leased { id: Some(id), granted, ttl })
    }

    /// Half of what is left beside `leased` tokens, rounded up: in this window and in the next one,
    /// since a lease may be spent there.
    fn half_of_rest(&self, ring: &Ring, leased: u64) -> u32 {
        let threshold = self.sliding.limit.threshold(&self.namespace);
        let room = self.sliding.room(ring, leased, threshold, 0);
        let room = room.min(self.sliding.room_next(ring, leased, threshold, 0)).max(0.0);
        u32::try_from(whole(room).div_ceil(2)).unwrap_or(u32::MAX)
    }
}
