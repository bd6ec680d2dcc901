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
    Verdict,
    answer::check_tokens,
    decide::Decider,
    embedded::Embedded,
    line::{Call, Line},
    link,
    metrics::Meters,
};

/// Asks token servers for tokens, and decides by itself when they do not say. Cheap to clone; the
/// connections and their tasks end with the last clone.
///
/// [`check`](Self::check) is what a service calls: it asks, waits if it is told to, and falls back
/// as the rule says. [`acquire`](Self::acquire) only asks.
///
/// No call takes longer than the client's time-out, whatever a server does; a check may wait in
/// addition, up to `max_wait`, when a server tells it to.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) backend: Backend,
    pub(crate) decider: Decider,
    pub(crate) meters: Meters,
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
    /// Ends the tasks.
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Drop for Remote {
    /// The last client has gone.
    fn drop(&mut self) {
        self.stop.cancel();
    }
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
                Ok(Answer::of(remote.call(kind::FLOW, encode).await?))
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
                Ok(Answer::of(remote.call(kind::PARAM, encode).await?))
            }
            Backend::Embedded(embedded) => Ok(embedded.param(flow_id, count, params)),
        }
    }

    /// Decides whether a call that needs `count` tokens of the flow rule `flow_id` may go on: asks
    /// a server, waits if it says so, and does what the rule says when there is no decision. The
    /// rules are those of [`set_rules`](Self::set_rules); a rule that is not among them passes
    /// then.
    pub async fn check(&self, flow_id: i64, count: u32, priority: bool) -> Outcome {
        let answer = self.acquire(flow_id, count, priority).await;
        self.note_embedded_clients();
        let outcome = self.inner.decider.flow(flow_id, count, answer);
        if let Verdict::Waited(wait) = outcome.verdict {
            sleep(wait).await;
        }
        outcome
    }

    /// As [`check`](Self::check), for a hot-parameter rule and the values of a call.
    pub async fn check_param(&self, flow_id: i64, count: u32, params: &[Param<'_>]) -> Outcome {
        let answer = self.acquire_param(flow_id, count, params).await;
        self.note_embedded_clients();
        self.inner.decider.param(flow_id, count, params, answer)
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
    /// not looked at.
    ///
    /// # Errors
    ///
    /// Every rule that cannot be in force beside the others; then nothing changes.
    pub fn set_rules(&self, rules: Vec<NamespaceRules>) -> Result<(), RuleErrors> {
        self.inner.decider.rules.replace(rules)
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
    /// [`Unreachable`](NoAnswer::Unreachable) from then on. Dropping the last clone closes them
    /// too, without telling when.
    pub async fn close(&self) {
        if let Backend::Remote(remote) = &self.inner.backend {
            remote.stop.cancel();
            remote.tasks.wait().await;
        }
    }

    /// Shares are divided by the clients that the engine knows, as a server's ping would say.
    fn note_embedded_clients(&self) {
        if let Backend::Embedded(embedded) = &self.inner.backend {
            self.inner.decider.rules.set_clients(embedded.clients());
        }
    }
}

impl Remote {
    async fn call<E>(&self, kind: i8, encode: E) -> Result<protocol::Response, NoAnswer>
    where
        E: FnMut(i32, &mut BytesMut) -> Result<(), protocol::EncodeError> + Unpin,
    {
        let first = match self.lines.len() {
            1 => 0,
            // Relaxed: any line will do.
            lines => self.turn.fetch_add(1, Ordering::Relaxed) % lines,
        };
        Call::new(kind, encode, &self.lines, first).await
    }
}
