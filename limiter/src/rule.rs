//! Rules as Sentinel writes them, with Tollgate's own fields, and the JSON they come in.
//!
//! [`FlowRule`] and [`ParamRule`] hold only what was validated: a value of either type can be
//! enforced. [`parse`] reads the JSON that Sentinel's `FlowRule` and `ParamFlowRule` are written
//! as, its dashboard's entities included, and reports every mistake with its place.
//!
//! Values and names are taken in every form that fastjson, Sentinel's parser, takes. What differs:
//!
//! | in a text                               | Sentinel 1.8 with fastjson | [`parse`]             |
//! |-----------------------------------------|----------------------------|-----------------------|
//! | comments, trailing commas, single       | read                       | refused, naming the   |
//! | quotes, names without quotes, `+5`,     |                            | line                  |
//! | `5L`, `NaN`, raw tabs in text           |                            |                       |
//! | a rule that is not valid                | dropped, the others load   | the set is refused    |
//! | a rule that is `null` or `[]`           | dropped                    | the set is refused    |
//! | a whole number that its type cannot     | wrapped (`1e10`), or the   | the set is refused    |
//! | hold                                    | set is refused             |                       |
//! | a count above 2^53                      | read                       | the set is refused    |
//! | `sampleCount` above 1 000               | read                       | the set is refused    |
//! | a list or an object in place of text    | its JSON is the text       | the set is refused    |
//! | text that is no Unicode (`\ud800`)      | read                       | the set is refused    |
//! | numbers in text with blanks or an       | the set is refused         | read                  |
//! | exponent in a whole-number field        |                            |                       |
//! | `"t"` and `"n"` for booleans            | the set is refused         | read, as `"T"`, `"N"` |
//! | an item (`paramFlowItemList`) that is   | the set is refused         | the item is dropped   |
//! | no object, or its count no number       |                            |                       |
//! | an item of class `char`                 | kept, though no request    | the item is dropped   |
//! |                                         | can carry one              |                       |
//! | a number in place of text               | normalized (`1e2`: `1E+2`) | as it is written      |
//! | one flow id twice                       | the last rule counts       | the set is refused    |
//!
//! What is read and then means nothing (an unknown field, a field that stands twice, one that
//! cluster rules do not use) is a warning.

mod check;
mod fields;
mod finding;
mod flow;
mod item;
mod json;
mod merge;
mod object;
mod param;
mod report;
mod syntax;
mod value;

pub use finding::{Finding, RuleErrors};
pub use flow::{ControlBehavior, FlowRule, Grade, Strategy};
pub use item::{ItemValue, ParamItem};
pub use json::{Contents, Parsed, parse};
pub(crate) use merge::duplicate_ids;
pub use merge::merge;
pub use param::ParamRule;

use crate::WindowShape;

/// Largest threshold: counts stay exact in `f64` up to here, which is 2^53.
const COUNT_MAX: f64 = 9_007_199_254_740_992.0;

/// The rules of one namespace, flow and hot-parameter.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct NamespaceRules {
    /// The namespace that the flow ids belong to.
    pub namespace: Box<str>,
    /// Flow rules; those without a [`ClusterConfig`] are the client's own and not looked at by a
    /// server.
    pub flow: Vec<FlowRule>,
    /// Hot-parameter rules.
    pub param: Vec<ParamRule>,
}

/// What makes a rule a cluster rule: Sentinel's `clusterConfig` and our fields in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterConfig {
    /// The id that requests name; positive, unique among the flow rules (or the parameter rules)
    /// of all namespaces.
    pub flow_id: i64,
    /// What `count` is counted for.
    pub scope: Scope,
    /// The sliding window.
    pub window: WindowShape,
    /// What `count` means for a window that is not one second.
    pub unit: ThresholdUnit,
    /// Threshold of a client's local fallback, per second; `None`: the rule's own count.
    pub local_count: Option<f64>,
    /// What a client does when no decision comes.
    pub fallback: FallbackPolicy,
    /// What a client does when the server answers TOO_MANY_REQUEST.
    pub overload: OverloadPolicy,
    /// How long a concurrency token lives unless it is renewed, in milliseconds. Not used by QPS
    /// rules.
    pub resource_timeout_ms: u32,
    /// How long a concurrency token outlives its connection at most, in milliseconds.
    pub client_offline_ms: u32,
}

/// `thresholdType`: whose use the count limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// 1: all clients together.
    Global,
    /// 0, and every unknown value as in Sentinel: the count times the connected clients of the
    /// namespace; with nobody connected, nothing passes.
    PerClient,
}

/// `thresholdUnit`: what the count is per.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ThresholdUnit {
    /// Per second, compared with the window's average as Sentinel computes it.
    #[default]
    Sentinel,
    /// Per window, exactly.
    Window,
}

/// `fallbackPolicy`: what a client does when no decision comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackPolicy {
    /// Checks the rule locally, against `localCount` or the rule's own count.
    Local,
    /// Checks locally against the global count divided by the last known number of clients.
    Share,
    /// Lets everything through.
    Pass,
    /// Refuses everything.
    Block,
}

/// `overloadPolicy`: what a client does when the namespace guard refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OverloadPolicy {
    /// Refuses the call.
    Reject,
    /// As [`FallbackPolicy::Share`].
    Share,
    /// As [`FallbackPolicy::Local`], which is what Sentinel does; the rule's fallback policy
    /// decides between a local check and passing.
    #[default]
    Local,
}
