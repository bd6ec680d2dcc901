//! Counters without a rule: of rules that were removed and may come back, and of rules that are yet
//! to be loaded after a restart. Kept until nothing of them counts any more.

use std::{convert::Infallible, time::Duration};

use rustc_hash::FxHashMap;

use super::{
    Flow, ParamFlow,
    counter::FlowCounter,
    counting::Counting,
    flow::{Calls, Inherited},
    key::Key,
    param::ParamCounter,
    saved::{Kind, Record, Restart, Restored, SavedFlow},
    values::Room,
};
use crate::{Tick, algorithm::Saved, sync::Arc};

/// What flows and hot-parameter rules that are not there have used, by id.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    flows: FxHashMap<i64, DepartedFlow>,
    params: FxHashMap<i64, (Counting, Arc<ParamCounter>)>,
    /// From before a restart, until their rules are loaded.
    saved_flows: FxHashMap<i64, SavedFlow>,
    saved_params: FxHashMap<i64, SavedParam>,
    restart: Restart,
}

/// What the values of a hot-parameter rule had used before a restart.
#[derive(Debug, Default)]
pub(crate) struct SavedParam {
    pub(crate) values: Vec<(Key, Saved)>,
    pub(crate) shared: Option<Saved>,
}

/// Values of one record, so that no record grows with its rule.
const VALUES_OF_RECORD: usize = 1_024;

/// How long a rule may be missing after a restart and still find what it had used.
const UNCLAIMED: Duration = Duration::from_secs(24 * 3_600);

/// What a flow without a rule has used.
#[derive(Debug)]
struct DepartedFlow {
    counting: Counting,
    counter: Option<Arc<FlowCounter>>,
    calls: Option<Arc<Calls>>,
}

impl Departed {
    /// Takes in what `flow` has used, unless there are `most` already.
    pub(crate) fn flow_left(&mut self, id: i64, flow: &Flow, most: usize) {
        let (counter, calls) = (flow.counter(), flow.calls().cloned());
        if self.flows.len() < most && (counter.is_some() || calls.is_some()) {
            let counting = flow.counting();
            self.flows.insert(id, DepartedFlow { counting, counter, calls });
        }
    }

    /// As [`flow_left`](Self::flow_left).
    pub(crate) fn param_left(&mut self, id: i64, param: &ParamFlow, most: usize) {
        if self.params.len() < most {
            self.params.insert(id, (param.counting(), param.counter()));
        }
    }

    /// Takes in what was saved before a restart by a clock that this one is `behind`.
    pub(crate) fn restore(
        &mut self,
        now: Tick,
        behind: Duration,
        records: impl IntoIterator<Item = Record>,
    ) -> Restored {
        let mut sum = Restored::default();
        self.restart = Restart { at: now, behind };
        for Record(kind) in records {
            match kind {
                Kind::Flow(id, flow) => {
                    sum.flows += 1;
                    self.saved_flows.insert(id, flow);
                }
                Kind::Values(id, values) => {
                    sum.values += values.len() as u64;
                    self.saved_params.entry(id).or_default().values.extend(values);
                }
                Kind::Shared(id, shared) => {
                    self.saved_params.entry(id).or_default().shared = Some(shared);
                }
            }
        }
        sum
    }

    /// What the flow that is made had used before a restart.
    pub(crate) fn saved_flow(&mut self, id: i64) -> Option<(SavedFlow, Restart)> {
        Some((self.saved_flows.remove(&id)?, self.restart))
    }

    /// As [`saved_flow`](Self::saved_flow), for a hot-parameter rule.
    pub(crate) fn saved_param(&mut self, id: i64) -> Option<(SavedParam, Restart)> {
        Some((self.saved_params.remove(&id)?, self.restart))
    }

    /// Everything that still counts, for the next restart.
    pub(crate) fn save(&self, now: Tick) -> Vec<Record> {
        let flows = self.flows.iter().filter_map(|(id, flow)| {
            Some(Kind::Flow(*id, flow.counter.as_ref()?.save(&flow.counting, now)?))
        });
        let unclaimed = self.saved_flows.iter().map(|(id, flow)| Kind::Flow(*id, flow.clone()));
        let values = self.saved_params.iter().flat_map(|(id, param)| {
            let values = param.values.chunks(VALUES_OF_RECORD);
            let values = values.map(|values| Kind::Values(*id, values.to_vec()));
            let shared = param.shared.clone().map(|shared| Kind::Shared(*id, shared));
            values.chain(shared)
        });
        // On a clock that is behind, the times of what nobody has claimed would be read wrongly.
        let unclaimed = unclaimed.chain(values).filter(|_| self.restart.behind.is_zero());
        let mut records: Vec<Record> = flows.chain(unclaimed).map(Record).collect();
        for (id, (counting, counter)) in &self.params {
            let Ok(()) = counter.save::<Infallible>(*id, counting, now, |record| {
                records.push(record);
                Ok(())
            });
        }
        records
    }

    /// A flow rule of that id, which counts so, is in force again: what it goes on with.
    pub(crate) fn flow_back(&mut self, id: i64, counting: &Counting) -> Inherited {
        let Some(flow) = self.flows.remove(&id) else { return Inherited::default() };
        Inherited::from(flow.counter, flow.calls, (&flow.counting, counting))
    }

    /// As [`flow_back`](Self::flow_back), for a hot-parameter rule.
    pub(crate) fn param_back(&mut self, id: i64, counting: &Counting) -> Option<Arc<ParamCounter>> {
        self.params.remove(&id).filter(|(its, _)| its == counting).map(|(_, counter)| counter)
    }

    /// Forgets what no longer counts.
    pub(crate) fn tidy(&mut self, room: &Room, now: Tick) {
        if now >= self.restart.at.plus(UNCLAIMED) {
            (self.saved_flows, self.saved_params) = Default::default();
        }
        self.flows.retain(|_, flow| {
            let counts = |counter: &Arc<FlowCounter>| !counter.is_idle(&flow.counting, now);
            flow.counter.as_ref().is_some_and(counts)
                || flow.calls.as_ref().is_some_and(|calls| calls.counted() > 0)
        });
        self.params.retain(|_, (counting, counter)| !counter.is_idle(counting, room, now));
        // After a restart, or after many rules have gone, tables that are empty may be large.
        give_back_if_empty(&mut self.flows);
        give_back_if_empty(&mut self.params);
        give_back_if_empty(&mut self.saved_flows);
        give_back_if_empty(&mut self.saved_params);
    }
}

fn give_back_if_empty<T>(table: &mut FxHashMap<i64, T>) {
    if table.is_empty() {
        *table = FxHashMap::default();
    }
}
