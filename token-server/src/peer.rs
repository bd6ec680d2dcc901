//! What a connection has of the engine: a place in a namespace, and concurrency tokens.

use std::sync::Arc;

use limiter::{Membership, OwnerId, Released, RuleSet, Tick, TokenId, Undecided};
use tokio::{runtime::Handle, task::spawn_blocking};
use tracing::{Span, debug};

use crate::Service;

/// A connection that has not taken more tokens lets go of them on its own thread when it ends, in a
/// fraction of a millisecond; for another, a thread that may block does.
const TAKEN_FEW: u64 = 1_000;

/// One client, as long as it is connected.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    membership: Option<Membership>,
    /// Holds the tokens. Made with the first, since few connections ever hold one.
    owner: Option<OwnerId>,
    /// Tokens taken and renewals; never less than the tokens that it holds.
    taken: u64,
}

impl Peer {
    /// Makes the connection a member of `namespace`, and of no other any more, and gives the number
    /// of members. A refused one, `None`, stays where it was.
    pub(crate) fn join(&mut self, namespace: &str, service: &Service) -> Option<u32> {
        let member = match &mut self.membership {
            Some(member) if member.namespace().name() == namespace => member,
            membership => match service.join(namespace) {
                Some(joined) => {
                    Span::current().record("namespace", namespace);
                    membership.insert(joined)
                }
                None => {
                    debug!(namespace, "ping refused");
                    service.telemetry.pings_refused.add_one();
                    return None;
                }
            },
        };
        Some(member.namespace().connected())
    }

    /// Takes a token, as [`RuleSet::acquire_concurrent`] says.
    pub(crate) fn acquire(
        &mut self,
        now: Tick,
        rules: &RuleSet,
        flow_id: i64,
        count: i32,
        service: &Service,
    ) -> Result<Option<TokenId>, Undecided> {
        let owner = self.owner(service);
        let taken = rules.acquire_concurrent(now, flow_id, count, owner)?;
        self.taken += u64::from(taken.is_some());
        Ok(taken)
    }

    /// Gives a token back, whoever took it. Never refused, as [`renew`](Self::renew) is not; since
    /// a token's number says nothing of a rule, both are counted as requests of the namespace that
    /// the connection pinged, if it pinged one.
    pub(crate) fn release(&self, now: Tick, token: TokenId, service: &Service) -> Released {
        self.count(now);
        service.engine.concurrency().release(now, token)
    }

    /// Holds a token on, whoever took it: it is this connection's from now on.
    pub(crate) fn renew(&mut self, now: Tick, token: TokenId, service: &Service) -> bool {
        self.count(now);
        let owner = self.owner(service);
        let renewed = service.engine.concurrency().renew(now, token, owner);
        self.taken += u64::from(renewed);
        renewed
    }

    fn count(&self, now: Tick) {
        if let Some(member) = &self.membership {
            member.namespace().count(now);
        }
    }

    fn owner(&mut self, service: &Service) -> OwnerId {
        *self.owner.get_or_insert_with(|| service.engine.owner())
    }

    /// The connection has ended: its tokens outlive it by `clientOfflineTime`, counted from now.
    ///
    /// The work is proportional to the tokens that it held, of which the engine bounds the number;
    /// a great many are not counted out on the thread of other connections.
    pub(crate) fn leave(&mut self, service: &Arc<Service>) {
        let Some(owner) = self.owner.take() else { return };
        let now = service.now();
        let service = Arc::clone(service);
        let leave = move || {
            let tokens = service.engine.concurrency().owner_gone(now, owner);
            if tokens > 0 {
                debug!(tokens, "held by a connection that has ended");
            }
        };
        match Handle::try_current() {
            // A server that is shutting down may not get to it; its tokens end with it anyway.
            Ok(_) if self.taken > TAKEN_FEW => drop(spawn_blocking(leave)),
            _ => leave(),
        }
    }
}

#[cfg(test)]
mod tests {
    use limiter::{ManualClock, Settings};
    use protocol::Status;

    use super::*;
    use crate::{Options, Session, testing::*};

    const START: u64 = 1_700_000_000_000_000_000;
    const MS: u64 = 1_000_000;

    fn scene() -> (Arc<Service>, Arc<ManualClock>) {
        service(Settings::default(), &Options::default())
    }

    fn take(session: &mut Session) -> i64 {
        let (status, token) = ask_token(session, 1);
        assert!(status == Status::Ok && token > 0, "{status:?} {token}");
        token
    }

    #[test]
    fn a_token_lasts_until_one_nanosecond_before_its_end_though_nobody_tidies() {
        let (service, clock) = scene();
        let session = &mut service.session();
        let (first, second) = (take(session), take(session));
        assert_eq!(ask_token(session, 1), (Status::Blocked, 0));
        clock.set(Tick(START + 1_000 * MS));
        assert_eq!(renew(session, second), Status::Ok);
        clock.set(Tick(START + 2_000 * MS - 1));
        assert_eq!(ask_token(session, 1), (Status::Blocked, 0));
        clock.set(Tick(START + 2_000 * MS));
        let late = [release(session, first), renew(session, first)];
        assert_eq!(late, [Status::AlreadyRelease; 2]);
        take(session);
        assert_eq!(ask_token(session, 1), (Status::Blocked, 0), "the renewed one is held");
    }

    #[test]
    fn a_session_that_is_dropped_leaves_its_tokens_for_the_offline_time() {
        let (service, clock) = scene();
        let (mut gone, mut stays) = (service.session(), service.session());
        let (_, kept) = (take(&mut gone), take(&mut stays));
        clock.set(Tick(START + 100 * MS));
        drop(gone);
        clock.set(Tick(START + 600 * MS - 1));
        assert_eq!(ask_token(&mut stays, 1), (Status::Blocked, 0));
        clock.set(Tick(START + 600 * MS));
        take(&mut stays);
        assert_eq!(release(&mut stays, kept), Status::ReleaseOk);
    }

    #[test]
    fn a_renewed_token_is_the_connections_that_renewed_it() {
        let (service, clock) = scene();
        let (mut first, mut second) = (service.session(), service.session());
        let token = take(&mut first);
        assert_eq!(renew(&mut second, token), Status::Ok);
        drop(first);
        clock.set(Tick(START + 2_000 * MS - 1));
        assert_eq!(renew(&mut second, token), Status::Ok);
        drop(second);
        assert_eq!(service.engine.concurrency().next_expiry(), Some(Tick(START + 2_500 * MS - 1)));
    }

    #[test]
    fn a_session_that_takes_no_token_is_no_owner() {
        let (service, _) = scene();
        let mut session = service.session();
        ask_flow(&mut session, 101, 1, false);
        release(&mut session, 5);
        assert_eq!(Some(service.engine.owner()), OwnerId::new(1));
    }

    /// On a runtime the work is done by another thread; without one, at once.
    #[tokio::test]
    async fn a_session_that_took_a_great_many_tokens_leaves_no_more_than_any_other() {
        let (service, _) = scene();
        let mut session = service.session();
        for _ in 0..=TAKEN_FEW {
            let token = take(&mut session);
            assert_eq!(release(&mut session, token), Status::ReleaseOk);
        }
        take(&mut session);
        drop(session);
        let ends = Some(Tick(START + 500 * MS));
        while service.engine.concurrency().next_expiry() != ends {
            tokio::task::yield_now().await;
        }
    }
}
