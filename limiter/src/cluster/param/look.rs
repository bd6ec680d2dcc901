//! What there is to see of a hot-parameter rule.

use super::ParamFlow;
use crate::{
    cluster::Namespace,
    rule::{Mode, ParamRule},
    sync::{Arc, lock},
};

/// What a hot-parameter rule decided since its counter was made; each only rises but `values`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParamTotals {
    /// Requests that passed.
    pub pass_requests: u64,
    /// Requests that were told to wait.
    pub wait_requests: u64,
    /// Requests that were refused.
    pub block_requests: u64,
    /// Requests that passed only because the mode is `shadow`.
    pub shadow_requests: u64,
    /// Uses of the counter that values beyond the cap share.
    pub overflow_uses: u64,
    /// Values that have a counter of their own now.
    pub values: usize,
}

impl ParamFlow {
    /// What becomes of the rule's decisions: the widest switch that is not at
    /// [`Mode::Enforce`] decides.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.namespace.mode() {
            Mode::Enforce => self.mode,
            switched => switched,
        }
    }

    /// The rule as it was loaded.
    #[must_use]
    pub fn rule(&self) -> &ParamRule {
        &self.rule
    }

    /// The namespace that the flow belongs to.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// What the rule decided since its counter was made.
    #[must_use]
    pub fn totals(&self) -> ParamTotals {
        let used = lock(&self.counter.0);
        ParamTotals {
            overflow_uses: used.values.overflow_uses(),
            values: used.values.len(),
            ..used.totals
        }
    }

    pub(crate) fn guard(&self) -> &Arc<Namespace> {
        &self.namespace
    }
}
