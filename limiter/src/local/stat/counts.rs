//! What is counted in one bucket.

use super::MIN_RT_START;

/// The events of half a second: one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    /// Tokens that passed, those that were borrowed from this bucket included.
    pub(super) pass: u64,
    /// Tokens of `pass` that were borrowed before the bucket began; the minute has them already.
    carried: u64,
    /// Tokens that were borrowed during this bucket, from the next.
    pub(super) occupied: u64,
    pub(super) block: u64,
    pub(super) success: u64,
    pub(super) exception: u64,
    /// Milliseconds that the ended calls took, in total.
    pub(super) rt: u64,
    pub(super) min_rt: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self::borrowed(0)
    }
}

impl Counts {
    /// A new bucket, from which `tokens` were borrowed.
    pub(super) const fn borrowed(tokens: u64) -> Self {
        Self {
            pass: tokens,
            carried: tokens,
            occupied: 0,
            block: 0,
            success: 0,
            exception: 0,
            rt: 0,
            min_rt: MIN_RT_START,
        }
    }

    /// Tokens that count as passed while the bucket lasts, for the minute: borrowers count when
    /// they borrow.
    pub(super) const fn passed_now(&self) -> u64 {
        self.pass.saturating_sub(self.carried) + self.occupied
    }

    /// Whether there is anything that the minute does not have.
    pub(super) const fn is_counted(&self) -> bool {
        self.passed_now() | self.block | self.success | self.exception | self.rt > 0
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.pass += other.pass;
        self.carried += other.carried;
        self.occupied += other.occupied;
        self.block += other.block;
        self.success += other.success;
        self.exception += other.exception;
        self.rt += other.rt;
        self.min_rt = self.min_rt.min(other.min_rt);
    }

    #[inline]
    pub(super) fn complete(&mut self, n: u64, rt_ms: u64, is_error: bool) {
        self.success += n;
        self.rt += rt_ms;
        self.min_rt = self.min_rt.min(rt_ms);
        if is_error {
            self.exception += n;
        }
    }
}
