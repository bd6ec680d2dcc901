//! How much room a window leaves: the one place where tokens meet a threshold.

use super::Namespace;
use crate::rule::{ClusterConfig, Scope, ThresholdUnit};

/// A rule's threshold, ready to compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    count: f64,
    /// What a sum of tokens is divided by before it is compared: Sentinel compares per-second
    /// averages, `thresholdUnit: window` compares the sum.
    divisor: f64,
    per_client: bool,
}

impl Limit {
    pub(crate) fn new(count: f64, config: &ClusterConfig) -> Self {
        let divisor = match config.unit {
            ThresholdUnit::Sentinel => config.window.interval_sec(),
            ThresholdUnit::Window => 1.0,
        };
        Self { count, divisor, per_client: config.scope == Scope::PerClient }
    }

    /// The same limit for a value with a count of its own.
    pub(crate) fn with_count(self, count: f64) -> Self {
        Self { count, ..self }
    }

    /// The threshold at this moment: with nobody connected a per-client rule lets nothing pass.
    /// The order of the products is Sentinel's (`ClusterFlowChecker.calcGlobalThreshold`).
    #[inline]
    pub(crate) fn threshold(&self, namespace: &Namespace) -> f64 {
        (self.scoped(namespace) * namespace.exceed_count()).min(TOKENS_MAX)
    }

    /// The threshold without `exceedCount`, which is for the rates of flow rules only.
    #[inline]
    pub(crate) fn scoped(&self, namespace: &Namespace) -> f64 {
        if self.per_client {
            (self.count * f64::from(namespace.connected())).min(TOKENS_MAX)
        } else {
            self.count
        }
    }

    /// Tokens left under `threshold` once `count` more are taken on top of `sum`; negative when
    /// they do not fit.
    ///
    /// `threshold - sum / seconds - count`, from left to right in doubles, is Sentinel's formula
    /// to the bit (`ClusterFlowChecker.java:67-69`): the tokens asked for are not divided.
    #[inline]
    pub(crate) fn room(&self, threshold: f64, sum: u64, count: u64) -> f64 {
        threshold - self.average(sum) - as_f64(count)
    }

    /// What `sum` tokens weigh against the threshold.
    #[inline]
    pub(crate) fn average(&self, sum: u64) -> f64 {
        // The usual window is a second long: dividing by 1 changes nothing but takes its time.
        if self.divisor == 1.0 { as_f64(sum) } else { as_f64(sum) / self.divisor }
    }
}

/// Largest threshold, 2^53: up to there sums are exact as doubles. The count of a rule ends there,
/// and so do its products.
pub(crate) const TOKENS_MAX: f64 = 9_007_199_254_740_992.0;

#[expect(clippy::cast_precision_loss, reason = "thresholds end at 2^53, so sums do too")]
fn as_f64(tokens: u64) -> f64 {
    tokens as f64
}

/// Whole tokens of a room that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; cutting towards zero and saturating is Java's cast"
)]
pub(crate) fn whole(room: f64) -> u64 {
    room as u64
}
