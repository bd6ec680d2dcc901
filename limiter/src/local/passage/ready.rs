//! What the rules of a resource need from outside of it.
//!
//! It is read while nothing is locked: the counters of other resources, since no two are locked at
//! once, and the parts of a request, which is the caller's and may be slow. Rules that were loaded
//! meanwhile may need something else, so it is looked at again until nothing is missing.

use std::sync::Arc;

use crate::{
    Tick,
    local::{
        Call, LocalEngine,
        gateway::{GatewayRules, Parts},
        resource::{Resource, State},
    },
    sync::{MutexGuard, lock},
};

/// The arguments of a call for gateway rules, and the rules that they are for.
pub(in crate::local) type GatewayArgs<'a> = Option<(Arc<GatewayRules>, Parts<'a>)>;

/// Locks a resource when all is there that the rules in force look at: `args`, and the readings of
/// other resources if the call `compares` with them.
#[inline(always)]
pub(in crate::local) fn lock_ready<'r, 'a>(
    engine: &LocalEngine,
    resource: &'r Resource,
    call: &Call<'a>,
    args: &mut GatewayArgs<'a>,
    compares: bool,
    now: Tick,
) -> MutexGuard<'r, State> {
    let mut read = None;
    loop {
        let mut state = lock(&resource.state);
        state.refresh(resource);
        if compares && let Some(names) = state.body.flow.related().unread(read.as_ref()) {
            drop(state);
            engine.read_related(resource, &names, now);
            read = Some(names);
        } else if let (Some(call), Some(gateway)) = (call.gateway, &state.body.gateway)
            && args.as_ref().is_none_or(|(rules, _)| !Arc::ptr_eq(rules, &gateway.rules))
        {
            let rules = Arc::clone(&gateway.rules);
            drop(state);
            let read = call.args(&rules);
            *args = Some((rules, read));
        } else {
            return state;
        }
    }
}
