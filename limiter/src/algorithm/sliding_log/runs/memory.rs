//! What a ring allocates, and how it makes do with less.

use super::{PLACES_MIN, Run, Runs};

impl Runs {
    /// Bytes that the shortest ring allocates.
    pub(crate) const HEAP_MIN: u64 = (PLACES_MIN * size_of::<Run>()) as u64;

    /// Bytes that the ring allocates.
    pub(crate) fn heap_bytes(&self) -> u64 {
        (self.places.len() * size_of::<Run>()) as u64
    }

    /// Makes do with so many bytes, or those of the shortest ring: joins neighbours, the earlier with
    /// the later.
    pub(crate) fn make_do_with(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let most = (bytes / size_of::<Run>()).max(PLACES_MIN);
        while self.len() > most {
            // Every other one goes, its tokens to the next, but never the first or the last.
            let last = self.len() - 1;
            self.retain(|index| index % 2 == 0 || index == last);
        }
        self.shrink_to(most);
    }

    /// Gives back what a ring that was far longer has left; as much again may come before it grows.
    pub(crate) fn give_back_heap(&mut self) {
        if self.len() < self.places.len() / 8 {
            self.shrink_to(PLACES_MIN.max(2 * self.len()));
        }
    }

    pub(super) fn shrink_to(&mut self, places: usize) {
        if places < self.places.len() {
            self.set_places(places);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::algorithm::{
        Algorithm, SlidingLog, SlidingLogState,
        suite::{SECOND, admitted, at, pass},
    };

    fn log(count: f64) -> SlidingLog {
        SlidingLog::new(count, SECOND).unwrap()
    }

    #[test]
    fn a_log_that_makes_do_with_less_forgets_no_token_before_its_time() {
        let (log, mut state) = (log(1_000.0), SlidingLogState::default());
        for t in 0..101 {
            assert_eq!(log.take(&mut state, at(t), 2), pass(998 - 2 * t));
        }
        let whole = state.clone();
        for (bytes, entries) in [(1_024, 51), (1_024, 51), (100, 5), (0, 3)] {
            state.make_do_with(bytes);
            assert_eq!(state.log.len(), entries);
            assert!(state.heap_bytes() <= bytes.max(SlidingLog::HEAP_MIN));
            for t in 100..1_200 {
                assert!(log.used(&state, at(t)) >= log.used(&whole, at(t)), "{bytes} {t}");
            }
            assert_eq!((log.used(&state, at(999)), log.used(&state, at(1_100))), (202, 0));
        }
    }

    #[test]
    fn a_log_that_was_long_gives_its_memory_back() {
        let (log, mut state) = (log(10_000.0), SlidingLogState::default());
        assert_eq!((0..1_000).map(|t| admitted(&log, &mut state, at(t), 1)).sum::<usize>(), 1_000);
        state.give_back_heap();
        assert!(state.heap_bytes() >= 16_000, "it is in use");
        log.take(&mut state, at(1_990), 1);
        state.give_back_heap();
        assert_eq!((state.log.tokens(), state.heap_bytes()), (10, 320));
    }
}
