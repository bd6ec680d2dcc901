//! Waiting for what another thread or process does, without guessing how long it takes.

use std::time::{Duration, Instant};

/// Asks until `holds`, and fails the test when it does not within 20 s.
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(Duration::from_secs(20), what, holds);
}

/// Asks until `holds`, and fails the test when it does not within `bound` from now: for what is
/// promised in a time.
#[expect(clippy::disallowed_methods, reason = "waits for another process, not for time to pass")]
pub fn within(bound: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    loop {
        let held = holds();
        let took = started.elapsed();
        assert!(took <= bound, "not within {bound:?} but {held} after {took:?}: {what}");
        if held {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
