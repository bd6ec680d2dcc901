//! What values have used as plain data.

use super::{Machines, ParamCounter, ParamFlow, Used};
use crate::{
    Tick,
    algorithm::Saved,
    cluster::{
        counting::Counting,
        departed::SavedParam,
        key::{Key, KeyRef},
        saved::{Kind, Record, Restart, restored_ring, saved_ring},
        values::{At, Counter, Gauge, Tally, Tuned},
    },
    sync::lock,
};

/// Values of one record.
const BATCH: u32 = 1_024;

impl ParamCounter {
    /// Everything that still counts, in records of the rule `id`, letting go of the lock for each.
    pub(crate) fn save<E>(
        &self,
        id: i64,
        counting: &Counting,
        now: Tick,
        mut sink: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let shape = counting.shape();
        let mut from = Some(0);
        while let Some(start) = from {
            let mut saved = Vec::new();
            {
                let Used { values, machines, .. } = &*lock(&self.0);
                let gauge = Gauge::of(shape, machines.as_deref());
                from = values.each(start, BATCH, |key, counter| {
                    saved.extend(gauge.save(counter, now).map(|it| (key.clone(), it)));
                });
            }
            if !saved.is_empty() {
                sink(Record(Kind::Values(id, saved)))?;
            }
        }
        let shared = {
            let Used { values, machines, .. } = &*lock(&self.0);
            Gauge::of(shape, machines.as_deref()).save(values.peek(At::Shared), now)
        };
        shared.map_or(Ok(()), |shared| sink(Record(Kind::Shared(id, shared))))
    }
}

impl ParamFlow {
    /// Goes on with what the values had used before a restart, where it means the same.
    pub(crate) fn restore(&self, saved: &SavedParam, restart: Restart) {
        let used = &mut *self.lock();
        if let Some(recipe) = &self.recipe {
            let clients = recipe.clients(&self.namespace).max(1);
            let machines = Machines::new(recipe, &self.counts, clients, &self.namespace);
            used.machines = Some(Box::new(machines));
        }
        let Used { values, machines, .. } = used;
        let gauge = Gauge::of(self.window, machines.as_deref());
        for (key, saved) in &saved.values {
            let key: KeyRef<'_> = Key::as_ref(key);
            let own = self.own(key);
            let index = own.map_or(0, |own| own.index);
            if let Some(tally) = gauge.restore(saved, index, restart) {
                values.put(key, gauge, tally, &self.room, own.is_some());
            }
        }
        if let Some(tally) = saved.shared.as_ref().and_then(|it| gauge.restore(it, 0, restart)) {
            values.put_shared(tally);
        }
    }
}

impl Gauge<'_> {
    /// What a counter holds, or `None` when nothing of it counts any more.
    fn save(self, counter: &Counter, now: Tick) -> Option<Saved> {
        if self.is_idle(counter, now) {
            return None;
        }
        match (self, &counter.tally) {
            (Gauge::Sliding(shape), Tally::Ring(ring)) => Some(saved_ring(ring, shape)),
            (Gauge::Machines(_), Tally::Tuned(Tuned { machine, state, .. })) => {
                machine.save(state, now)
            }
            _ => None,
        }
    }

    /// The tally that was saved.
    fn restore(self, saved: &Saved, index: u32, restart: Restart) -> Option<Tally> {
        Some(match self {
            Gauge::Sliding(shape) => Tally::Ring(restored_ring(saved, shape, restart)?),
            Gauge::Machines(machines) => {
                let machine = &machines.get(index).machine;
                let state = machine.restore(saved, restart.behind)?;
                Tally::Tuned(Tuned::new(machine, state, restart.at))
            }
        })
    }
}
