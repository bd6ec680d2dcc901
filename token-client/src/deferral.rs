//! Writes that come too fast are made later: over the limit they wait in a bounded queue, and go as
//! the rules of their resource let them.
//!
//! ```text
//! write ─► does anybody wait? ─ no ─► does the rule let it go now? ─ yes ─► made, and answered
//!                │ yes                          │ no
//!                └───────────► queue ◄──────────┘      full: 429
//!                                │ answered 202, with a ticket
//!                                ▼
//!                     one asks for its turn after the other ─► made
//! ```
//!
//! [`DeferralLayer`] does so to HTTP requests; [`Deferral::defer`] to any future.
//!
//! ```
//! use std::time::Duration;
//! use token_client::{Engine, deferral::{Deferral, Settings}, limiter::local::LocalSettings};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(LocalSettings::default());
//! let orders = Deferral::new(engine, "POST:/orders", Settings::default());
//! let ticket = orders.defer(async { Ok::<_, std::io::Error>(()) })?;
//! println!("order {} is made later", ticket.detach());
//! let drained = orders.shutdown(Duration::from_secs(10)).await;
//! assert!(drained.left.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! **The rate** is that of the rules for the resource, whichever they are. Best is one that spaces
//! calls (`controlBehavior` 2): who waits is let go at its time, exactly. Other rules refuse, and are
//! asked again after [`Settings::pause`]; these refusals count in the statistics of the resource.
//! Nobody overtakes those who wait.
//!
//! What waits is in the memory of this process: it is lost with it, and it was answered 202 before it
//! was made. Use it where that is right, for what can be sent again or is no loss.

mod queue;
mod service;
mod ticket;

use std::{sync::Arc, time::Duration};

use tokio_util::sync::DropGuard;

use self::queue::{Queue, Turn};
pub use self::{
    service::{AHEAD, DeferralLayer, Deferring, TICKET},
    ticket::Ticket,
};
use crate::Engine;

/// The numbers of a [`Deferral`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the calls are requests to this service, at which system rules look, as those of a
    /// [`DeferralLayer`]; true. Calls that it makes are not.
    pub inbound: bool,
    /// Most calls that wait; 1 000. With 0 none does.
    pub waiting_max: usize,
    /// The longest body of a request that waits, in bytes; 64 KiB. All that waits takes at most so
    /// much for each place of the queue, and its heads.
    pub body_max: usize,
    /// How long a write waits for its turn before it is answered 202; 50 ms, which a token server's
    /// answer does not take.
    pub patience: Duration,
    /// How long after a refusal a rule is asked again; 100 ms.
    pub pause: Duration,
    /// What a request is told that finds the queue full, as `Retry-After`; 1 s.
    pub retry_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            inbound: true,
            waiting_max: 1_000,
            body_max: 64 * 1_024,
            patience: Duration::from_millis(50),
            pause: Duration::from_millis(100),
            retry_after: Duration::from_secs(1),
        }
    }
}

/// Why a call was not deferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotDeferred {
    /// As many wait as may.
    #[error("the queue of deferred calls is full")]
    Full,
    /// The process is about to end.
    #[error("no more calls are deferred")]
    Closed,
}

/// What became of the calls of a [`Deferral`] at its [end](Deferral::shutdown).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Tickets of those that were never made, in the order in which they waited.
    pub left: Vec<u64>,
    /// Calls that were made and have not ended. They go on while the runtime does.
    pub running: usize,
}

/// Calls of one resource that wait until they may be made. Clones are the same.
///
/// When the last clone is dropped without [`Self::shutdown`], what waits is dropped.
#[derive(Clone, Debug)]
pub struct Deferral(Arc<Owner>);

#[derive(Debug)]
struct Owner {
    queue: Arc<Queue>,
    settings: Settings,
    /// Ends the task that lets calls go.
    _alive: DropGuard,
}

impl Deferral {
    /// A queue for calls of `resource`, empty.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime, on which what waits is made.
    #[must_use]
    pub fn new(engine: Engine, resource: &str, settings: Settings) -> Self {
        let (queue, alive) = Queue::start(engine, resource, settings);
        Self(Arc::new(Owner { queue, settings, _alive: alive }))
    }

    /// Makes `call` when its turn comes, which may be at once, in a task of its own. An `Err` and a
    /// panic of it count as an error of the resource.
    ///
    /// # Errors
    ///
    /// [`NotDeferred`]; `call` is dropped without having run.
    pub fn defer<T, E>(
        &self,
        call: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<Ticket, NotDeferred> {
        self.put(async move { call.await.is_ok() }, None)
    }

    fn put(
        &self,
        call: impl Future<Output = bool> + Send + 'static,
        turn: Option<Turn>,
    ) -> Result<Ticket, NotDeferred> {
        let id = self.0.queue.put(Box::pin(call), turn)?;
        Ok(Ticket::new(&self.0.queue, id))
    }

    /// How many calls go before that of a ticket; `None` when it does not wait: it was made, taken
    /// back, or never given.
    #[must_use]
    pub fn ahead(&self, ticket: u64) -> Option<usize> {
        self.0.queue.ahead(ticket)
    }

    /// Calls that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.queue.waiting()
    }

    /// Takes a call back that still waits: it is dropped, and the next one has its turn. `false` if it
    /// does not wait. Tickets are numbers in a row: who may take back which is for the caller to
    /// know.
    pub fn cancel(&self, ticket: u64) -> bool {
        self.0.queue.cancel(ticket)
    }

    /// Ends it: nothing more is deferred, what waits is made at the rate of the rules, and this
    /// returns when all have ended, or after `deadline` with those that were never made.
    pub async fn shutdown(&self, deadline: Duration) -> Drained {
        self.0.queue.drain(deadline).await
    }
}

#[cfg(test)]
mod tests;
