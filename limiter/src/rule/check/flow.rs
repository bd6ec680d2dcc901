//! The flow rule.

use super::{
    ANY_INT, Common, I32_MAX, NO_MEANING,
    able::{self, Numbers},
    cluster::{Of, config},
};
use crate::rule::{
    COUNT_MAX, FlowRule, Grade, Strategy, flow::Names, object::Object, report::Report,
};

const WARM_UP_SEC: u32 = 10;
const QUEUEING_MS: u32 = 500;

/// Reads a flow rule; `None` when it is wrong (said in `report`).
pub(in crate::rule) fn flow_rule(mut f: Object<'_>, report: &mut Report<'_>) -> Option<FlowRule> {
    let before = report.errors.len();
    let common = Common::read(&mut f, report);
    let (grade, count) = threshold(&mut f, report);
    let strategy = f.int(report, "strategy", 0, (0, I32_MAX));
    let ref_resource = f.text(report, "refResource").filter(|name| !name.trim().is_empty());
    let warm_up = f.int(report, "warmUpPeriodSec", WARM_UP_SEC.into(), ANY_INT);
    let queueing = f.int(report, "maxQueueingTimeMs", QUEUEING_MS.into(), ANY_INT);
    let of = match grade {
        Grade::Thread => Of::Concurrency,
        Grade::Qps => Of::Flow(common.behavior()),
    };
    let numbers = Numbers { count, warm_up, items: &[] };
    let cluster = config(&mut f, report, of, &numbers);

    let shapes = |behaviors: &[i64]| grade == Grade::Qps && behaviors.contains(&common.behavior);
    if grade == Grade::Qps && matches!(strategy, 1 | 2) && ref_resource.is_none() {
        f.error(report, "refResource", "strategy 1 and 2 need the other resource's name");
    }
    if shapes(&[1, 3]) && warm_up < 1 {
        f.error(report, "warmUpPeriodSec", "controlBehavior 1 and 3 need at least 1");
    }
    if shapes(&[2, 3]) && queueing < 1 {
        f.error(report, "maxQueueingTimeMs", "controlBehavior 2 and 3 need at least 1");
    }
    common.check_regex(&f, report, cluster.is_some());
    if cluster.is_some() {
        common.warn_unused(&f, report);
        let never = "calls in progress neither wait nor warm up";
        let is_thread = grade == Grade::Thread;
        f.unused(report, "controlBehavior", is_thread && common.behavior != 0, never);
        if !is_thread && common.behavior > 3 {
            f.warn(report, "controlBehavior", "unknown; taken as 0 (refuse), as Sentinel does");
        }
        let by_id = "what asks with the flow id is counted";
        f.unused(report, "strategy", strategy != 0, by_id);
        f.unused(report, "refResource", ref_resource.is_some(), by_id);
        let is_set = !shapes(&[1, 3]) && warm_up != i64::from(WARM_UP_SEC);
        f.idle(report, "warmUpPeriodSec", is_set, "only controlBehavior 1 and 3 warm up");
        let is_set = !shapes(&[2, 3]) && queueing != i64::from(QUEUEING_MS);
        f.idle(report, "maxQueueingTimeMs", is_set, "only controlBehavior 2 and 3 queue calls");
    } else {
        let not_used =
            "not used with this grade and controlBehavior; its default stands in its place";
        if !shapes(&[1, 3]) && warm_up < 0 {
            f.warn(report, "warmUpPeriodSec", not_used);
        }
        if !shapes(&[2, 3]) && queueing < 0 {
            f.warn(report, "maxQueueingTimeMs", not_used);
        }
        able::check_local(&f, report, of.behavior(), &numbers);
        warn_local(&f, report, &common, grade, strategy, ref_resource.is_some());
    }
    f.warn_unknown(report, NO_MEANING);
    (report.errors.len() == before).then(|| FlowRule {
        behavior: common.behavior(),
        resource: common.resource,
        names: Names::kept(common.limit_app, ref_resource),
        regex: common.regex,
        grade,
        count,
        strategy: match strategy {
            1 => Strategy::Relate,
            2 => Strategy::Chain,
            _ => Strategy::Direct,
        },
        warm_up_period_sec: u32::try_from(warm_up).unwrap_or(WARM_UP_SEC),
        max_queueing_time_ms: u32::try_from(queueing).unwrap_or(QUEUEING_MS),
        cluster,
    })
}

/// What a rule without a server says and does not do.
fn warn_local(
    f: &Object<'_>,
    report: &mut Report<'_>,
    common: &Common,
    grade: Grade,
    strategy: i64,
    has_ref: bool,
) {
    if common.limit_app.as_deref().is_some_and(|name| name.contains(',')) {
        let remedy = "one origin, whose name has a comma; a rule for several needs one rule each";
        f.warn(report, "limitApp", remedy);
    }
    let is_shaped = grade == Grade::Thread && common.behavior != 0;
    f.idle(report, "controlBehavior", is_shaped, "calls in progress neither wait nor warm up");
    if grade == Grade::Qps && common.behavior > 3 {
        f.warn(report, "controlBehavior", "unknown; taken as 0 (refuse), as Sentinel does");
    }
    if strategy > 2 {
        f.warn(report, "strategy", "unknown; taken as 0 (the resource itself)");
    }
    if grade == Grade::Thread && matches!(strategy, 1 | 2) && !has_ref {
        let remedy = "without it strategy 1 and 2 compare nothing, and every call passes";
        f.warn(report, "refResource", remedy);
    }
}

/// `grade` and `count`.
fn threshold(f: &mut Object<'_>, report: &mut Report<'_>) -> (Grade, f64) {
    let grades = [(0, "calls in progress", Grade::Thread), (1, "calls per second", Grade::Qps)];
    let grade = f.code(report, "grade", Grade::Qps, &grades);
    let what = match grade {
        Grade::Thread => "calls in progress (grade 0)",
        Grade::Qps if f.gives("clusterConfig") => "tokens per second or window (grade 1)",
        Grade::Qps => "calls per second (grade 1)",
    };
    (grade, f.measure(report, "count", what, COUNT_MAX).unwrap_or(0.0))
}
