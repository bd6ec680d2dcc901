//! How long to wait before the next attempt to connect: capped, exponential, with full jitter, so
//! that the clients of a server that comes back do not all come at once.

use std::time::Duration;

/// Ceiling of the first wait. The mean of the first wait is half of it.
const FIRST: Duration = Duration::from_millis(100);

/// Counts the failures in a row.
#[derive(Debug)]
pub(crate) struct Backoff {
    cap: Duration,
    failures: u32,
    random: fastrand::Rng,
}

impl Backoff {
    pub(crate) fn new(cap: Duration, random: fastrand::Rng) -> Self {
        Self { cap, failures: 0, random }
    }

    /// The next wait: anything from zero to a ceiling that doubles up to the cap.
    pub(crate) fn next(&mut self) -> Duration {
        let ceiling = FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.cap);
        self.failures = self.failures.saturating_add(1);
        ceiling.mul_f64(self.random.f64())
    }

    /// Forgets the failures.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: Duration = Duration::from_secs(10);

    #[test]
    fn the_ceiling_doubles_up_to_the_cap() {
        let mut highest = [Duration::ZERO; 40];
        for seed in 0..500 {
            let mut backoff = Backoff::new(CAP, fastrand::Rng::with_seed(seed));
            for highest in &mut highest {
                *highest = backoff.next().max(*highest);
            }
        }
        for (i, highest) in highest.into_iter().enumerate() {
            let ceiling = if i < 7 { FIRST * 2_u32.pow(u32::try_from(i).unwrap()) } else { CAP };
            assert!(highest <= ceiling && highest > ceiling.mul_f64(0.9), "{i}: {highest:?}");
        }
    }

    #[test]
    fn a_thousand_clients_spread_evenly_over_the_cap() {
        let mut tenths = [0; 10];
        for seed in 0..1_000 {
            let mut backoff = Backoff::new(CAP, fastrand::Rng::with_seed(seed));
            let wait = (0..8).map(|_| backoff.next()).last().unwrap();
            tenths[usize::try_from(wait.as_secs()).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|&n| (60..=140).contains(&n)), "{tenths:?}");
    }

    #[test]
    fn after_a_reset_it_begins_anew() {
        let mut backoff = Backoff::new(CAP, fastrand::Rng::with_seed(1));
        assert!((0..20).map(|_| backoff.next()).max() > Some(FIRST));
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
