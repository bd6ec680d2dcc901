//! Where tokens are kept: chunks of slots that never move, used again through a list of free ones.

use super::{
    level::Level,
    list::{Chain, Links},
    token::OwnerId,
};
use crate::{Tick, sync::Arc};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Slots in a chunk (16 KB): memory grows by this much at a time, and nothing is copied.
const CHUNK: usize = 256;

/// A token that has not ended, or has and nobody has looked.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) level: Arc<Level>,
    /// The first tick at which it is no longer held.
    pub(super) ends: Tick,
    pub(super) tag: u64,
    /// `None` once the connection has gone.
    pub(super) owner: Option<OwnerId>,
    pub(super) count: u32,
    pub(super) resource_timeout_ms: u32,
    pub(super) client_offline_ms: u32,
    /// The one of the two that `ends` was made with: the queue it stands in.
    pub(super) term_ms: u32,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    token: Option<Token>,
    ending: Links,
    owner: Links,
}

/// One token costs one cache line, and nothing else that grows with the number of tokens.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 64);

#[derive(Debug)]
pub(super) struct Slots {
    chunks: Vec<Box<[Slot]>>,
    /// Slots that ever held a token; the rest of the last chunk lies behind.
    used: u32,
    /// The first free slot among them; the next is in its links.
    free: u32,
    len: u32,
    /// Slots looked at, to show that nothing scans.
    #[cfg(test)]
    pub(super) touched: std::cell::Cell<u64>,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            used: 0,
            free: NONE,
            len: 0,
            #[cfg(test)]
            touched: std::cell::Cell::default(),
        }
    }
}

impl Slots {
    /// Puts a token into a free slot. There is one below `SLOTS`, since no more tokens live.
    pub(super) fn insert(&mut self, token: Token) -> u32 {
        let at = if self.free == NONE {
            if self.used as usize == self.chunks.len() * CHUNK {
                self.chunks.push((0..CHUNK).map(|_| Slot::default()).collect());
            }
            self.used += 1;
            self.used - 1
        } else {
            self.free
        };
        let free = self.free;
        if let Some(slot) = self.slot_mut(at) {
            let next = if at == free { slot.ending.after } else { NONE };
            slot.token = Some(token);
            self.free = next;
            self.len += 1;
        }
        at
    }

    /// Takes the token out. It is in no list any more.
    pub(super) fn remove(&mut self, at: u32) -> Option<Token> {
        let free = self.free;
        let slot = self.slot_mut(at)?;
        let token = slot.token.take()?;
        slot.ending.after = free;
        self.free = at;
        self.len -= 1;
        Some(token)
    }

    pub(super) fn get(&self, at: u32) -> Option<&Token> {
        let slot = self.chunks.get(at as usize / CHUNK)?.get(at as usize % CHUNK)?;
        #[cfg(test)]
        self.touched.set(self.touched.get() + 1);
        slot.token.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Token> {
        self.slot_mut(at)?.token.as_mut()
    }

    pub(super) fn links(&mut self, chain: Chain, at: u32) -> Option<&mut Links> {
        let slot = self.slot_mut(at)?;
        Some(match chain {
            Chain::Ending => &mut slot.ending,
            Chain::Owner => &mut slot.owner,
        })
    }

    fn slot_mut(&mut self, at: u32) -> Option<&mut Slot> {
        let slot = self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)?;
        #[cfg(test)]
        self.touched.set(self.touched.get() + 1);
        Some(slot)
    }

    /// Whether there is memory to give back: more than one chunk, and no token in any.
    pub(super) fn is_spare(&self) -> bool {
        self.len == 0 && self.chunks.len() > 1
    }

    /// Bytes of memory held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<Slot>()
            + self.chunks.capacity() * size_of::<Box<[Slot]>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(tag: u64) -> Token {
        Token {
            level: Arc::new(Level::new(0, Arc::default())),
            ends: Tick(0),
            tag,
            owner: None,
            count: 1,
            resource_timeout_ms: 1,
            client_offline_ms: 1,
            term_ms: 1,
        }
    }

    #[test]
    fn slots_are_used_again_before_new_ones_are_made() {
        let mut slots = Slots::default();
        assert!(slots.get(0).is_none());
        let at: Vec<u32> = (0..300).map(|tag| slots.insert(token(tag))).collect();
        assert_eq!(at, (0..300).collect::<Vec<u32>>());
        for at in [5, 299, 0] {
            assert_eq!(slots.remove(at).map(|t| t.tag), Some(u64::from(at)));
            assert!(slots.remove(at).is_none(), "twice");
        }
        let again: Vec<u32> = (0..4).map(|_| slots.insert(token(9))).collect();
        assert_eq!(again, [0, 299, 5, 300]);
        assert!(slots.get(NONE).is_none());
    }

    #[test]
    fn memory_is_spare_when_the_last_token_has_gone() {
        let mut slots = Slots::default();
        for tag in 0..257 {
            slots.insert(token(tag));
        }
        for at in 0..256 {
            slots.remove(at);
        }
        assert!(!slots.is_spare());
        slots.remove(256);
        assert!(slots.is_spare());
        assert!(!Slots::default().is_spare(), "nothing to give back");
    }
}
