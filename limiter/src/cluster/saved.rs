//! Counters as plain data, so that a restart need not forget them.
//!
//! What is saved of a flow is what its algorithm says of it ([`Saved`]), not the rule: a counter that
//! comes back is read by the rule that then has its id, and counts where it means the same.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    counter::{FlowCounter, Lent, Tally, Used},
    counting::Counting,
    key::Key,
    ledger::{Held, LEASES_MAX, LeaseId, Ledger},
    tuned::Tuned,
};
use crate::{Tick, WindowShape, algorithm::Saved, sync::lock, window::Ring};

/// A part of what an engine's flows have used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record(pub(crate) Kind);

/// Bytes of a rule's values after which a record has enough, so that no lock is held for long and no
/// record is large: it ends with the value that makes it as large. A value is as large as its log,
/// 160 KB at most.
pub(crate) const RECORD_BYTES: usize = 64 << 10;

/// What is in a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// One flow.
    Flow(i64, SavedFlow),
    /// Some values of a hot-parameter rule.
    Values(i64, Vec<(Key, Saved)>),
    /// What the values of a hot-parameter rule beyond its cap have used together.
    Shared(i64, Saved),
}

/// What one flow had used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedFlow {
    used: Saved,
    /// Id, end in nanoseconds since the epoch, tokens.
    leases: Vec<(i64, u64, u32)>,
}

/// When a process took in what the one before it had saved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Restart {
    pub(crate) at: Tick,
    /// How far this clock is behind that of the process before.
    pub(crate) behind: Duration,
}

/// What came of records that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Flows.
    pub flows: u64,
    /// Hot values.
    pub values: u64,
}

/// Bytes that a saved value takes.
pub(crate) fn value_bytes(key: &Key, saved: &Saved) -> usize {
    let text = if let Key::Str(text) = key { text.len() } else { 0 };
    size_of::<(Key, Saved)>() + text + saved.heap_bytes()
}

impl FlowCounter {
    /// What it holds, or `None` when nothing of it counts any more.
    pub(crate) fn save(&self, counting: &Counting, now: Tick) -> Option<SavedFlow> {
        let used = &*lock(&self.0);
        if used.is_idle(counting, now) {
            return None;
        }
        let saved = match (&used.tally, counting) {
            (Tally::Ring(ring), Counting::Sliding(shape)) => saved_ring(ring, *shape),
            (Tally::Lent(lent), Counting::Sliding(shape)) => saved_ring(&lent.ring, *shape),
            (Tally::Tuned(tuned), _) => tuned.save(now)?,
            (Tally::Ring(_) | Tally::Lent(_), _) => return None,
        };
        let leases = used.leases().iter().map(|held| (held.id.0, held.until.0, held.tokens));
        Some(SavedFlow { used: saved, leases: leases.collect() })
    }
}

impl SavedFlow {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let leases = self.leases.capacity() * size_of::<(i64, u64, u32)>();
        size_of::<Self>() + self.used.heap_bytes() + leases
    }

    /// Makes do with little memory; never says less. Leases become one, which ends with the last.
    pub(super) fn condense(&mut self) {
        self.used.condense();
        let joined = self.leases.iter().copied().reduce(|(a, b, c), (id, until, tokens)| {
            (a.max(id), b.max(until), c.saturating_add(tokens))
        });
        self.leases = joined.into_iter().collect();
    }

    /// The leases, on this clock.
    pub(super) fn leases(&self, restart: Restart) -> Vec<Held> {
        let behind_ns = u64::try_from(restart.behind.as_nanos()).unwrap_or(u64::MAX);
        let held = |&(id, until, tokens): &(i64, u64, u32)| Held {
            id: LeaseId(id),
            until: Tick(until.saturating_sub(behind_ns)),
            tokens,
        };
        self.leases.iter().take(LEASES_MAX).map(held).collect()
    }
}

impl Used {
    /// What was saved, under the rule that has the id now: `None` where it means something else.
    pub(super) fn restored(
        saved: &SavedFlow,
        shape: WindowShape,
        tuned: Option<Tuned>,
        restart: Restart,
    ) -> Option<Self> {
        let leases = saved.leases(restart);
        let tally = match tuned {
            Some(tuned) => Tally::Tuned(tuned.restored(&saved.used, leases, restart)?),
            None => {
                let ring = restored_ring(&saved.used, shape, restart)?;
                let ledger = leases.into_iter().collect::<Ledger>();
                if ledger.tokens() > 0 {
                    Tally::Lent(Box::new(Lent { ring, ledger }))
                } else {
                    Tally::Ring(ring)
                }
            }
        };
        Some(Self { tally, ..Self::default() })
    }
}

/// The ring of a sliding window.
pub(crate) fn restored_ring(saved: &Saved, shape: WindowShape, restart: Restart) -> Option<Ring> {
    let Saved::SlidingWindow(ring) = saved else { return None };
    Ring::restore(ring, shape, restart.behind)
}

/// The ring of a sliding window as plain data.
pub(crate) fn saved_ring(ring: &Ring, shape: WindowShape) -> Saved {
    Saved::SlidingWindow(ring.save(shape))
}
