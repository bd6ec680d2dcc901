//! A service behind a bulkhead.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::{Bulkhead, BulkheadError};
use crate::exchange::{Answering, call};

/// Puts services behind a [`Bulkhead`]: all that one layer makes are behind the same one.
#[derive(Clone, Debug)]
pub struct BulkheadLayer(Bulkhead);

impl BulkheadLayer {
    /// A layer of this bulkhead.
    #[must_use]
    pub const fn new(bulkhead: Bulkhead) -> Self {
        Self(bulkhead)
    }
}

impl<S> Layer<S> for BulkheadLayer {
    type Service = Bulkheaded<S>;

    fn layer(&self, inner: S) -> Bulkheaded<S> {
        Bulkheaded { inner, bulkhead: self.0.clone() }
    }
}

/// A service behind a [`Bulkhead`], made by a [`BulkheadLayer`].
///
/// It is always ready. A worker waits until the service beneath is, so that one that never is holds
/// up nobody else.
#[derive(Clone, Debug)]
pub struct Bulkheaded<S> {
    inner: S,
    bulkhead: Bulkhead,
}

impl<S, R> Service<R> for Bulkheaded<S>
where
    S: Service<R, Response: Send, Error: Send, Future: Send> + Clone + Send + 'static,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = BulkheadError<S::Error>;
    type Future = Answering<S::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Self { inner, bulkhead } = self.clone();
        Box::pin(async move {
            let result = bulkhead.run(call(inner, request)).await;
            result.map_err(BulkheadError::Refused)?.map_err(BulkheadError::Failed)
        })
    }
}
