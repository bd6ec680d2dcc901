//! The log beside a plain list of tokens.

use proptest::prelude::*;

use super::SlidingLog;
use crate::algorithm::{
    Verdict,
    suite::{self, Model, ms, pass, ratio},
};

#[derive(Default)]
struct Listed {
    limit: u64,
    window: u64,
    taken: Vec<u64>,
}

impl Listed {
    fn count(&self, now: u64) -> u64 {
        self.taken.iter().filter(|then| now - **then < self.window).count() as u64
    }
}

impl Model for Listed {
    fn take(&mut self, now: u64, n: u64) -> Verdict {
        match self.limit.saturating_sub(self.count(now)).checked_sub(n) {
            Some(remaining) if self.limit > 0 => {
                self.taken.extend((0..n).map(|_| now));
                pass(remaining)
            }
            _ => Verdict::NEVER,
        }
    }

    /// Those over the limit first, which decide nothing, then the newest.
    fn give_back(&mut self, now: u64, n: u64) {
        for _ in 0..n {
            let count = self.count(now);
            if count > self.limit {
                self.taken.remove(self.taken.len() - usize::try_from(count).unwrap());
            } else if count > 0 {
                self.taken.pop();
            }
        }
    }

    /// Those over the limit stay as long as the oldest that is not.
    fn charge(&mut self, now: u64, n: u64) {
        self.taken.retain(|then| now - then < self.window);
        self.taken.extend((0..n).map(|_| now));
        let over = self.taken.len().saturating_sub(usize::try_from(self.limit.max(1)).unwrap());
        let oldest = self.taken.get(over).copied().unwrap_or(now);
        self.taken[..over].fill(oldest);
    }

    fn used(&mut self, now: u64) -> u64 {
        self.count(now)
    }
}

proptest! {
    #[test]
    fn it_counts_as_a_list_of_tokens_does_and_never_exceeds_the_count(
        (limit, length, steps) in (0_u32..20, prop::sample::select(vec![1_u64, 7, 1_000, 86_400_000]))
            .prop_flat_map(|(limit, length)| {
                let steps = suite::steps(ms(length), 1e6, u64::from(limit) + 1);
                (Just(limit), Just(ms(length)), steps)
            }),
        is_full_of_refunds: bool,
    ) {
        let log = SlidingLog::new(f64::from(limit), length).unwrap();
        let window = log.window_ns;
        let mut model = Listed { limit: limit.into(), window, ..Listed::default() };
        let steps = if is_full_of_refunds { steps } else { suite::takes_only(steps) };
        let went = suite::walk(&log, &mut model, &steps, u64::MAX)?;
        for (start, _) in went.iter().filter(|_| !is_full_of_refunds) {
            let within = went.iter().filter(|(t, _)| t >= start && t - start < window);
            let sum: u64 = within.map(|(_, n)| n).sum();
            prop_assert!(ratio(sum.into(), 1) <= ratio(limit.into(), 1));
        }
    }
}
