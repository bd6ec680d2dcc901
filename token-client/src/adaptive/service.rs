//! A service behind a limit that learns.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use limiter::{
    Clock, MonotonicClock,
    adaptive::{AdaptiveLimiter, Limit, Outcome},
};
use tower_layer::Layer;
use tower_service::Service;

use crate::exchange::{Answering, Request, Response, call};

type Classify = dyn Fn(Option<&dyn Response>, Duration) -> Outcome + Send + Sync;
type Share = dyn for<'a> Fn(&'a dyn Request) -> Option<&'a str> + Send + Sync;

/// Limits the calls of a service by an [`AdaptiveLimiter`]. See [the module](super).
pub struct AdaptiveLayer<L: Limit> {
    limiter: AdaptiveLimiter<L>,
    how: Arc<How>,
}

#[derive(Clone)]
struct How {
    clock: Arc<dyn Clock>,
    timeout: Option<Duration>,
    classify: Arc<Classify>,
    share: Arc<Share>,
}

/// Why an [`Adaptive`] service gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptiveError<E> {
    /// As many calls are in progress as the server can take; this one was not made.
    #[error("as many calls are in progress as the server can take")]
    Full,
    /// No answer came in this time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The call was made, and failed with this.
    #[error(transparent)]
    Failed(E),
}

/// What an answer, or none, after `rtt` says of the server by default; see [the module](super).
#[must_use]
pub fn outcome(answer: Option<&dyn Response>, rtt: Duration) -> Outcome {
    let Some(answer) = answer else { return Outcome::Dropped };
    match (answer.status().as_u16(), answer.grpc_code()) {
        (429 | 503 | 504, _) | (_, Some(4 | 8 | 14)) => Outcome::Dropped,
        (500.., _) | (_, Some(2 | 12 | 13 | 15)) => Outcome::Ignored,
        _ => Outcome::Success { rtt },
    }
}

impl<L: Limit> AdaptiveLayer<L> {
    /// A layer of this limiter, which others may ask too.
    #[must_use]
    pub fn new(limiter: AdaptiveLimiter<L>) -> Self {
        let how = How {
            clock: Arc::new(MonotonicClock::start()),
            timeout: None,
            classify: Arc::new(outcome),
            share: Arc::new(|_| None),
        };
        Self { limiter, how: Arc::new(how) }
    }

    /// Gives up calls that take longer, and tells the limit that they were dropped. A time-out
    /// outside of this layer looks like a caller who went away, of which nothing is learnt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        Arc::make_mut(&mut self.how).timeout = Some(timeout);
        self
    }

    /// Decides what a call says: it is given the answer, or `None` if none came, and how long it
    /// took.
    #[must_use]
    pub fn classify(
        mut self,
        classify: impl Fn(Option<&dyn Response>, Duration) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.how).classify = Arc::new(classify);
        self
    }

    /// Says whose [share](limiter::adaptive::Shares) of the limit a request takes from. `None` is
    /// one without a share.
    #[must_use]
    pub fn share(
        mut self,
        share: impl for<'a> Fn(&'a dyn Request) -> Option<&'a str> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.how).share = Arc::new(share);
        self
    }

    /// Measures on this clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        Arc::make_mut(&mut self.how).clock = clock;
        self
    }
}

impl<L: Limit> Clone for AdaptiveLayer<L> {
    fn clone(&self) -> Self {
        Self { limiter: self.limiter.clone(), how: Arc::clone(&self.how) }
    }
}

impl<L: Limit + fmt::Debug> fmt::Debug for AdaptiveLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("AdaptiveLayer");
        debug.field("limiter", &self.limiter).field("timeout", &self.how.timeout);
        debug.finish_non_exhaustive()
    }
}

impl<L: Limit, S> Layer<S> for AdaptiveLayer<L> {
    type Service = Adaptive<L, S>;

    fn layer(&self, inner: S) -> Adaptive<L, S> {
        Adaptive { inner, layer: self.clone() }
    }
}

/// A service behind a limit that learns, made by an [`AdaptiveLayer`].
///
/// It is always ready, so that a call above the limit hears so at once. How long a call takes counts
/// from when it was let through, and so includes until the service beneath was ready.
#[derive(Debug)]
pub struct Adaptive<L: Limit, S> {
    inner: S,
    layer: AdaptiveLayer<L>,
}

impl<L: Limit, S: Clone> Clone for Adaptive<L, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<L, S, R> Service<R> for Adaptive<L, S>
where
    L: Limit + Send + 'static,
    S: Service<R, Response: Response + Send, Error: Send, Future: Send> + Clone + Send + 'static,
    R: Request + Send + 'static,
{
    type Response = S::Response;
    type Error = AdaptiveError<S::Error>;
    type Future = Answering<S::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Self { inner, layer: AdaptiveLayer { limiter, how } } = self.clone();
        Box::pin(async move {
            let permit = match (how.share)(&request) {
                Some(name) => limiter.acquire_for(name),
                None => limiter.acquire(),
            };
            let Some(permit) = permit else { return Err(AdaptiveError::Full) };
            let start = how.clock.now();
            let calling = call(inner, request);
            let result = match how.timeout {
                Some(timeout) => tokio::time::timeout(timeout, calling)
                    .await
                    .map_err(|_| AdaptiveError::TimedOut(timeout))
                    .and_then(|result| result.map_err(AdaptiveError::Failed)),
                None => calling.await.map_err(AdaptiveError::Failed),
            };
            let now = how.clock.now();
            let answer = result.as_ref().ok().map(|answer| answer as &dyn Response);
            permit.release(now, (how.classify)(answer, now.since(start)));
            result
        })
    }
}
