//! Replays decision vectors: sequences of requests with what Sentinel's own classes answered.
//!
//! Each step is compared with the vector up to the first `SHOULD_WAIT` of either side, the first
//! step of the clock backwards, the first flood of one-shot values that Sentinel forgets counters
//! over, or the first request with a value twice that Sentinel answers otherwise. From there on,
//! that step included, the slow model is the reference: those are the places where Tollgate is
//! right and Sentinel is not (ARCHITECTURE, "Differences from Sentinel").

use std::{borrow::Cow, collections::BTreeMap};

use limiter::{
    ClusterEngine, Decision, Param, Settings, Tick, Undecided, WindowShape,
    rule::{
        ClusterConfig, FallbackPolicy, FlowRule, ItemValue, NamespaceRules, OverloadPolicy,
        ParamItem, ParamRule, Scope, ThresholdUnit,
    },
};
use serde_json::Value;

use super::model::{self, Answer, OK, SHOULD_WAIT};

const TOO_MANY: i64 = -2;
const BAD_REQUEST: i64 = -4;
const NO_RULE: i64 = 3;
const FLOW_ID: i64 = 1;
const NAMESPACE: &str = "vectors";

/// What a file gave.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sequences: usize,
    pub(crate) steps: usize,
    /// Steps that had the slow model for reference.
    pub(crate) by_model: usize,
    /// One line each.
    pub(crate) differences: Vec<String>,
}

/// Replays every sequence of `text`.
pub(crate) fn replay(text: &str) -> Result<Outcome, String> {
    let file: Value = serde_json::from_str(text).map_err(|e| format!("not JSON: {e}"))?;
    let vectors = file["vectors"].as_array().ok_or("no list `vectors`")?;
    let mut outcome = Outcome::default();
    for vector in vectors {
        let name = vector["name"].as_str().unwrap_or("(no name)");
        let mut sequence = Sequence::new(vector).map_err(|e| format!("{name}: {e}"))?;
        outcome.sequences += 1;
        for (i, step) in vector["steps"].as_array().ok_or("no list `steps`")?.iter().enumerate() {
            let found = sequence.step(step).map_err(|e| format!("{name}, step {i}: {e}"))?;
            outcome.steps += 1;
            if let Some(difference) = found {
                outcome.differences.push(format!("{name}, step {i} {step}: {difference}"));
            }
        }
        outcome.by_model += sequence.by_model;
        outcome.differences.extend(sequence.overfull().map(|what| format!("{name}: {what}")));
    }
    Ok(outcome)
}

/// The rule of one sequence in the engine and in the model, and where the comparison stands.
struct Sequence {
    engine: ClusterEngine,
    members: BTreeMap<String, limiter::Membership>,
    rule: Rule,
    window: model::Window,
    values: BTreeMap<(String, String), model::Window>,
    guard: model::Window,
    fresh: model::Window,
    last_ms: u64,
    /// Whether the vector is still the reference.
    by_vector: bool,
    by_model: usize,
}

struct Rule {
    flow: bool,
    t0: u64,
    count: f64,
    per_client: bool,
    exceed: f64,
    occupy_ratio: f64,
    max_qps: Option<f64>,
    items: Vec<ParamItem>,
}

