//! How many of many get series of their own.
//!
//! Those with traffic come first, the busiest of them before the others, and the rest is one sum.
//! What has once had traffic under its own name keeps the name as long as it exists: if it moved
//! into the sum and out again, the sum would fall and rise, and to Prometheus a counter that falls
//! has begun anew. So the sum falls only when rules go away.

use std::{cmp::Reverse, collections::BTreeSet, sync::Mutex};

/// The bound, and who has traffic under its own name.
#[derive(Debug)]
pub(super) struct Bounded<K> {
    max: usize,
    kept: Mutex<BTreeSet<K>>,
}

impl<K: Ord + Clone> Bounded<K> {
    pub(super) fn new(max: usize) -> Self {
        Self { max, kept: Mutex::new(BTreeSet::new()) }
    }

    /// Splits `items` into those with a name of their own, in the order of their keys, and the
    /// rest. `traffic` is 0 for what adds nothing to the sum.
    pub(super) fn split<T>(
        &self,
        mut items: Vec<T>,
        key: impl Fn(&T) -> K,
        traffic: impl Fn(&T) -> u64,
    ) -> (Vec<T>, Vec<T>) {
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut rest = Vec::new();
        if items.len() > self.max {
            items.sort_by_cached_key(|item| {
                let key = key(item);
                (!kept.contains(&key), Reverse(traffic(item)), key)
            });
            rest = items.split_off(self.max);
        }
        items.sort_by_cached_key(&key);
        *kept = items.iter().filter(|item| traffic(item) > 0).map(key).collect();
        (items, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits keys 1.. by their traffic, and gives the keys of both parts.
    fn split(bounded: &Bounded<usize>, traffic: &[u64]) -> (Vec<usize>, Vec<usize>) {
        let items = traffic.iter().copied().enumerate().map(|(i, t)| (i + 1, t)).collect();
        let (shown, rest): (Vec<_>, Vec<_>) = bounded.split(items, |item| item.0, |item| item.1);
        let keys = |items: Vec<(usize, u64)>| items.into_iter().map(|item| item.0).collect();
        (keys(shown), keys(rest))
    }

    #[test]
    fn all_are_shown_up_to_the_bound() {
        assert_eq!(split(&Bounded::new(3), &[0, 5, 0]), (vec![1, 2, 3], vec![]));
    }

    #[test]
    fn beyond_the_bound_the_busiest_are_shown() {
        assert_eq!(split(&Bounded::new(2), &[0, 5, 1, 9]), (vec![2, 4], vec![3, 1]));
    }

    #[test]
    fn a_name_that_had_traffic_is_kept_though_others_become_busier() {
        let bounded = Bounded::new(2);
        split(&bounded, &[0, 5, 1, 9]);
        assert_eq!(split(&bounded, &[100, 5, 100, 9]).0, [2, 4]);
    }

    #[test]
    fn an_idle_name_makes_room() {
        let bounded = Bounded::new(2);
        assert_eq!(split(&bounded, &[0, 0, 9]).0, [1, 3]);
        assert_eq!(split(&bounded, &[0, 7, 9]).0, [2, 3]);
    }
}
