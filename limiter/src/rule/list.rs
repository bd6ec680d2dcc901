//! Lists of the rules that only a local engine enforces, one kind a text.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::{
    ApiDefinition, AuthorityRule, DegradeRule, Finding, GatewayFlowRule, RuleErrors, SystemRule,
    check::{api_definition, authority_rule, degrade_rule, gateway_rule, system_rule},
    json::{Place, each_rule},
    object::Object,
    report::Report,
};

/// The rules of one kind that a text gave.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleList<T> {
    /// The rules, in the order they were written.
    pub rules: Vec<T>,
    /// What was odd and ignored.
    pub warnings: Vec<Finding>,
}

/// Reads the rules of circuit breakers. `source` is what messages call the text: a file name, say.
///
/// # Errors
///
/// Every mistake in the text, each with line, field, value and what would do.
pub fn parse_degrade(text: &str, source: &str) -> Result<RuleList<DegradeRule>, RuleErrors> {
    list(text, source, |object, _, report| degrade_rule(object, report))
}

/// Reads system rules, otherwise as [`parse_degrade`].
///
/// # Errors
///
/// Those of [`parse_degrade`].
pub fn parse_system(text: &str, source: &str) -> Result<RuleList<SystemRule>, RuleErrors> {
    list(text, source, |object, _, report| system_rule(object, report))
}

/// Reads authority rules, otherwise as [`parse_degrade`]. A resource's second rule is left out with
/// a warning: the first counts, as in Sentinel.
///
/// # Errors
///
/// Those of [`parse_degrade`].
pub fn parse_authority(text: &str, source: &str) -> Result<RuleList<AuthorityRule>, RuleErrors> {
    let mut first = Names::default();
    list(text, source, |object, place, report| {
        let at = object.place("resource");
        let rule = authority_rule(object, report)?;
        let Some(earlier) = first.note((&rule.resource, rule.regex), place) else {
            return Some(rule);
        };
        let remedy = format!("left out: {earlier} is for it already, and a resource has one");
        report.warn(at.0, "resource", at.1, &remedy);
        None
    })
}

/// Reads gateway rules, otherwise as [`parse_degrade`].
///
/// # Errors
///
/// Those of [`parse_degrade`].
pub fn parse_gateway(text: &str, source: &str) -> Result<RuleList<GatewayFlowRule>, RuleErrors> {
    list(text, source, |object, _, report| gateway_rule(object, report))
}

/// Reads API groups, otherwise as [`parse_degrade`].
///
/// # Errors
///
/// Those of [`parse_degrade`], and a name that stands twice.
pub fn parse_apis(text: &str, source: &str) -> Result<RuleList<ApiDefinition>, RuleErrors> {
    let mut first = Names::default();
    list(text, source, |object, place, report| {
        let at = object.place("apiName");
        let api = api_definition(object, report)?;
        if let Some(earlier) = first.note((&api.api_name, false), place) {
            report.error(at.0, "apiName", at.1, &format!("{earlier} has it; names are unique"));
        }
        Some(api)
    })
}

/// Where each name, or pattern, stood first.
#[derive(Default)]
struct Names(FxHashMap<(Box<str>, bool), Place>);

impl Names {
    /// The earlier place of `name`, in words; notes this one when there is none.
    fn note(&mut self, (name, is_pattern): (&str, bool), place: Place) -> Option<String> {
        match self.0.entry((name.into(), is_pattern)) {
            Entry::Vacant(entry) => {
                entry.insert(place);
                None
            }
            Entry::Occupied(entry) => {
                let Place { index, line } = entry.get();
                Some(format!("rule {index} on line {line}"))
            }
        }
    }
}

fn list<T>(
    text: &str,
    source: &str,
    mut read: impl FnMut(Object<'_>, Place, &mut Report<'_>) -> Option<T>,
) -> Result<RuleList<T>, RuleErrors> {
    let mut rules = Vec::new();
    let warnings = each_rule(text, source, |object, place, report| {
        rules.extend(read(object, place, report));
    })?;
    Ok(RuleList { rules, warnings })
}
