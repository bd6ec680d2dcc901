//! The last minute, second by second.

use super::counts::Counts;

const SECONDS: u64 = 60;
const SLOTS: usize = 60;

/// A ring of 60 seconds, each with its own number, so that an old one is known as old.
#[derive(Clone, Debug)]
pub(super) struct Minute {
    seconds: [Second; SLOTS],
    /// The last in which anything was counted.
    newest: u64,
}

/// What a node counted in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Seconds since the epoch.
    pub second: u64,
    /// Tokens that passed, and those that were borrowed in this second.
    pub pass: u64,
    /// Tokens that were refused.
    pub block: u64,
    /// Tokens of calls that ended.
    pub success: u64,
    /// Tokens of calls that ended with an error.
    pub exception: u64,
    /// Milliseconds that ended calls took, in total.
    pub rt_ms: u64,
    /// Tokens that were borrowed from the next bucket.
    pub occupied: u64,
}

impl Second {
    fn add(&mut self, counts: &Counts) {
        self.pass += counts.passed_now();
        self.block += counts.block;
        self.success += counts.success;
        self.exception += counts.exception;
        self.rt_ms += counts.rt;
        self.occupied += counts.occupied;
    }

    fn add_second(&mut self, other: &Self) {
        self.pass += other.pass;
        self.block += other.block;
        self.success += other.success;
        self.exception += other.exception;
        self.rt_ms += other.rt_ms;
        self.occupied += other.occupied;
    }

    /// As the metric log has it: the average of the calls that ended, or the sum if none did
    /// (`ArrayMetric.java`, `details`).
    #[must_use]
    pub const fn rt_for_log(&self) -> u64 {
        match self.rt_ms.checked_div(self.success) {
            Some(average) => average,
            None => self.rt_ms,
        }
    }
}

impl Default for Minute {
    fn default() -> Self {
        Self { seconds: [Second::default(); SLOTS], newest: 0 }
    }
}

impl Minute {
    pub(super) fn add(&mut self, number: u64, counts: &Counts) {
        self.newest = self.newest.max(number);
        if let Some(second) = self.slot(number) {
            if second.second != number {
                *second = Second { second: number, ..Second::default() };
            }
            second.add(counts);
        }
    }

    /// Adds the seconds of another minute. Of two in one place the later stays.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.newest = self.newest.max(other.newest);
        for (second, other) in self.seconds.iter_mut().zip(&other.seconds) {
            if second.second < other.second {
                *second = *other;
            } else if second.second == other.second {
                second.add_second(other);
            }
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Second> {
        self.seconds.get(index(number)).filter(|second| second.second == number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Second> {
        self.slot(number).filter(|second| second.second == number)
    }

    fn slot(&mut self, number: u64) -> Option<&mut Second> {
        self.seconds.get_mut(index(number))
    }

    /// Whether nothing is in the minute that ends with second `number`.
    pub(super) const fn is_over(&self, number: u64) -> bool {
        self.newest.saturating_add(SECONDS) <= number
    }

    /// The seconds of the minute that ends with second `number`, in no order.
    pub(super) fn until(&self, number: u64) -> impl Iterator<Item = &Second> {
        let oldest = number.saturating_sub(SECONDS - 1);
        self.seconds.iter().filter(move |second| (oldest..=number).contains(&second.second))
    }
}

const fn index(number: u64) -> usize {
    (number % SECONDS) as usize
}

/// The sum of `seconds` and of the bucket that has not ended.
pub(super) fn sum<'a>(seconds: impl Iterator<Item = &'a Second>, head: &Counts) -> Second {
    let mut total = Second::default();
    total.add(head);
    for second in seconds {
        total.add_second(second);
    }
    total
}
