//! What a layer does with requests, of whatever framework, as a user says it.

mod ask;

use std::{borrow::Cow, fmt, sync::Arc};

pub(crate) use self::ask::Admitted;
use super::{Answer, Ended, RateLimitHeaders, Refusal, names::Names};
use crate::Engine;

/// Names with counters of their own unless [`Protect::names_max`] says otherwise.
const NAMES_MAX: usize = 1_000;

type Text<R> = Arc<dyn for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + Send + Sync>;
type Tier<R> = Arc<dyn Fn(&R) -> Option<&'static str> + Send + Sync>;
type Respond = Arc<dyn Fn(&Refusal<'_>, Answer) -> Answer + Send + Sync>;
type IsError = Arc<dyn Fn(Ended) -> bool + Send + Sync>;

/// Guards the requests to a service: says what they are called, who makes them, and what those get
/// that are refused. `R` is the request as the framework has it.
///
/// It is a layer itself: as `GuardLayer` for tower, as `GuardMiddleware` for actix-web.
pub struct Protect<R> {
    engine: Engine,
    names: Arc<Names>,
    route: Option<Text<R>>,
    tier: Option<Tier<R>>,
    origin: Option<Text<R>>,
    keys: Vec<Text<R>>,
    headers: RateLimitHeaders,
    respond: Option<Respond>,
    is_error: IsError,
    is_rpc: bool,
    with_body: bool,
}

impl<R> Protect<R> {
    /// Guards requests with the rules of `engine`. Nothing tells one caller from another yet.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            names: Arc::new(Names::new(NAMES_MAX)),
            route: None,
            tier: None,
            origin: None,
            keys: Vec::new(),
            headers: RateLimitHeaders::default(),
            respond: None,
            is_error: Arc::new(Ended::is_error),
            is_rpc: false,
            with_body: false,
        }
    }

    /// Says which route a request matched, as it was registered: `/orders/{id}`, not `/orders/7`.
    /// Requests that matched none share the resource [`UNMATCHED`](super::UNMATCHED). Without this
    /// all do, but for frameworks that tell by themselves, as actix-web.
    #[must_use]
    pub fn route(
        mut self,
        route: impl for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    ) -> Self {
        self.route = Some(Arc::new(route));
        self
    }

    /// Names resources as gRPC does, `/package.Service/Method`, and refuses in gRPC. Everything that
    /// comes is taken for a call of gRPC, so it belongs around services that are nothing else.
    #[must_use]
    pub const fn grpc(mut self) -> Self {
        self.is_rpc = true;
        self
    }

    /// Says who makes a request, for rules with a `limitApp` and authority rules.
    #[must_use]
    pub fn origin(
        mut self,
        origin: impl for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    ) -> Self {
        self.origin = Some(Arc::new(origin));
        self
    }

    /// Gives a further argument of each request, for hot-parameter rules: the first is that with
    /// `paramIdx` 0. A request that has none passes these rules.
    #[must_use]
    pub fn key(
        mut self,
        key: impl for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    ) -> Self {
        self.keys.push(Arc::new(key));
        self
    }

    /// Puts requests into tiers with rules of their own: those of the tier `vip` to `GET:/orders`
    /// are the resource `GET:/orders@vip`, those without a tier `GET:/orders`. Tiers are the
    /// service's words and not its clients', so that nobody makes one without rules.
    #[must_use]
    pub fn tier(
        mut self,
        tier: impl Fn(&R) -> Option<&'static str> + Send + Sync + 'static,
    ) -> Self {
        self.tier = Some(Arc::new(tier));
        self
    }

    /// How many resources have counters of their own, 1 000 by default. Above it, and if their names
    /// are longer than 256 bytes, those for which there is no rule share the name
    /// [`SHARED`](super::SHARED).
    #[must_use]
    pub fn names_max(mut self, max: usize) -> Self {
        self.names = Arc::new(Names::new(max));
        self
    }

    /// The header fields that tell what is left, those of the current draft by default.
    #[must_use]
    pub const fn headers(mut self, headers: RateLimitHeaders) -> Self {
        self.headers = headers;
        self
    }

    /// Changes what is answered to refused requests.
    ///
    /// By default it is 429 for flow and hot-parameter rules, 503 for breakers and system rules,
    /// and 403 for authority rules; in gRPC `RESOURCE_EXHAUSTED`, `UNAVAILABLE` and
    /// `PERMISSION_DENIED`. `Retry-After` is the exact time, rounded up to a second; a second where
    /// nobody knows; and absent where waiting does not help.
    #[must_use]
    pub fn respond(
        mut self,
        respond: impl Fn(&Refusal<'_>, Answer) -> Answer + Send + Sync + 'static,
    ) -> Self {
        self.respond = Some(Arc::new(respond));
        self
    }

    /// Says what counts as an error, for breakers; [`Ended::is_error`] by default.
    #[must_use]
    pub fn errors(mut self, is_error: impl Fn(Ended) -> bool + Send + Sync + 'static) -> Self {
        self.is_error = Arc::new(is_error);
        self
    }

    /// Counts a request as in progress until its whole answer is sent, rather than until the service
    /// has given its head: for answers that are streamed. A client that reads slowly makes the call
    /// slow then, for breakers too, which is why it is not the default.
    #[must_use]
    pub const fn until_body_ends(mut self) -> Self {
        self.with_body = true;
        self
    }

    /// Requests that shared a name since there were too many; see [`Self::names_max`].
    #[must_use]
    pub fn shared_names(&self) -> u64 {
        self.names.shared()
    }

    /// Whether a call lasts until its body has ended.
    pub(crate) const fn with_body(&self) -> bool {
        self.with_body
    }

    pub(crate) fn is_error(&self, ended: Ended) -> bool {
        (self.is_error)(ended)
    }
}

impl<R> Clone for Protect<R> {
    fn clone(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            names: Arc::clone(&self.names),
            route: self.route.clone(),
            tier: self.tier.clone(),
            origin: self.origin.clone(),
            keys: self.keys.clone(),
            headers: self.headers,
            respond: self.respond.clone(),
            is_error: Arc::clone(&self.is_error),
            is_rpc: self.is_rpc,
            with_body: self.with_body,
        }
    }
}

impl<R> fmt::Debug for Protect<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Protect");
        f.field("names", &self.names).field("headers", &self.headers).finish_non_exhaustive()
    }
}
