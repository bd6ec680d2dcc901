//! The tokens of a log: a ring of runs, one for each tick at which some were taken, that doubles as
//! it fills up and is never allocated for again.
//!
//! What says whether anything leaves, and how much there is, stands beside the ring: a refusal does
//! not touch it.

mod forget;
mod memory;

use crate::Tick;

/// Runs for which there is room in the shortest ring.
const PLACES_MIN: usize = 4;

/// The tokens of one tick: those up to `end` that no run before it has, counted from the first
/// token ever taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) at: Tick,
    pub(super) end: u64,
}

/// Runs, oldest first: 40 bytes, and 16 for each place of the ring.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(super) struct Runs {
    /// When the first was taken; the epoch if there is none.
    oldest: Tick,
    /// Of all runs; [`super::LOG_MAX`] at most, so there are never more runs or places than a `u16`
    /// counts.
    tokens: u32,
    /// The place of the first.
    head: u16,
    len: u16,
    places: Box<[Run]>,
    /// Tokens that were ever taken and are in no run any more.
    gone: u64,
}

impl Runs {
    /// No runs, and places for so many.
    pub(super) fn with_places(places: usize) -> Self {
        Self { places: vec![Run::default(); places].into(), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    /// Tokens of all runs.
    #[inline]
    pub(super) fn tokens(&self) -> u64 {
        self.tokens.into()
    }

    /// When the first run was taken; the epoch if there is none.
    #[inline]
    pub(super) fn oldest(&self) -> Tick {
        self.oldest
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Run> {
        if index < self.len() { self.places.get(self.place(index)) } else { None }
    }

    pub(super) fn last(&self) -> Option<&Run> {
        self.get(self.len().checked_sub(1)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.places.iter().cycle().skip(self.head.into()).take(self.len())
    }

    /// Where the tokens of all runs end.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.gone + self.tokens()
    }

    /// Where the tokens of the run at `index` begin.
    #[inline]
    pub(super) fn start(&self, index: usize) -> u64 {
        let before = index.checked_sub(1).and_then(|before| self.get(before));
        before.map_or(self.gone, |run| run.end)
    }

    /// How many runs come before a border: those for which `is_before` holds, which are the first.
    ///
    /// Looks from the first on in steps that double, since nearly always they are few: a binary
    /// search of the whole would begin in parts of the ring that nobody else looks at.
    #[inline]
    pub(super) fn before(&self, is_before: impl Fn(&Run) -> bool) -> usize {
        let is_before = |index| self.get(index).is_some_and(&is_before);
        let (mut low, mut step) = (0, 1);
        while is_before(low + step - 1) {
            (low, step) = (low + step, 2 * step);
        }
        // Of the next `step - 1` runs some may come before it.
        let mut high = low + step - 1;
        while low < high {
            let middle = low.midpoint(high);
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The run that has the token before `end`.
    pub(super) fn run_to(&self, end: u64) -> usize {
        self.before(|run| run.end < end)
    }

    /// Puts in `n` tokens of `at`, which is not before the last run.
    #[inline]
    pub(super) fn push(&mut self, at: Tick, n: u64) {
        if n == 0 {
            return;
        }
        let end = self.end() + n;
        self.set_end(end);
        if let Some(last) = self.len().checked_sub(1) {
            let last = self.place(last);
            if let Some(run) = self.places.get_mut(last).filter(|run| run.at == at) {
                run.end = end;
                return;
            }
        }
        self.push_run(Run { at, end });
    }

    #[inline]
    fn push_run(&mut self, run: Run) {
        if self.len() == self.places.len() {
            self.set_places(PLACES_MIN.max(2 * self.len()));
        }
        if self.len == 0 {
            self.oldest = run.at;
        }
        let free = self.place(self.len());
        if let Some(free) = self.places.get_mut(free) {
            *free = run;
            self.len += 1;
        }
    }

    /// Forgets the first `runs`, of which there are as many.
    #[inline]
    pub(super) fn skip(&mut self, runs: usize) {
        let (start, end) = (self.start(runs), self.end());
        self.head = short(self.place(runs));
        self.len -= short(runs);
        self.gone = start;
        self.set_end(end);
        self.see_oldest();
    }

    /// Moves the runs into a ring of so many places, which are enough.
    #[inline(never)]
    fn set_places(&mut self, places: usize) {
        let mut moved = Vec::with_capacity(places);
        moved.extend(self.iter());
        moved.resize(places, Run::default());
        (self.places, self.head) = (moved.into(), 0);
    }

    #[inline]
    fn place(&self, index: usize) -> usize {
        let place = usize::from(self.head) + index;
        if place < self.places.len() { place } else { place - self.places.len() }
    }

    #[inline]
    fn see_oldest(&mut self) {
        self.oldest = self.get(0).map_or(Tick(0), |run| run.at);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a log holds 10 000 tokens")]
    #[inline]
    fn set_end(&mut self, end: u64) {
        self.tokens = (end - self.gone) as u32;
    }
}

/// A number of runs or places, see [`Runs::tokens`].
#[expect(clippy::cast_possible_truncation, reason = "a log holds 10 000 tokens, so 20 000 places")]
#[inline]
fn short(runs: usize) -> u16 {
    runs as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// When each token was taken, oldest first.
    fn listed(runs: &Runs) -> Vec<Tick> {
        let mut start = runs.start(0);
        let tokens = |run: &Run| {
            let tokens = run.end - std::mem::replace(&mut start, run.end);
            std::iter::repeat_n(run.at, usize::try_from(tokens).unwrap())
        };
        runs.iter().flat_map(tokens).collect()
    }

    #[test]
    fn the_runs_are_40_bytes_and_four_of_them_64() {
        assert_eq!((size_of::<Runs>(), Runs::HEAP_MIN), (40, 64));
        let mut runs = Runs::default();
        assert_eq!(runs.heap_bytes(), 0);
        for at in 0..5 {
            runs.push(Tick(at), 1);
            assert_eq!(runs.heap_bytes(), if at < 4 { 64 } else { 128 });
        }
    }

    proptest! {
        #[test]
        fn the_ring_holds_what_a_list_does_wherever_it_begins_and_however_long_it_is(
            steps in prop::collection::vec((0_u8..14, 1_u64..40, 0_u64..3), 1..200),
        ) {
            let (mut runs, mut list, mut now) = (Runs::default(), Vec::new(), 0);
            for (what, n, gap) in steps {
                let len = list.len() as u64;
                let some = usize::try_from(n.min(len)).unwrap();
                match what {
                    0 => {
                        runs.forget(n.min(len));
                        list.drain(..some);
                    }
                    1 => {
                        runs.truncate(len - n.min(len));
                        list.truncate(list.len() - some);
                    }
                    2 => {
                        let at = list.get(some / 2).copied().unwrap_or_default();
                        let (from, start) = (list.partition_point(|t| *t < at), runs.before(|run| run.at < at));
                        let some = some.min(list.len() - from);
                        runs.forget_after(runs.start(start), some as u64);
                        list.drain(from..from + some);
                    }
                    3 => {
                        let past = list.get(some / 2).copied().unwrap_or_default();
                        runs.skip(runs.before(|run| run.at < past));
                        list.retain(|at| *at >= past);
                    }
                    4 => runs.give_back_heap(),
                    5 => runs.shrink_to(runs.len()),
                    _ => {
                        now += gap;
                        runs.push(Tick(now), n);
                        list.extend((0..n).map(|_| Tick(now)));
                    }
                }
                prop_assert_eq!(&listed(&runs), &list);
                prop_assert_eq!(runs.tokens(), list.len() as u64);
                prop_assert_eq!(runs.oldest(), list.first().copied().unwrap_or_default());
                prop_assert_eq!(runs.last().map(|run| run.at), list.last().copied());
                for index in 0..runs.len() {
                    let end = runs.get(index).unwrap().end;
                    prop_assert_eq!((runs.run_to(end), runs.start(index + 1)), (index, end));
                }
            }
        }
    }
}
