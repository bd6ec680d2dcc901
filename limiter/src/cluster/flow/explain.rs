//! Decisions with their reasons.

use std::time::Duration;

use super::Flow;
use crate::{
    Decision, Tick, Undecided,
    algorithm::Verdict,
    cluster::{
        Ask, Explained, Unit,
        counter::{Tally, Used},
        limit::whole,
        recipe::window_ms,
    },
    rule::{Algorithm, Grade, Mode, ThresholdUnit},
};

impl Flow {
    /// As [`acquire`](Self::acquire), or without taking anything, and says why.
    ///
    /// # Errors
    ///
    /// [`Undecided::BadRequest`] for calls in progress that are not a peek: those need an owner.
    pub(crate) fn ask(&self, now: Tick, count: u32, ask: Ask) -> Result<Explained, Undecided> {
        if self.rule.grade == Grade::Thread {
            return if ask.peek {
                Ok(self.explain_level(now, count))
            } else {
                Err(Undecided::BadRequest)
            };
        }
        let used = &mut *self.lock();
        let count = u64::from(count);
        let before = self.in_window(used, now);
        let verdict = self.decide(used, now, count, ask);
        let retry = self.retry(used, now, count, ask, verdict);
        Ok(self.explained(now, verdict.into(), retry, before))
    }

    fn explained(
        &self,
        now: Tick,
        decision: Decision,
        retry: Option<Duration>,
        used: u64,
    ) -> Explained {
        let config = self.rule.cluster.as_ref();
        let window_ms = config.map(|config| window_ms(config, &self.namespace, now));
        Explained {
            decision,
            retry,
            used,
            threshold: self.threshold(),
            unit: self.unit(),
            window_ms: window_ms.unwrap_or(self.sliding.shape.interval_ms()),
            mode: self.mode(),
            connected: self.namespace.connected(),
            resource: self.rule.resource.clone(),
        }
    }

    /// Tokens that count before the request.
    fn in_window(&self, used: &mut Used, now: Tick) -> u64 {
        match &self.recipe {
            Some(recipe) => self.tuned(used, recipe, now).used(now),
            None => {
                let (ring, leased) = used.window(self.sliding.shape, now);
                ring.sum().saturating_add(leased)
            }
        }
    }

    /// Time until the refused request would be admitted.
    pub(in crate::cluster) fn retry(
        &self,
        used: &Used,
        now: Tick,
        count: u64,
        ask: Ask,
        verdict: Verdict,
    ) -> Option<Duration> {
        let Verdict::Block { retry } = verdict else { return None };
        if self.recipe.is_some() || self.mode() == Mode::Block {
            return retry;
        }
        let state = match &used.tally {
            Tally::Ring(ring) => (ring, &[][..]),
            Tally::Lent(lent) => (&lent.ring, lent.ledger.leases()),
            Tally::Tuned(_) => return None,
        };
        let bounds =
            (self.sliding.limit.threshold(&self.namespace), self.namespace.max_occupy_ratio());
        let plain = self.sliding.retry(state, now, bounds.0, count);
        if !ask.prioritized {
            return plain;
        }
        // A booking may be possible before the tokens are there.
        let booked = self.sliding.retry_booking(state, now, bounds, count, ask.max_wait);
        plain.into_iter().chain(booked).min()
    }

    fn unit(&self) -> Unit {
        let Some(config) = &self.rule.cluster else { return Unit::PerSecond };
        match (self.rule.grade, config.unit, &config.algorithm) {
            (Grade::Thread, ..) => Unit::InProgress,
            (_, ThresholdUnit::Window, _) | (_, _, Algorithm::Calendar(_)) => Unit::PerWindow,
            (_, ThresholdUnit::Sentinel, _) => Unit::PerSecond,
        }
    }

    fn explain_level(&self, now: Tick, count: u32) -> Explained {
        let in_use = self.calls.as_ref().map_or(0, |calls| calls.in_use(now));
        let threshold = self.threshold();
        #[expect(clippy::cast_precision_loss, reason = "tokens that are held are far below 2^53")]
        let room = threshold - in_use as f64 - f64::from(count);
        let decision = match self.mode() {
            Mode::Enforce if room < 0.0 => Decision::Block,
            Mode::Block => Decision::Block,
            Mode::Enforce | Mode::Shadow | Mode::Pass => {
                Decision::Pass { remaining: whole(room.max(0.0)) }
            }
        };
        // When a call ends nobody knows.
        self.explained(now, decision, None, in_use)
    }
}