impl Sequence {
    fn new(vector: &Value) -> Result<Self, String> {
        let json = &vector["rule"];
        let number = |v: &Value| match v {
            Value::String(s) => s.parse::<f64>().ok(),
            other => other.as_f64(),
        };
        let items = json["paramFlowItemList"].as_array().cloned().unwrap_or_default();
        let rule = Rule {
            flow: vector["kind"] == "flow",
            t0: number(&vector["t0_epoch_ms"]).ok_or("t0_epoch_ms")? as u64,
            count: number(&json["count"]).ok_or("count")?,
            per_client: json["thresholdType"] != 1,
            exceed: number(&vector["exceedCount"]).unwrap_or(1.0),
            occupy_ratio: number(&vector["maxOccupyRatio"]).unwrap_or(1.0),
            max_qps: number(&vector["maxAllowedQps"]),
            items: items.iter().filter_map(item).collect(),
        };
        let interval_ms = json["windowIntervalMs"].as_u64().ok_or("windowIntervalMs")?;
        let buckets = json["sampleCount"].as_u64().ok_or("sampleCount")?;
        let shape = u32::try_from(buckets).ok().and_then(|b| WindowShape::new(interval_ms, b));
        let config = ClusterConfig {
            flow_id: FLOW_ID,
            scope: if rule.per_client { Scope::PerClient } else { Scope::Global },
            window: shape.ok_or("the window has no whole buckets")?,
            unit: ThresholdUnit::Sentinel,
            local_count: None,
            fallback: FallbackPolicy::Local,
            overload: OverloadPolicy::Local,
            resource_timeout_ms: 2_000,
            client_offline_ms: 2_000,
        };
        let engine = ClusterEngine::new(Settings {
            exceed_count: rule.exceed,
            max_occupy_ratio: rule.occupy_ratio,
            max_allowed_qps: rule.max_qps,
            ..Settings::default()
        });
        engine.replace(vec![rules(&rule, config)]).map_err(|e| e.to_string())?;
        let fresh = model::Window::new(interval_ms, buckets, interval_ms as f64 / 1_000.0);
        Ok(Self {
            engine,
            members: BTreeMap::new(),
            rule,
            window: fresh.clone(),
            values: BTreeMap::new(),
            guard: model::Window::new(1_000, 10, 1.0),
            fresh,
            last_ms: 0,
            by_vector: true,
            by_model: 0,
        })
    }

    /// Takes one step on both sides; what differs, if anything does.
    fn step(&mut self, step: &Value) -> Result<Option<String>, String> {
        if let Some(action) = step["action"].as_str() {
            return self.action(action).map(|()| None);
        }
        let int = |i: usize| step[i].as_i64().ok_or(format!("column {i} is no whole number"));
        let (offset, count) = (int(0)?, i32::try_from(int(1)?).map_err(|e| e.to_string())?);
        let now_ms = self.rule.t0.checked_add_signed(offset).ok_or("time before the epoch")?;
        let vector = Answer { status: int(3)?, remaining: int(4)?, wait_ms: int(5)? };
        let (ours, slow, twice) = if self.rule.flow {
            let prioritized = step[2].as_i64().map_or(step[2].as_bool(), |n| Some(n != 0));
            let prioritized = prioritized.ok_or("column 2 is no flag")?;
            let (ours, slow) = self.flow(now_ms, count, prioritized);
            (ours, slow, false)
        } else {
            self.param(now_ms, count, &values(&step[2])?)
        };
        if now_ms < self.last_ms
            || [ours.status, vector.status].contains(&SHOULD_WAIT)
            || (twice && slow != vector)
        {
            self.by_vector = false;
        }
        self.last_ms = now_ms;
        if !self.by_vector {
            self.by_model += 1;
            return Ok((ours != slow).then(|| format!("got {ours:?}, the model says {slow:?}")));
        }
        if ours != vector {
            return Ok(Some(format!("got {ours:?}, Sentinel answered {vector:?}")));
        }
        if let (true, Some(sum)) = (self.rule.flow, step[6].as_u64()) {
            let rules = self.engine.rules();
            let (used, _) = rules.flow(FLOW_ID).map(|f| f.usage(tick(now_ms))).unwrap_or_default();
            return Ok((used != sum).then(|| format!("{used} tokens in the window, not {sum}")));
        }
        Ok(None)
    }

    /// Says so if a window of the flow rule admitted more than the rule allows.
    fn overfull(&self) -> Option<String> {
        let seconds = self.fresh.seconds().max(1.0);
        let most = self.rule.count * self.rule.exceed * seconds;
        let fullest = self.window.fullest();
        let over = self.rule.flow && !self.rule.per_client && fullest as f64 > most;
        over.then(|| format!("{fullest} tokens in one window, of which {most} are allowed"))
    }

