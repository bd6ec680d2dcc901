//! Work apart from connections: on a thread of its own, in time that they leave.

use std::{io, thread};

use tokio::sync::oneshot;

/// The lowest of the kernel's priorities. A busy core gives such a thread a seventieth of its time,
/// so the work ends even then.
#[cfg(target_os = "linux")]
const NICE: i32 = 19;

/// Runs `work` on a thread called `name`, which gives way to all others; `None` when it panicked.
///
/// The runtime's own blocking threads are no place for it: they are used again, and an unprivileged
/// process cannot raise a priority that was lowered.
///
/// # Errors
///
/// When there can be no thread; `work` was not begun then.
pub(crate) async fn apart<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (tell, told) = oneshot::channel();
    thread::Builder::new().name(name.into()).spawn(move || {
        give_way();
        // Whoever asked may have gone.
        drop(tell.send(work()));
    })?;
    Ok(told.await.ok())
}

#[cfg(target_os = "linux")]
fn give_way() {
    // On Linux a thread has a priority of its own. A system that refuses this one runs the work all
    // the same.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

/// Elsewhere a priority is the whole process's.
#[cfg(not(target_os = "linux"))]
fn give_way() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn the_work_gives_way_and_nobody_else_does() {
        let priority = || rustix::process::getpriority_process(Some(rustix::thread::gettid()));
        let before = priority().unwrap();
        assert_eq!(apart("work", priority).await.unwrap(), Some(Ok(NICE)));
        assert_eq!(priority(), Ok(before));
    }

    #[tokio::test]
    async fn work_that_panics_is_no_result() {
        let outcome = apart::<()>("work", || panic!("as the test wants it")).await;
        assert_eq!(outcome.unwrap(), None);
    }
}
