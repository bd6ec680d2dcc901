//! HTTP requests that are made later.

use std::{
    error::Error,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header::RETRY_AFTER};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Deferral, NotDeferred,
    queue::{Asked, Turn},
};
use crate::{
    Guard,
    exchange::{self, Answering, call},
    outgoing::is_failure,
};

/// The header of an answer 202 that holds the number of the ticket.
pub const TICKET: HeaderName = HeaderName::from_static("deferral-ticket");
/// The header of an answer 202 that says how many calls go before this one.
pub const AHEAD: HeaderName = HeaderName::from_static("deferral-ahead");

type IsDeferred = dyn Fn(&dyn exchange::Request) -> bool + Send + Sync;

/// Defers the writes of an HTTP service; see [the module](super).
///
/// | a write | is answered |
/// |---|---|
/// | may be made | by the service |
/// | waits | 202, [`deferral-ticket`](TICKET), [`deferral-ahead`](AHEAD) |
/// | finds the queue full, or is longer than [`body_max`](super::Settings::body_max) | 429, `Retry-After` |
/// | is not for its caller, or refused by a slot of the user's | 429 |
/// | comes while the process [ends](Deferral::shutdown) and would have to wait | 503, `Retry-After` |
/// | would wait, but its body cannot be read | 400 |
///
/// These answers have an empty body. Writes are requests whose method is not safe (not GET, HEAD,
/// OPTIONS or TRACE); others are not looked at.
#[derive(Clone)]
pub struct DeferralLayer {
    deferral: Deferral,
    is_deferred: Arc<IsDeferred>,
}

impl DeferralLayer {
    /// A layer of this queue.
    #[must_use]
    pub fn new(deferral: Deferral) -> Self {
        Self { deferral, is_deferred: Arc::new(|request| !request.method().is_safe()) }
    }

    /// Decides which requests are limited, and may be made later; others are not looked at.
    #[must_use]
    pub fn requests_if(
        mut self,
        is_deferred: impl Fn(&dyn exchange::Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_deferred = Arc::new(is_deferred);
        self
    }

    fn refusal<O: Default>(&self, why: NotDeferred) -> Response<O> {
        let status = match why {
            NotDeferred::Full => StatusCode::TOO_MANY_REQUESTS,
            NotDeferred::Closed => StatusCode::SERVICE_UNAVAILABLE,
        };
        let seconds = self.deferral.0.settings.retry_after.as_secs_f64().ceil();
        let seconds = format!("{seconds:.0}");
        let mut answer = empty(status);
        answer.headers_mut().extend(HeaderValue::from_str(&seconds).map(|it| (RETRY_AFTER, it)));
        answer
    }
}

impl fmt::Debug for DeferralLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeferralLayer").field(&self.deferral).finish()
    }
}

impl<S> Layer<S> for DeferralLayer {
    type Service = Deferring<S>;

    fn layer(&self, inner: S) -> Deferring<S> {
        Deferring { inner, layer: self.clone() }
    }
}

/// A service whose writes wait when they come too fast, made by a [`DeferralLayer`].
#[derive(Clone, Debug)]
pub struct Deferring<S> {
    inner: S,
    layer: DeferralLayer,
}

impl<S, B, O> Service<Request<B>> for Deferring<S>
where
    S: Service<Request<B>, Response = Response<O>, Error: Send, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + From<Bytes> + Send + 'static,
    O: Default + Send + 'static,
{
    type Response = Response<O>;
    type Error = S::Error;
    type Future = Answering<Response<O>, S::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { inner, layer } = self.clone();
        if !(layer.is_deferred)(&request) {
            return Box::pin(call(inner, request));
        }
        Box::pin(async move {
            match layer.deferral.0.queue.ask().await {
                Asked::Now(guard) => guarded(guard, inner, request).await,
                Asked::Later(turn) => Ok(later(&layer, turn, inner, request).await),
                Asked::Refused => Ok(empty(StatusCode::TOO_MANY_REQUESTS)),
            }
        })
    }
}

async fn guarded<S, B, O>(
    mut guard: Guard,
    inner: S,
    request: Request<B>,
) -> Result<S::Response, S::Error>
where
    S: Service<Request<B>, Response = Response<O>>,
{
    let result = call(inner, request).await;
    if is_failure(result.as_ref().ok().map(|answer| answer as &dyn exchange::Response)) {
        guard.fail();
    }
    result
}

async fn later<S, B, O>(
    layer: &DeferralLayer,
    turn: Option<Turn>,
    inner: S,
    request: Request<B>,
) -> Response<O>
where
    S: Service<Request<B>, Response = Response<O>, Error: Send, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + From<Bytes> + Send + 'static,
    O: Default + Send + 'static,
{
    let deferral = &layer.deferral;
    // Before its body is read.
    if let Some(why) = deferral.0.queue.refuses() {
        return layer.refusal(why);
    }
    // The body goes with the connection, which is answered now.
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, deferral.0.settings.body_max).collect().await {
        Ok(body) => B::from(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => return layer.refusal(NotDeferred::Full),
        Err(_) => return empty(StatusCode::BAD_REQUEST),
    };
    let job = async move {
        let answer = call(inner, Request::from_parts(head, body)).await;
        !is_failure(answer.as_ref().ok().map(|answer| answer as &dyn exchange::Response))
    };
    let ticket = match deferral.put(job, turn) {
        Ok(ticket) => ticket.detach(),
        Err(why) => return layer.refusal(why),
    };
    let mut answer = empty(StatusCode::ACCEPTED);
    let ahead = deferral.ahead(ticket).unwrap_or_default();
    answer.headers_mut().insert(TICKET, ticket.into());
    answer.headers_mut().insert(AHEAD, ahead.into());
    answer
}

fn empty<O: Default>(status: StatusCode) -> Response<O> {
    let mut answer = Response::new(O::default());
    *answer.status_mut() = status;
    answer
}
