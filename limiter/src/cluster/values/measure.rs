//! What the table of values asks of the counters in it.

use crate::Tick;

/// How the counters of one rule's values are read.
pub(crate) trait Measure: Copy {
    /// What one value has used: nothing by default.
    type Counter: Default;

    /// The counter of a value that has none yet, when `shared` answered for those without one.
    fn begin(self, shared: &Self::Counter) -> Self::Counter;

    /// Whether nothing of it counts at `now` and later, so that a new one would decide the same.
    fn is_idle(self, counter: &Self::Counter, now: Tick) -> bool;

    /// Whether values that were used later may be idle before.
    fn is_out_of_order(self) -> bool {
        true
    }

    /// Whether the request that is being decided has asked it and taken nothing yet.
    fn is_asked(self, _: &Self::Counter) -> bool {
        false
    }

    /// Lets a counter see that it is `now`: nothing of it goes back behind that.
    fn see(self, _: &mut Self::Counter, _: Tick) {}

    /// Bytes that a counter allocates beside itself.
    fn heap_bytes(self) -> u64 {
        0
    }
}