    fn action(&mut self, action: &str) -> Result<(), String> {
        if let Some(name) = action.strip_prefix("connect ") {
            let member = self.engine.join(NAMESPACE).map_err(|e| e.to_string())?;
            self.members.insert(name.into(), member);
        } else if let Some(name) = action.strip_prefix("disconnect ") {
            self.members.remove(name);
        } else if action.starts_with("4000 requests") {
            let offset = action.split("t=").nth(1).and_then(|rest| rest.split(' ').next());
            let offset: u64 = offset.and_then(|t| t.parse().ok()).ok_or("no time in the action")?;
            for i in 1..=4_000 {
                let value = vec![("t".to_owned(), format!("v{i}"))];
                let (ours, slow, _) = self.param(self.rule.t0 + offset, 1, &value);
                if (ours.status, slow.status) != (OK, OK) {
                    return Err(format!("value v{i}: got {ours:?}, the model says {slow:?}"));
                }
            }
            self.by_vector = false;
        } else {
            return Err(format!("unknown action {action}"));
        }
        Ok(())
    }

    fn threshold(&self, count: f64) -> f64 {
        if self.rule.per_client { count * self.members.len() as f64 } else { count }
    }

    fn flow(&mut self, now_ms: u64, count: i32, prioritized: bool) -> (Answer, Answer) {
        let rules = self.engine.rules();
        let ours = answer(rules.acquire_flow(tick(now_ms), FLOW_ID, count, prioritized), false);
        let threshold = self.threshold(self.rule.count) * self.rule.exceed;
        let slow = match u64::try_from(count) {
            Ok(tokens) if tokens > 0 => {
                if self.rule.max_qps.is_some_and(|q| !model::guard(&mut self.guard, now_ms, q)) {
                    Answer::of(TOO_MANY)
                } else {
                    let ratio = self.rule.occupy_ratio;
                    model::flow(&mut self.window, now_ms, tokens, prioritized, threshold, ratio)
                }
            }
            _ => Answer::of(BAD_REQUEST),
        };
        (ours, slow)
    }

    fn param(
        &mut self,
        now_ms: u64,
        count: i32,
        values: &[(String, String)],
    ) -> (Answer, Answer, bool) {
        let params: Vec<Param<'_>> = values.iter().filter_map(param).collect();
        let rules = self.engine.rules();
        let decided = rules.acquire_param(tick(now_ms), FLOW_ID, count, params.iter().cloned());
        let ours = answer(decided, values.len() > 1);
        let keys: Vec<(String, String)> =
            params.iter().map(|p| (tag(p).into(), canonical(p))).collect();
        let mut windows = std::mem::take(&mut self.values);
        let own = |key: &(String, String)| {
            let item = self.rule.items.iter().rfind(|item| {
                let param = item_param(&item.value);
                (tag(&param), canonical(&param)) == (key.0.as_str(), key.1.clone())
            });
            self.threshold(item.map_or(self.rule.count, |item| item.count))
        };
        let slow = match u64::try_from(count) {
            Ok(tokens) if tokens > 0 && !keys.is_empty() => {
                model::param(&mut windows, &self.fresh, now_ms, tokens, &keys, own)
            }
            _ => Answer::of(BAD_REQUEST),
        };
        self.values = windows;
        let twice = keys.iter().enumerate().any(|(i, key)| keys[..i].contains(key));
        (ours, slow, twice)
    }
}

fn rules(rule: &Rule, config: ClusterConfig) -> NamespaceRules {
    let mut set = NamespaceRules { namespace: NAMESPACE.into(), ..NamespaceRules::default() };
    if rule.flow {
        set.flow.push(FlowRule {
            resource: "vector".into(),
            limit_app: "default".into(),
            regex: false,
            grade: limiter::rule::Grade::Qps,
            count: rule.count,
            strategy: limiter::rule::Strategy::Direct,
            ref_resource: None,
            behavior: limiter::rule::ControlBehavior::Reject,
            warm_up_period_sec: 10,
            max_queueing_time_ms: 500,
            cluster: Some(config),
        });
    } else {
        set.param.push(ParamRule {
            resource: "vector".into(),
            param_idx: 0,
            count: rule.count,
            grade: 1,
            behavior: limiter::rule::ControlBehavior::Reject,
            max_queueing_time_ms: 0,
            burst_count: 0,
            duration_sec: 1,
            items: rule.items.clone(),
            cluster: Some(config),
        });
    }
    set
}

