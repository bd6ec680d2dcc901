//! The one clock reading of this crate that is not a tick: deadlines.

use tokio::time::Instant;

/// Now, on the runtime's clock, which a test can stop.
#[expect(
    clippy::disallowed_methods,
    reason = "deadlines are kept by the runtime's timers, so they are read from its clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
