//! What values have used as plain data.

use super::{Machines, ParamCounter, ParamFlow, Used};
use crate::{
    Tick,
    algorithm::Saved,
    cluster::{
        counting::Counting,
        departed::SavedParam,
        saved::{Kind, RECORD_BYTES, Record, Restart, restored_ring, saved_ring, value_bytes},
        values::{At, Counter, Gauge, Tally, Tuned},
    },
    sync::lock,
};

/// Values that are looked at under one lock, whether or not they still count.
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
            let (mut saved, mut bytes) = (Vec::new(), 0);
            {
                let Used { values, machines, .. } = &*lock(&self.0);
                let gauge = Gauge::of(shape, machines.as_deref());
                from = values.each_while(start, BATCH, |key, counter| {
                    if let Some(its) = gauge.save(counter, now) {
                        bytes += value_bytes(key, &its);
                        saved.push((key.clone(), its));
                    }
                    bytes < RECORD_BYTES
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
    ///
    /// Those that were used last get the room there is. What the others had used counts in the
    /// counter that they share from now on, so that none may take more than it might have: as the
    /// use of the last of them, and with it that of the one that had used most, as if it were taken
    /// now. So the shared counter holds at most what two of them had used.
    pub(crate) fn restore(&self, saved: &SavedParam, restart: Restart) {
        let used = &mut *self.lock();
        if let Some(recipe) = &self.recipe {
            let clients = recipe.clients(&self.namespace).max(1);
            let machines = Machines::new(recipe, &self.counts, clients, &self.namespace);
            used.machines = Some(Box::new(machines));
        }
        let Used { values, machines, .. } = used;
        let gauge = Gauge::of(self.window, machines.as_deref());
        let SavedParam { values: list, shared, .. } = saved;
        let list = list.iter().flatten().map(|(key, saved)| (Some(key.as_ref()), saved));
        let mut list: Vec<_> = list.chain(shared.iter().map(|saved| (None, saved))).collect();
        list.sort_by_key(|(_, saved)| saved.seen());
        let mut beyond: Option<(Counter, u64)> = None;
        for (key, saved) in list.into_iter().rev() {
            let own = key.and_then(|key| self.own(key));
            let index = own.map_or(0, |own| own.index);
            let Some(tally) = gauge.restore(saved, index, restart) else { continue };
            let counter = Counter { tally, asked: 0 };
            if gauge.is_idle(&counter, restart.at) {
                continue;
            }
            let left = match key {
                Some(key) => values.put(key, gauge, counter, &self.room, own.is_some()),
                None => Some(counter),
            };
            match (left, &mut beyond) {
                (None, _) => {}
                (Some(last), None) => beyond = Some((last, 0)),
                (Some(other), Some((_, most))) => {
                    *most = gauge.weight(&other, restart.at).max(*most);
                }
            }
        }
        if let Some((mut shared, most)) = beyond {
            gauge.turn(&mut shared, 0, restart.at);
            shared.charge(restart.at, most);
            values.put_shared(shared);
            values.weigh(At::Shared, gauge, &self.room);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ClusterEngine, Decision, Param, Settings,
        rule::{Contents, merge, parse},
    };

    const LOG: &str = r#"[{"resource":"r","paramIdx":0,"count":10000,"clusterMode":true,
        "clusterConfig":{"flowId":1,"thresholdType":1,"algorithm":"slidingLog",
                         "thresholdUnit":"window","windowIntervalMs":3600000}}]"#;

    fn engine() -> ClusterEngine {
        let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
        let parsed = parse(LOG, "test", "ns", Contents::Mixed, true).unwrap();
        engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        engine
    }

    /// Takes `count` tokens of `values` values at each of `ticks` ticks.
    fn take(engine: &ClusterEngine, values: i64, ticks: u64, count: i32) {
        let rules = engine.rules();
        for (value, tick) in (0..values).flat_map(|value| (0..ticks).map(move |t| (value, t))) {
            let decided = rules.acquire_param(Tick(tick), 1, count, [Param::Long(value)]);
            assert!(matches!(decided, Ok(Decision::Pass { .. })));
        }
    }

    /// Bytes of each record, all of which are of values. A record is what is copied under one lock.
    fn records(engine: &ClusterEngine, now: Tick) -> Vec<usize> {
        let mut records = Vec::new();
        let keep = |Record(kind)| {
            let Kind::Values(1, values) = kind else { return Err("of no value") };
            records.push(values.iter().map(|(key, saved)| value_bytes(key, saved)).sum());
            Ok(())
        };
        engine.save(now, keep).unwrap();
        records
    }

    #[test]
    fn a_snapshot_of_logs_is_no_larger_than_the_logs_and_comes_in_small_pieces() {
        let engine = engine();
        take(&engine, 1_024, 14, 700);
        let records = records(&engine, Tick(14));
        let (sum, most) = (records.iter().sum::<usize>(), records.iter().max().unwrap());
        let live = engine.rules().param(1).unwrap().room().used();
        assert!(sum as u64 <= live, "{sum} bytes of {live}, and not ten million tokens");
        assert!(*most < RECORD_BYTES + 1_000 && records.len() > 5, "{most} under one lock");
    }

    #[test]
    fn a_lock_is_never_held_for_more_than_one_long_log_beyond_a_record() {
        let engine = engine();
        take(&engine, 3, 10_000, 1);
        let records = records(&engine, Tick(10_000));
        let log = 10_000 * 16;
        assert_eq!(records.len(), 3, "each by itself");
        assert!(records.iter().all(|bytes| (log..log + 1_000).contains(bytes)), "{records:?}");
    }

    /// A process with so many bytes of room, and what it restored before it had the rule.
    fn restarted(bytes: u64, records: Vec<Record>) -> (ClusterEngine, Vec<Record>) {
        let settings =
            Settings { values_bytes_max: bytes, max_allowed_qps: None, ..Settings::default() };
        let engine = ClusterEngine::new(settings);
        engine.restore(Tick(100), Tick(100), records);
        assert!(engine.room().used() <= bytes, "{} of {bytes}", engine.room().used());
        let mut held = Vec::new();
        let keep = |record| {
            held.push(record);
            Ok::<(), ()>(())
        };
        engine.save(Tick(100), keep).unwrap();
        let parsed = parse(LOG, "test", "ns", Contents::Mixed, true).unwrap();
        engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        (engine, held)
    }

    #[test]
    fn restored_values_are_within_the_bound_and_none_takes_more_for_it() {
        let engine = engine();
        take(&engine, 1_000, 10, 700);
        let records = || {
            let mut records = Vec::new();
            let keep = |record| {
                records.push(record);
                Ok::<(), ()>(())
            };
            engine.save(Tick(100), keep).unwrap();
            records
        };
        let bound = 200 << 10;
        let ((whole, all), (small, few)) =
            (restarted(u64::MAX, records()), restarted(bound, records()));
        let values = |records: &[Record]| {
            let len =
                |Record(kind): &Record| if let Kind::Values(_, it) = kind { it.len() } else { 0 };
            records.iter().map(len).sum::<usize>()
        };
        assert_eq!((values(&all), values(&few) < 1_000, values(&few) > 100), (1_000, true, true));
        let used = small.room().used();
        assert!(used <= bound + (32 << 10), "{used}, of which a chunk and an index were growing");
        for engine in [&whole, &small] {
            let rules = engine.rules();
            for value in (0..1_000).step_by(3) {
                let all = rules.acquire_param(Tick(101), 1, 3_001, [Param::Long(value)]);
                assert_eq!(all, Ok(Decision::Block), "{value} has 3 000 left");
            }
        }
        let own = small.rules().param(1).unwrap().totals().values;
        assert!((100..1_000).contains(&own), "{own}");
        let new =
            small.rules().acquire_param(Tick(3_600_000_000_100), 1, 10_000, [Param::Long(5_000)]);
        assert!(
            matches!(new, Ok(Decision::Pass { .. })),
            "one window later nobody is refused for it"
        );
    }
}
