//! The entries of one resource that are open, in the order in which they began: the first is the
//! oldest. Places are used again, so that only a new maximum allocates.

use crate::Tick;

/// No place.
pub(super) const NONE: u32 = u32::MAX;

/// A doubly linked list whose links lie in a vector.
#[derive(Debug)]
pub(super) struct OpenList {
    places: Vec<Place>,
    first: u32,
    last: u32,
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    since: Tick,
    before: u32,
    /// In a free place: the next free one.
    after: u32,
}

impl Default for OpenList {
    fn default() -> Self {
        Self { places: Vec::new(), first: NONE, last: NONE, free: NONE }
    }
}

impl OpenList {
    /// Notes an entry, and gives the place to [`Self::remove`] it from.
    pub(super) fn push(&mut self, since: Tick) -> u32 {
        let place = Place { since, before: self.last, after: NONE };
        let at = self.free;
        let at = match self.places.get_mut(at as usize) {
            Some(free) => {
                self.free = free.after;
                *free = place;
                at
            }
            None => {
                // 2^32 entries that are open at once would fill 64 GB with places alone.
                let Ok(at) = u32::try_from(self.places.len()) else { return NONE };
                self.places.push(place);
                at
            }
        };
        match self.places.get_mut(self.last as usize) {
            Some(last) => last.after = at,
            None => self.first = at,
        }
        self.last = at;
        at
    }

    /// Forgets the entry at a place that [`Self::push`] gave.
    pub(super) fn remove(&mut self, at: u32) {
        let Some(place) = self.places.get_mut(at as usize) else { return };
        let Place { before, after, .. } = *place;
        place.after = self.free;
        self.free = at;
        match self.places.get_mut(before as usize) {
            Some(before) => before.after = after,
            None => self.first = after,
        }
        match self.places.get_mut(after as usize) {
            Some(after) => after.before = before,
            None => self.last = before,
        }
    }

    /// When the oldest open entry began.
    pub(super) fn oldest(&self) -> Option<Tick> {
        self.places.get(self.first as usize).map(|place| place.since)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The oldest is what a plain list says, whatever the order of exits, and places are used
        /// again.
        #[test]
        fn the_oldest_is_the_first_that_is_still_open(steps in prop::collection::vec(0_usize..8, 0..200)) {
            let (mut list, mut model, mut most) = (OpenList::default(), Vec::new(), 0);
            for (tick, step) in steps.into_iter().enumerate() {
                let tick = Tick(tick as u64);
                if step < 4 || model.is_empty() {
                    model.push((tick, list.push(tick)));
                } else {
                    let (_, at) = model.remove(step % model.len());
                    list.remove(at);
                }
                most = most.max(model.len());
                prop_assert_eq!(list.oldest(), model.first().map(|(tick, _)| *tick));
                prop_assert_eq!(list.places.len(), most);
            }
        }
    }
}
