//! What is asked for.

use super::{
    Arg, ContextHandle, Entry, GatewayRequest, Seen, Trace, context::Context, hot::GatewayCall,
};
use crate::rule::ResourceMode;

/// Whether a call comes in to this service or goes out. System rules look at what comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EntryType {
    /// A request to this service.
    In,
    /// A request that this service makes, and everything inside it.
    #[default]
    Out,
}

/// A call of one resource, before it is let through.
///
/// ```
/// use limiter::local::{Call, EntryType};
///
/// let call = Call::new("GET:/orders").origin("shop").entry_type(EntryType::In).count(2);
/// ```
#[derive(Debug)]
pub struct Call<'a> {
    pub(super) resource: &'a str,
    pub(super) context: Option<&'a ContextHandle>,
    pub(super) parent: Option<&'a Entry>,
    pub(super) origin: &'a str,
    pub(super) entry_type: EntryType,
    pub(super) resource_type: u8,
    pub(super) count: u32,
    pub(super) prioritized: bool,
    pub(super) args: &'a [Arg<'a>],
    pub(super) gateway: Option<GatewayCall<'a>>,
    pub(super) trace: Option<&'a mut Trace>,
}

impl<'a> Call<'a> {
    /// A call of `resource` in the default context, without origin, outbound, of one token.
    #[must_use]
    pub const fn new(resource: &'a str) -> Self {
        Self {
            resource,
            context: None,
            parent: None,
            origin: "",
            entry_type: EntryType::Out,
            resource_type: 0,
            count: 1,
            prioritized: false,
            args: &[],
            gateway: None,
            trace: None,
        }
    }

    /// Makes the call in this context rather than that of the parent, or the default one.
    #[must_use]
    pub const fn context(mut self, context: &'a ContextHandle) -> Self {
        self.context = Some(context);
        self
    }

    /// Says inside of which call it is made. It is in that one's context, unless another is named,
    /// and below it in the call tree if the resource is new in the context.
    #[must_use]
    pub const fn parent(mut self, parent: &'a Entry) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Names the caller; empty for an unknown one.
    #[must_use]
    pub const fn origin(mut self, origin: &'a str) -> Self {
        self.origin = origin;
        self
    }

    /// Says whether it comes in or goes out.
    #[must_use]
    pub const fn entry_type(mut self, entry_type: EntryType) -> Self {
        self.entry_type = entry_type;
        self
    }

    /// Classifies the resource, for metrics: 0 common, 1 web, 2 rpc, 3 API gateway, 4 database.
    /// The first call of a resource decides.
    #[must_use]
    pub const fn resource_type(mut self, resource_type: u8) -> Self {
        self.resource_type = resource_type;
        self
    }

    /// Asks for `count` tokens. It is one call in progress all the same.
    #[must_use]
    pub const fn count(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    /// Lets the call borrow from the next half second if this one is used up.
    #[must_use]
    pub const fn prioritized(mut self) -> Self {
        self.prioritized = true;
        self
    }

    /// Gives the arguments of the call, for hot-parameter rules.
    #[must_use]
    pub const fn args(mut self, args: &'a [Arg<'a>]) -> Self {
        self.args = args;
        self
    }

    /// Says that the call is a request through a gateway, for gateway rules: its resource is a
    /// route, or a group of APIs.
    #[must_use]
    pub const fn gateway(mut self, mode: ResourceMode, request: &'a dyn GatewayRequest) -> Self {
        self.gateway = Some(GatewayCall { mode, request });
        self
    }

    /// Notes what each slot says.
    #[must_use]
    pub const fn trace(mut self, trace: &'a mut Trace) -> Self {
        self.trace = Some(trace);
        self
    }

    /// The call as slots and observers see it.
    pub(super) fn seen<'s>(&'s self, context: &'s Context) -> Seen<'s> {
        Seen {
            resource: self.resource,
            context: &context.name,
            origin: self.origin,
            entry_type: self.entry_type,
            count: self.count,
            prioritized: self.prioritized,
            args: self.args,
        }
    }
}
