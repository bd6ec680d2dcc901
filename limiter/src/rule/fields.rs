//! Reads the fields of one JSON object as leniently as Sentinel's parser (fastjson) does: names in
//! any case, numbers and booleans as text, `null` as absent. What is left over was unknown.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Finding;

/// Where the rule stands, and what was found wrong so far.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) source: &'a str,
    pub(super) index: usize,
    /// The rule's own text and the line it starts on.
    pub(super) text: &'a str,
    pub(super) first_line: u32,
    pub(super) errors: &'a mut Vec<Finding>,
    pub(super) warnings: &'a mut Vec<Finding>,
}

impl Report<'_> {
    pub(super) fn error(&mut self, field: &str, value: &str, remedy: &str) {
        let finding = self.finding(field, value, remedy);
        self.errors.push(finding);
    }

    pub(super) fn warn(&mut self, field: &str, value: &str, remedy: &str) {
        let finding = self.finding(field, value, remedy);
        self.warnings.push(finding);
    }

    fn finding(&self, field: &str, value: &str, remedy: &str) -> Finding {
        Finding {
            source: self.source.into(),
            line: Some(self.line_of(field)),
            index: Some(self.index),
            field: field.into(),
            value: cut(value),
            remedy: remedy.into(),
        }
    }

    /// The line of the field's key, each part of the path sought behind the one before it; the
    /// rule's first line when the field is absent.
    fn line_of(&self, field: &str) -> u32 {
        let lower = self.text.to_ascii_lowercase();
        let mut at = 0;
        for part in field.split('.') {
            let name = part.split('[').next().unwrap_or(part).to_ascii_lowercase();
            let found = lower.get(at..).and_then(|rest| rest.find(&format!("\"{name}\"")));
            match found {
                Some(offset) => at += offset,
                None => break,
            }
        }
        self.first_line + count_lines(self.text.get(..at).unwrap_or(""))
    }
}

/// The number of line breaks in `text`.
pub(super) fn count_lines(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|&b| b == b'\n').count()).unwrap_or(u32::MAX)
}

/// A value as a message shows it: at most 60 characters.
fn cut(value: &str) -> Box<str> {
    match value.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", value.get(..end).unwrap_or("")).into(),
        None => value.into(),
    }
}

/// One object's fields, each taken at most once.
#[derive(Debug)]
pub(super) struct Fields {
    prefix: &'static str,
    left: BTreeMap<String, (String, Value)>,
}

impl Fields {
    pub(super) fn new(prefix: &'static str, object: Map<String, Value>) -> Self {
        let left = object.into_iter().map(|(k, v)| (k.to_ascii_lowercase(), (k, v))).collect();
        Self { prefix, left }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.left.get(&name.to_ascii_lowercase()).is_some_and(|(_, v)| !v.is_null())
    }

    /// The field's value, `None` when absent or `null`.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(&name.to_ascii_lowercase()).map(|(_, v)| v).filter(|v| !v.is_null())
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A whole number in `min..=max`, or `default` when absent. A wrong one is reported and
    /// `default` goes on in its place.
    pub(super) fn int(
        &mut self,
        report: &mut Report<'_>,
        name: &str,
        default: i64,
        (min, max): (i64, i64),
    ) -> i64 {
        let Some(value) = self.take(name) else { return default };
        match as_int(&value) {
            Some(n) if (min..=max).contains(&n) => n,
            _ => {
                let need = format!("must be a whole number from {min} to {max}");
                report.error(&self.path(name), &shown(&value), &need);
                default
            }
        }
    }

    /// A number in `0..=2^53`, or `default` when absent. Wrong ones as in [`int`](Self::int).
    pub(super) fn threshold(&mut self, report: &mut Report<'_>, name: &str) -> Option<f64> {
        let value = self.take(name)?;
        let number = match &value {
            Value::Number(n) => n.as_f64(),
            Value::String(s) => s.trim().parse().ok(),
            _ => None,
        };
        match number {
            Some(n) if (0.0..=COUNT_MAX).contains(&n) => Some(n),
            _ => {
                let need = "must be a number from 0 to 9007199254740992 (2^53)";
                report.error(&self.path(name), &shown(&value), need);
                None
            }
        }
    }

    pub(super) fn bool(&mut self, report: &mut Report<'_>, name: &str, default: bool) -> bool {
        let Some(value) = self.take(name) else { return default };
        as_bool(&value).unwrap_or_else(|| {
            report.error(&self.path(name), &shown(&value), "must be true or false");
            default
        })
    }

    /// Text, numbers and booleans included, as written; `None` when absent.
    pub(super) fn text(&mut self, report: &mut Report<'_>, name: &str) -> Option<Box<str>> {
        let value = self.take(name)?;
        match &value {
            Value::String(s) => Some(s.as_str().into()),
            Value::Number(_) | Value::Bool(_) => Some(shown(&value).into()),
            _ => {
                report.error(&self.path(name), &shown(&value), "must be text");
                None
            }
        }
    }

    /// One of `choices`, compared without case; `default` when absent.
    pub(super) fn choice<T: Copy>(
        &mut self,
        report: &mut Report<'_>,
        name: &str,
        default: T,
        choices: &[(&str, T)],
    ) -> T {
        let Some(value) = self.take(name) else { return default };
        let text = value.as_str().unwrap_or_default();
        if let Some((_, choice)) = choices.iter().find(|(c, _)| c.eq_ignore_ascii_case(text)) {
            return *choice;
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let need = format!("must be one of {}", names.join(", "));
        report.error(&self.path(name), &shown(&value), &need);
        default
    }

    /// Warns of every field that nobody took, but for the `known` ones that mean nothing here.
    pub(super) fn warn_unknown(self, report: &mut Report<'_>, known: &[&str]) {
        for (key, (name, value)) in self.left {
            if !known.iter().any(|k| k.eq_ignore_ascii_case(&key)) {
                let path = format!("{}{name}", self.prefix);
                report.warn(&path, &shown(&value), "unknown field, ignored");
            }
        }
    }
}

/// Largest threshold: counts stay exact in `f64` up to here.
pub(super) const COUNT_MAX: f64 = 9_007_199_254_740_992.0;

pub(super) fn as_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(b) => Some(*b),
        Value::Number(n) => n.as_i64().map(|n| n != 0),
        Value::String(s) => match s.to_ascii_lowercase().as_str() {
            "true" | "1" | "y" => Some(true),
            "false" | "0" | "n" | "" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn as_int(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) => n.as_i64().or_else(|| whole(n.as_f64()?)),
        Value::String(s) => s.trim().parse().ok().or_else(|| whole(s.trim().parse().ok()?)),
        _ => None,
    }
}

/// `7.0` for 7; nothing for 7.5 or what an i64 cannot hold exactly.
fn whole(f: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "a whole number within ±2^53")]
    (f.fract() == 0.0 && f.abs() <= COUNT_MAX).then_some(f as i64)
}

/// A value as it was written.
pub(super) fn shown(value: &Value) -> String {
    value.to_string()
}
