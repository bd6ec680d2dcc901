//! Tokens go that have not left the window: they were given back, or have no place any more.

use super::{Run, Runs, short};

impl Runs {
    /// Forgets the oldest `n` tokens, of which there are as many.
    pub(crate) fn forget(&mut self, n: u64) {
        let (gone, end) = (self.gone + n, self.end());
        self.skip(self.before(|run| run.end <= gone));
        self.gone = gone;
        self.set_end(end);
    }

    /// Forgets all but the oldest `n` tokens, of which there are as many.
    pub(crate) fn truncate(&mut self, n: u64) {
        let end = self.gone + n;
        let runs = if n == 0 { 0 } else { self.run_to(end) + 1 };
        self.len = self.len.min(short(runs));
        if let Some(last) = self.len().checked_sub(1) {
            self.change(last, |run| run.end = run.end.min(end));
        }
        self.set_end(end);
        self.see_oldest();
    }

    /// Forgets the `n` tokens after `start`, which is where a run begins, of which there are as
    /// many.
    pub(crate) fn forget_after(&mut self, start: u64, n: u64) {
        let whole = self.run_to(start + 1)..self.before(|run| run.end <= start + n);
        for index in whole.end..self.len() {
            self.change(index, |run| run.end -= n);
        }
        let end = self.end() - n;
        self.retain(|index| !whole.contains(&index));
        self.set_end(end);
    }

    /// Keeps the runs of which it says so.
    pub(super) fn retain(&mut self, keeps: impl Fn(usize) -> bool) {
        let mut kept = 0;
        for index in (0..self.len()).filter(|index| keeps(*index)) {
            if let Some(run) = self.get(index).copied() {
                self.change(kept, |place| *place = run);
                kept += 1;
            }
        }
        self.len = short(kept);
        self.see_oldest();
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut Run)) {
        let place = self.place(index);
        if let Some(run) = self.places.get_mut(place) {
            change(run);
        }
    }
}
