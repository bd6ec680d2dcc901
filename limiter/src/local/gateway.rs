//! Gateway rules as hot-parameter rules (`GatewayRuleConverter`, `GatewayRuleManager`), and
//! requests as their arguments (`GatewayParamParser`).
//!
//! Each part of the request that rules look at is an argument, whatever number of rules does; that
//! of rules for all calls is always the same. With two parts and rules for all calls:
//!
//! ```text
//! rules:      by client address   by header X-User, pattern "vip"   for all calls
//! index:      0                   1                                 2
//! argument:   "1.2.3.4"           "vip", "$NM" or none              "$D"
//! ```
//!
//! Without the part there is no argument, and the rule lets the request pass. A value that the
//! pattern does not take is `$NM`, which the rule lets pass ten million times a window.
//!
//! A part keeps its index while rules look at it or calls are counted by it, so that other rules
//! may come and go and nothing is forgotten or counted elsewhere; with the next rules after that the
//! index is free for another.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Arg;
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

/// The parts of a request that gateway rules look at; a part that is not given is absent, and its
/// rules let the request pass. Names of headers are without case.
///
/// `Sync`, since a call that waits may go on on another thread.
pub trait GatewayRequest: Sync {
    /// The address of the client.
    fn client_ip(&self) -> Option<Cow<'_, str>> {
        None
    }
    /// The host that the client asked for.
    fn host(&self) -> Option<Cow<'_, str>> {
        None
    }
    /// A header's first value.
    fn header(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// A parameter of the URL, decoded.
    fn url_param(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// A cookie's value.
    fn cookie(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }
}

/// The arguments of one call. As many parts of a request as rules of one resource mostly look at
/// take no allocation.
pub(crate) type Parts<'a> = SmallVec<[Arg<'a>; 8]>;

/// The gateway rules of one resource.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct GatewayRules {
    rules: Vec<ParamRule>,
    /// Where each argument comes from; `None` at an index that is free.
    sources: Vec<Option<Source>>,
}

/// What an argument is, for the calls of one mode.
#[derive(Clone, Debug, PartialEq)]
struct Source {
    mode: ResourceMode,
    /// `None`: always [`ALL_CALLS`].
    item: Option<GatewayParamItem>,
}

impl GatewayRules {
    /// `rules` in place of these. They are those of one resource; one that stands twice counts once.
    /// An index that `is_held` is not given to another part of the request.
    pub(crate) fn replaced(
        &self,
        rules: &[GatewayFlowRule],
        is_held: impl Fn(i32) -> bool,
    ) -> Self {
        let (of_a_part, of_all): (Vec<_>, Vec<_>) = rules
            .iter()
            .enumerate()
            .filter(|(i, rule)| !rules.iter().take(*i).any(|earlier| earlier == *rule))
            .map(|(_, rule)| rule)
            .partition(|rule| rule.param_item.is_some());
        let rules = || of_a_part.iter().chain(&of_all);
        let mut all = Self { rules: Vec::new(), sources: self.sources.clone() };
        for rule in rules() {
            let index = all.index(rule);
            all.rules.push(param_rule(rule, index));
        }
        // Only now, so that a rule for another part is not taken for one of these rules with other
        // numbers, and goes on with what other values have used.
        for (index, place) in all.sources.iter_mut().enumerate() {
            place.take_if(|known| {
                !is_held(param_idx(index)) && !rules().any(|rule| known.is_of(rule))
            });
        }
        while all.sources.pop_if(|last| last.is_none()).is_some() {}
        all
    }

    /// Where the argument of a rule stands: where it did, or else at the first index that is free.
    fn index(&mut self, rule: &GatewayFlowRule) -> usize {
        let is_of = |known: &Option<Source>| known.as_ref().is_some_and(|known| known.is_of(rule));
        if let Some(index) = self.sources.iter().position(is_of) {
            return index;
        }
        let free = self.sources.iter().position(Option::is_none);
        let index = free.unwrap_or(self.sources.len());
        let source = Some(Source { mode: rule.mode, item: rule.param_item.clone() });
        match self.sources.get_mut(index) {
            Some(place) => *place = source,
            None => self.sources.push(source),
        }
        index
    }

    /// What enforces them, on the arguments that [`args`](Self::args) gives.
    pub(crate) fn rules(&self) -> &[ParamRule] {
        &self.rules
    }

    /// The arguments of a call to the resource as a route, or as an API group. A rule is for calls
    /// of its own mode: for others it finds an empty collection, and misses nothing.
    pub(crate) fn args<'r>(
        &self,
        mode: ResourceMode,
        request: &'r dyn GatewayRequest,
    ) -> Parts<'r> {
        let arg = |source: &Option<Source>| match source {
            None => Arg::Null,
            Some(source) if source.mode != mode => Arg::Many(&[]),
            Some(Source { item: None, .. }) => Arg::One(Param::Str(ALL_CALLS.into())),
            Some(Source { item: Some(item), .. }) => value(item, request).map(Param::Str).into(),
        };
        self.sources.iter().map(arg).collect()
    }
}

impl Source {
    fn is_of(&self, rule: &GatewayFlowRule) -> bool {
        self.mode == rule.mode && self.item == rule.param_item
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

fn param_idx(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

fn param_rule(rule: &GatewayFlowRule, index: usize) -> ParamRule {
    let has_pattern = rule.param_item.as_ref().is_some_and(|item| item.values.is_some());
    let no_match = ParamItem { value: ItemValue::Str(NO_MATCH.into()), count: NO_MATCH_COUNT };
    ParamRule {
        resource: rule.resource.clone(),
        regex: false,
        param_idx: param_idx(index),
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
