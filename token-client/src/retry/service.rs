//! A service whose requests are sent again.

use std::task::{Context, Poll};

use tokio::time::sleep;
use tower_service::Service;

use super::RetryLayer;
use crate::exchange::{Answering, Failure, Repeat, Response, call};

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
    S: Service<R, Response: Response + Send, Error: Failure + Send, Future: Send>
        + Clone
        + Send
        + 'static,
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
                if result.as_ref().is_err_and(Failure::is_refusal) {
                    return result;
                }
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

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        future::ready,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
    };

    use http::{HeaderMap, Method, Response};
    use tower::{Layer, ServiceExt, service_fn};

    use super::{
        super::{Budget, BudgetSettings},
        *,
    };
    use crate::{
        bulkhead::{BulkheadError, Refused},
        exchange::{Request, Sent},
    };

    /// A request whose body is gone once it was sent.
    struct Once(HeaderMap);

    impl Request for Once {
        fn method(&self) -> &Method {
            &Method::GET
        }

        fn host(&self) -> Option<&str> {
            None
        }

        fn port(&self) -> Option<u16> {
            None
        }

        fn path(&self) -> &str {
            "/"
        }

        fn headers(&self) -> &HeaderMap {
            &self.0
        }
    }

    impl Repeat for Once {
        fn repeat(&self) -> Option<Self> {
            None
        }
    }

    fn generous() -> (RetryLayer, Budget) {
        let budget = Budget::new(BudgetSettings { reserve: 100, ..Default::default() });
        (RetryLayer::default().budget(budget.clone()), budget)
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_be_read_only_once_is_sent_once() {
        let (layer, budget) = generous();
        let service = service_fn(|_: Once| {
            let refused = Response::builder().status(503).header("retry-after", "1");
            ready(Ok::<_, Infallible>(refused.body(()).unwrap()))
        });
        let answer = layer.layer(service).oneshot(Once(HeaderMap::new())).await.unwrap();
        assert_eq!((answer.status().as_u16(), budget.retries()), (503, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_layer_beneath_refused_is_not_asked_again_and_what_failed_is() {
        let (layer, _) = generous();
        for (error, times) in
            [(BulkheadError::Refused(Refused::Full), 1), (BulkheadError::Failed(Sent("reset")), 3)]
        {
            let asked = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&asked);
            let service = service_fn(move |_: http::Request<()>| {
                counted.fetch_add(1, Ordering::Relaxed);
                ready(Err::<Response<()>, _>(error.clone()))
            });
            layer.layer(service).oneshot(http::Request::new(())).await.unwrap_err();
            assert_eq!(asked.load(Ordering::Relaxed), times);
        }
    }
}
