//! A service whose calls are entries.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tower_layer::Layer;
use tower_service::Service;

use super::name;
use crate::{
    Engine, RunError,
    exchange::{Answering, Request, Response, call},
};

type Name = dyn Fn(&dyn Request) -> String + Send + Sync;
type Fails = dyn Fn(Option<&dyn Response>) -> bool + Send + Sync;

/// Makes each call of a service an entry of an [`Engine`]. See [the module](super).
#[derive(Clone)]
pub struct OutgoingLayer {
    engine: Engine,
    name: Arc<Name>,
    fails: Arc<Fails>,
}

impl OutgoingLayer {
    /// A layer of this engine, which names calls by their method and host and fails those of
    /// [`is_failure`].
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self { engine, name: Arc::new(|request| name(request, 0)), fails: Arc::new(is_failure) }
    }

    /// Names the resource of each call. Give calls that rules limit together one name, and let no
    /// ids into it. `|request| name(request, 2)` adds two segments of the path; see [`name`].
    #[must_use]
    pub fn named(mut self, name: impl Fn(&dyn Request) -> String + Send + Sync + 'static) -> Self {
        self.name = Arc::new(name);
        self
    }

    /// Decides which calls count as errors. It is given the answer, or `None` if none came.
    #[must_use]
    pub fn fails_if(
        mut self,
        fails: impl Fn(Option<&dyn Response>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.fails = Arc::new(fails);
        self
    }
}

/// What counts as an error by default: no answer, one with 5xx, and the codes of gRPC that are like
/// it: UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE and DATA_LOSS. Others are the
/// caller's fault, or a limit, of which a breaker should not hear.
#[must_use]
pub fn is_failure(answer: Option<&dyn Response>) -> bool {
    let Some(answer) = answer else { return true };
    let is_grpc_failure = matches!(answer.grpc_code(), Some(2 | 4 | 12..=15));
    answer.status().is_server_error() || is_grpc_failure
}

impl fmt::Debug for OutgoingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingLayer").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for OutgoingLayer {
    type Service = Outgoing<S>;

    fn layer(&self, inner: S) -> Outgoing<S> {
        Outgoing { inner, layer: self.clone() }
    }
}

/// A service whose calls are entries, made by an [`OutgoingLayer`].
///
/// It is always ready; a call that was let through waits until the service beneath is. A call that
/// is dropped counts as one without error.
#[derive(Clone, Debug)]
pub struct Outgoing<S> {
    inner: S,
    layer: OutgoingLayer,
}

impl<S, R> Service<R> for Outgoing<S>
where
    S: Service<R, Response: Response + Send, Error: Send, Future: Send> + Clone + Send + 'static,
    R: Request + Send + 'static,
{
    type Response = S::Response;
    type Error = RunError<S::Error>;
    type Future = Answering<S::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Self { inner, layer: OutgoingLayer { engine, name, fails } } = self.clone();
        let resource = name(&request);
        Box::pin(async move {
            let mut guard = engine.entry(&resource).acquire().await.map_err(RunError::Blocked)?;
            let result = call(inner, request).await;
            if fails(result.as_ref().ok().map(|answer| answer as &dyn Response)) {
                guard.fail();
            }
            result.map_err(RunError::Failed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(status: u16, grpc: Option<&str>) -> bool {
        let mut answer = http::Response::builder().status(status);
        if let Some(code) = grpc {
            answer = answer.header("grpc-status", code);
        }
        is_failure(Some(&answer.body(()).unwrap()))
    }

    #[test]
    fn server_errors_and_codes_like_them_are_failures() {
        assert!(is_failure(None));
        for status in 100..600 {
            assert_eq!(fails(status, None), status >= 500, "{status}");
        }
        for code in 0..=17_u8 {
            let right = [2, 4, 12, 13, 14, 15].contains(&code);
            assert_eq!(fails(200, Some(&code.to_string())), right, "{code}");
        }
        assert!(!fails(200, Some("")) && !fails(200, Some("-1")) && !fails(200, Some("270")));
    }
}
