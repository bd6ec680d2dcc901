//! Gateway rules as hot-parameter rules (`GatewayRuleConverter`, `GatewayRuleManager`), and
//! requests as their arguments (`GatewayParamParser`).
//!
//! Each rule for a part of the request has an argument of its own; rules for all calls share one
//! that is always the same. With two of the first and some of the second:
//!
//! ```text
//! rules:      by client address   by header X-User, pattern "vip"   for all calls (any number)
//! index:      0                   1                                 2
//! argument:   "1.2.3.4"           "vip", "$NM" or none              "$D"
//! ```
//!
//! Without the part there is no argument, and the rule lets the request pass. A value that the
//! pattern does not take is `$NM`, which the rule lets pass ten million times a window.

use std::borrow::Cow;

use crate::{
    Param,
    rule::{
        GatewayFlowRule, GatewayParam, GatewayParamItem, ItemValue, ParamItem, ParamRule,
        ResourceMode,
    },
};

/// The argument of the rules for all calls, as Sentinel names it.
const ALL_CALLS: &str = "$D";
/// The argument for a value that a pattern does not take.
const NO_MATCH: &str = "$NM";
const NO_MATCH_COUNT: f64 = 10_000_000.0;

/// The parts of a request that gateway rules look at. Names of headers are without case.
///
/// `Sync`, since a call that waits may go on on another thread.
pub trait GatewayRequest: Sync {
    /// The address of the client.
    fn client_ip(&self) -> Option<Cow<'_, str>>;
    /// The host that the client asked for.
    fn host(&self) -> Option<Cow<'_, str>>;
    /// A header's first value.
    fn header(&self, name: &str) -> Option<Cow<'_, str>>;
    /// A parameter of the URL, decoded.
    fn url_param(&self, name: &str) -> Option<Cow<'_, str>>;
    /// A cookie's value.
    fn cookie(&self, name: &str) -> Option<Cow<'_, str>>;
}

/// The gateway rules of one resource.
#[derive(Debug, PartialEq)]
pub(crate) struct GatewayRules {
    rules: Vec<ParamRule>,
    /// Where each argument comes from.
    sources: Vec<Source>,
}

/// What an argument is, for the calls of one mode.
#[derive(Debug, PartialEq)]
struct Source {
    mode: ResourceMode,
    /// `None`: always [`ALL_CALLS`].
    item: Option<GatewayParamItem>,
}

impl GatewayRules {
    /// `rules` are those of one resource; one that stands twice counts once.
    pub(crate) fn new(rules: &[GatewayFlowRule]) -> Self {
        let mut all = Self { rules: Vec::new(), sources: Vec::new() };
        let (of_a_part, of_all): (Vec<_>, Vec<_>) = rules
            .iter()
            .enumerate()
            .filter(|(i, rule)| !rules.iter().take(*i).any(|earlier| earlier == *rule))
            .map(|(_, rule)| rule)
            .partition(|rule| rule.param_item.is_some());
        for rule in of_a_part {
            all.sources.push(Source { mode: rule.mode, item: rule.param_item.clone() });
            all.rules.push(param_rule(rule, all.sources.len() - 1));
        }
        for rule in of_all {
            let source = Source { mode: rule.mode, item: None };
            let known = all.sources.iter().position(|known| *known == source);
            let index = known.unwrap_or(all.sources.len());
            if known.is_none() {
                all.sources.push(source);
            }
            all.rules.push(param_rule(rule, index));
        }
        all
    }

    /// What enforces them, on the arguments that [`args`](Self::args) gives.
    pub(crate) fn rules(&self) -> &[ParamRule] {
        &self.rules
    }

    /// The arguments of a call to the resource as a route, or as an API group: a rule is for calls
    /// of its own mode. `None` in the place of one lets its rule pass.
    pub(crate) fn args<'r>(
        &self,
        mode: ResourceMode,
        request: &'r dyn GatewayRequest,
    ) -> Vec<Option<Param<'r>>> {
        let arg = |source: &Source| match &source.item {
            _ if source.mode != mode => None,
            None => Some(Cow::Borrowed(ALL_CALLS)),
            Some(item) => value(item, request),
        };
        self.sources.iter().map(|source| arg(source).map(Param::Str)).collect()
    }
}

fn value<'r>(item: &GatewayParamItem, request: &'r dyn GatewayRequest) -> Option<Cow<'r, str>> {
    let value = match &item.source {
        GatewayParam::ClientIp => request.client_ip(),
        GatewayParam::Host => request.host(),
        GatewayParam::Header(name) => request.header(name),
        GatewayParam::UrlParam(name) => request.url_param(name),
        GatewayParam::Cookie(name) => request.cookie(name),
    }?;
    let is_taken = item.values.as_ref().is_none_or(|values| values.matches(&value));
    Some(if is_taken { value } else { NO_MATCH.into() })
}

fn param_rule(rule: &GatewayFlowRule, index: usize) -> ParamRule {
    let has_pattern = rule.param_item.as_ref().is_some_and(|item| item.values.is_some());
    let no_match = ParamItem { value: ItemValue::Str(NO_MATCH.into()), count: NO_MATCH_COUNT };
    ParamRule {
        resource: rule.resource.clone(),
        regex: false,
        param_idx: i32::try_from(index).unwrap_or(i32::MAX),
        count: rule.count,
        grade: rule.grade as u32,
        behavior: rule.behavior,
        max_queueing_time_ms: rule.max_queueing_timeout_ms,
        burst_count: rule.burst,
        duration_sec: rule.interval_sec,
        items: has_pattern.then_some(no_match).into_iter().collect(),
        cluster: None,
    }
}

#[cfg(test)]
mod tests;
