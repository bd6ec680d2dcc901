//! A doubly linked list whose links lie in the slots: joining and leaving touch the neighbours.

use super::slots::{NONE, Slots};

/// Which of the two lists that a token is in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chain {
    /// Tokens with one time-out, the next to end first.
    Ending,
    /// Tokens of one connection.
    Owner,
}

/// A slot's neighbours in one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    before: u32,
    /// In a free slot: the next free one.
    pub(super) after: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { before: NONE, after: NONE }
    }
}

/// Both ends of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    /// Appends the slot `at`, which is in no list of this chain.
    pub(super) fn push(&mut self, slots: &mut Slots, chain: Chain, at: u32) {
        if let Some(links) = slots.links(chain, at) {
            *links = Links { before: self.last, after: NONE };
        }
        match slots.links(chain, self.last) {
            Some(last) => last.after = at,
            None => self.first = at,
        }
        self.last = at;
    }

    /// Takes out the slot `at`, which is in this list.
    pub(super) fn remove(&mut self, slots: &mut Slots, chain: Chain, at: u32) {
        let Some(&mut Links { before, after }) = slots.links(chain, at) else { return };
        match slots.links(chain, before) {
            Some(links) => links.after = after,
            None => self.first = after,
        }
        match slots.links(chain, after) {
            Some(links) => links.before = before,
            None => self.last = before,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}
