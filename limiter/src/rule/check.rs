//! From one JSON object to one rule: defaults, validity (`FlowRuleUtil.isValidRule`,
//! `ParamFlowRuleUtil.isValidRule`) and our fields. Every mistake of the rule is reported, not
//! only the first.

use serde_json::{Map, Value};

use super::{
    ClusterConfig, ControlBehavior, FallbackPolicy, FlowRule, Grade, ItemValue, OverloadPolicy,
    ParamItem, ParamRule, Scope, Strategy, ThresholdUnit,
    fields::{Fields, Report, as_int, shown},
};
use crate::{BUCKETS_MAX, INTERVAL_MS_MAX, WindowShape};

const I32_MAX: i64 = i32::MAX as i64;

/// What the dashboard adds to a rule, and Sentinel's own fields that decide nothing.
const NO_MEANING: &[&str] =
    &["id", "app", "ip", "port", "gmtCreate", "gmtModified", "limitApp", "regex", "$type", "@type"];

/// Reads a flow rule; `None` when it is wrong (said in `report`).
pub(super) fn flow_rule(object: Map<String, Value>, report: &mut Report<'_>) -> Option<FlowRule> {
    let before = report.errors.len();
    let mut f = Fields::new("", object);
    let resource = resource(&mut f, report);
    let limit_app = f.text(report, "limitApp").filter(|s| !s.trim().is_empty());
    let regex = f.bool(report, "regex", false);
    let grade = match f.int(report, "grade", 1, (0, 1)) {
        0 => Grade::Thread,
        _ => Grade::Qps,
    };
    let count = f.threshold(report, "count").unwrap_or(0.0);
    let strategy = match f.int(report, "strategy", 0, (0, I32_MAX)) {
        1 => Strategy::Relate,
        2 => Strategy::Chain,
        _ => Strategy::Direct,
    };
    let ref_resource = f.text(report, "refResource").filter(|s| !s.trim().is_empty());
    let behavior = behavior(&mut f, report);
    let warm_up_period_sec = u32_field(&mut f, report, "warmUpPeriodSec", 10);
    let max_queueing_time_ms = u32_field(&mut f, report, "maxQueueingTimeMs", 500);
    let cluster = cluster(&mut f, report, grade, true);
    if grade == Grade::Qps {
        if strategy != Strategy::Direct && ref_resource.is_none() {
            report.error("refResource", "", "strategy 1 and 2 need the other resource's name");
        }
        use ControlBehavior::{Pacing, WarmUp, WarmUpPacing};
        if matches!(behavior, WarmUp | WarmUpPacing) && warm_up_period_sec == 0 {
            report.error("warmUpPeriodSec", "0", "controlBehavior 1 and 3 need at least 1");
        }
        if matches!(behavior, Pacing | WarmUpPacing) && max_queueing_time_ms == 0 {
            report.error("maxQueueingTimeMs", "0", "controlBehavior 2 and 3 need at least 1");
        }
    }
    regex_allows(report, regex, cluster.is_some(), behavior);
    f.warn_unknown(report, NO_MEANING);
    (report.errors.len() == before).then(|| FlowRule {
        resource,
        limit_app: limit_app.unwrap_or_else(|| "default".into()),
        regex,
        grade,
        count,
        strategy,
        ref_resource,
        behavior,
        warm_up_period_sec,
        max_queueing_time_ms,
        cluster,
    })
}

