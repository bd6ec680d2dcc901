//! The hot-parameter rule.

use super::{ANY_INT, Common, I32_MAX, NO_MEANING, cluster, items::items};
use crate::rule::{
    ClusterConfig, FallbackPolicy, ParamRule, ThresholdUnit, object::Object, report::Report,
};

/// Reads a hot-parameter rule; `None` when it is wrong (said in `report`).
pub(in crate::rule) fn param_rule(mut f: Object<'_>, report: &mut Report<'_>) -> Option<ParamRule> {
    let before = report.errors.len();
    let common = Common::read(&mut f, report);
    if !f.gives("paramIdx") {
        f.error(report, "paramIdx", "required: the index of the argument, from 0");
    }
    let param_idx = f.int(report, "paramIdx", 0, ANY_INT);
    let u32_field = |f: &mut Object<'_>, report: &mut Report<'_>, name, default| {
        u32::try_from(f.int(report, name, default, (0, I32_MAX))).unwrap_or_default()
    };
    let grade = u32_field(&mut f, report, "grade", 1);
    let queueing = u32_field(&mut f, report, "maxQueueingTimeMs", 0);
    let burst_count = u32_field(&mut f, report, "burstCount", 0);
    let duration_sec = f.int(report, "durationInSec", 1, (1, i64::MAX)).unsigned_abs();
    let items = items(&mut f, report);
    let cluster = cluster::config(&mut f, report, cluster::Of::Param);
    common.check_regex(&f, report, cluster.is_some());
    if let Some(config) = &cluster {
        common.warn_unused(&f, report);
        f.unused(report, "grade", grade != 1, "tokens are counted, not calls in progress");
        f.unused(report, "maxQueueingTimeMs", queueing != 0, "nobody waits");
        f.unused(report, "burstCount", burst_count != 0, "a value has its count and no more");
        let lasts = duration_sec != 1 && !has_local_window(config);
        f.unused(report, "durationInSec", lasts, "windowIntervalMs is the window");
    }
    f.warn_unknown(report, NO_MEANING);
    (report.errors.len() == before).then(|| ParamRule {
        behavior: common.behavior(),
        resource: common.resource,
        param_idx: i32::try_from(param_idx).unwrap_or_default(),
        count: common.count,
        grade,
        max_queueing_time_ms: queueing,
        burst_count,
        duration_sec,
        items,
        cluster,
    })
}

/// Whether a client that decides alone counts over `durationInSec`
/// ([`LocalParam`](crate::LocalParam)).
fn has_local_window(config: &ClusterConfig) -> bool {
    config.fallback == FallbackPolicy::Local
        && config.local_count.is_none()
        && config.unit == ThresholdUnit::Sentinel
}
