//! Tokens per bucket.

use super::WindowShape;

/// Buckets that lie in place. Sentinel's default is ten, so the usual window costs no allocation
/// and no second look at memory.
const FEW: usize = 10;

/// One count a bucket of a window.
#[derive(Clone, Debug)]
pub(super) enum Counts {
    /// Of a window with at most [`FEW`] buckets, or of a longer one before its first token.
    Few([u64; FEW]),
    Many(Box<[u64]>),
}

impl Default for Counts {
    fn default() -> Self {
        Self::Few([0; FEW])
    }
}

impl Counts {
    /// The counts of all buckets, with room for those of `shape`.
    #[inline]
    pub(super) fn all(&mut self, shape: WindowShape) -> &mut [u64] {
        let buckets = shape.buckets() as usize;
        if buckets > FEW && matches!(self, Self::Few(_)) {
            *self = Self::Many(vec![0; buckets].into_boxed_slice());
        }
        match self {
            Self::Few(counts) => counts,
            Self::Many(counts) => counts,
        }
    }

    /// The count in one slot; none was taken where there is no slot yet.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> u64 {
        self.slots().get(slot as usize).copied().unwrap_or(0)
    }

    /// The slots that there are: more than the window's buckets if those are few, none of a long
    /// window before its first token.
    #[inline]
    pub(super) fn slots(&self) -> &[u64] {
        match self {
            Self::Few(counts) => counts,
            Self::Many(counts) => counts,
        }
    }

    /// Bytes that a window of this shape allocates.
    pub(super) fn heap_bytes(shape: WindowShape) -> u64 {
        let buckets = u64::from(shape.buckets());
        if buckets > FEW as u64 { 8 * buckets + 16 } else { 0 }
    }
}