/// Reads a hot-parameter rule; `None` when it is wrong (said in `report`).
pub(super) fn param_rule(object: Map<String, Value>, report: &mut Report<'_>) -> Option<ParamRule> {
    let before = report.errors.len();
    let mut f = Fields::new("", object);
    let resource = resource(&mut f, report);
    let regex = f.bool(report, "regex", false);
    if !f.has("paramIdx") {
        report.error("paramIdx", "", "required: the index of the argument, from 0");
    }
    let param_idx = f.int(report, "paramIdx", 0, (-I32_MAX, I32_MAX));
    let count = f.threshold(report, "count").unwrap_or(0.0);
    let grade = u32_field(&mut f, report, "grade", 1);
    let behavior = behavior(&mut f, report);
    let max_queueing_time_ms = u32_field(&mut f, report, "maxQueueingTimeMs", 0);
    let burst_count = u32_field(&mut f, report, "burstCount", 0);
    let duration_sec = f.int(report, "durationInSec", 1, (1, I32_MAX)).unsigned_abs();
    let items = items(&mut f, report);
    let cluster = cluster(&mut f, report, Grade::Qps, false);
    regex_allows(report, regex, cluster.is_some(), behavior);
    f.warn_unknown(report, NO_MEANING);
    (report.errors.len() == before).then(|| ParamRule {
        resource,
        param_idx: i32::try_from(param_idx).unwrap_or_default(),
        count,
        grade,
        behavior,
        max_queueing_time_ms,
        burst_count,
        duration_sec,
        items,
        cluster,
    })
}

fn resource(f: &mut Fields, report: &mut Report<'_>) -> Box<str> {
    let resource = f.text(report, "resource").unwrap_or_default();
    if resource.trim().is_empty() {
        let value = if resource.is_empty() { String::new() } else { format!("{resource:?}") };
        report.error("resource", &value, "required: the name of what is protected");
    }
    resource
}

fn behavior(f: &mut Fields, report: &mut Report<'_>) -> ControlBehavior {
    match f.int(report, "controlBehavior", 0, (0, I32_MAX)) {
        1 => ControlBehavior::WarmUp,
        2 => ControlBehavior::Pacing,
        3 => ControlBehavior::WarmUpPacing,
        _ => ControlBehavior::Reject,
    }
}

fn u32_field(f: &mut Fields, report: &mut Report<'_>, name: &str, default: i64) -> u32 {
    u32::try_from(f.int(report, name, default, (0, I32_MAX))).unwrap_or_default()
}

fn regex_allows(report: &mut Report<'_>, regex: bool, cluster: bool, behavior: ControlBehavior) {
    if regex && cluster {
        report.error(
            "regex",
            "true",
            "a cluster rule cannot be a pattern; use one rule a resource",
        );
    }
    if regex && behavior != ControlBehavior::Reject {
        report.error("regex", "true", "a pattern needs controlBehavior 0");
    }
}

/// `clusterMode` and `clusterConfig`; `None` for a local rule.
fn cluster(
    f: &mut Fields,
    report: &mut Report<'_>,
    grade: Grade,
    flow: bool,
) -> Option<ClusterConfig> {
    let on = f.bool(report, "clusterMode", false);
    let config = f.take("clusterConfig");
    if !on {
        return None;
    }
    let object = match config {
        Some(Value::Object(object)) => object,
        other => {
            let value = other.as_ref().map(shown).unwrap_or_default();
            report.error("clusterConfig", &value, "clusterMode needs it: {\"flowId\": …}");
            return None;
        }
    };
    let mut c = Fields::new("clusterConfig.", object);
    if !c.has("flowId") {
        report.error("clusterConfig.flowId", "", "required: a positive number, unique");
    }
    let flow_id = c.int(report, "flowId", 1, (1, i64::MAX));
    let scope = scope(&mut c, report);
    let window = window(&mut c, report);
    let unit = c.choice(
        report,
        "thresholdUnit",
        ThresholdUnit::Sentinel,
        &[("sentinel", ThresholdUnit::Sentinel), ("window", ThresholdUnit::Window)],
    );
    let strategy_max = if grade == Grade::Qps && flow { 0 } else { I32_MAX };
    c.int(report, "strategy", 0, (0, strategy_max));
    c.int(report, "acquireRefuseStrategy", 0, (0, I32_MAX));
    c.int(report, "resourceTimeoutStrategy", 0, (0, I32_MAX));
    let least = i64::from(grade == Grade::Thread);
    let resource_timeout = c.int(report, "resourceTimeout", 2_000, (least, I32_MAX));
    let client_offline = c.int(report, "clientOfflineTime", 2_000, (least, I32_MAX));
    // Sentinel's defaults differ: true for flow rules, false for hot-parameter rules.
    let local = c.bool(report, "fallbackToLocalWhenFail", flow);
    let config = ClusterConfig {
        flow_id,
        scope,
        window,
        unit,
        local_count: c.threshold(report, "localCount"),
        fallback: c.choice(
            report,
            "fallbackPolicy",
            if local { FallbackPolicy::Local } else { FallbackPolicy::Pass },
            &[
                ("local", FallbackPolicy::Local),
                ("share", FallbackPolicy::Share),
                ("pass", FallbackPolicy::Pass),
                ("block", FallbackPolicy::Block),
            ],
        ),
        overload: c.choice(
            report,
            "overloadPolicy",
            OverloadPolicy::Local,
            &[
                ("reject", OverloadPolicy::Reject),
                ("share", OverloadPolicy::Share),
                ("local", OverloadPolicy::Local),
            ],
        ),
        resource_timeout_ms: u32::try_from(resource_timeout).unwrap_or_default(),
        client_offline_ms: u32::try_from(client_offline).unwrap_or_default(),
    };
    c.warn_unknown(report, NO_MEANING);
    Some(config)
}

