//! Contexts: the entrances of calls, by name.

use std::{fmt, sync::Arc};

use super::{Call, Shared};

/// The context of calls that name none (`sentinel_default_context`).
pub const DEFAULT_CONTEXT: &str = "sentinel_default_context";

/// A context that calls can be made in; [`LocalEngine::context`](super::LocalEngine::context)
/// gives it. Cheap to clone, and valid as long as the engine.
///
/// Unlike in Java it belongs to no thread: whoever makes a call says in which context.
#[derive(Clone)]
pub struct ContextHandle(pub(super) Arc<Context>);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) name: Box<str>,
    /// Whose counters calls in it have: its own, or those of all contexts above the bound, unless
    /// a rule of the resource names it.
    pub(super) node: Arc<Entrance>,
    /// Whether that is not its own.
    pub(super) is_above: bool,
}

/// A node below the root of the call tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entrance {
    pub(super) name: Box<str>,
    /// Position in the engine's list; [`DEFAULT_CONTEXT`] is 0.
    pub(super) id: u32,
}

/// The context of a call on its way. No reference is counted for what many calls share.
#[derive(Debug)]
pub(super) enum CallContext<'a> {
    Default,
    Given(&'a ContextHandle),
    /// Of a call inside another.
    Inherited(ContextHandle),
}

/// The context of an entry, for calls inside it.
#[derive(Clone, Debug)]
pub(super) enum EntryContext {
    /// By the id of the entrance.
    Known(u32),
    /// Above the bound.
    Above(ContextHandle),
}

impl<'a> CallContext<'a> {
    /// The context that the call names, or its parent's, or the default one.
    #[inline]
    pub(super) fn of(call: &Call<'a>, shared: &Shared) -> Self {
        match (call.context, call.parent.map(|parent| &parent.context)) {
            (Some(given), _) | (None, Some(EntryContext::Above(given))) => Self::Given(given),
            (None, None | Some(EntryContext::Known(0))) => Self::Default,
            (None, Some(EntryContext::Known(id))) => match shared.contexts().get(*id as usize) {
                Some(known) => Self::Inherited(known.clone()),
                None => Self::Default,
            },
        }
    }

    #[inline]
    pub(super) fn get<'s>(&'s self, shared: &'s Shared) -> &'s Context {
        match self {
            Self::Default => shared.default_context(),
            Self::Given(handle) => &handle.0,
            Self::Inherited(handle) => &handle.0,
        }
    }

    /// The context for the entry that the call becomes.
    #[inline]
    pub(super) fn of_entry(&self) -> EntryContext {
        let handle = match self {
            Self::Default => return EntryContext::Known(0),
            Self::Given(handle) => handle,
            Self::Inherited(handle) => handle,
        };
        if handle.0.is_above {
            EntryContext::Above(handle.clone())
        } else {
            EntryContext::Known(handle.0.node.id)
        }
    }
}

impl EntryContext {
    /// Whether calls in it count at this entrance.
    pub(super) fn is_at(&self, entrance: &Entrance) -> bool {
        match self {
            Self::Known(id) => *id == entrance.id,
            Self::Above(context) => {
                context.0.node.id == entrance.id || context.0.name == entrance.name
            }
        }
    }
}

impl ContextHandle {
    /// The name that it was asked for with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl fmt::Debug for ContextHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ContextHandle").field(&self.0.name).finish()
    }
}
