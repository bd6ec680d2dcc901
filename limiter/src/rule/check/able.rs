//! Whether an algorithm can hold a rule to its count. What it cannot is a mistake of the rule, and
//! found here rather than when the first token is asked for.

use std::time::Duration;

use super::items::Listed;
use crate::{
    algorithm::{FixedWindow, Invalid, Rate, SlidingLog, TokenBucket, WarmUpCurve, WarmUpPacing},
    rule::{
        Algorithm, ClusterConfig, ControlBehavior, cluster::Rare, object::Object, report::Report,
    },
};

/// What the count of a rule without a server is for.
const SECOND: Duration = Duration::from_secs(1);

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
    let warm_up = numbers.warm_up();
    let cold = config.cold_factor();
    if let Err(invalid) = build(config, behavior, warm_up, numbers.count) {
        let (object, field) = match invalid {
            Invalid::TooSlow { tokens } if tokens != 1 => (c, "burst"),
            _ => (f, blamed(&invalid)),
        };
        object.error(report, field, &remedy(&invalid));
    } else if let Some(count) = config.local_count()
        && let Err(invalid) = shape(behavior, Rate::new(count, SECOND), warm_up, count, cold)
    {
        match blamed(&invalid) {
            "count" => c.error(report, "localCount", &remedy(&invalid)),
            field => f.error(report, field, &remedy(&invalid)),
        }
    }
    for listed in numbers.items {
        if let Err(invalid) = build(config, behavior, warm_up, listed.item.count) {
            listed.error(report, &remedy(&invalid));
        }
    }
}

/// The same for a flow rule without a server.
pub(super) fn check_local(
    f: &Object<'_>,
    report: &mut Report<'_>,
    behavior: ControlBehavior,
    numbers: &Numbers<'_, '_>,
) {
    let (count, cold) = (numbers.count, Rare::DEFAULT.cold_factor.into());
    let rate = Rate::new(count, SECOND);
    if let Err(invalid) = shape(behavior, rate, numbers.warm_up(), count, cold) {
        f.error(report, blamed(&invalid), &remedy(&invalid));
    }
}

impl Numbers<'_, '_> {
    fn warm_up(&self) -> Duration {
        Duration::from_secs(self.warm_up.max(1).unsigned_abs())
    }
}

/// The field of the rule that is to blame.
fn blamed(invalid: &Invalid) -> &'static str {
    match invalid {
        Invalid::Period(_) | Invalid::WarmUpTooLong { .. } => "warmUpPeriodSec",
        _ => "count",
    }
}

fn build(
    config: &ClusterConfig,
    behavior: ControlBehavior,
    warm_up: Duration,
    count: f64,
) -> Result<(), Invalid> {
    let window = Duration::from_millis(config.window.interval_ms());
    if behavior != ControlBehavior::Reject {
        return shape(behavior, config.rate(count), warm_up, count, config.cold_factor());
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

fn shape(
    behavior: ControlBehavior,
    rate: Result<Rate, Invalid>,
    warm_up: Duration,
    count: f64,
    cold: u32,
) -> Result<(), Invalid> {
    match behavior {
        ControlBehavior::Reject => Ok(()),
        ControlBehavior::Pacing => rate.map(drop),
        ControlBehavior::WarmUp => WarmUpCurve::new(count, warm_up, cold).map(drop),
        ControlBehavior::WarmUpPacing => {
            WarmUpPacing::new(count, warm_up, cold, Duration::ZERO).map(drop)
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
