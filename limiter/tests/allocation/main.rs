//! A call that the engine has seen the like of allocates nothing, from its enter to its exit:
//! whatever slots it passes, waits at or is refused by.
#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the rules are what the test wrote, and an outcome has its place"
)]

mod kinds;
mod world;

use std::time::Duration;

use allocation_counter::measure;
use limiter::Tick;

use self::{
    kinds::KINDS,
    world::{Outcome, Tally, World},
};

/// Time between two rounds of calls: every part of a second comes, and breakers close again.
const LATER: Duration = Duration::from_millis(170);

#[test]
fn nothing_is_allocated_from_enter_to_exit_once_the_like_was_seen() {
    for (name, calls, outcomes) in KINDS {
        let world = World::new();
        let mut now = Tick::from_ms(1_700_000_040_000);
        let mut rounds = |count: u32, tally: &mut Tally| {
            for _ in 0..count {
                calls(&world, now, tally);
                now = now.plus(LATER);
            }
        };
        rounds(50, &mut Tally::default());
        let mut tally = Tally::default();
        let counted = measure(|| rounds(500, &mut tally));
        for outcome in outcomes {
            assert!(tally.of(*outcome) >= 50, "{name}, {outcome:?}: {tally:?}");
        }
        if outcomes.contains(&Outcome::Degrade) {
            assert!(tally.turned >= 50, "{name}: {tally:?}");
        }
        assert_eq!((counted.count_total, counted.bytes_total), (0, 0), "{name}: {tally:?}");
    }
}

#[test]
fn an_allocation_would_be_seen() {
    assert_eq!(measure(|| drop(Box::new(7))).count_total, 1);
}
