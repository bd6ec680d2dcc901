//! Who has a right to which part of the limit.

use super::Invalid;

/// Parts of a limit by name, in percent. Those who have none use what is left.
///
/// A share of `p` % is `⌈limit × p / 100⌉` calls in exact integers (in `concurrency-limits`, in
/// doubles, 7 % of 100 are 8), so that every share is at least one. Rounded up, shares can add up
/// to more than the limit, by less than one each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares(Box<[(Box<str>, u32)]>);

impl Shares {
    /// Shares of 1 ..= 100 % each and 100 % in sum, so at most a hundred.
    ///
    /// # Errors
    ///
    /// [`Invalid::Share`], [`Invalid::Twice`], [`Invalid::Shares`].
    pub fn new<'a>(shares: impl IntoIterator<Item = (&'a str, u32)>) -> Result<Self, Invalid> {
        let mut all: Vec<(Box<str>, u32)> = Vec::new();
        let mut sum = 0;
        for (name, percent) in shares {
            if !(1..=100).contains(&percent) {
                return Err(Invalid::Share { name: name.into(), percent });
            }
            if all.iter().any(|(other, _)| **other == *name) {
                return Err(Invalid::Twice(name.into()));
            }
            sum += percent;
            if sum > 100 {
                return Err(Invalid::Shares(sum));
            }
            all.push((name.into(), percent));
        }
        Ok(Self(all.into()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Which share is that of `name`.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(other, _)| **other == *name)
    }

    /// Calls of this share of a limit, which is at most a million.
    pub(super) fn calls(&self, share: usize, limit: u32) -> u32 {
        self.0.get(share).map_or(0, |(_, percent)| (limit * percent).div_ceil(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::LIMIT_MAX;

    #[test]
    fn a_share_is_rounded_up_and_never_nothing() {
        let shares = Shares::new([("batch", 30), ("live", 69), ("test", 1)]).unwrap();
        let calls = |limit| [0, 1, 2].map(|share| shares.calls(share, limit));
        assert_eq!(calls(10), [3, 7, 1]);
        assert_eq!(calls(1), [1, 1, 1]);
        assert_eq!(calls(LIMIT_MAX), [300_000, 690_000, 10_000]);
        assert_eq!(shares.find("live"), Some(1));
        assert_eq!(shares.find("other"), None);
    }

    #[test]
    fn what_is_no_share_is_refused_by_name() {
        let nothing = Invalid::Share { name: "a".into(), percent: 0 };
        assert_eq!(Shares::new([("a", 0)]), Err(nothing));
        assert_eq!(Shares::new([("a", 50), ("b", 51)]), Err(Invalid::Shares(101)));
        assert_eq!(Shares::new([("a", 1), ("a", 1)]), Err(Invalid::Twice("a".into())));
        assert!(Shares::new((0..).map(|_| ("a", 101))).is_err(), "and reading ends there");
        assert_eq!(Shares::new([]).unwrap().len(), 0);
    }
}
