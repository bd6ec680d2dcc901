//! Decisions about values with their reasons.

use std::time::Duration;

use super::{Own, ParamFlow, Used, machine::longest};
use crate::{
    Tick, Undecided,
    algorithm::Verdict,
    cluster::{
        Ask, Explained, Unit,
        key::{KeyRef, Param},
        recipe::window_ms,
        sliding::Sliding,
        values::{Gauge, Tally},
    },
    rule::{Algorithm, Mode, ThresholdUnit},
    sync::lock,
};

/// What was found out about the value with the least room.
struct Tightest {
    own: Own,
    used: u64,
    room: f64,
}

impl ParamFlow {
    /// As [`acquire`](Self::acquire), or without taking anything, and says why: threshold and use
    /// are those of the value with the least left.
    ///
    /// # Errors
    ///
    /// [`Undecided::BadRequest`] when there is no value.
    pub(crate) fn ask(
        &self,
        now: Tick,
        count: u32,
        ask: Ask,
        params: &[Param<'_>],
    ) -> Result<Explained, Undecided> {
        let used = &mut *lock(&self.counter.0);
        let tightest = self.tightest(used, now, params)?;
        let verdict = self.decide(used, now, count, ask, params.iter().cloned())?;
        let retry = self.retry(used, now, count.into(), params, verdict);
        let config = self.rule.cluster.as_ref();
        let per_window = config.is_some_and(|config| {
            config.unit == ThresholdUnit::Window
                || matches!(config.algorithm, Algorithm::Calendar(_))
        });
        let window_ms = config.map(|config| window_ms(config, &self.namespace, now));
        Ok(Explained {
            decision: verdict.into(),
            retry,
            used: tightest.used,
            threshold: self.limit.with_count(tightest.own.count).scoped(&self.namespace),
            unit: if per_window { Unit::PerWindow } else { Unit::PerSecond },
            window_ms: window_ms.unwrap_or(self.window.interval_ms()),
            mode: self.mode(),
            connected: self.namespace.connected(),
            resource: self.rule.resource.clone(),
        })
    }

    /// The value with the least room.
    fn tightest(
        &self,
        used: &Used,
        now: Tick,
        params: &[Param<'_>],
    ) -> Result<Tightest, Undecided> {
        let gauge = Gauge::of(self.window, used.machines.as_deref());
        let rooms = params.iter().map(|param| {
            let key = KeyRef::of(param);
            let own = self.own(key).unwrap_or(self.default());
            let used = gauge.used(used.values.peek(used.values.at(key)), now);
            let limit = self.limit.with_count(own.count);
            Tightest { own, used, room: limit.room(limit.scoped(&self.namespace), used, 0) }
        });
        rooms.min_by(|a, b| a.room.total_cmp(&b.room)).ok_or(Undecided::BadRequest)
    }

    /// Time until the refused request would be admitted.
    pub(in crate::cluster) fn retry(
        &self,
        used: &Used,
        now: Tick,
        count: u64,
        params: &[Param<'_>],
        verdict: Verdict,
    ) -> Option<Duration> {
        let Verdict::Block { retry } = verdict else { return None };
        if self.recipe.is_some() || self.mode() == Mode::Block {
            return retry;
        }
        let mut keys: Vec<KeyRef<'_>> = params.iter().map(KeyRef::of).collect();
        keys.sort_unstable();
        // Each value once, however often it stands there.
        let retries = keys.chunk_by(|a, b| a == b).map(|same| {
            let key = *same.first()?;
            let limit = self.own(key).map_or(self.limit, |own| self.limit.with_count(own.count));
            let Tally::Ring(ring) = &used.values.peek(used.values.at(key)).tally else {
                return None;
            };
            let mut ring = ring.clone();
            ring.advance(self.window, now);
            let sliding = Sliding { limit, shape: self.window };
            let asked = count.saturating_mul(same.len() as u64);
            sliding.retry((&ring, &[]), now, limit.scoped(&self.namespace), asked)
        });
        retries.reduce(longest).flatten()
    }
}
