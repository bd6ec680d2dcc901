//! What we made of a text.

use limiter::rule::{
    ClusterConfig, Contents, ControlBehavior, FallbackPolicy, FlowRule, Grade, ItemValue,
    ParamItem, ParamRule, Scope, Strategy, parse,
};
use serde_json::{Value, json};

/// The fields of the one rule, under Sentinel's names; `None` when the text is refused.
pub(super) fn fields(text: &str, contents: Contents) -> Option<Value> {
    let parsed = parse(&format!("[{text}]"), "table", "default", contents, false).ok()?;
    match contents {
        Contents::Flow => parsed.rules.flow.first().map(flow),
        Contents::Param | Contents::Mixed => parsed.rules.param.first().map(param),
    }
}

fn flow(rule: &FlowRule) -> Value {
    json!({
        "resource": rule.resource,
        "limitApp": rule.limit_app(),
        "regex": rule.regex,
        "count": rule.count,
        "grade": if rule.grade == Grade::Thread { 0 } else { 1 },
        "strategy": match rule.strategy {
            Strategy::Direct => 0,
            Strategy::Relate => 1,
            Strategy::Chain => 2,
        },
        "refResource": rule.ref_resource(),
        "controlBehavior": behavior(rule.behavior),
        "warmUpPeriodSec": rule.warm_up_period_sec,
        "maxQueueingTimeMs": rule.max_queueing_time_ms,
        "clusterConfig": rule.cluster.as_ref().map(|c| {
            let mut config = cluster(c);
            config["resourceTimeout"] = json!(c.resource_timeout_ms());
            config["clientOfflineTime"] = json!(c.client_offline_ms());
            config
        }),
    })
}

fn param(rule: &ParamRule) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for (i, item) in rule.items.iter().enumerate() {
        // The last of equal values counts.
        if !rule.items.iter().skip(i + 1).any(|later| later.value == item.value) {
            items.push(shown(item));
        }
    }
    items.sort_by_key(Value::to_string);
    json!({
        "resource": rule.resource,
        "paramIdx": rule.param_idx,
        "count": rule.count,
        "grade": rule.grade,
        "controlBehavior": behavior(rule.behavior),
        "maxQueueingTimeMs": rule.max_queueing_time_ms,
        "burstCount": rule.burst_count,
        "durationInSec": rule.duration_sec,
        "clusterConfig": rule.cluster.as_ref().map(cluster),
        "items": items,
    })
}

fn cluster(config: &ClusterConfig) -> Value {
    json!({
        "flowId": config.flow_id,
        "thresholdType": i32::from(config.scope == Scope::Global),
        "sampleCount": config.window.buckets(),
        "windowIntervalMs": config.window.interval_ms(),
        "fallbackToLocalWhenFail": config.fallback == FallbackPolicy::Local,
    })
}

fn behavior(behavior: ControlBehavior) -> i32 {
    match behavior {
        ControlBehavior::Reject => 0,
        ControlBehavior::WarmUp => 1,
        ControlBehavior::Pacing => 2,
        ControlBehavior::WarmUpPacing => 3,
    }
}

/// An item as the Java side shows it: class, value, count.
fn shown(item: &ParamItem) -> Value {
    let (class, value) = match &item.value {
        ItemValue::Int(v) => ("Integer", v.to_string()),
        ItemValue::Long(v) => ("Long", v.to_string()),
        ItemValue::Byte(v) => ("Byte", v.to_string()),
        ItemValue::Double(v) => ("Double", format!("{v:?}")),
        ItemValue::Float(v) => ("Float", format!("{v:?}")),
        ItemValue::Short(v) => ("Short", v.to_string()),
        ItemValue::Bool(v) => ("Boolean", v.to_string()),
        ItemValue::Str(v) => ("String", v.to_string()),
    };
    #[expect(clippy::cast_possible_truncation, reason = "a rule's item has an i32 for a count")]
    let count = item.count as i64;
    json!([class, value, count])
}
