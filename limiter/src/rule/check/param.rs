//! The hot-parameter rule.

use super::{
    ANY_INT, Common, I32_MAX, NO_MEANING,
    able::Numbers,
    cluster::{Of, config},
    items::items,
};
use crate::rule::{
    COUNT_MAX, ClusterConfig, ControlBehavior, FallbackPolicy, ParamRule, ThresholdUnit,
    object::Object, report::Report,
};

/// Reads a hot-parameter rule; `None` when it is wrong (said in `report`).
pub(in crate::rule) fn param_rule(mut f: Object<'_>, report: &mut Report<'_>) -> Option<ParamRule> {
    let before = report.errors.len();
    let common = Common::read(&mut f, report);
    if !f.gives("paramIdx") {
        f.error(report, "paramIdx", "required: the index of the argument, from 0");
    }
    let param_idx = f.int(report, "paramIdx", 0, ANY_INT);
    let u32_field = |f: &mut Object<'_>, report: &mut Report<'_>, name, unit, default| {
        u32::try_from(f.int_of(report, name, unit, default, (0, I32_MAX))).unwrap_or_default()
    };
    let grade = u32_field(&mut f, report, "grade", "", 1);
    let what = match grade {
        0 => "calls in progress of each value (grade 0)",
        _ => "calls of each value in a window (grade 1)",
    };
    let count = f.measure(report, "count", what, COUNT_MAX).unwrap_or(0.0);
    let queueing = u32_field(&mut f, report, "maxQueueingTimeMs", "milliseconds", 0);
    let burst_count = u32_field(&mut f, report, "burstCount", "tokens", 0);
    let duration_sec =
        f.int_of(report, "durationInSec", "seconds", 1, (1, i64::MAX)).unsigned_abs();
    let items = items(&mut f, report);
    // What else Sentinel takes for 0, so do we.
    let behavior = match common.behavior() {
        ControlBehavior::Pacing => ControlBehavior::Pacing,
        _ => ControlBehavior::Reject,
    };
    let numbers = Numbers { count, warm_up: 1, items: &items };
    let cluster = config(&mut f, report, Of::Param(behavior), &numbers);
    common.check_regex(&f, report, cluster.is_some());
    if let Some(config) = &cluster {
        common.warn_unused(&f, report);
        f.unused(report, "grade", grade != 1, "tokens are counted, not calls in progress");
        if !matches!(common.behavior, 0 | 2) {
            let remedy = "taken as 0 (refuse), as Sentinel does: hot parameters do not warm up";
            f.warn(report, "controlBehavior", remedy);
        }
        let is_set = queueing != 0 && behavior != ControlBehavior::Pacing;
        f.idle(report, "maxQueueingTimeMs", is_set, "only controlBehavior 2 queues calls");
        let instead = "clusterConfig.burst is, with algorithm tokenBucket, leakyBucket or gcra";
        f.unused(report, "burstCount", burst_count != 0, instead);
        let lasts = duration_sec != 1 && !has_local_window(config);
        f.unused(report, "durationInSec", lasts, "windowIntervalMs is the window");
    } else {
        warn_local(&f, report, grade, count);
    }
    f.warn_unknown(report, NO_MEANING);
    (report.errors.len() == before).then(|| ParamRule {
        behavior: common.behavior(),
        resource: common.resource,
        regex: common.regex,
        param_idx: i32::try_from(param_idx).unwrap_or_default(),
        count,
        grade,
        max_queueing_time_ms: queueing,
        burst_count,
        duration_sec,
        items: items.into_iter().map(|listed| listed.item).collect(),
        cluster,
    })
}

/// What a rule without a server says and does not do.
fn warn_local(f: &Object<'_>, report: &mut Report<'_>, grade: u32, count: f64) {
    if grade > 1 {
        let remedy = "unknown, and every call passes, as in Sentinel: 0 counts calls in progress, \
                      1 calls in a window";
        f.warn(report, "grade", remedy);
    }
    if count.fract() != 0.0 {
        f.warn(report, "count", &format!("cut to {}, as in Sentinel", count.trunc()));
    }
}

/// Whether a client that decides alone counts over `durationInSec`
/// ([`LocalParam`](crate::LocalParam)).
fn has_local_window(config: &ClusterConfig) -> bool {
    config.fallback == FallbackPolicy::Local
        && config.local_count().is_none()
        && config.unit == ThresholdUnit::Sentinel
}
