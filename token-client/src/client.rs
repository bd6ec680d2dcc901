//! The handle that a service holds and clones.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use limiter::rule::{NamespaceRules, RuleErrors};
use prometheus_client::registry::Registry;
use protocol::{Request, encode_param_request, kind};
use tokio::{
    sync::watch,
    task::coop::consume_budget,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Answer, Builder, ConnectionState, Extension, Metrics, NoAnswer, NotReady, Outcome, Param, Pong,
    Reason, Verdict, What,
    answer::check_tokens,
    decide::{Decider, Lent},
    embedded::Embedded,
    holds::Holds,
    line::{Call, Line},
    link,
    metrics::Meters,
    outcome::Ruling,
    reply::Reply,
};

/// The namespace is over its request limit.
const OVER: Ruling = Ruling::None(Reason::TooManyRequests);

/// Asks token servers for tokens, and decides by itself when they do not say. Cheap to clone; the
/// connections and their tasks end with the last clone.
///
/// [`check`](Self::check) is what a service calls: it asks, waits if it is told to, and falls back
/// as the rule says. [`acquire`](Self::acquire) only asks.
///
/// No call takes longer than the client's time-out, whatever a server does; a check may wait in
/// addition, up to `max_wait`, when a server tells it to, and up to a second time-out for tokens of
/// its share, when a server refuses it for its namespace's limit (`overloadPolicy: share`).
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) backend: Backend,
    pub(crate) decider: Decider,
    pub(crate) holds: Arc<Holds>,
    pub(crate) meters: Meters,
    /// Ends the tasks.
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Drop for Inner {
    /// The last client has gone.
    fn drop(&mut self) {
        self.stop.cancel();
        self.holds.end();
    }
}

/// Who decides for a client.
#[derive(Debug)]
pub(crate) enum Backend {
    Remote(Remote),
    Embedded(Embedded),
}

/// Servers, over the network.
#[derive(Debug)]
pub(crate) struct Remote {
    /// The first is the leader's.
    pub(crate) lines: Arc<[Arc<Line>]>,
    pub(crate) turn: AtomicUsize,
    pub(crate) namespace: Box<str>,
    pub(crate) state: watch::Receiver<ConnectionState>,
}

impl Client {
    /// A client that is yet to be configured.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Asks for `count` tokens of the flow rule `flow_id`. With `priority`, a server that has none
    /// left may book tokens of the next bucket and answer with a wait, which is for the caller to
    /// keep.
    ///
    /// # Errors
    ///
    /// [`NoAnswer`], within the time-out. When the future is dropped, the request is still sent,
    /// and its tokens are taken.
    pub async fn acquire(
        &self,
        flow_id: i64,
        count: u32,
        priority: bool,
    ) -> Result<Answer, NoAnswer> {
        // A call may be over without a wait, and a caller that only makes such calls must still
        // let the connection's task run.
        consume_budget().await;
        let count = check_tokens(flow_id, count)?;
        match &self.inner.backend {
            Backend::Remote(remote) => {
                let encode = |xid, out: &mut BytesMut| {
                    Request::Flow { xid, flow_id, count, priority }.encode(out)
                };
                Ok(Answer::of(&remote.call(kind::FLOW, 0, encode).await?))
            }
            Backend::Embedded(embedded) => Ok(embedded.flow(flow_id, count, priority)),
        }
    }