fn tick(ms: u64) -> Tick {
    Tick::from_ms(ms)
}

/// A decision in the words of the vectors, as the server puts it on the wire.
fn answer(decided: Result<Decision, Undecided>, several: bool) -> Answer {
    match decided {
        Ok(Decision::Pass { .. }) if several => Answer { status: OK, remaining: -1, wait_ms: 0 },
        Ok(Decision::Pass { remaining }) => {
            let remaining = i64::from(i32::try_from(remaining).unwrap_or(i32::MAX));
            Answer { status: OK, remaining, wait_ms: 0 }
        }
        Ok(Decision::Wait { wait }) => {
            let wait_ms = wait.as_nanos().div_ceil(1_000_000) as i64;
            Answer { status: SHOULD_WAIT, remaining: 0, wait_ms }
        }
        Ok(Decision::Block) => Answer::of(model::BLOCKED),
        Err(Undecided::BadRequest) => Answer::of(BAD_REQUEST),
        Err(Undecided::NoRule) => Answer::of(NO_RULE),
        Err(Undecided::TooManyRequests) => Answer::of(TOO_MANY),
    }
}

fn item(json: &Value) -> Option<ParamItem> {
    let class = json["classType"].as_str().unwrap_or_default();
    let count = u32::try_from(json["count"].as_i64()?).ok()?;
    let value = ItemValue::parse(json["object"].as_str()?, class)?;
    Some(ParamItem { value, count: f64::from(count) })
}

fn values(list: &Value) -> Result<Vec<(String, String)>, String> {
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), Into::into);
    let list = list.as_array().ok_or("column 2 is no list of values")?;
    Ok(list.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect())
}

fn param((tag, text): &(String, String)) -> Option<Param<'_>> {
    Some(match tag.as_str() {
        "i" => Param::Int(text.parse().ok()?),
        "l" => Param::Long(text.parse().ok()?),
        "b" => Param::Byte(text.parse().ok()?),
        "d" => Param::Double(text.parse().ok()?),
        "f" => Param::Float(text.parse().ok()?),
        "s" => Param::Short(text.parse().ok()?),
        "z" => Param::Bool(text == "true"),
        "t" => Param::Str(Cow::Borrowed(text)),
        _ => return None,
    })
}

fn item_param(value: &ItemValue) -> Param<'_> {
    match value {
        ItemValue::Int(v) => Param::Int(*v),
        ItemValue::Long(v) => Param::Long(*v),
        ItemValue::Byte(v) => Param::Byte(*v),
        ItemValue::Double(v) => Param::Double(*v),
        ItemValue::Float(v) => Param::Float(*v),
        ItemValue::Short(v) => Param::Short(*v),
        ItemValue::Bool(v) => Param::Bool(*v),
        ItemValue::Str(v) => Param::Str(Cow::Borrowed(v)),
    }
}

fn tag(param: &Param<'_>) -> &'static str {
    match param {
        Param::Int(_) => "i",
        Param::Long(_) => "l",
        Param::Byte(_) => "b",
        Param::Double(_) => "d",
        Param::Float(_) => "f",
        Param::Short(_) => "s",
        Param::Bool(_) => "z",
        Param::Str(_) => "t",
    }
}

/// Text that is equal exactly when Java's boxed values are: one NaN, two zeros.
fn canonical(param: &Param<'_>) -> String {
    match param {
        Param::Double(v) if v.is_nan() => "nan".into(),
        Param::Float(v) if v.is_nan() => "nan".into(),
        Param::Double(v) => format!("{:x}", v.to_bits()),
        Param::Float(v) => format!("{:x}", v.to_bits()),
        other => format!("{other:?}"),
    }
}
