//! The middleware for actix-web.
//!
//! It does what [`crate::web`] says, with the same settings. It knows the matched route by itself.

mod body;

use std::{
    borrow::Cow,
    future::{Ready, ready},
    pin::Pin,
    rc::Rc,
    sync::Arc,
};

use actix_web::{
    Error, HttpResponse,
    body::{EitherBody, MessageBody},
    dev::{Service, ServiceRequest, ServiceResponse, Transform, forward_ready},
    http::{
        StatusCode,
        header::{HeaderMap, HeaderName, HeaderValue},
    },
};

pub use self::body::GuardBody;
use crate::web::{Admitted, Answer, Ended, Fields, Protect, WebRequest};

/// Guards the requests to an actix-web application.
///
/// ```
/// use actix_web::App;
/// use token_client::{Engine, actix::GuardMiddleware, limiter::local::LocalSettings, web::header};
///
/// let engine = Engine::new(LocalSettings::default());
/// let guard = GuardMiddleware::new(&engine).origin(header("x-caller")).key(header("x-user"));
/// // In the closure that `HttpServer::new` takes:
/// let app = App::new().wrap(guard.clone());
/// # let _ = app;
/// ```
///
/// A call ends when the handler has given its answer, or with the body with
/// [`Protect::until_body_ends`]. What a handler fails with counts by the status that it becomes, and
/// gets no header fields, since actix makes an answer of it later.
pub type GuardMiddleware = Protect<ServiceRequest>;

/// A service behind a [`GuardMiddleware`].
#[derive(Debug)]
pub struct GuardService<S> {
    inner: Rc<S>,
    protect: Arc<GuardMiddleware>,
}

impl WebRequest for ServiceRequest {
    fn method(&self) -> &str {
        self.method().as_str()
    }

    fn path(&self) -> &str {
        self.path()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers().get(name)?.to_str().ok()
    }

    fn matched(&self) -> Option<Cow<'_, str>> {
        self.match_pattern().map(Cow::Owned)
    }
}

impl<S, B> Transform<S, ServiceRequest> for GuardMiddleware
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<GuardBody<B>>>;
    type Error = Error;
    type Transform = GuardService<S>;
    type InitError = ();
    type Future = Ready<Result<GuardService<S>, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        ready(Ok(GuardService { inner: Rc::new(service), protect: Arc::new(self.clone()) }))
    }
}

impl<S, B> Service<ServiceRequest> for GuardService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<GuardBody<B>>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let (inner, protect) = (Rc::clone(&self.inner), Arc::clone(&self.protect));
        Box::pin(async move {
            let Admitted { mut guard, fields } = match protect.enter(&request).await {
                Ok(admitted) => admitted,
                Err((answer, is_grpc)) => {
                    let response = request.into_response(refused(answer, is_grpc));
                    return Ok(response.map_into_right_body());
                }
            };
            let answered = inner.call(request).await;
            let status = match &answered {
                Ok(response) => response.status(),
                Err(error) => error.as_response_error().status_code(),
            };
            if protect.is_error(Ended::Http(status.as_u16())) {
                guard.fail();
            }
            let mut response = answered?;
            add(response.headers_mut(), fields);
            let call = protect.with_body().then_some(guard);
            let response = response.map_body(|_, body| GuardBody::new(body, call));
            Ok(response.map_into_left_body())
        })
    }
}

fn refused(answer: Answer, is_grpc: bool) -> HttpResponse {
    let (status, fields, text) = answer.into_http(is_grpc);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status).body(text.into_owned());
    add(response.headers_mut(), fields);
    response
}

/// Puts fields in place of those of the same name. What HTTP does not allow is left out.
fn add(headers: &mut HeaderMap, fields: Fields) {
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}
