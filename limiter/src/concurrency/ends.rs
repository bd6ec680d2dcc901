//! Which token ends next.
//!
//! Tokens that were given the same time-out end in the order in which they were given it, so one
//! queue per time-out is sorted. The heap has one entry per queue, at or before the time of the
//! queue's first token: within a queue that time only rises, so an entry that has fallen behind is
//! corrected when it comes up, and no other needs to be looked for.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
};

use rustc_hash::FxHashMap;

use super::{
    list::{Chain, List},
    slots::{NONE, Slots},
};
use crate::Tick;

#[derive(Debug, Default)]
pub(super) struct Ends {
    /// By time-out in milliseconds. An empty queue stays until its entry comes up.
    queues: FxHashMap<u32, List>,
    due: BinaryHeap<Reverse<(Tick, u32)>>,
}

impl Ends {
    /// Appends a token to the queue of its time-out. Its end is not before that of any other token
    /// there.
    pub(super) fn push(&mut self, slots: &mut Slots, at: u32) {
        let Some(token) = slots.get(at) else { return };
        let (ends, term_ms) = (token.ends, token.term_ms);
        let queue = self.queues.entry(term_ms).or_insert_with(|| {
            self.due.push(Reverse((ends, term_ms)));
            List::default()
        });
        debug_assert!(slots.get(queue.last).is_none_or(|last| last.ends <= ends));
        queue.push(slots, Chain::Ending, at);
    }

    /// Takes a token out of its queue.
    pub(super) fn remove(&mut self, slots: &mut Slots, at: u32) {
        let Some(term_ms) = slots.get(at).map(|token| token.term_ms) else { return };
        if let Some(queue) = self.queues.get_mut(&term_ms) {
            queue.remove(slots, Chain::Ending, at);
        }
    }

    /// The token that ends first, and when.
    pub(super) fn first(&mut self, slots: &Slots) -> Option<(Tick, u32)> {
        while let Some(mut earliest) = self.due.peek_mut() {
            let Reverse((entry, term_ms)) = *earliest;
            let at = self.queues.get(&term_ms).map_or(NONE, |queue| queue.first);
            match slots.get(at) {
                Some(token) if token.ends == entry => return Some((entry, at)),
                Some(token) => *earliest = Reverse((token.ends, term_ms)),
                None => {
                    PeekMut::pop(earliest);
                    self.queues.remove(&term_ms);
                }
            }
        }
        None
    }
}
