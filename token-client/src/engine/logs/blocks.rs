//! Counts refusals, second by second, until they are written.
//!
//! What is counted is the text that stands in the block log (`EagleEyeLogUtil.java`), so a refusal
//! whose like was counted in the same second allocates nothing. What one second holds has a bound,
//! beyond which refusals are counted by their kind alone, and so has the number of seconds.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError, Weak},
};

use limiter::{
    Param, Tick,
    local::{Block, OVERFLOW, Observer, Seen},
};

use super::line::push;

/// Texts of one second, as in Sentinel, which begins a further batch for the same second then.
const KEYS_MAX: usize = 6_000;
/// Bytes of them.
const KEY_BYTES_MAX: usize = 1 << 20;
/// Seconds that wait to be written: more than one only while the disk does not answer.
const SECONDS_MAX: usize = 10;
const SECOND_NS: u64 = 1_000_000_000;

/// The refusals that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Blocks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    now: Refusals,
    ended: VecDeque<Refusals>,
    /// Where the text is put together.
    text: String,
    lost: u64,
}

/// The refusals of one second.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Since the epoch, in the engine's time.
    pub(super) second: u64,
    /// Tokens, by what stands between the second and the third `|` of a line.
    pub(super) counts: HashMap<Box<str>, u64>,
    bytes: usize,
}

impl Blocks {
    fn count(&self, now: Tick, call: &Seen<'_>, block: &Block) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.turn(now.0 / SECOND_NS);
        let State { now, text, .. } = &mut *state;
        text.clear();
        push_key(text, call, block);
        now.add(text, block, call.count);
    }

    /// Takes the seconds that have ended at `now`, or all, oldest first, and how many tokens were
    /// refused in seconds that had to make room.
    pub(super) fn take(&self, now: Tick, all: bool) -> (VecDeque<Refusals>, u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let second = now.0 / SECOND_NS;
        state.turn(if all { second.saturating_add(1) } else { second });
        (std::mem::take(&mut state.ended), std::mem::take(&mut state.lost))
    }
}

impl State {
    /// Ends the second before `second`. A call that comes late counts in the later one.
    fn turn(&mut self, second: u64) {
        if second <= self.now.second {
            return;
        }
        let room = self.now.counts.len();
        let next = Refusals { second, counts: HashMap::with_capacity(room), bytes: 0 };
        let ended = std::mem::replace(&mut self.now, next);
        if ended.counts.is_empty() {
            return;
        }
        self.ended.push_back(ended);
        if self.ended.len() > SECONDS_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.lost = self.lost.saturating_add(oldest.tokens());
        }
    }
}

impl Refusals {
    fn add(&mut self, text: &mut String, block: &Block, tokens: u32) {
        let tokens = u64::from(tokens);
        if let Some(count) = self.counts.get_mut(text.as_str()) {
            *count += tokens;
            return;
        }
        if self.counts.len() >= KEYS_MAX || self.bytes + text.len() > KEY_BYTES_MAX {
            text.clear();
            push(text, format_args!("{OVERFLOW},{},,,", block.exception()));
            if let Some(count) = self.counts.get_mut(text.as_str()) {
                *count += tokens;
                return;
            }
        }
        self.bytes += text.len();
        self.counts.insert(text.as_str().into(), tokens);
    }

    /// Tokens refused.
    pub(super) fn tokens(&self) -> u64 {
        self.counts.values().sum()
    }
}

/// Resource, exception, `limitApp`, origin and the rule's id, which is not known here. A `,` or `|`
/// in a name stays, as in Sentinel; a line feed does not.
fn push_key(text: &mut String, call: &Seen<'_>, block: &Block) {
    push_spelled(text, call.resource);
    push(text, format_args!(",{},", block.exception()));
    match block.argument(call) {
        Some(values) => push_argument(text, values),
        None => push_spelled(text, block.limit_app()),
    }
    text.push(',');
    push_spelled(text, call.origin);
    text.push(',');
}

fn push_spelled(text: &mut String, name: &str) {
    text.extend(name.chars().map(|c| if c.is_control() { '_' } else { c }));
}

/// As Java's `String.valueOf` spells it (`ParamFlowSlot.checkFlow`); several as a list.
fn push_argument(text: &mut String, values: &[Param<'_>]) {
    if let [value] = values {
        return push_value(text, value);
    }
    text.push('[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        push_value(text, value);
    }
    text.push(']');
}

fn push_value(text: &mut String, value: &Param<'_>) {
    match value {
        Param::Int(v) => push(text, format_args!("{v}")),
        Param::Long(v) => push(text, format_args!("{v}")),
        Param::Byte(v) => push(text, format_args!("{v}")),
        Param::Short(v) => push(text, format_args!("{v}")),
        Param::Bool(v) => push(text, format_args!("{v}")),
        Param::Str(v) => push_spelled(text, v),
        Param::Double(v) => push_float(text, *v, format_args!("{v:?}"), format_args!("{v:E}")),
        Param::Float(v) => {
            push_float(text, f64::from(*v), format_args!("{v:?}"), format_args!("{v:E}"));
        }
    }
}

/// `Double.toString`: with a decimal point always, and an exponent from 10^7 on and below 10^-3.
fn push_float(
    text: &mut String,
    value: f64,
    plain: std::fmt::Arguments<'_>,
    scientific: std::fmt::Arguments<'_>,
) {
    if value.is_infinite() {
        text.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    } else if value == 0.0 || value.is_nan() || (1e-3..1e7).contains(&value.abs()) {
        push(text, plain);
    } else {
        let begin = text.len();
        push(text, scientific);
        let has_point = text.get(begin..).is_some_and(|written| written.contains('.'));
        if let (false, Some(at)) = (has_point, text.rfind('E')) {
            text.insert_str(at, ".0");
        }
    }
}

/// Counts for a log as long as it is written.
#[derive(Debug)]
pub(super) struct Counting(pub(super) Weak<Blocks>);

impl Observer for Counting {
    fn blocked(&self, now: Tick, call: &Seen<'_>, block: &Block) {
        if let Some(blocks) = self.0.upgrade() {
            blocks.count(now, call, block);
        }
    }
}

#[cfg(test)]
mod tests;
