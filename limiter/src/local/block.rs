//! Why a call was refused.

use std::{borrow::Cow, fmt, sync::Arc};

use super::{Seen, SystemKind, arg::values_at};
use crate::{
    Param,
    rule::{
        AuthorityRule, AuthorityStrategy, ClusterConfig, DegradeGrade, DegradeRule, FlowRule,
        Grade, ParamRule,
    },
};

/// Which kind of check refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockKind {
    /// A flow rule.
    Flow,
    /// A hot-parameter rule.
    ParamFlow,
    /// A gateway rule.
    Gateway,
    /// A circuit breaker.
    Degrade,
    /// The system rules, by one of their limits.
    System(SystemKind),
    /// The resource is not for the caller.
    Authority,
    /// A slot of the user's, with what it said.
    Custom(Cow<'static, str>),
}

/// A refusal: what refused. Shown in words, with the unit of the threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Block(pub(super) By);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum By {
    Flow(Arc<FlowRule>),
    Param(Arc<ParamRule>),
    Gateway(Arc<ParamRule>),
    Breaker(Arc<DegradeRule>),
    System(SystemKind),
    /// With the caller that was refused.
    Authority(Arc<AuthorityRule>, Arc<str>),
    Custom(Cow<'static, str>),
}

impl Block {
    /// Which kind of check refused.
    #[must_use]
    pub fn kind(&self) -> BlockKind {
        match &self.0 {
            By::Flow(_) => BlockKind::Flow,
            By::Param(_) => BlockKind::ParamFlow,
            By::Gateway(_) => BlockKind::Gateway,
            By::Breaker(_) => BlockKind::Degrade,
            By::System(kind) => BlockKind::System(*kind),
            By::Authority(..) => BlockKind::Authority,
            By::Custom(why) => BlockKind::Custom(why.clone()),
        }
    }

    /// The exception's short name in Java, as the block log has it.
    #[must_use]
    pub const fn exception(&self) -> &'static str {
        match &self.0 {
            By::Flow(_) => "FlowException",
            By::Param(_) | By::Gateway(_) => "ParamFlowException",
            By::Breaker(_) => "DegradeException",
            By::System(_) => "SystemBlockException",
            By::Authority(..) => "AuthorityException",
            By::Custom(_) => "BlockException",
        }
    }

    /// The values of the argument by which a hot-parameter rule refused `call`; `None` for every
    /// other refusal, those of gateway rules too.
    #[must_use]
    pub fn argument<'a>(&self, call: &Seen<'a>) -> Option<&'a [Param<'a>]> {
        match &self.0 {
            By::Param(rule) => values_at(call.args, rule.param_idx),
            _ => None,
        }
    }

    /// What the block log has for `limitApp`: that of a flow rule, the refused caller, the limit of
    /// the system; else `default`. For a hot-parameter rule it has the [argument](Self::argument).
    #[must_use]
    pub fn limit_app(&self) -> &str {
        match &self.0 {
            By::Flow(rule) => rule.limit_app(),
            By::System(kind) => kind.name(),
            By::Authority(_, caller) => caller,
            By::Param(_) | By::Gateway(_) | By::Breaker(_) | By::Custom(_) => "default",
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            By::Flow(rule) => {
                let unit = match rule.grade {
                    Grade::Thread => "calls in progress",
                    Grade::Qps => "calls per second",
                };
                write_rule(f, "flow rule", rule.cluster.as_ref())?;
                write!(f, " of {}: {} {unit}", rule.resource, rule.count)?;
                match rule.limit_app() {
                    "default" => Ok(()),
                    origin => write!(f, " for origin {origin}"),
                }
            }
            By::Param(rule) => {
                write_rule(f, "hot-parameter rule", rule.cluster.as_ref())?;
                write!(f, " of {}: {}", rule.resource, rule.count)?;
                let unit = if rule.grade == 0 { "calls in progress" } else { "calls" };
                write!(f, " {unit} for each value of argument {}", rule.param_idx)?;
                if rule.grade == 0 { Ok(()) } else { write!(f, " per {} s", rule.duration_sec) }
            }
            By::Gateway(rule) => write!(
                f,
                "gateway rule of {}: {} calls per {} s",
                rule.resource, rule.count, rule.duration_sec
            ),
            By::Breaker(rule) => {
                let what = match rule.grade {
                    DegradeGrade::SlowRatio => "ratio of slow calls",
                    DegradeGrade::ErrorRatio => "ratio of failed calls",
                    DegradeGrade::ErrorCount => "number of failed calls",
                };
                write!(f, "circuit breaker of {}: open for its {what}", rule.resource)
            }
            By::System(kind) => write!(f, "system rule: {kind}"),
            By::Authority(rule, caller) => {
                let why = match rule.strategy {
                    AuthorityStrategy::White => "is not on the white list",
                    AuthorityStrategy::Black => "is on the black list",
                };
                write!(f, "authority rule of {}: {caller} {why}", rule.resource)
            }
            By::Custom(why) => f.write_str(why),
        }
    }
}

fn write_rule(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    cluster: Option<&ClusterConfig>,
) -> fmt::Result {
    match cluster {
        None => f.write_str(kind),
        Some(cluster) => write!(f, "cluster {kind} {}", cluster.flow_id),
    }
}

impl std::error::Error for Block {}
