//! Where the calls of a bulkhead run.

use std::{io, panic::resume_unwind};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinError, JoinHandle},
};
use tokio_util::task::AbortOnDropHandle;

use super::{Place, Refused};

/// Whose threads run the calls.
#[derive(Debug)]
pub(super) enum Home {
    Callers,
    /// `None` only while it is dropped.
    Own(Option<Runtime>),
}

impl Home {
    /// Threads of one's own, called `name`.
    pub(super) fn own(name: &str, threads: usize, workers: usize) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        // No more than so many run at a time, so none of them waits for a thread.
        builder.worker_threads(threads.max(1)).max_blocking_threads(workers.max(1));
        let runtime = builder.thread_name(name).enable_all().build()?;
        Ok(Self::Own(Some(runtime)))
    }

    pub(super) async fn run<F>(&self, place: Place, call: F) -> Result<F::Output, Refused>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let placed = async move {
            let _place = place;
            call.await
        };
        match self {
            Self::Own(Some(runtime)) => ended(runtime.spawn(placed)).await,
            Self::Own(None) | Self::Callers => Ok(placed.await),
        }
    }

    pub(super) async fn run_blocking<T: Send + 'static>(
        &self,
        place: Place,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let placed = move || {
            let _place = place;
            call()
        };
        let running = match self {
            Self::Own(Some(runtime)) => runtime.spawn_blocking(placed),
            Self::Own(None) | Self::Callers => Handle::current().spawn_blocking(placed),
        };
        ended(running).await
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Self::Own(runtime) = self
            && let Some(runtime) = runtime.take()
        {
            // To wait would block whoever drops it, for as long as the dependency hangs.
            runtime.shutdown_background();
        }
    }
}

/// What a task gives; it is stopped when this is dropped.
async fn ended<T>(task: JoinHandle<T>) -> Result<T, Refused> {
    AbortOnDropHandle::new(task).await.map_err(|error: JoinError| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Refused::Closed,
    })
}
