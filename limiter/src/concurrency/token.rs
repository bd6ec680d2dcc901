//! Names: a token's, its owner's, and of what came of a release.

use std::num::NonZeroU64;

/// A token as it is named on the wire: positive, never zero.
///
/// ```text
///  63  62           28 27          4 3    0
/// ┌───┬───────────────┬─────────────┬──────┐
/// │ 0 │ tag (35 bits) │ slot (24)   │ home │
/// └───┴───────────────┴─────────────┴──────┘
/// ```
///
/// Slots are used again; the tag is drawn anew for each token by a keyed hash, so that nobody
/// finds another one's token by counting. A value that no token has, whatever it is, names a
/// token that was released already. One that a token once had names a later token in the same
/// slot with a chance of 2⁻³⁵.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenId(pub i64);

const HOME_BITS: u32 = 4;
const SLOT_BITS: u32 = 24;
const TAG_BITS: u32 = 63 - SLOT_BITS - HOME_BITS;

/// Homes that an id can tell apart.
pub(super) const HOMES: usize = 1 << HOME_BITS;

/// Slots of one home that an id can tell apart.
pub(super) const SLOTS: usize = 1 << SLOT_BITS;

/// Where a token is, and the tag that it must have there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) home: usize,
    pub(super) slot: u32,
    pub(super) tag: u64,
}

impl Place {
    /// The tag that a random number makes: never zero, so that no id is.
    pub(super) fn tag(random: u64) -> u64 {
        (random >> (64 - TAG_BITS)).max(1)
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked to fewer bits")]
    pub(super) fn of(id: TokenId) -> Self {
        let bits = id.0.cast_unsigned();
        Self {
            home: bits as usize % HOMES,
            slot: (bits >> HOME_BITS) as u32 % (1 << SLOT_BITS),
            // A negative id gives one bit more than a tag has: nothing matches.
            tag: bits >> (HOME_BITS + SLOT_BITS),
        }
    }

    pub(super) fn id(self) -> TokenId {
        let place = u64::from(self.slot) << HOME_BITS | self.home as u64;
        TokenId((self.tag << (HOME_BITS + SLOT_BITS) | place).cast_signed())
    }
}

/// Who holds tokens: a connection's number, given by the caller, never used for two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub NonZeroU64);

impl OwnerId {
    /// The owner with that number; zero is nobody.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

/// What came of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The token was held until now (`RELEASE_OK`, 6).
    Ok,
    /// It was released before, ended by itself, or never was (`ALREADY_RELEASE`, 7). Nothing
    /// changed.
    AlreadyReleased,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_positive_and_names_its_place() {
        for random in [0, 1 << 28, 1 << 29, u64::MAX, 0x0123_4567_89ab_cdef] {
            for slot in [0, 1, (1 << SLOT_BITS) - 1] {
                for home in [0, HOMES - 1] {
                    let place = Place { home, slot, tag: Place::tag(random) };
                    let id = place.id();
                    assert!(id.0 > 0, "{place:?}");
                    assert_eq!(Place::of(id), place);
                }
            }
        }
    }

    #[test]
    fn zero_and_negative_ids_have_no_possible_tag() {
        assert_eq!(Place::of(TokenId(0)).tag, 0);
        for id in [-1, i64::MIN] {
            assert!(Place::of(TokenId(id)).tag > Place::tag(u64::MAX));
        }
    }
}
