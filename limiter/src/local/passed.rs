//! The rules that a call is done with.

use smallvec::SmallVec;

/// Numbers of rules of one resource, which a rule keeps as long as it remembers something: a load
/// that puts others before it, or takes some away, sends no call to the same rule twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Passed(SmallVec<[u32; 4]>);

impl Passed {
    #[inline]
    pub(super) fn has(&self, number: u32) -> bool {
        self.0.contains(&number)
    }

    pub(super) fn add(&mut self, numbers: impl Iterator<Item = u32>) {
        for number in numbers {
            if !self.has(number) {
                self.0.push(number);
            }
        }
    }
}
