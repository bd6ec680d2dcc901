//! Which nodes a call counts in.

use crate::local::{
    Call,
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
    Seat { context: of_context(body, call, context), origin: of_origin(body, shared, call.origin) }
}

/// The node of calls in the context.
#[inline]
pub(super) fn of_context(body: &mut Body, call: &Call<'_>, context: &Context) -> u32 {
    let entrance = &context.node;
    body.nodes.context(entrance.id).unwrap_or_else(|| {
        // Below the calling resource, if that is in the same context.
        let parent = call.parent.filter(|parent| parent.context.is_at(entrance));
        let parent = parent.and_then(|parent| parent.resource.as_ref());
        body.nodes.add_context(entrance, parent.map(|resource| resource.name.text().into()))
    })
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
    let own = body.nodes.add_origin(origin, shared.settings.origins, is_named);
    own.unwrap_or_else(|| {
        shared.note(Above::Origins);
        body.nodes.other_origins()
    })
}
