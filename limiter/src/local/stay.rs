//! How long what was above a bound goes on to share counters when there is room again.
//!
//! Nobody knows of a name or an origin whether it was among those that shared, so what it has used
//! and what it has in progress lies there. It goes on there until nothing that is shared counts any
//! more, or else it would be let through once by its own limits and once by the shared ones. What
//! is called without a pause would never get out, and one flood would bind all others together for
//! good; hence a longest time, behind which a name can have its limit twice, for once.

use std::time::Duration;

use crate::Tick;

/// As long as what is counted at all counts.
const LONGEST: Duration = Duration::from_secs(60);

/// Since when there has been room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stay(Option<Tick>);

impl Stay {
    /// There is no room.
    pub(super) fn begin(&mut self) {
        self.0 = None;
    }

    /// There is room: whether what shared goes on to, as long as something counts.
    pub(super) fn goes_on(&mut self, now: Tick) -> bool {
        now.since(*self.0.get_or_insert(now)) < LONGEST
    }
}