    /// Asks for `count` tokens of each of `params` under the hot-parameter rule `flow_id`: all are
    /// granted or none.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). Parameters that do not fit into one frame (about 1000 bytes
    /// in all) are a [`NoAnswer::BadRequest`], and nothing is sent.
    pub async fn acquire_param(
        &self,
        flow_id: i64,
        count: u32,
        params: &[Param<'_>],
    ) -> Result<Answer, NoAnswer> {
        consume_budget().await;
        let count = check_tokens(flow_id, count)?;
        match &self.inner.backend {
            Backend::Remote(remote) => {
                let encode = |xid, out: &mut BytesMut| {
                    encode_param_request(xid, flow_id, count, params, out)
                };
                Ok(Answer::of(&remote.call(kind::PARAM, 0, encode).await?))
            }
            Backend::Embedded(embedded) => Ok(embedded.param(flow_id, count, params)),
        }
    }

    /// Decides whether a call that needs `count` tokens of the flow rule `flow_id` may go on: asks
    /// a server, waits if it says so, and does what the rule says when there is no decision. The
    /// rules are those of [`set_rules`](Self::set_rules); a rule that is not among them passes
    /// then.
    ///
    /// Under a known rule with `lease`, a call without `priority` is let pass by tokens that the
    /// client holds in advance, if there are any. So a change at the server, a kill switch too,
    /// may reach such calls as late as `ttlMs` after it.
    ///
    /// With a [`max_wait`](Builder::max_wait), a call that may be told to wait (with `priority`, or
    /// under a known rule that paces) tells it to a server that knows the extension, which then
    /// books nothing when it refuses. Other servers keep what they have booked.
    pub async fn check(&self, flow_id: i64, count: u32, priority: bool) -> Outcome {
        if let Some(outcome) = self.spend(flow_id, count, priority).await {
            return outcome;
        }
        let what = What::flow(flow_id, count);
        let ruling = self.ruling(&what, priority).await;
        self.decide(&what, priority, ruling).await
    }

    /// As [`check`](Self::check), for a hot-parameter rule and the values of a call. It waits only
    /// where the rule is known and paces, and the server knows the extension: Sentinel's protocol
    /// has no wait for parameters, and such a server refuses instead.
    pub async fn check_param(&self, flow_id: i64, count: u32, params: &[Param<'_>]) -> Outcome {
        let what = What::param(flow_id, count, params);
        let ruling = self.ruling(&what, false).await;
        self.decide(&what, false, ruling).await
    }

    /// Decides a check without asking over the network: by a lease, or that there is none where only
    /// one can pass it, or by the engine of this process. A wait is still to be waited for. `None` when only a server can say.
    pub(crate) fn check_now(&self, flow_id: i64, count: u32, priority: bool) -> Option<Outcome> {
        let decider = &self.inner.decider;
        match if priority { None } else { decider.spend(flow_id, count) } {
            Some(Lent::Decided(outcome)) => return Some(outcome),
            // It cannot wait for tokens that may be about to come.
            Some(Lent::Over(_)) => return Some(decider.flow(flow_id, count, OVER)),
            None => {}
        }
        let Backend::Embedded(embedded) = &self.inner.backend else { return None };
        let tokens = check_tokens(flow_id, count);
        let answer = tokens.map(|tokens| embedded.flow(flow_id, tokens, priority));
        let ruling = Ruling::waiting(answer.map_err(NoAnswer::from));
        let what = What::flow(flow_id, count);
        let lent = (ruling == OVER).then(|| self.unguarded(embedded, &what, priority)).flatten();
        self.note_embedded_clients();
        Some(decider.flow(flow_id, count, lent.unwrap_or(ruling)))
    }

    /// The namespace that it is counted in.
    pub(crate) fn namespace(&self) -> &str {
        match &self.inner.backend {
            Backend::Remote(remote) => &remote.namespace,
            Backend::Embedded(embedded) => embedded.membership.namespace().name(),
        }
    }

    /// Whether it asks the engine of this process.
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self.inner.backend, Backend::Embedded(_))
    }

    /// Decides a check by a lease, if there is one for it, or if only a lease can pass it.
    pub(crate) async fn spend(&self, flow_id: i64, count: u32, priority: bool) -> Option<Outcome> {
        let decider = &self.inner.decider;
        if priority || !decider.rules.load().has_leases() {
            return None;
        }
        // A caller that never waits must let the lease's keeper run.
        consume_budget().await;
        match decider.spend(flow_id, count)? {
            Lent::Decided(outcome) => Some(outcome),
            Lent::Over(leased) => {
                let ruling = leased.share(count).await.unwrap_or(OVER);
                Some(decider.flow(flow_id, count, ruling))
            }
        }
    }

