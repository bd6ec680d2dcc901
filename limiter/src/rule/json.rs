//! Rule files: a JSON array of Sentinel's `FlowRule` and `ParamFlowRule` objects.

use serde_json::value::RawValue;

use super::{
    Finding, NamespaceRules, RuleErrors,
    check::{NO_MEANING, flow_rule, param_rule},
    object::{Object, Owner},
    report::Report,
    syntax,
    value::Value,
};

/// What a text gave.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Parsed {
    /// The rules, in the order they were written.
    pub rules: NamespaceRules,
    /// Where each flow rule stands, in step with `rules.flow`.
    pub(super) flow_places: Vec<Place>,
    /// The same for `rules.param`.
    pub(super) param_places: Vec<Place>,
    /// What the text was called.
    pub source: Box<str>,
    /// What was odd and ignored.
    pub warnings: Vec<Finding>,
    /// Rules with `clusterMode: false` that were left out.
    pub skipped: usize,
}

/// Where a rule stands in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Position in the list, from 0.
    pub(super) index: usize,
    /// The line that the rule starts on, from 1.
    pub(super) line: u32,
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
    let mut parsed = Parsed { source: source.into(), ..Parsed::default() };
    parsed.rules.namespace = namespace.into();
    parsed.warnings = each_rule(text, source, |object, place, report| {
        if cluster_only && !is_cluster(&object) {
            parsed.skipped += 1;
        } else if is_param(&object, contents) {
            if let Some(rule) = param_rule(object, report) {
                parsed.rules.param.push(rule);
                parsed.param_places.push(place);
            }
        } else if let Some(rule) = flow_rule(object, report) {
            parsed.rules.flow.push(rule);
            parsed.flow_places.push(place);
        }
    })?;
    Ok(parsed)
}

/// Hands `read` every object of the list that `text` is, with the place where it stands. Gives the
/// warnings, or every mistake.
pub(super) fn each_rule(
    text: &str,
    source: &str,
    mut read: impl FnMut(Object<'_>, Place, &mut Report<'_>),
) -> Result<Vec<Finding>, RuleErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let entries: Option<Vec<&RawValue>> = serde_json::from_str(text)
        .map_err(|error| RuleErrors(vec![syntax::finding(text, source, &error)]))?;
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let (mut line, mut counted) = (1, 0);
    for (index, entry) in entries.unwrap_or_default().into_iter().enumerate() {
        let offset = entry.get().as_ptr().addr() - text.as_ptr().addr();
        line += count_lines(text.get(counted..offset).unwrap_or(""));
        counted = offset;
        let stands = (index, entry.get(), line);
        let mut report = Report::new(source, stands, &mut errors, &mut warnings);
        if let Some(object) = rule_object(Value::new(entry), &mut report) {
            read(object, Place { index, line }, &mut report);
        }
    }
    if errors.is_empty() { Ok(warnings) } else { Err(RuleErrors(errors)) }
}

fn count_lines(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|&b| b == b'\n').count()).unwrap_or(u32::MAX)
}

/// The rule itself: the entry, or what the dashboard nests under `rule`.
fn rule_object<'t>(entry: Value<'t>, report: &mut Report<'_>) -> Option<Object<'t>> {
    let Some(mut outer) = Object::new(Owner::Rule, entry.written(), entry) else {
        report.error(entry.written(), "", "", "each entry must be a JSON object");
        return None;
    };
    if outer.has("resource") {
        return Some(outer);
    }
    let Some(nested) = outer.object("rule", Owner::Rule) else { return Some(outer) };
    outer.warn_unknown(report, NO_MEANING);
    Some(nested)
}

/// Whether `clusterMode` is anything but off; a value that is no boolean is reported later.
fn is_cluster(object: &Object<'_>) -> bool {
    object.flag("clusterMode").is_some_and(|mode| !mode.is_absent() && mode.bool() != Some(false))
}

fn is_param(object: &Object<'_>, contents: Contents) -> bool {
    match contents {
        Contents::Flow => false,
        Contents::Param => true,
        Contents::Mixed => object.has("paramIdx"),
    }
}
