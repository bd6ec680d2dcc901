//! What layers look at in a request, in its answer, and in an error, whoever made them.

mod failure;
#[cfg(feature = "reqwest")]
mod reqwest;

pub use self::failure::{Failure, Sent};

use std::{future::poll_fn, pin::Pin};

use http::{HeaderMap, Method, StatusCode};
use tower_service::Service;

/// The future of a layer's service.
pub(crate) type Answering<R, E> = Pin<Box<dyn Future<Output = Result<R, E>> + Send>>;

/// A request, as far as a layer looks at it.
pub trait Request {
    /// Its method.
    fn method(&self) -> &Method;

    /// Whom it is for, without a port; `None` when it does not say.
    fn host(&self) -> Option<&str>;

    /// The port, if it names one.
    fn port(&self) -> Option<u16>;

    /// The path, without the query.
    fn path(&self) -> &str;

    /// Its headers.
    fn headers(&self) -> &HeaderMap;
}

/// A request that may be sent more than once.
pub trait Repeat: Request + Sized {
    /// The same request; `None` when its body can be read only once.
    fn repeat(&self) -> Option<Self>;
}

/// An answer, as far as a layer looks at it.
pub trait Response {
    /// Its status.
    fn status(&self) -> StatusCode;

    /// Its headers. What stands in trailers is not seen.
    fn headers(&self) -> &HeaderMap;

    /// The code of gRPC in its headers, where servers write it that refuse a call or fail without a
    /// message; 0 is OK. `None` for other answers, and for those with the code in their trailers.
    fn grpc_code(&self) -> Option<u8> {
        self.headers().get("grpc-status")?.to_str().ok()?.parse().ok()
    }
}

impl<B> Request for http::Request<B> {
    fn method(&self) -> &Method {
        self.method()
    }

    fn host(&self) -> Option<&str> {
        self.uri().host()
    }

    fn port(&self) -> Option<u16> {
        self.uri().port_u16()
    }

    fn path(&self) -> &str {
        self.uri().path()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

impl<B: Clone> Repeat for http::Request<B> {
    fn repeat(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl<B> Response for http::Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

/// Waits until the service has room, and calls it. Layers do so on a clone of their own, after they
/// let the request through: a request that waits holds no room that others could use.
pub(crate) async fn call<S: Service<R>, R>(
    mut service: S,
    request: R,
) -> Result<S::Response, S::Error> {
    poll_fn(|cx| service.poll_ready(cx)).await?;
    service.call(request).await
}