    /// What a rule with `overloadPolicy: share` makes of a check that was refused since the namespace
    /// is over its limit: who has the engine asks it, and others spend of what the server lends.
    async fn share(&self, what: &What<'_>, priority: bool) -> Option<Ruling> {
        let decider = &self.inner.decider;
        match (&self.inner.backend, *what) {
            (Backend::Embedded(embedded), _) => self.unguarded(embedded, what, priority),
            (Backend::Remote(_), What::Flow { id, count }) => {
                decider.refused(id, count, priority)?.share(count).await
            }
            (Backend::Remote(_), What::Param { .. }) => None,
        }
    }

    /// The same of the engine in this process.
    fn unguarded(&self, embedded: &Embedded, what: &What<'_>, priority: bool) -> Option<Ruling> {
        if !self.inner.decider.shares_when_over(what.rule()) {
            return None;
        }
        let ruling = Ruling::waiting(embedded.unguarded(what, self.manner(priority, false)));
        (!matches!(ruling, Ruling::None(_))).then_some(ruling)
    }

    /// Asks in the way that tells the server what wait will do, where that matters.
    async fn ruling(&self, what: &What<'_>, priority: bool) -> Ruling {
        let bounded = self.inner.decider.max_wait.is_some();
        let ask = match (&self.inner.backend, what) {
            (Backend::Embedded(_), _) => bounded,
            (Backend::Remote(_), What::Flow { .. }) => bounded && (priority || self.is_paced(what)),
            (Backend::Remote(_), What::Param { .. }) => self.is_paced(what),
        };
        if ask && let Some(told) = self.ask_for_tokens(what, priority).await {
            return Ruling::waiting(told.map(|told| told.answer));
        }
        self.acquire_plain(what, priority).await.1
    }

    fn is_paced(&self, what: &What<'_>) -> bool {
        self.inner.decider.rules.load().is_paced(what.rule())
    }

    /// Asks as Sentinel's clients do.
    pub(crate) async fn acquire_plain(
        &self,
        what: &What<'_>,
        priority: bool,
    ) -> (Result<Answer, NoAnswer>, Ruling) {
        match *what {
            What::Flow { id, count } => {
                let answer = self.acquire(id, count, priority).await;
                (answer, Ruling::waiting(answer))
            }
            What::Param { id, count, params } => {
                let answer = self.acquire_param(id, count, params).await;
                let ruling = match &self.inner.backend {
                    Backend::Remote(_) => Ruling::at_once(answer),
                    Backend::Embedded(_) => Ruling::waiting(answer),
                };
                (answer, ruling)
            }
        }
    }

    /// Carries a ruling out, and waits if it says so.
    pub(crate) async fn decide(&self, what: &What<'_>, priority: bool, ruling: Ruling) -> Outcome {
        self.note_embedded_clients();
        let over = ruling == OVER;
        let ruling = if over { self.share(what, priority).await.unwrap_or(OVER) } else { ruling };
        let decider = &self.inner.decider;
        let outcome = match *what {
            What::Flow { id, count } => decider.flow(id, count, ruling),
            What::Param { id, count, params } => decider.param(id, count, params, ruling),
        };
        if let Verdict::Waited(wait) = outcome.verdict {
            sleep(wait).await;
        }
        outcome
    }

    /// Asks how many clients the namespace has.
    ///
    /// # Errors
    ///
    /// [`NoAnswer`], within the time-out.
    pub async fn ping(&self) -> Result<Pong, NoAnswer> {
        consume_budget().await;
        match &self.inner.backend {
            Backend::Remote(remote) => {
                let pong = link::ping(&remote.lines, &remote.namespace).await?;
                if let Some(clients) = pong.clients {
                    self.inner.decider.rules.set_clients(clients);
                }
                Ok(pong)
            }
            Backend::Embedded(embedded) => Ok(Pong { clients: Some(embedded.clients()) }),
        }
    }

