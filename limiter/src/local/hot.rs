//! The hot-parameter rules of one resource and its gateway rules, which are hot-parameter rules of
//! another slot.

use std::sync::Arc;

use super::{
    Arg,
    gateway::{GatewayRequest, GatewayRules, Parts},
    open,
    param::{Held, HotRules},
};
use crate::{
    Tick,
    cluster::values::Room,
    rule::{GatewayFlowRule, ParamRule, ResourceMode},
};

/// The gateway rules of a resource: what is an argument, and what is held to a count.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) rules: Arc<GatewayRules>,
    pub(super) hot: HotRules,
    pub(super) held: HeldList,
}

/// Where the hot values of open entries count as in progress, by the entry's place. Places are used
/// again, so that only a new maximum allocates.
#[derive(Debug, Default)]
pub(super) struct HeldList(Vec<Held>);

impl HeldList {
    /// A call at a place begins with these arguments.
    pub(super) fn enter(&mut self, hot: &mut HotRules, args: &[Arg<'_>], place: u32) {
        if place == open::NONE {
            return;
        }
        let place = place as usize;
        if self.0.len() <= place {
            self.0.resize_with(place + 1, Held::default);
        }
        if let Some(held) = self.0.get_mut(place) {
            hot.enter(args, held);
        }
    }

    /// The call at the place ends.
    pub(super) fn leave(&mut self, hot: &mut HotRules, now: Tick, place: u32) {
        if let Some(held) = self.0.get_mut(place as usize) {
            hot.leave(now, held);
            held.clear();
        }
    }
}

/// A request on its way through a gateway.
#[derive(Clone, Copy)]
pub(super) struct GatewayCall<'a> {
    pub(super) mode: ResourceMode,
    pub(super) request: &'a dyn GatewayRequest,
}

impl std::fmt::Debug for GatewayCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayCall").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl<'a> GatewayCall<'a> {
    /// The arguments that `rules` look at.
    pub(super) fn args(&self, rules: &GatewayRules) -> Parts<'a> {
        rules.args(self.mode, self.request)
    }
}

/// Puts `rules` in place of `hot`, which keeps what equal rules hold.
pub(super) fn replace(hot: &mut Option<HotRules>, rules: &[Arc<ParamRule>], room: &Room) {
    if hot.is_none() && rules.is_empty() {
        return;
    }
    let mut new = HotRules::new(rules, room);
    if let Some(old) = hot.take() {
        new.adopt(old);
    }
    *hot = Some(new);
}

/// The same for gateway rules.
pub(super) fn replace_gateway(
    gateway: &mut Option<Gateway>,
    rules: &[GatewayFlowRule],
    room: &Room,
) {
    if gateway.is_none() && rules.is_empty() {
        return;
    }
    let (before, mut hot, held) = match gateway.take() {
        Some(Gateway { rules, hot, held }) => (rules, Some(hot), held),
        None => Default::default(),
    };
    let is_held = |param_idx| hot.as_ref().is_some_and(|hot| hot.counts_by(param_idx));
    let rules = before.replaced(rules, is_held);
    // What was read for equal rules is good for these.
    let rules = if *before == rules { before } else { Arc::new(rules) };
    let hot_rules: Vec<Arc<ParamRule>> = rules.rules().iter().cloned().map(Arc::new).collect();
    replace(&mut hot, &hot_rules, room);
    *gateway = hot.map(|hot| Gateway { rules, hot, held });
}
