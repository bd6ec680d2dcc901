//! How long threads take that work at the same time.

use std::{error::Error, sync::Barrier, thread, time::Duration};

use limiter::{Clock, MonotonicClock};

/// Lets each of `threads` threads do `work`, given its number, from the same moment on. Gives how
/// long the slowest took; each must say that `right` of its calls passed.
pub(crate) fn slowest(
    threads: usize,
    right: usize,
    work: impl Fn(usize) -> usize + Sync,
) -> Result<Duration, Box<dyn Error>> {
    let clock = MonotonicClock::start();
    let start = Barrier::new(threads);
    let timed = |number| {
        start.wait();
        let began = clock.now();
        let passed = work(number);
        (clock.now().since(began), passed)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let timed = &timed;
        let handles: Vec<_> = (0..threads).map(|n| scope.spawn(move || timed(n))).collect();
        handles.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut slowest = Duration::ZERO;
    for result in results {
        let (took, passed) = result.map_err(|_| "a thread panicked")?;
        if passed != right {
            return Err(format!("{passed} of {right} passed").into());
        }
        slowest = slowest.max(took);
    }
    Ok(slowest)
}
