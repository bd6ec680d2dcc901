//! What the loop needs to know about a protocol.

use std::collections::BTreeMap;

use anyhow::Result;

/// A protocol: batches to send, and answers to check.
pub(crate) trait Wire {
    /// How many different batches there are.
    fn batches(&self) -> usize;

    /// The requests of one batch. `batch` numbers them from 0 and without end: after the last
    /// different one comes the first again.
    fn batch(&self, batch: usize) -> &[u8];

    /// Checks the whole answers at the front of `bytes`, of which the first is that to request
    /// `first` of `batch` and the others follow it, into the next batches if need be, and counts
    /// what they say in `tally`. Gives the number of answers and of bytes taken.
    ///
    /// # Errors
    ///
    /// An answer that cannot be one, with its bytes.
    fn check(
        &self,
        batch: usize,
        first: usize,
        bytes: &[u8],
        tally: &mut Tally,
    ) -> Result<(usize, usize)>;
}

/// How often each status was answered.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The status that a request should have.
    pub(crate) expected: u64,
    /// All others.
    pub(crate) others: BTreeMap<i64, u64>,
}

impl Tally {
    #[cold]
    pub(crate) fn other(&mut self, status: i64) {
        *self.others.entry(status).or_default() += 1;
    }
}
