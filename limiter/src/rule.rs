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
//! | a warm-up of more than                  | read                       | the set is refused    |
//! | 2^53 tokens or 366 days, or pacing with |                            |                       |
//! | 250 000 years between two tokens        |                            |                       |
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
//!
//! Rules of one kind each, for a local engine alone: [`parse_degrade`], [`parse_system`],
//! [`parse_authority`], [`parse_gateway`] and [`parse_apis`]. What differs there beside the above:
//!
//! | in a text                               | Sentinel 1.8               | here                  |
//! |-----------------------------------------|----------------------------|-----------------------|
//! | an unknown `grade`, or an unknown       | dropped, or it does        | the set is refused    |
//! | `strategy` of an authority rule         | nothing                    |                       |
//! | an unknown `resourceMode`,              | it does nothing            | the set is refused    |
//! | `parseStrategy` or `matchStrategy`      |                            |                       |
//! | `highestCpuUsage` above 1               | ignored                    | the same, a warning   |
//! | a resource's second authority rule      | ignored                    | the same, a warning   |
//! | one `apiName` twice                     | either of them counts      | the set is refused    |
//! | a group without `predicateItems`        | dropped                    | the set is refused    |
//! | a prefix of paths without a wildcard    | matches nothing            | matches itself and    |
//! |                                         |                            | all beneath it        |
//! | a prefix of paths without `/` before it | matches nothing            | the set is refused    |
//! | a pattern with look-around,             | read                       | the set is refused    |
//! | back-references, `a*+`, `\Q…\E`         |                            |                       |
//! | a gateway's `interval` and              | the dashboard's own        | read, without         |
//! | `intervalUnit`                          |                            | `intervalSec`         |
//!
//! Our own fields stand in `clusterConfig`, all of them optional. Names are compared without case;
//! numbers are whole but for `localCount`.
//!
//! | field | values (default) | refused |
//! |---|---|---|
//! | `thresholdUnit` | `sentinel` `window` (`sentinel`) | `window` with a `controlBehavior` that warms up (1, 3), but for a window of one second |
//! | `algorithm` | `slidingWindow` `fixedWindow` `slidingLog` `tokenBucket` `leakyBucket` `gcra` (`slidingWindow`) | all but the first with grade 0, or with a `controlBehavior` that paces or warms up (1, 2, 3); a `slidingLog` of more than 10 000 tokens a window |
//! | `burst` | 0 ..= 2^53 ([`Burst::COUNT`]) | without `tokenBucket`, `leakyBucket` or `gcra` |
//! | `calendar` | `minute` `hour` `day` `month` (none) | beside `thresholdUnit: sentinel`, an `algorithm` but `fixedWindow`, grade 0, `controlBehavior` 1, 2, 3 |
//! | `timeZone` | an IANA name (`UTC`) | without `calendar` |
//! | `localCount` | 0 ..= 2^53 (the count) | |
//! | `fallbackPolicy` | `local` `share` `pass` `block` (from `fallbackToLocalWhenFail`) | |
//! | `overloadPolicy` | `reject` `share` `local` (`local`) | (`share` where `lease` is refused acts as `reject`, with a warning) |
//! | `mode` | `enforce` `shadow` `pass` `block` (`enforce`) | |
//! | `coldFactor` | 2 ..= 100 (3) | |
//! | `lease` | `{"maxTokens": 1 ..= 1000000, "ttlMs": 1 ..= 60000}` (none) | in a hot-parameter rule, with grade 0, `controlBehavior` 1, 2, 3, an `algorithm` but `slidingWindow`, `calendar` |
//!
//! What an algorithm cannot count is refused, too: of a fixed window more than 2^53 tokens, a token
//! or a full bucket that takes 250 000 years to come. A hot-parameter rule paces with
//! `controlBehavior` 2; 1 and 3 are 0, as in Sentinel, with a warning.

mod algorithm;
mod api;
mod authority;
mod check;
mod cluster;
mod degrade;
mod fields;
mod finding;
mod flow;
mod gateway;
mod item;
mod json;
mod list;
mod merge;
mod object;
mod param;
mod pattern;
mod report;
mod share;
mod syntax;
mod system;
mod value;

pub use algorithm::{Algorithm, Burst};
pub use api::{AntPattern, ApiDefinition, PathPattern};
pub use authority::{AuthorityRule, AuthorityStrategy};
pub use cluster::{
    ClusterConfig, FallbackPolicy, Lease, Mode, OverloadPolicy, Scope, ThresholdUnit,
};
pub use degrade::{DegradeGrade, DegradeRule};
pub use finding::{Finding, RuleErrors};
pub use flow::{ControlBehavior, FlowRule, Grade, Strategy};
pub use gateway::{GatewayFlowRule, GatewayParam, GatewayParamItem, ResourceMode, ValuePattern};
pub use item::{ItemValue, ParamItem};
pub use json::{Contents, Parsed, parse};
pub use list::{RuleList, parse_apis, parse_authority, parse_degrade, parse_gateway, parse_system};
pub(crate) use merge::duplicate_ids;
pub use merge::merge;
pub use param::ParamRule;
pub use pattern::Pattern;
pub use share::Share;
pub use system::SystemRule;

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
