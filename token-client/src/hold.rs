//! A call that is in progress, as the whole cluster counts it.

use std::fmt;

use crate::{Client, DecidedBy, Outcome, RuleId, holds::Token, rules::level::Slot};
use tokio::task::coop::consume_budget;

/// Room for some calls in progress under a thread-grade rule, until it is dropped.
///
/// While it lives, the client renews it at a third of the rule's `resourceTimeout` (of the rules
/// that the client [knows](Client::set_rules); two seconds for others), over whichever connection
/// there is. The drop does not wait: the release goes out in front of everything that is asked
/// after it, or with the next connection.
///
/// A guard of a client that has been closed, or whose last clone is gone, is no longer
/// [held](Self::is_held): the server ends it `clientOfflineTime` after the connection.
#[derive(Debug)]
#[must_use = "what is held is released when the guard is dropped"]
pub struct Held {
    outcome: Outcome,
    /// A server's grant; `None` when none decided.
    token: Option<Token>,
    /// Its part of the rule's level in this process, by which the rule is kept without a server.
    _slot: Option<Slot>,
}

impl Held {
    /// Who let the call in.
    #[must_use]
    pub fn decided_by(&self) -> DecidedBy {
        self.outcome.decided_by
    }

    /// Whether the call is counted where it was let in. False once the server has forgotten it,
    /// which it does when it is started anew, or when no renewal reached it in time; the client
    /// then asks for the room again, and this is true when it has been granted. Until then, the
    /// rule's limit is kept without this call: one that must not run beside others should stop.
    ///
    /// A call that was let in by the fallback is counted in this process, and held to the end.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.token.as_ref().is_none_or(Token::is_held)
    }

    /// Resolves when the call is not [held](Self::is_held), even if it is again by the time that
    /// this is noticed; never, if it was let in by the fallback.
    pub async fn lost(&self) {
        match &self.token {
            Some(token) => token.lost().await,
            None => std::future::pending().await,
        }
    }
}

/// A call that must not be in progress: the level is full, or the rule's fallback says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The rule.
    pub flow_id: i64,
    /// Who refused.
    pub decided_by: DecidedBy,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = RuleId::Flow(self.flow_id);
        match self.decided_by {
            DecidedBy::Fallback { reason, policy } => {
                write!(
                    f,
                    "{rule}: refused without a server ({reason}), as fallback {policy:?} says"
                )
            }
            DecidedBy::Server | DecidedBy::Lease | DecidedBy::MaxWait { .. } => {
                write!(f, "{rule}: as many calls are in progress as may be")
            }
        }
    }
}

impl std::error::Error for Refused {}

impl Client {
    /// Asks for room for `count` calls in progress under the thread-grade rule `flow_id`, in the
    /// whole cluster. The room is taken until the result is dropped.
    ///
    /// When no server decides, the rule's fallback policy does: `local` counts the calls in
    /// progress in this process against `localCount` or the rule's count, `share` against the
    /// count divided by the number of clients. Calls that a server let in are counted there too. A
    /// rule that the client does not [know](Self::set_rules) passes, as does everything that is not
    /// thread-grade. Servers without concurrency tokens, Sentinel's among them, do not decide.
    ///
    /// ```no_run
    /// # use token_client::Client;
    /// # async fn query_the_database() {}
    /// # async fn serve(client: Client) {
    /// match client.hold(7, 1).await {
    ///     Ok(held) => tokio::select! {
    ///         () = query_the_database() => {}
    ///         // Its place may be another's by now; a query that harms nobody could go on.
    ///         () = held.lost() => {}
    ///     },
    ///     Err(refused) => println!("too many queries: {refused}"),
    /// }
    /// # }
    /// ```
    ///
    /// A future that is dropped before it is ready holds nothing: what the server grants it is
    /// released when the answer comes. So is what is granted after the time-out.
    ///
    /// # Errors
    ///
    /// [`Refused`], at once: there is no queue for calls in progress.
    pub async fn hold(&self, flow_id: i64, count: u32) -> Result<Held, Refused> {
        consume_budget().await;
        let timeout = self.inner.decider.rules.load().resource_timeout(flow_id);
        let asked = self.inner.holds.acquire(flow_id, count, timeout).await;
        self.note_embedded_clients();
        let (status, token) = match asked {
            Ok((status, token)) => (Ok(status), token),
            Err(no_answer) => (Err(no_answer), None),
        };
        let (outcome, slot) = self.inner.decider.hold(flow_id, count, status);
        if outcome.is_block() {
            return Err(Refused { flow_id, decided_by: outcome.decided_by });
        }
        Ok(Held { outcome, token, _slot: slot })
    }
}
