//! Waiting for what another thread or process does, without guessing how long it takes.

use std::time::{Duration, Instant};

/// Asks until `holds`, and fails the test when it does not within 20 s.
#[expect(clippy::disallowed_methods, reason = "waits for another process, not for time to pass")]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
