//! Says that a log can not be written, but not every second.

use std::{fmt::Display, time::Duration};

use limiter::Tick;
use tracing::warn;

const PERIOD: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct Complaint {
    log: &'static str,
    said: Option<Tick>,
    /// Refused tokens that no log tells of.
    lost: u64,
}

impl Complaint {
    pub(super) const fn new(log: &'static str) -> Self {
        Self { log, said: None, lost: 0 }
    }

    /// Complains, unless it has within a minute; the next complaint tells of all `lost` tokens.
    pub(super) fn failed(&mut self, now: Tick, error: &dyn Display, lost: u64) {
        self.lost = self.lost.saturating_add(lost);
        if self.said.is_none_or(|said| now.since(said) >= PERIOD) {
            let lost = std::mem::take(&mut self.lost);
            warn!(log = self.log, %error, lost, "a log can not be written");
            self.said = Some(now);
        }
    }
}
