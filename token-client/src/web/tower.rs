//! The layer for tower.

use std::{
    borrow::Cow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE,
    request::Parts,
};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Answer, Ended, GuardBody, Protect,
    body::{grpc_code, open},
    headers::Fields,
    protect::Admitted,
    request::is_grpc,
};

/// Guards the requests to a tower service: axum, tonic, or hyper itself.
///
/// ```
/// use token_client::{Engine, limiter::local::LocalSettings, web::{GuardLayer, header}};
///
/// let engine = Engine::new(LocalSettings::default());
/// // In axum `.matched(axum::extract::MatchedPath::as_str)` says the route.
/// let layer = GuardLayer::new(&engine)
///     .route(|request| Some(request.uri.path().into()))
///     .origin(header("x-caller"))
///     .key(header("x-user"));
/// # let _ = layer;
/// ```
///
/// A call ends when the service has given the head of its answer; the code of a gRPC call stands
/// at the end of the body, and so it ends there, as any with [`Protect::until_body_ends`]. An error
/// of the service counts as one, as does a gRPC answer that ends without a code. Where the client
/// goes away the service's future is dropped, which is no error.
pub type GuardLayer = Protect<Parts>;

// Of every answer, so they are not parsed each time.
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// A service behind a [`GuardLayer`].
#[derive(Clone, Debug)]
pub struct GuardService<S> {
    inner: S,
    protect: Arc<GuardLayer>,
}

impl GuardLayer {
    /// Takes the route from what the framework leaves with a request: in axum
    /// `.matched(axum::extract::MatchedPath::as_str)`.
    #[must_use]
    pub fn matched<T: Send + Sync + 'static>(self, route: fn(&T) -> &str) -> Self {
        self.route(move |parts| parts.extensions.get::<T>().map(route).map(Cow::Borrowed))
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = GuardService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardService { inner, protect: Arc::new(self.clone()) }
    }
}

impl<S, B, R> Service<Request<B>> for GuardService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Body,
{
    type Response = Response<GuardBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that said that it is ready is the one that is called.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let protect = Arc::clone(&self.protect);
        let (parts, body) = request.into_parts();
        Box::pin(async move {
            let Admitted { mut guard, fields } = match protect.enter(&parts).await {
                Ok(admitted) => admitted,
                Err((answer, is_grpc)) => return Ok(refused(answer, is_grpc)),
            };
            match inner.call(Request::from_parts(parts, body)).await {
                Ok(mut response) => {
                    add(response.headers_mut(), fields);
                    Ok(passed(&protect, guard, response))
                }
                Err(error) => {
                    guard.fail();
                    Err(error)
                }
            }
        })
    }
}

/// Ends the call, or leaves it to the body.
fn passed<R: Body>(
    protect: &Arc<GuardLayer>,
    mut guard: crate::Guard,
    response: Response<R>,
) -> Response<GuardBody<R>> {
    let (headers, status) = (response.headers(), response.status().as_u16());
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let speaks_grpc = status == 200 && content_type.is_some_and(is_grpc);
    let ended = match grpc_code(headers) {
        Some(code) if speaks_grpc => Some(Ended::Grpc(code)),
        _ if speaks_grpc => None,
        _ => Some(Ended::Http(status)),
    };
    // A gRPC answer that is over without a code was cut off.
    let waits_for_code = ended.is_none() && !response.body().is_end_stream();
    let is_error = match ended {
        Some(ended) => protect.is_error(ended),
        None => !waits_for_code,
    };
    if is_error {
        guard.fail();
    }
    let call = (protect.with_body() || waits_for_code)
        .then(|| open(guard, waits_for_code.then(|| Arc::clone(protect))));
    response.map(|body| GuardBody::passed(body, call))
}

fn refused<R: Body>(answer: Answer, is_grpc: bool) -> Response<GuardBody<R>> {
    let (status, fields, text) = answer.into_http(is_grpc);
    let mut response = Response::new(GuardBody::refused(text));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    add(response.headers_mut(), fields);
    response
}

/// Puts fields in place of those of the same name. What HTTP does not allow is left out.
fn add(headers: &mut HeaderMap, fields: Fields) {
    for (name, value) in fields {
        let name = match &*name {
            "ratelimit" => Ok(RATELIMIT),
            "ratelimit-policy" => Ok(RATELIMIT_POLICY),
            name => HeaderName::from_bytes(name.as_bytes()),
        };
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}
