//! What a file says about one sequence: its rule, and the settings and the time it starts from.
//!
//! The rule goes the way of every rule: it is written as rule JSON, from the fields that the
//! vector has, and read by `rule::parse`. Nothing is guessed: a field that is missing, unknown or
//! unreadable is an error. Settings that a vector does not name are Sentinel's defaults, but for
//! the namespace's limit on requests, which the recordings were made without.

use limiter::{
    BUCKETS_MAX, Settings, WindowShape,
    rule::{ClusterConfig, Contents, NamespaceRules, ParamItem, Scope, parse},
};
use serde_json::{Value, json};

pub(crate) const FLOW_ID: i64 = 1;
pub(crate) const NAMESPACE: &str = "vectors";

/// One sequence without its steps.
pub(crate) struct Vector {
    pub(crate) set: NamespaceRules,
    pub(crate) rule: Rule,
    pub(crate) settings: Settings,
    pub(crate) t0_ms: u64,
}

/// The one rule of the set, as the model needs it.
pub(crate) struct Rule {
    pub(crate) is_flow: bool,
    pub(crate) count: f64,
    pub(crate) config: ClusterConfig,
    pub(crate) items: Vec<ParamItem>,
    /// No rule file can have its window.
    pub(crate) by_hand: bool,
}

impl Rule {
    pub(crate) fn is_per_client(&self) -> bool {
        self.config.scope == Scope::PerClient
    }
}

impl Vector {
    pub(crate) fn read(vector: &Value) -> Result<Self, String> {
        let contents = match vector["kind"].as_str() {
            Some("flow") => Contents::Flow,
            Some("param") => Contents::Param,
            _ => return Err(format!("kind is {}, not flow or param", vector["kind"])),
        };
        let (set, rule) = rule(&vector["rule"], contents)?;
        let sentinel = Settings::default();
        Ok(Self {
            set,
            rule,
            settings: Settings {
                exceed_count: setting(vector, "exceedCount")?.unwrap_or(sentinel.exceed_count),
                max_occupy_ratio: setting(vector, "maxOccupyRatio")?
                    .unwrap_or(sentinel.max_occupy_ratio),
                max_allowed_qps: setting(vector, "maxAllowedQps")?,
                ..sentinel
            },
            t0_ms: whole(vector, "t0_epoch_ms")?,
        })
    }
}

/// The vector's rule: parsed, but for a window with more buckets than a rule file may ask for.
fn rule(fields: &Value, contents: Contents) -> Result<(NamespaceRules, Rule), String> {
    let mut text = json!({"resource": "vector", "clusterMode": true});
    let mut config = json!({"flowId": FLOW_ID});
    for (name, value) in fields.as_object().ok_or("no object `rule`")? {
        match name.as_str() {
            "count" => text[name] = value.clone(),
            "paramFlowItemList" if contents == Contents::Param => text[name] = value.clone(),
            "thresholdType" | "windowIntervalMs" | "sampleCount" => config[name] = value.clone(),
            _ => return Err(format!("rule.{name} is not known")),
        }
    }
    whole(fields, "thresholdType")?;
    setting(fields, "count")?.ok_or("rule.count is missing")?;
    let (interval_ms, buckets) =
        (whole(fields, "windowIntervalMs")?, whole(fields, "sampleCount")?);
    let by_hand = buckets > u64::from(BUCKETS_MAX);
    if by_hand {
        config["sampleCount"] = json!(1);
    }
    if contents == Contents::Param {
        text["paramIdx"] = json!(0);
    }
    text["clusterConfig"] = config;
    let text = json!([text]).to_string();
    let parsed = parse(&text, "rule", NAMESPACE, contents, true).map_err(|e| e.to_string())?;
    let mut set = parsed.rules;
    let flow = set.flow.first_mut().map(|rule| (rule.count, &mut rule.cluster, Vec::new()));
    let param = set.param.first_mut();
    let param = param.map(|rule| (rule.count, &mut rule.cluster, rule.items.clone()));
    let (count, config, items) = flow.or(param).ok_or("no rule")?;
    let config = config.as_mut().ok_or("no cluster rule")?;
    if by_hand {
        let shape = u32::try_from(buckets).ok().and_then(|b| WindowShape::new(interval_ms, b));
        config.window = shape.ok_or("the window has no whole buckets")?;
    }
    let rule =
        Rule { is_flow: contents == Contents::Flow, count, config: config.clone(), items, by_hand };
    Ok((set, rule))
}

/// A number that may be absent; vectors write numbers as text or as they are.
fn setting(json: &Value, name: &str) -> Result<Option<f64>, String> {
    let number = match &json[name] {
        Value::Null => return Ok(None),
        Value::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    number.map(Some).ok_or(format!("{name} is {}, not a number", json[name]))
}

fn whole(json: &Value, name: &str) -> Result<u64, String> {
    let number = match &json[name] {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    number.ok_or(format!("{name} is {}, not a whole number", json[name]))
}
