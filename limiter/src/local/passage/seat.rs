//! Which nodes a call counts in.

use std::sync::Arc;

use crate::local::{
    Call, OVERFLOW,
    context::Context,
    node::{NONE, Seat},
    resource::Body,
    shared::{Above, Shared},
};

/// Finds the nodes of a call, or makes them.
#[inline(always)]
pub(in crate::local) fn seat(
    body: &mut Body,
    shared: &Shared,
    call: &Call<'_>,
    context: &Context,
) -> Seat {
    let context = of_context(body, shared, call, context);
    Seat { context, origin: of_origin(body, shared, call.origin) }
}

/// The node of calls in the context.
#[inline]
pub(super) fn of_context(
    body: &mut Body,
    shared: &Shared,
    call: &Call<'_>,
    context: &Context,
) -> u32 {
    let at = context.node.id;
    if context.is_above || !body.nodes.has_context(at) {
        return entrance(body, shared, call, context);
    }
    at
}

#[inline(never)]
fn entrance(body: &mut Body, shared: &Shared, call: &Call<'_>, context: &Context) -> u32 {
    let is_named = body.flow.names_context(&context.name);
    let mut entrance = Arc::clone(&context.node);
    if context.is_above && is_named {
        // The rule came when the context was there already.
        entrance = shared.entrance(&context.name);
    }
    if body.nodes.has_context(entrance.id) {
        return entrance.id;
    }
    // Each resource has room for one.
    let is_first = body.nodes.contexts().next().is_none();
    if !is_first && !shared.claim_node(is_named) {
        shared.note(Above::Contexts);
        entrance = shared.entrance(OVERFLOW);
        if body.nodes.has_context(entrance.id) {
            return entrance.id;
        }
        shared.claim_node(true);
    }
    // Below the calling resource, if that is in the same context.
    let parent = call.parent.filter(|parent| parent.context.is_at(&entrance));
    let parent = parent.and_then(|parent| parent.resource.as_ref());
    body.nodes.add_context(&entrance, parent.map(|resource| resource.name.text().into()));
    entrance.id
}

/// The node of calls from the origin, if there is one.
#[inline]
pub(super) fn of_origin(body: &mut Body, shared: &Shared, origin: &str) -> u32 {
    if origin.is_empty() { NONE } else { of_known_origin(body, shared, origin) }
}

fn of_known_origin(body: &mut Body, shared: &Shared, origin: &str) -> u32 {
    if let Some(at) = body.nodes.origin(origin) {
        return at;
    }
    let is_named = body.flow.names_origin(origin);
    let has_room = is_named || body.nodes.origins_len() < shared.settings.origins;
    if has_room && shared.claim_node(is_named) {
        if !is_named
            && body.flow.limits_others()
            && let Some(at) = body.nodes.origin_that_stays_shared(body.latest)
        {
            shared.release_nodes(1);
            shared.note(Above::Origins);
            return at;
        }
        return body.nodes.add_origin(origin);
    }
    shared.note(Above::Origins);
    body.nodes.share_origin().unwrap_or_else(|| {
        shared.claim_node(true);
        body.nodes.add_origin(OVERFLOW)
    })
}
