//! The entries of one resource that are open, in the order in which their calls were first made: the
//! first is the oldest. Places are used again, so that only a new maximum allocates.

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
    /// Notes an entry whose call was first made at `since`, and gives the place to
    /// [`Self::remove`] it from. One that waited has its place before those that came later and did
    /// not: looked for from the youngest on, so that it is found at once for all others.
    pub(super) fn insert(&mut self, since: Tick) -> u32 {
        let (mut before, mut after) = (self.last, NONE);
        while let Some(younger) = self.places.get(before as usize)
            && younger.since > since
        {
            (before, after) = (younger.before, before);
        }
        let place = Place { since, before, after };
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
        match self.places.get_mut(before as usize) {
            Some(before) => before.after = at,
            None => self.first = at,
        }
        match self.places.get_mut(after as usize) {
            Some(after) => after.before = at,
            None => self.last = at,
        }
        at
    }

    /// Forgets the entry at a place that [`Self::insert`] gave.
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
        /// The oldest is what a sorted list says, whatever the order of exits and however late
        /// those come that waited; places are used again.
        #[test]
        fn the_oldest_is_the_one_made_first_that_is_still_open(
            steps in prop::collection::vec((0_usize..8, 0_u64..9), 0..200),
        ) {
            let (mut list, mut model, mut most) = (OpenList::default(), Vec::new(), 0);
            for (now, (step, waited)) in (0_u64..).zip(steps) {
                if step < 4 || model.is_empty() {
                    let since = Tick(now.saturating_sub(waited));
                    model.push((since, list.insert(since)));
                    model.sort();
                } else {
                    let (_, at) = model.remove(step % model.len());
                    list.remove(at);
                }
                most = most.max(model.len());
                prop_assert_eq!(list.oldest(), model.first().map(|(since, _)| *since));
                prop_assert_eq!(list.places.len(), most);
            }
        }
    }
}
