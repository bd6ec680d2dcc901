//! Whose tokens they are: what keeps those who hold many from starving those who hold few.

use crate::sync::{AtomicU64, Ordering};

/// The tokens of some levels together, of one namespace for example.
///
/// A tenant may hold as many tokens as are free, and no more. So one that takes all it can gets
/// half of what there is, two of them a third each, `n` of them one part in `n + 1`, and as much
/// stays free: a tenant that holds nothing finds something, whatever the others do. It needs no
/// number of tenants and no share to be set; what a tenant may hold shrinks as others come.
#[derive(Debug, Default)]
pub struct Tenant {
    /// Tokens that live, and such as are about to: raised before the bound is looked at, so that
    /// two threads never take the same place.
    held: AtomicU64,
    refused: AtomicU64,
}

impl Tenant {
    /// Tokens that are held, and such as are due and not yet ended by anybody.
    #[must_use]
    pub fn held(&self) -> u64 {
        // Relaxed, here and below: each count is the whole state.
        self.held.load(Ordering::Relaxed)
    }

    /// Requests that found room in their level, and were refused because of the bound on all
    /// tokens.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts tokens more and gives how many there were.
    pub(super) fn add(&self, tokens: u64) -> u64 {
        self.held.fetch_add(tokens, Ordering::Relaxed)
    }

    /// Counts tokens less, which were counted before.
    pub(super) fn sub(&self, tokens: u64) {
        self.held.fetch_sub(tokens, Ordering::Relaxed);
    }
}
