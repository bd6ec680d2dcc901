//! Which rule of before a changed one goes on from.
//!
//! A list says of no rule what became of it. One that is the same but for its numbers is taken for
//! the rule that it is most like; where several are alike, nothing may be let through for that: a
//! line that was promised, or what a value has used, goes to a rule that may be another.

use std::cmp::Ordering;

/// A rule in force, with what it remembers.
pub(super) trait Successor {
    /// Whether both are for the same calls and remember the same of them, whatever their numbers.
    fn is_akin(&self, other: &Self) -> bool;

    /// How much they have in common that are akin, at most 31: what tells rules apart first, then
    /// how many numbers are the same.
    fn likeness(&self, other: &Self) -> u32;

    /// Greater: what it remembers lets less through; where both remember the same, its numbers do.
    fn strictness(&self, other: &Self) -> Ordering;
}

/// One of the rules that are akin.
#[derive(Debug)]
struct One<'r, R> {
    /// Where it stands in the whole list, and among those that are akin.
    at: usize,
    rank: usize,
    rule: &'r R,
}

impl<R> Clone for One<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for One<'_, R> {}

/// Positions of `new` rules, each with that of the one of `old` that it goes on from: the most alike
/// first. Of several as like as each other, those in the same order if there are as many before
/// and now; if there are fewer now, that which remembers the strictest; and if there are more, the
/// strictest of them goes on.
pub(super) fn pairs<R: Successor>(new: &[&R], old: &[&R]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    if old.is_empty() {
        return pairs;
    }
    let mut rest: Vec<(usize, &R)> = new.iter().copied().enumerate().collect();
    while let Some(&(_, one)) = rest.first() {
        let (akin, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|(_, rule)| rule.is_akin(one));
        let before = old.iter().copied().enumerate().filter(|(_, rule)| rule.is_akin(one));
        pair(ranked(akin.into_iter()), ranked(before), &mut pairs);
        rest = others;
    }
    pairs
}

fn ranked<'r, R>(rules: impl Iterator<Item = (usize, &'r R)>) -> Vec<One<'r, R>> {
    rules.enumerate().map(|(rank, (at, rule))| One { at, rank, rule }).collect()
}

/// Pairs rules that are all akin.
fn pair<R: Successor>(
    mut new: Vec<One<'_, R>>,
    mut old: Vec<One<'_, R>>,
    pairs: &mut Vec<(usize, usize)>,
) {
    let numbers = new.len().cmp(&old.len());
    let mut levels = 0_u32;
    for now in &new {
        levels = old.iter().fold(levels, |all, old| all | 1 << now.rule.likeness(old.rule));
    }
    for level in (0..u32::BITS).rev().filter(|level| levels >> level & 1 == 1) {
        let mut next = 0;
        while let Some(&now) = new.get(next) {
            let is_like = |old: &&One<'_, R>| now.rule.likeness(old.rule) == level;
            let like = old.iter().filter(is_like);
            let before = match numbers {
                Ordering::Equal => like.min_by_key(|old| old.rank.abs_diff(now.rank)),
                // Of equals the first.
                Ordering::Less => like.rev().max_by(|a, b| a.rule.strictness(b.rule)),
                Ordering::Greater => like.min_by_key(|old| old.rank),
            };
            let Some(&before) = before else {
                next += 1;
                continue;
            };
            let rivals = new.iter().filter(|new| new.rule.likeness(before.rule) == level);
            let strictest = rivals.rev().max_by(|a, b| a.rule.strictness(b.rule));
            let now = strictest.filter(|_| numbers.is_gt()).map_or(now, |strictest| *strictest);
            new.retain(|new| new.at != now.at);
            old.retain(|old| old.at != before.at);
            pairs.push((now.at, before.at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Subject, kind, count, and what it remembers.
    struct Rule(char, u32, u32, u32);

    impl Successor for Rule {
        fn is_akin(&self, other: &Self) -> bool {
            self.0 == other.0
        }

        fn likeness(&self, other: &Self) -> u32 {
            u32::from(self.1 == other.1) * 2 + u32::from(self.2 == other.2)
        }

        fn strictness(&self, other: &Self) -> Ordering {
            self.3.cmp(&other.3).then(other.2.cmp(&self.2))
        }
    }

    fn paired(new: &[Rule], old: &[Rule]) -> Vec<(usize, usize)> {
        let (new, old): (Vec<_>, Vec<_>) = (new.iter().collect(), old.iter().collect());
        let mut pairs = pairs(&new, &old);
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn the_most_alike_go_on_from_each_other_whatever_their_order() {
        let old = [Rule('a', 1, 10, 0), Rule('b', 1, 10, 0), Rule('a', 2, 20, 0)];
        let new = [Rule('a', 2, 21, 0), Rule('a', 1, 11, 0), Rule('c', 1, 10, 0)];
        assert_eq!(paired(&new, &old), [(0, 2), (1, 0)]);
    }

    #[test]
    fn as_many_as_before_that_are_alike_keep_their_order() {
        let old = [Rule('a', 1, 10, 0), Rule('a', 1, 1, 9)];
        assert_eq!(paired(&[Rule('a', 1, 20, 0), Rule('a', 1, 2, 0)], &old), [(0, 0), (1, 1)]);
        assert_eq!(paired(&[Rule('a', 2, 20, 0), Rule('a', 1, 2, 0)], &old), [(0, 0), (1, 1)]);
    }

    #[test]
    fn of_several_the_one_that_is_left_goes_on_from_the_strictest() {
        let old = [Rule('a', 1, 10, 3), Rule('a', 1, 1, 9), Rule('a', 1, 5, 9)];
        assert_eq!(paired(&[Rule('a', 1, 20, 0)], &old), [(0, 1)]);
        assert_eq!(paired(&[Rule('a', 1, 10, 0)], &old), [(0, 0)], "it is the same");
    }

    #[test]
    fn of_one_that_became_several_the_strictest_goes_on() {
        let old = [Rule('a', 1, 1, 9)];
        assert_eq!(paired(&[Rule('a', 1, 20, 0), Rule('a', 1, 2, 0)], &old), [(1, 0)]);
        assert_eq!(paired(&[Rule('a', 1, 1, 0), Rule('a', 1, 0, 0)], &old), [(0, 0)]);
    }

    #[test]
    fn without_rules_on_one_side_there_are_no_pairs() {
        assert_eq!(paired(&[], &[Rule('a', 1, 1, 9)]), []);
        assert_eq!(paired(&[Rule('a', 1, 1, 9)], &[]), []);
    }
}
