//! Whether an algorithm can hold a rule to its count. What it cannot is a mistake of the rule, and
//! found here rather than when the first token is asked for.

use std::time::Duration;

use super::items::Listed;
use crate::{
    algorithm::{FixedWindow, Invalid, SlidingLog, TokenBucket, WarmUpCurve, WarmUpPacing},
    rule::{Algorithm, ClusterConfig, ControlBehavior, object::Object, report::Report},
};

/// The numbers of a rule, beside those in its `clusterConfig`.
pub(super) struct Numbers<'a, 't> {
    pub(super) count: f64,
    /// Seconds; what is less than one was reported.
    pub(super) warm_up: i64,
    pub(super) items: &'a [Listed<'t>],
}

/// Builds what the count and each item's count need, once, and reports what cannot be built.
/// `f` is the rule, `c` its `clusterConfig`.
pub(super) fn check(
    (f, c): (&Object<'_>, &Object<'_>),
    report: &mut Report<'_>,
    config: &ClusterConfig,
    behavior: ControlBehavior,
    numbers: &Numbers<'_, '_>,
) {
    let warm_up = Duration::from_secs(numbers.warm_up.max(1).unsigned_abs());
    if let Err(invalid) = build(config, behavior, warm_up, numbers.count) {
        let (object, field) = match invalid {
            Invalid::Period(_) | Invalid::WarmUpTooLong { .. } => (f, "warmUpPeriodSec"),
            Invalid::TooSlow { tokens: 1 } => (f, "count"),
            Invalid::TooSlow { .. } => (c, "burst"),
            _ => (f, "count"),
        };
        object.error(report, field, &remedy(&invalid));
    }
    for listed in numbers.items {
        if let Err(invalid) = build(config, behavior, warm_up, listed.item.count) {
            listed.error(report, &remedy(&invalid));
        }
    }
}

fn build(
    config: &ClusterConfig,
    behavior: ControlBehavior,
    warm_up: Duration,
    count: f64,
) -> Result<(), Invalid> {
    let window = Duration::from_millis(config.window.interval_ms());
    match behavior {
        ControlBehavior::Reject => {}
        ControlBehavior::Pacing => return config.rate(count).map(drop),
        ControlBehavior::WarmUp => {
            return WarmUpCurve::new(count, warm_up, config.cold_factor()).map(drop);
        }
        ControlBehavior::WarmUpPacing => {
            let (cold, longest) = (config.cold_factor(), Duration::ZERO);
            return WarmUpPacing::new(count, warm_up, cold, longest).map(drop);
        }
    }
    match &config.algorithm {
        // They take every count that a rule can have.
        Algorithm::SlidingWindow | Algorithm::Calendar(_) => Ok(()),
        Algorithm::FixedWindow => FixedWindow::new(config.tokens(count), window).map(drop),
        Algorithm::SlidingLog => SlidingLog::new(config.tokens(count), window).map(drop),
        Algorithm::TokenBucket { burst }
        | Algorithm::LeakyBucket { burst }
        | Algorithm::Gcra { burst } => {
            TokenBucket::new(config.rate(count)?, burst.of(count, 1.0)).map(drop)
        }
    }
}

fn remedy(invalid: &Invalid) -> String {
    match invalid {
        Invalid::LogTooLong(tokens) => format!(
            "slidingLog keeps each of the {tokens} tokens of a window, of which 10000 are allowed; \
             use slidingWindow with a higher sampleCount, or gcra"
        ),
        Invalid::Count(tokens) => {
            format!("comes to {tokens} tokens a window, over 9007199254740992 (2^53)")
        }
        Invalid::Period(_) => "must be at most 31622400 (366 days)".into(),
        Invalid::WarmUpTooLong { .. } => {
            "times the count must be at most 9007199254740992 (2^53)".into()
        }
        Invalid::TooSlow { tokens: 1 } => {
            "too slow: a token takes more than 250 000 years; 0 lets nothing pass".into()
        }
        Invalid::TooSlow { .. } => {
            "too large: at this count it fills up in more than 250 000 years".into()
        }
        Invalid::ColdFactor(_) | Invalid::TimeZone(_) => invalid.to_string(),
    }
}
