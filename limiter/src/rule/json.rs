//! Rule files: a JSON array of Sentinel's `FlowRule` and `ParamFlowRule` objects.

use serde_json::{Map, Value, value::RawValue};

use super::{
    Finding, NamespaceRules, RuleErrors,
    check::{flow_rule, param_rule},
    fields::{Report, as_bool, count_lines},
};

/// What a text gave.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Parsed {
    /// The rules, in the order they were written.
    pub rules: NamespaceRules,
    /// The line each flow rule starts on, in step with `rules.flow`.
    pub flow_lines: Vec<u32>,
    /// The same for `rules.param`.
    pub param_lines: Vec<u32>,
    /// What the text was called.
    pub source: Box<str>,
    /// What was odd and ignored.
    pub warnings: Vec<Finding>,
    /// Rules with `clusterMode: false` that were left out.
    pub skipped: usize,
}

/// What a text may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Flow rules.
    Flow,
    /// Hot-parameter rules.
    Param,
    /// Both: an entry with `paramIdx` is a hot-parameter rule.
    Mixed,
}

/// Reads the rules of one namespace. `source` is what messages call the text: a file name, say.
///
/// With `cluster_only`, rules with `clusterMode: false` are counted and left out unread, as a
/// token server does. `null` and `[]` are an empty set; an empty text is a mistake, since a file
/// that is being written looks like that.
///
/// # Errors
///
/// Every mistake in the text, each with line, field, value and what would do.
pub fn parse(
    text: &str,
    source: &str,
    namespace: &str,
    contents: Contents,
    cluster_only: bool,
) -> Result<Parsed, RuleErrors> {
    let entries: Option<Vec<&RawValue>> = serde_json::from_str(text).map_err(|e| {
        let line = u32::try_from(e.line()).ok().filter(|&line| line > 0);
        let remedy = format!("must be a JSON array of rules: {e}");
        RuleErrors(vec![Finding { line, ..Finding::of_set(source, &remedy) }])
    })?;
    let mut parsed = Parsed { source: source.into(), ..Parsed::default() };
    parsed.rules.namespace = namespace.into();
    let mut errors = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for (index, entry) in entries.unwrap_or_default().into_iter().enumerate() {
        let entry = entry.get();
        let offset = entry.as_ptr().addr() - text.as_ptr().addr();
        line += count_lines(text.get(counted..offset).unwrap_or(""));
        counted = offset;
        let mut report = Report {
            source,
            index,
            text: entry,
            first_line: line,
            errors: &mut errors,
            warnings: &mut parsed.warnings,
        };
        let Some(object) = rule_object(entry, &mut report) else { continue };
        if cluster_only && !is_cluster(&object) {
            parsed.skipped += 1;
            continue;
        }
        if is_param(&object, contents) {
            if let Some(rule) = param_rule(object, &mut report) {
                parsed.rules.param.push(rule);
                parsed.param_lines.push(line);
            }
        } else if let Some(rule) = flow_rule(object, &mut report) {
            parsed.rules.flow.push(rule);
            parsed.flow_lines.push(line);
        }
    }
    if errors.is_empty() { Ok(parsed) } else { Err(RuleErrors(errors)) }
}

/// The rule itself: the entry, or what the dashboard nests under `rule`.
fn rule_object(entry: &str, report: &mut Report<'_>) -> Option<Map<String, Value>> {
    match serde_json::from_str(entry) {
        Ok(Value::Object(mut object)) => match object.remove("rule") {
            Some(Value::Object(nested)) if !object.contains_key("resource") => Some(nested),
            Some(other) => {
                object.insert("rule".into(), other);
                Some(object)
            }
            None => Some(object),
        },
        Ok(_) | Err(_) => {
            report.error("", "", "each entry must be a JSON object");
            None
        }
    }
}

/// Whether `clusterMode` is anything but off; a value that is no boolean is reported later.
fn is_cluster(object: &Map<String, Value>) -> bool {
    let mode = object.iter().find(|(key, _)| key.eq_ignore_ascii_case("clusterMode"));
    mode.is_some_and(|(_, value)| !value.is_null() && as_bool(value) != Some(false))
}

fn is_param(object: &Map<String, Value>, contents: Contents) -> bool {
    match contents {
        Contents::Flow => false,
        Contents::Param => true,
        Contents::Mixed => object.keys().any(|key| key.eq_ignore_ascii_case("paramIdx")),
    }
}
