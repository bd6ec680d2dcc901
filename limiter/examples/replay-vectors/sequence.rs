//! One sequence, step by step, in the engine and in the model.

use std::collections::BTreeMap;

use limiter::{ClusterEngine, Decision, Membership, Param, Tick, Undecided};
use serde_json::Value;

use super::{
    model::{self, Answer, OK, SHOULD_WAIT},
    values::{self, Key},
    vector::{FLOW_ID, NAMESPACE, Vector},
};

const TOO_MANY: i64 = -2;
const BAD_REQUEST: i64 = -4;
const NO_RULE: i64 = 3;

/// The rule of one sequence in the engine and in the model, and where the comparison stands.
pub(crate) struct Sequence {
    vector: Vector,
    engine: ClusterEngine,
    members: BTreeMap<String, Membership>,
    window: model::Window,
    values: BTreeMap<Key, model::Window>,
    guard: model::Window,
    fresh: model::Window,
    last_ms: u64,
    /// Whether the vector is still the reference.
    by_vector: bool,
    pub(crate) by_model: usize,
}

/// What a step was answered.
struct Answers {
    ours: Answer,
    slow: Answer,
    /// Whether one value was asked for twice.
    twice: bool,
}

impl Sequence {
    pub(crate) fn new(json: &Value) -> Result<Self, String> {
        let vector = Vector::read(json)?;
        let engine = ClusterEngine::new(vector.settings);
        engine.replace(vec![vector.set.clone()]).map_err(|e| e.to_string())?;
        let window = vector.rule.config.window;
        let (interval_ms, buckets) = (window.interval_ms(), window.buckets().into());
        let fresh = model::Window::new(interval_ms, buckets, interval_ms as f64 / 1_000.0);
        Ok(Self {
            vector,
            engine,
            members: BTreeMap::new(),
            window: fresh.clone(),
            values: BTreeMap::new(),
            guard: model::Window::new(1_000, 10, 1.0),
            fresh,
            last_ms: 0,
            by_vector: true,
            by_model: 0,
        })
    }

    /// Whether the rule could not be read from JSON.
    pub(crate) fn by_hand(&self) -> bool {
        self.vector.rule.by_hand
    }

    /// Takes one step on both sides; what differs, if anything does.
    pub(crate) fn step(&mut self, step: &Value) -> Result<Option<String>, String> {
        if step.is_object() {
            let action = step["action"].as_str().ok_or("no action")?;
            return self.action(action).map(|()| None);
        }
        let int = |i: usize| step[i].as_i64().ok_or(format!("column {i} is no whole number"));
        let (offset, count) = (int(0)?, i32::try_from(int(1)?).map_err(|e| e.to_string())?);
        let now_ms = self.vector.t0_ms.checked_add_signed(offset).ok_or("time before the epoch")?;
        let vector = Answer { status: int(3)?, remaining: int(4)?, wait_ms: int(5)? };
        let is_flow = self.vector.rule.is_flow;
        let answers = if is_flow {
            let prioritized = match int(2)? {
                0 => false,
                1 => true,
                _ => return Err("column 2 is no flag".into()),
            };
            self.flow(now_ms, count, prioritized)
        } else {
            self.param(now_ms, count, &values::read(&step[2])?)
        };
        let Answers { ours, slow, twice } = answers;
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
        if !is_flow || step[6].is_null() {
            return Ok(None);
        }
        let sum = step[6].as_u64().ok_or("column 6 is no number of tokens")?;
        let rules = self.engine.rules();
        let (used, _) = rules.flow(FLOW_ID).ok_or("the rule is gone")?.usage(tick(now_ms));
        Ok((used != sum).then(|| format!("{used} tokens in the window, not {sum}")))
    }

    /// Says so if a window of the flow rule admitted more than the rule allows.
    pub(crate) fn overfull(&self) -> Option<String> {
        let rule = &self.vector.rule;
        let seconds = self.fresh.seconds().max(1.0);
        let most = rule.count * self.vector.settings.exceed_count * seconds;
        let fullest = self.window.fullest();
        let over = rule.is_flow && !rule.is_per_client() && fullest as f64 > most;
        over.then(|| format!("{fullest} tokens in one window, of which {most} are allowed"))
    }

    fn action(&mut self, action: &str) -> Result<(), String> {
        if let Some(name) = action.strip_prefix("connect ") {
            let member = self.engine.join(NAMESPACE).map_err(|e| e.to_string())?;
            self.members.insert(name.into(), member);
        } else if let Some(name) = action.strip_prefix("disconnect ") {
            self.members.remove(name).ok_or(format!("{name} is not connected"))?;
        } else if action.starts_with("4000 requests") {
            let offset = action.split("t=").nth(1).and_then(|rest| rest.split(' ').next());
            let offset: u64 = offset.and_then(|t| t.parse().ok()).ok_or("no time in the action")?;
            for i in 1..=4_000 {
                let value = [Param::Str(format!("v{i}").into())];
                let Answers { ours, slow, .. } = self.param(self.vector.t0_ms + offset, 1, &value);
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
        if self.vector.rule.is_per_client() { count * self.members.len() as f64 } else { count }
    }

    fn flow(&mut self, now_ms: u64, count: i32, prioritized: bool) -> Answers {
        let rules = self.engine.rules();
        let ours = answer(rules.acquire_flow(tick(now_ms), FLOW_ID, count, prioritized), false);
        let settings = self.vector.settings;
        let threshold = self.threshold(self.vector.rule.count) * settings.exceed_count;
        let slow = match u64::try_from(count) {
            Ok(tokens) if tokens > 0 => {
                let max_qps = settings.max_allowed_qps;
                if max_qps.is_some_and(|max| !model::guard(&mut self.guard, now_ms, max)) {
                    Answer::of(TOO_MANY)
                } else {
                    let ratio = settings.max_occupy_ratio;
                    model::flow(&mut self.window, now_ms, tokens, prioritized, threshold, ratio)
                }
            }
            _ => Answer::of(BAD_REQUEST),
        };
        Answers { ours, slow, twice: false }
    }

    fn param(&mut self, now_ms: u64, count: i32, params: &[Param<'_>]) -> Answers {
        let rules = self.engine.rules();
        let decided = rules.acquire_param(tick(now_ms), FLOW_ID, count, params.iter().cloned());
        let ours = answer(decided, params.len() > 1);
        let keys: Vec<Key> = params.iter().map(values::key).collect();
        let mut windows = std::mem::take(&mut self.values);
        let own = |key: &Key| {
            let rule = &self.vector.rule;
            let item = rule.items.iter().rfind(|item| values::item_key(&item.value) == *key);
            self.threshold(item.map_or(rule.count, |item| item.count))
        };
        let slow = match u64::try_from(count) {
            Ok(tokens) if tokens > 0 && !keys.is_empty() => {
                model::param(&mut windows, &self.fresh, now_ms, tokens, &keys, own)
            }
            _ => Answer::of(BAD_REQUEST),
        };
        self.values = windows;
        let twice = keys.iter().enumerate().any(|(i, key)| keys[..i].contains(key));
        Answers { ours, slow, twice }
    }
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
