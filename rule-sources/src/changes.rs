//! How a source tells that it may have changed.

use std::{any::Any, fmt, sync::Arc};

use tokio::sync::Notify;

/// Changes of one source, from whatever watches it. Dropping it ends the watching.
pub struct Changes {
    signal: Arc<Notify>,
    /// Watches for as long as it lives.
    _watching: Box<dyn Any + Send + Sync>,
}

impl Changes {
    /// Changes that are told by `notify_one` on `signal`. `watching` is dropped with the value;
    /// that must end whatever thread or task holds the other end.
    #[must_use]
    pub fn new(signal: Arc<Notify>, watching: impl Send + Sync + 'static) -> Self {
        Self { signal, _watching: Box::new(watching) }
    }

    /// Resolves when something may have changed since the last call; several changes may be told
    /// as one. It is told once things are quiet for a moment, so that a file that is written in
    /// pieces is not read in between. Cancel safe: a change that was not told yet is told next.
    pub async fn next(&mut self) {
        self.signal.notified().await;
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}
