//! Corrections of what a rule has counted.

use std::time::Duration;

use bytes::BytesMut;
use protocol::{Adjustment, Request, Status, feature, kind};
use tokio::task::coop::consume_budget;

use crate::{Client, NoAnswer, What, client::Backend};

/// Why a counter was not corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unadjusted {
    /// No server said so. After a [time-out](NoAnswer::TimedOut) it may have been corrected all the
    /// same.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The server has no such rule.
    #[error("the token server has no such rule")]
    NoRule,
    /// The server answered something else.
    #[error("the token server answered with status {}", i8::from(*.0))]
    Status(Status),
}

impl Client {
    /// Gives tokens back that were taken at most `age` ago and not used. What may no longer count is
    /// not given back, since nobody is to get it twice: nothing with an age of the rule's window or
    /// more.
    ///
    /// # Errors
    ///
    /// [`Unadjusted`]; [`NoAnswer::Unsupported`] with a server that has no such request, as
    /// Sentinel's.
    pub async fn give_back(&self, what: What<'_>, age: Duration) -> Result<(), Unadjusted> {
        self.adjust(Adjustment::GiveBack, age, &what).await
    }

    /// Charges tokens that were used without having been asked for, such as a cost that is known
    /// only afterwards: over the limit too, so that whoever asks next pays for it.
    ///
    /// # Errors
    ///
    /// As [`give_back`](Self::give_back).
    pub async fn charge(&self, what: What<'_>) -> Result<(), Unadjusted> {
        self.adjust(Adjustment::Charge, Duration::ZERO, &what).await
    }

    /// Forgets what was used of a flow rule, or of some values of a hot-parameter rule; the count
    /// does not matter.
    ///
    /// # Errors
    ///
    /// As [`give_back`](Self::give_back).
    pub async fn reset(&self, what: What<'_>) -> Result<(), Unadjusted> {
        self.adjust(Adjustment::Reset, Duration::ZERO, &what).await
    }

    async fn adjust(
        &self,
        op: Adjustment,
        age: Duration,
        what: &What<'_>,
    ) -> Result<(), Unadjusted> {
        consume_budget().await;
        let count = what.check().map_err(NoAnswer::from)?;
        let status = match &self.inner.backend {
            Backend::Embedded(embedded) => embedded.adjust(op, age, what, count),
            Backend::Remote(remote) => {
                // Rounded up: tokens that were taken a moment ago are meant.
                let age_ms = u32::try_from(age.as_nanos().div_ceil(1_000_000));
                let age_ms = age_ms.unwrap_or(u32::MAX);
                let encode = |xid, out: &mut BytesMut| {
                    let mut buf = BytesMut::new();
                    let what = what.on_wire(count, &mut buf)?;
                    Request::Adjust { xid, op, age_ms, what }.encode(out)
                };
                let reply = remote.call(kind::ADJUST, feature::ASK, encode).await?;
                reply.status().unwrap_or(Status::Fail)
            }
        };
        match status {
            Status::Ok => Ok(()),
            Status::NoRuleExists => Err(Unadjusted::NoRule),
            other => Err(Unadjusted::Status(other)),
        }
    }
}
