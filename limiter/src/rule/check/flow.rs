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
const NEVER_SHAPED: &str = "calls in progress neither wait nor warm up";

/// What a rule says beside its count and its cluster configuration.
struct Said {
    grade: Grade,
    behavior: i64,
    strategy: i64,
    has_ref: bool,
    warm_up: i64,
    queueing: i64,
}

/// Reads a flow rule; `None` when it is wrong (said in `report`).
pub(in crate::rule) fn flow_rule(mut f: Object<'_>, report: &mut Report<'_>) -> Option<FlowRule> {
    let before = report.errors.len();
    let common = Common::read(&mut f, report);
    let (grade, count) = threshold(&mut f, report);
    let strategy = f.int(report, "strategy", 0, (0, I32_MAX));
    let ref_resource = f.text(report, "refResource").filter(|name| !name.trim().is_empty());
    let seconds = i64::from(WARM_UP_SEC);
    let warm_up = f.int_of(report, "warmUpPeriodSec", "seconds", seconds, ANY_INT);
    let ms = i64::from(QUEUEING_MS);
    let queueing = f.int_of(report, "maxQueueingTimeMs", "milliseconds", ms, ANY_INT);
    let of = match grade {
        Grade::Thread => Of::Concurrency,
        Grade::Qps => Of::Flow(common.behavior()),
    };
    let numbers = Numbers { count, warm_up, items: &[] };
    let cluster = config(&mut f, report, of, &numbers);

    let has_ref = ref_resource.is_some();
    let said = Said { grade, behavior: common.behavior, strategy, has_ref, warm_up, queueing };
    said.check(&f, report);
    common.check_regex(&f, report, cluster.is_some());
    if cluster.is_some() {
        common.warn_unused(&f, report);
        said.warn_cluster(&f, report);
    } else {
        able::check_local(&f, report, of.behavior(), &numbers);
        said.warn_local(&f, report);
        if common.limit_app.as_deref().is_some_and(|name| name.contains(',')) {
            let remedy = "one origin, with a comma in its name; for several take a rule for each";
            f.warn(report, "limitApp", remedy);
        }
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

impl Said {
    fn is_thread(&self) -> bool {
        self.grade == Grade::Thread
    }

    fn warms_up(&self) -> bool {
        !self.is_thread() && matches!(self.behavior, 1 | 3)
    }

    fn queues(&self) -> bool {
        !self.is_thread() && matches!(self.behavior, 2 | 3)
    }

    /// Whether it compares with what it does not name.
    fn lacks_ref(&self) -> bool {
        matches!(self.strategy, 1 | 2) && !self.has_ref
    }

    fn check(&self, f: &Object<'_>, report: &mut Report<'_>) {
        if !self.is_thread() && self.lacks_ref() {
            f.error(report, "refResource", "strategy 1 and 2 need the other resource's name");
        }
        if self.warms_up() && self.warm_up < 1 {
            let remedy = "controlBehavior 1 and 3 (warm up) need at least 1 second";
            f.error(report, "warmUpPeriodSec", remedy);
        }
        if self.queues() && self.queueing < 1 {
            let remedy = "controlBehavior 2 and 3 (pacing) need at least 1 millisecond";
            f.error(report, "maxQueueingTimeMs", remedy);
        }
        if !self.is_thread() && self.behavior > 3 {
            f.warn(report, "controlBehavior", "unknown; taken as 0 (refuse), as Sentinel does");
        }
    }

    /// What a server does not look at.
    fn warn_cluster(&self, f: &Object<'_>, report: &mut Report<'_>) {
        let is_shaped = self.is_thread() && self.behavior != 0;
        f.unused(report, "controlBehavior", is_shaped, NEVER_SHAPED);
        let by_id = "what asks with the flow id is counted";
        f.unused(report, "strategy", self.strategy != 0, by_id);
        f.unused(report, "refResource", self.has_ref, by_id);
        let is_set = !self.warms_up() && self.warm_up != i64::from(WARM_UP_SEC);
        f.idle(report, "warmUpPeriodSec", is_set, "only controlBehavior 1 and 3 warm up");
        let is_set = !self.queues() && self.queueing != i64::from(QUEUEING_MS);
        f.idle(report, "maxQueueingTimeMs", is_set, "only controlBehavior 2 and 3 queue calls");
    }

    /// What a rule without a server does not do.
    fn warn_local(&self, f: &Object<'_>, report: &mut Report<'_>) {
        let is_shaped = self.is_thread() && self.behavior != 0;
        f.idle(report, "controlBehavior", is_shaped, NEVER_SHAPED);
        let not_used =
            "not used with this grade and controlBehavior; its default stands in its place";
        if !self.warms_up() && self.warm_up < 0 {
            f.warn(report, "warmUpPeriodSec", not_used);
        }
        if !self.queues() && self.queueing < 0 {
            f.warn(report, "maxQueueingTimeMs", not_used);
        }
        if self.strategy > 2 {
            f.warn(report, "strategy", "unknown; taken as 0 (the resource itself)");
        }
        if self.is_thread() && self.lacks_ref() {
            let remedy = "without it strategy 1 and 2 compare nothing, and every call passes";
            f.warn(report, "refResource", remedy);
        }
    }
}
