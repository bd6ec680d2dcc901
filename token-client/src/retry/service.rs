//! A service whose requests are sent again.

use std::task::{Context, Poll};

use tokio::time::sleep;
use tower_service::Service;

use super::RetryLayer;
use crate::exchange::{Answering, Repeat, Response, call};

/// A service whose refused and failed requests are sent again, made by a [`RetryLayer`].
///
/// It is always ready; a call waits until the service beneath is. A call that is dropped while it
/// waits is not sent again.
#[derive(Clone, Debug)]
pub struct Retry<S> {
    pub(super) inner: S,
    pub(super) layer: RetryLayer,
}

impl<S, R> Service<R> for Retry<S>
where
    S: Service<R, Response: Response + Send, Error: Send, Future: Send> + Clone + Send + 'static,
    R: Repeat + Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answering<S::Response, S::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Self { inner, layer } = self.clone();
        Box::pin(async move {
            layer.begin();
            let method = request.method().clone();
            let (mut next, mut retries) = (request, 0);
            loop {
                let again = next.repeat();
                let result = call(inner.clone(), next).await;
                let Some(again) = again else { return result };
                let wait = layer.again_in(&method, result.as_ref().ok(), retries);
                let Some(wait) = wait else { return result };
                // The answer goes first, and with it its connection.
                drop(result);
                sleep(wait).await;
                (next, retries) = (again, retries + 1);
            }
        })
    }
}