    /// Puts `rules` in force for fallback in place of those that were. What has been counted
    /// locally goes on where the window stays the same. Rules without cluster configuration are
    /// not looked at. A server that wants to know is told the digest of the rules, and shows it
    /// beside that of its own.
    ///
    /// # Errors
    ///
    /// Every rule that cannot be in force beside the others; then nothing changes.
    pub fn set_rules(&self, rules: Vec<NamespaceRules>) -> Result<(), RuleErrors> {
        let digest = self.inner.decider.rules.replace(rules)?;
        if let Backend::Remote(remote) = &self.inner.backend
            && let Some(leader) = remote.lines.first()
        {
            leader.enforce(digest);
        }
        Ok(())
    }

    /// Waits until a server answers, for `within` at most. Calls need not be preceded by it: until
    /// then they are [`Unreachable`](NoAnswer::Unreachable), and checks fall back.
    ///
    /// # Errors
    ///
    /// [`NotReady`], which says what happened with each server. The client goes on trying.
    pub async fn ready(&self, within: Duration) -> Result<(), NotReady> {
        let Backend::Remote(remote) = &self.inner.backend else { return ready(Ok(())).await };
        let mut state = remote.state.clone();
        let connected =
            |state: &ConnectionState| matches!(state, ConnectionState::Connected { .. });
        match timeout(within, state.wait_for(connected)).await {
            Ok(Ok(_connected)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(NotReady { within, state: self.connection() }),
        }
    }

    /// How the connection stands.
    #[must_use]
    pub fn connection(&self) -> ConnectionState {
        match &self.inner.backend {
            Backend::Remote(remote) => remote.state.borrow().clone(),
            Backend::Embedded(_) => ConnectionState::Embedded,
        }
    }

    /// What the connected server said about extension frames; `None` without a connection, and
    /// with a server that knows none, such as Sentinel's.
    #[must_use]
    pub fn extension(&self) -> Option<Extension> {
        match &self.inner.backend {
            Backend::Remote(remote) => remote.lines.first()?.extension(),
            Backend::Embedded(_) => None,
        }
    }

    /// The client's counters.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.inner.meters.read()
    }

    /// Shows the client's counters in a Prometheus registry, named `tollgate_client_…`. The
    /// registry does not keep the client's connections alive.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.inner.meters.clone()));
    }

    /// Closes the connections of all clones, and returns when their tasks have ended. Calls are
    /// [`Unreachable`](NoAnswer::Unreachable) from then on, and what guards hold is lost; what was
    /// released before reaches the server, if it answers within the time-out, as does what leases
    /// hold. Dropping the last
    /// clone closes them too, without telling when, and without waiting for the server.
    ///
    /// An embedded client has no connection: it only stops to look after what guards hold.
    pub async fn close(&self) {
        if let Backend::Remote(remote) = &self.inner.backend
            && (self.inner.decider.rules.close_leases() | self.inner.holds.were_used())
        {
            // The server answers in order: what was queued before has arrived with the answer.
            let _pong = link::ping(&remote.lines, &remote.namespace).await;
        }
        self.inner.stop.cancel();
        self.inner.tasks.wait().await;
    }

    /// Shares are divided by the clients that the engine knows, as a server's ping would say.
    pub(crate) fn note_embedded_clients(&self) {
        if let Backend::Embedded(embedded) = &self.inner.backend {
            self.inner.decider.rules.set_clients(embedded.clients());
        }
    }
}

impl Remote {
    /// Calls a server that has the `features`.
    pub(crate) async fn call<E>(
        &self,
        kind: i8,
        features: u32,
        encode: E,
    ) -> Result<Reply, NoAnswer>
    where
        E: FnMut(i32, &mut BytesMut) -> Result<(), protocol::EncodeError> + Unpin,
    {
        let first = match self.lines.len() {
            1 => 0,
            // Relaxed: any line will do.
            lines => self.turn.fetch_add(1, Ordering::Relaxed) % lines,
        };
        Call::new(kind, encode, &self.lines, first).needing(features).await
    }
}
