//! Rules with `clusterMode`: asked of a client of a token server.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwapOption;
use limiter::{
    local::{LocalEngine, Question},
    rule::{Grade, NamespaceRules},
};
use tracing::warn;

use super::Engine;
use crate::{Client, Held, Outcome, decide::as_param, sync::lock};

/// Whom an engine asks for rules with `clusterMode`; the values are those of Sentinel's
/// `ClusterStateManager`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ClusterMode {
    /// Nobody: such rules are checked here, by their `fallbackPolicy`.
    Off = -1,
    /// A token server.
    Client = 0,
    /// The server in this process, through its [embedded](crate::Builder::embedded) client.
    Server = 1,
}

/// Whom an engine asks.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    link: ArcSwapOption<Link>,
    /// Held while the link and the switch of the engine change, so that both are as one.
    changing: Mutex<()>,
}

/// The client that an engine asks.
#[derive(Debug)]
struct Link {
    client: Client,
    /// The revision of the engine's rules that the client knows.
    told: AtomicU64,
    telling: Mutex<()>,
}

/// What a client says of one rule.
#[derive(Debug)]
pub(super) struct Said {
    /// `None`: there is no client any more.
    pub(super) pass: Option<bool>,
    /// What the call holds of a rule on calls in progress.
    pub(super) held: Option<Held>,
}

impl Said {
    const fn of(pass: bool) -> Self {
        Self { pass: Some(pass), held: None }
    }
}

impl Engine {
    /// From now on calls ask `client` for rules with `clusterMode`. What is counted here stays, as
    /// does what the client counts. A call that is on its way keeps the client that it has asked.
    ///
    /// The client gets the cluster rules of this engine, now and when they change, in place of
    /// those that it [knows](Client::set_rules), and does what they say when no server decides:
    /// `fallbackPolicy` and `overloadPolicy`, by reason. It takes their leases, too. A call under a
    /// rule of grade 0 holds its part of the level, in the whole cluster, until it ends.
    pub fn connect(&self, client: Client) {
        let link = Link { client, told: AtomicU64::new(0), telling: Mutex::default() };
        link.tell(self.local());
        let cluster = &self.shared.cluster;
        let _changing = lock(&cluster.changing);
        cluster.link.store(Some(Arc::new(link)));
        self.local().ask_servers(true);
    }

    /// From now on no call asks anybody, and rules with `clusterMode` are checked here, by their
    /// `fallbackPolicy`. Gives the client that was asked.
    pub fn disconnect(&self) -> Option<Client> {
        let cluster = &self.shared.cluster;
        let _changing = lock(&cluster.changing);
        self.local().ask_servers(false);
        cluster.link.swap(None).map(|link| link.client.clone())
    }

    /// The client that is asked for rules with `clusterMode`; leases, concurrency tokens and
    /// several rules at once can be asked of it, too.
    #[must_use]
    pub fn client(&self) -> Option<Client> {
        self.shared.cluster.link.load().as_ref().map(|link| link.client.clone())
    }

    /// Whom calls ask for rules with `clusterMode`.
    #[must_use]
    pub fn cluster_mode(&self) -> ClusterMode {
        match &*self.shared.cluster.link.load() {
            None => ClusterMode::Off,
            Some(link) if link.client.is_embedded() => ClusterMode::Server,
            Some(_) => ClusterMode::Client,
        }
    }

    /// Asks for a call that stands at a cluster rule, and waits if it must.
    pub(super) async fn ask(&self, question: Question<'_>) -> Said {
        match self.shared.cluster.link.load_full() {
            Some(link) => link.ask(self.local(), question).await,
            None => Said { pass: None, held: None },
        }
    }

    /// The same where no time may pass; `None` when that cannot be.
    pub(super) fn ask_now(&self, question: Question<'_>) -> Option<Outcome> {
        self.shared.cluster.link.load_full()?.ask_now(self.local(), question)
    }
}

impl Link {
    async fn ask(&self, local: &LocalEngine, question: Question<'_>) -> Said {
        self.tell(local);
        match question {
            Question::Flow { rule, count, prioritized } => {
                let Some(cluster) = &rule.cluster else { return Said::of(true) };
                match rule.grade {
                    Grade::Qps => {
                        let outcome = self.client.check(cluster.flow_id, count, prioritized).await;
                        Said::of(outcome.is_pass())
                    }
                    Grade::Thread => {
                        let held = self.client.hold(cluster.flow_id, count).await.ok();
                        Said { pass: Some(held.is_some()), held }
                    }
                }
            }
            Question::Param { rule, count, values } => {
                let Some(cluster) = &rule.cluster else { return Said::of(true) };
                let params: Vec<_> = values.iter().map(as_param).collect();
                let outcome = self.client.check_param(cluster.flow_id, count, &params).await;
                Said::of(outcome.is_pass())
            }
            _ => Said::of(true),
        }
    }

    fn ask_now(&self, local: &LocalEngine, question: Question<'_>) -> Option<Outcome> {
        self.tell(local);
        match question {
            Question::Flow { rule, count, prioritized } => {
                let flow_id = rule.cluster.as_ref()?.flow_id;
                match rule.grade {
                    Grade::Qps => self.client.check_now(flow_id, count, prioritized),
                    Grade::Thread => None,
                }
            }
            _ => None,
        }
    }

    /// Tells the client the cluster rules of the engine, if they have changed. Rules that cannot
    /// stand beside each other are said once, and those before stay.
    fn tell(&self, local: &LocalEngine) {
        // Acquire, with the release below: who sees a revision finds its rules with the client.
        if self.told.load(Ordering::Acquire) == local.revision() {
            return;
        }
        let _telling = lock(&self.telling);
        // Before the rules: those that are read are of this revision or a later one.
        let revision = local.revision();
        if self.told.load(Ordering::Acquire) == revision {
            return;
        }
        let (flow, param) = local.cluster_rules();
        let rules = NamespaceRules { namespace: self.client.namespace().into(), flow, param };
        if let Err(errors) = self.client.set_rules(vec![rules]) {
            warn!(%errors, "the client of the token server goes on with the cluster rules before");
        }
        self.told.store(revision, Ordering::Release);
    }
}
