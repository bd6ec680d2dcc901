//! From one JSON object to one rule: defaults, validity (`FlowRuleUtil.isValidRule`,
//! `ParamFlowRuleUtil.isValidRule`) and our fields. Every mistake of the rule is reported, not
//! only the first.
//!
//! A value is checked where Sentinel checks it. Where it is not used it is accepted, its default
//! stands in the rule, and a warning says so.

mod able;
mod api;
mod authority;
mod cluster;
mod counting;
mod degrade;
mod flow;
mod gateway;
mod items;
mod lease;
mod param;
mod system;

pub(super) use api::api_definition;
pub(super) use authority::authority_rule;
pub(super) use degrade::degrade_rule;
pub(super) use flow::flow_rule;
pub(super) use gateway::gateway_rule;
pub(super) use param::param_rule;
pub(super) use system::system_rule;

use super::{ControlBehavior, Pattern, object::Object, report::Report};

const I32_MAX: i64 = i32::MAX as i64;
/// What Java's types hold: for fields that are only read.
const ANY_INT: (i64, i64) = (i32::MIN as i64, I32_MAX);
const ANY_LONG: (i64, i64) = (i64::MIN, i64::MAX);

/// What the dashboard adds to a rule, and fastjson to any object.
pub(super) const NO_MEANING: &[&str] =
    &["id", "app", "ip", "port", "gmtCreate", "gmtModified", "@type"];

/// The fields that both kinds of rules have.
struct Common {
    resource: Box<str>,
    /// `None` for blank, which is `default`.
    limit_app: Option<Box<str>>,
    regex: bool,
    behavior: i64,
}

impl Common {
    fn read(f: &mut Object<'_>, report: &mut Report<'_>) -> Self {
        Self {
            resource: required(f, report, "resource", "required: the name of what is protected"),
            limit_app: f.text(report, "limitApp").filter(|name| !name.trim().is_empty()),
            regex: f.bool(report, "regex", false),
            behavior: f.int(report, "controlBehavior", 0, (0, I32_MAX)),
        }
    }

    fn behavior(&self) -> ControlBehavior {
        match self.behavior {
            1 => ControlBehavior::WarmUp,
            2 => ControlBehavior::Pacing,
            3 => ControlBehavior::WarmUpPacing,
            _ => ControlBehavior::Reject,
        }
    }

    fn check_regex(&self, f: &Object<'_>, report: &mut Report<'_>, is_cluster: bool) {
        if self.regex && is_cluster {
            f.error(report, "regex", "a cluster rule cannot be a pattern; use one rule a resource");
        }
        if self.regex && self.behavior != 0 {
            f.error(report, "regex", "a pattern needs controlBehavior 0");
        }
        check_pattern(f, report, self.regex, &self.resource);
    }

    fn warn_unused(&self, f: &Object<'_>, report: &mut Report<'_>) {
        let of_all = self.limit_app.as_deref().is_some_and(|name| name != "default");
        f.unused(report, "limitApp", of_all, "calls of all origins count together");
    }
}

/// Text that must not be blank; what is missing was said to be so.
fn required(f: &mut Object<'_>, report: &mut Report<'_>, name: &str, remedy: &str) -> Box<str> {
    let before = report.errors.len();
    let text = f.text(report, name).unwrap_or_default();
    if text.trim().is_empty() && report.errors.len() == before {
        f.error(report, name, remedy);
    }
    text
}

/// Reports a resource that is to be a pattern and is none.
fn check_pattern(f: &Object<'_>, report: &mut Report<'_>, regex: bool, resource: &str) {
    if let Some(wrong) = regex.then(|| Pattern::new(resource).err()).flatten() {
        f.error(report, "resource", &wrong);
    }
}
