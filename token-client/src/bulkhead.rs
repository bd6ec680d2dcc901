//! Bulkheads: what one dependency does to its callers does not reach the others.
//!
//! ```text
//!            ┌ places: workers + queue ─────────────────────────┐
//! call ─ full? ─► queue (first come, first served) ─► a worker ─┼─► done
//!   └─ Refused::Full, at once                                   │
//!            └──────────────────────────────────────────────────┘
//! ```
//!
//! A [`Bulkhead`] lets as many calls of a dependency run as it has workers, and as many wait as its
//! queue holds; further ones are refused at once. When the dependency hangs, so many calls hang, and
//! whoever calls something else finds threads, memory and connections as ever.
//!
//! | made by | [`run`](Bulkhead::run), [`BulkheadLayer`] | [`run_blocking`](Bulkhead::run_blocking) |
//! |---|---|---|
//! | [`Bulkhead::new`] | in the task of the caller | in the blocking pool of its runtime, never more threads of it than workers |
//! | [`Bulkhead::with_threads`] | on threads of its own | on other threads of its own, one a worker |
//!
//! The first is right for calls that never block a thread. One with threads of its own holds whatever
//! a call does, at the price of a hop to another thread and back.
//!
//! ```
//! use token_client::bulkhead::{Bulkhead, Refused};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Refused> {
//! let reports = Bulkhead::new(4, 16);
//! let pages = reports.run(async { 42 }).await?;
//! let bytes = reports.run_blocking(move || pages * 1_024).await?;
//! # assert_eq!(bytes, 43_008);
//! # Ok(())
//! # }
//! ```

mod home;
mod service;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::home::Home;
pub use self::service::{BulkheadLayer, Bulkheaded};

/// Runs calls of one dependency, a bounded number at a time. Clones are the same bulkhead.
#[derive(Clone, Debug)]
pub struct Bulkhead(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Of calls that run or wait.
    places: Arc<Semaphore>,
    /// Fair: calls go in the order in which they came.
    workers: Arc<Semaphore>,
    size: (usize, usize),
    refused: AtomicU64,
    home: Home,
}

/// A call that may run, until this is dropped.
#[derive(Debug)]
struct Place {
    // The worker goes first: a free place with no worker behind it would be taken in vain.
    _worker: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

/// How full a bulkhead is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Calls that run.
    pub running: usize,
    /// Calls that wait for a worker.
    pub waiting: usize,
}

/// Why a call was not made, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// All workers are busy, and the queue is full.
    #[error("the bulkhead is full")]
    Full,
    /// The runtime that the call was to run on has shut down.
    #[error("the runtime of the bulkhead has shut down")]
    Closed,
}

/// Why a [`Bulkheaded`] service gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BulkheadError<E> {
    /// The call was not made.
    #[error("{0}")]
    Refused(Refused),
    /// The call was made, and failed with this.
    #[error(transparent)]
    Failed(E),
}

impl Bulkhead {
    /// A bulkhead of `workers` calls that run at a time and `queue` that wait, in the runtime of their
    /// callers. One without workers refuses everything.
    #[must_use]
    pub fn new(workers: usize, queue: usize) -> Self {
        Self::at(Home::Callers, workers, queue)
    }

    /// The same on a runtime of its own: `threads` that drive the futures of [`Self::run`], one at
    /// least, and up to `workers` more for [`Self::run_blocking`], started when needed. When the last
    /// clone is dropped, calls that still run go on until they yield; nobody waits for them.
    ///
    /// # Errors
    ///
    /// The system gives no threads.
    pub fn with_threads(
        name: &str,
        threads: usize,
        workers: usize,
        queue: usize,
    ) -> io::Result<Self> {
        Ok(Self::at(Home::own(name, threads, workers)?, workers, queue))
    }

    fn at(home: Home, workers: usize, queue: usize) -> Self {
        let workers = workers.min(Semaphore::MAX_PERMITS);
        let places = if workers == 0 { 0 } else { workers.saturating_add(queue) };
        let places = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        let size = (places.available_permits(), workers);
        let workers = Arc::new(Semaphore::new(workers));
        let refused = AtomicU64::new(0);
        Self(Arc::new(Shared { places, workers, size, refused, home }))
    }

    /// Runs `call` when a worker is free.
    ///
    /// Dropped while it waits, it leaves the queue. Dropped later, `call` is dropped too: at once in
    /// the task of its caller, and on threads of their own as soon as it yields, until when it keeps
    /// its worker.
    ///
    /// # Errors
    ///
    /// The bulkhead is full; `call` is dropped without having run.
    ///
    /// # Panics
    ///
    /// As `call`.
    pub async fn run<F>(&self, call: F) -> Result<F::Output, Refused>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let place = self.place().await?;
        self.0.home.run(place, call).await
    }

    /// Runs `call`, which may block its thread, when a worker is free.
    ///
    /// Dropped before it began, `call` is not run. Once it runs, nothing can stop it: it keeps its
    /// worker to its end, whoever still waits for it.
    ///
    /// # Errors
    ///
    /// The bulkhead is full; `call` is dropped without having run.
    ///
    /// # Panics
    ///
    /// As `call`. One of [`Self::new`] panics outside of a Tokio runtime.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let place = self.place().await?;
        self.0.home.run_blocking(place, call).await
    }

    async fn place(&self) -> Result<Place, Refused> {
        let Shared { places, workers, refused, .. } = &*self.0;
        let place = Arc::clone(places).try_acquire_owned().map_err(|_| {
            // Relaxed: the count is the whole state.
            refused.fetch_add(1, Ordering::Relaxed);
            Refused::Full
        })?;
        // Nobody closes them.
        let worker = Arc::clone(workers).acquire_owned().await.map_err(|_| Refused::Closed)?;
        Ok(Place { _worker: worker, _place: place })
    }

    /// Calls that were refused because it was full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        // Relaxed: as in `place`.
        self.0.refused.load(Ordering::Relaxed)
    }

    /// How full it is. Calls come and go meanwhile.
    #[must_use]
    pub fn filled(&self) -> Filled {
        let Shared { places, workers, size, .. } = &*self.0;
        let all = size.0.saturating_sub(places.available_permits());
        let running = size.1.saturating_sub(workers.available_permits()).min(all);
        Filled { running, waiting: all - running }
    }
}

#[cfg(test)]
mod tests;