fn scope(c: &mut Fields, report: &mut Report<'_>) -> Scope {
    match c.int(report, "thresholdType", 0, (i64::from(i32::MIN), I32_MAX)) {
        1 => Scope::Global,
        0 => Scope::PerClient,
        other => {
            let remedy = "unknown; taken as 0 (average per client), as Sentinel does";
            report.warn("clusterConfig.thresholdType", &other.to_string(), remedy);
            Scope::PerClient
        }
    }
}

fn window(c: &mut Fields, report: &mut Report<'_>) -> WindowShape {
    let before = report.errors.len();
    let buckets = c.int(report, "sampleCount", 10, (1, i64::from(BUCKETS_MAX)));
    let interval_max = i64::try_from(INTERVAL_MS_MAX).unwrap_or(i64::MAX);
    let interval = c.int(report, "windowIntervalMs", 1_000, (1, interval_max));
    let shape = WindowShape::new(interval.unsigned_abs(), u32::try_from(buckets).unwrap_or(1));
    if report.errors.len() > before {
        return WindowShape::SECOND;
    }
    shape.unwrap_or_else(|| {
        let remedy = format!("must be a multiple of sampleCount ({buckets})");
        report.error("clusterConfig.windowIntervalMs", &interval.to_string(), &remedy);
        WindowShape::SECOND
    })
}

/// `paramFlowItemList`. Bad items are dropped with a warning, as Sentinel does.
fn items(f: &mut Fields, report: &mut Report<'_>) -> Vec<ParamItem> {
    let list = match f.take("paramFlowItemList") {
        None => return Vec::new(),
        Some(Value::Array(list)) => list,
        Some(other) => {
            report.error("paramFlowItemList", &shown(&other), "must be a list");
            return Vec::new();
        }
    };
    let mut items: Vec<ParamItem> = Vec::new();
    for (i, entry) in list.into_iter().enumerate() {
        match item(&entry) {
            Some(item) => items.push(item),
            None => report.warn(
                &format!("paramFlowItemList[{i}]"),
                &shown(&entry),
                "dropped: needs an object that its classType can hold and a count of at least 0",
            ),
        }
    }
    items
}

fn item(entry: &Value) -> Option<ParamItem> {
    let Value::Object(object) = entry else { return None };
    let mut f = Fields::new("", object.clone());
    let object = match f.take("object")? {
        Value::String(s) => s,
        other @ (Value::Number(_) | Value::Bool(_)) => shown(&other),
        _ => return None,
    };
    let class = f.take("classType");
    let class = class.as_ref().and_then(Value::as_str).unwrap_or_default();
    let count = u32::try_from(as_int(&f.take("count")?)?).ok()?;
    Some(ParamItem { value: ItemValue::parse(&object, class.trim())?, count: f64::from(count) })
}
