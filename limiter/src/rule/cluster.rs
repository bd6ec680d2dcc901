//! What makes a rule a cluster rule: Sentinel's `clusterConfig` and our fields in it.

use super::Algorithm;
use crate::WindowShape;

/// How a token server counts for a rule, and what its clients do without one.
///
/// A set may have a million of them, so what few rules have is kept apart.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// The id that requests name; positive, unique among the flow rules (or the parameter rules)
    /// of all namespaces.
    pub flow_id: i64,
    /// The window. Of a calendar period, the length of the longest that there is without a change
    /// of clocks.
    pub window: WindowShape,
    /// How tokens are counted.
    pub algorithm: Algorithm,
    /// What `count` is counted for.
    pub scope: Scope,
    /// What `count` means for a window that is not one second.
    pub unit: ThresholdUnit,
    /// What a client does when no decision comes.
    pub fallback: FallbackPolicy,
    /// What a client does when the server answers TOO_MANY_REQUEST.
    pub overload: OverloadPolicy,
    /// What becomes of the decisions.
    pub mode: Mode,
    /// `None` when all of it is the default.
    pub(crate) rare: Option<Box<Rare>>,
}

/// What few rules change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rare {
    pub(super) local_count: Option<f64>,
    pub(super) lease: Option<Lease>,
    pub(super) resource_timeout_ms: u32,
    pub(super) client_offline_ms: u32,
    pub(super) cold_factor: u8,
}

impl Rare {
    pub(super) const DEFAULT: Self = Self {
        local_count: None,
        lease: None,
        resource_timeout_ms: 2_000,
        client_offline_ms: 2_000,
        cold_factor: 3,
    };

    pub(super) fn kept(self) -> Option<Box<Self>> {
        (self != Self::DEFAULT).then(|| Box::new(self))
    }
}

impl ClusterConfig {
    fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&Rare::DEFAULT)
    }

    /// Threshold of a client's local fallback, per second; `None`: the rule's own count.
    #[must_use]
    pub fn local_count(&self) -> Option<f64> {
        self.rare().local_count
    }

    /// Tokens that a client may hold in advance; `None`: none.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        self.rare().lease
    }

    /// How long a concurrency token lives unless it is renewed, in milliseconds. Not used by rules
    /// that count a rate.
    #[must_use]
    pub fn resource_timeout_ms(&self) -> u32 {
        self.rare().resource_timeout_ms
    }

    /// How long a concurrency token outlives its connection at most, in milliseconds.
    #[must_use]
    pub fn client_offline_ms(&self) -> u32 {
        self.rare().client_offline_ms
    }

    /// How many times slower than warm a cold start is, 2 ..= 100; for the control behaviours that
    /// warm up.
    #[must_use]
    pub fn cold_factor(&self) -> u32 {
        self.rare().cold_factor.into()
    }
}

/// `thresholdType`: whose use the count limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// 1: all clients together.
    Global,
    /// 0, and every unknown value as in Sentinel: the count times the connected clients of the
    /// namespace; with nobody connected, nothing passes.
    PerClient,
}

/// `thresholdUnit`: what the count is per.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ThresholdUnit {
    /// Per second, compared with the window's average as Sentinel computes it.
    #[default]
    Sentinel,
    /// Per window, exactly.
    Window,
}

/// `fallbackPolicy`: what a client does when no decision comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackPolicy {
    /// Checks the rule locally, against `localCount` or the rule's own count.
    Local,
    /// Checks locally against the global count divided by the last known number of clients. The
    /// server does not know what passes so, nor a client what others were granted: where both
    /// decide, twice the count may pass in one window.
    Share,
    /// Lets everything through.
    Pass,
    /// Refuses everything.
    Block,
}

/// `overloadPolicy`: what a client does when the namespace guard refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OverloadPolicy {
    /// Refuses the call.
    Reject,
    /// Goes on with a share of the count that the server lends it, and refuses what is over it: see
    /// [`FlowRule::share`](super::FlowRule::share). From a server that does not lend, as
    /// [`FallbackPolicy::Share`].
    Share,
    /// As [`FallbackPolicy::Local`], which is what Sentinel does; the rule's fallback policy
    /// decides between a local check and passing.
    #[default]
    Local,
}

/// `mode`: what becomes of a rule's decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// They hold.
    #[default]
    Enforce,
    /// Everything passes; what would have been refused is counted.
    Shadow,
    /// Everything passes.
    Pass,
    /// Nothing passes.
    Block,
}

/// `lease`: tokens that a client takes in advance and spends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Most tokens of one lease, 1 ..= 1 000 000.
    pub max_tokens: u32,
    /// How long a lease may be spent, in milliseconds, 1 ..= 60 000.
    pub ttl_ms: u32,
}
