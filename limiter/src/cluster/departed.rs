//! Counters without a rule in force: of rules that were removed and may come back, and of rules that
//! are yet to be loaded after a restart. Kept until nothing of them counts any more.
//!
//! A rule that was removed is kept whole: a batch that began before may still be deciding under it,
//! and be the first to use it.

use std::time::Duration;

use rustc_hash::FxHashMap;

use super::{
    Flow, ParamFlow,
    counting::Counting,
    flow::Inherited,
    key::Key,
    param::ParamCounter,
    saved::{Kind, Record, Restart, Restored, SavedFlow, value_bytes},
    values::{Account, Room},
};
use crate::{Tick, algorithm::Saved, sync::Arc};

/// What flows and hot-parameter rules that are not there have used, by id.
///
/// A clone shares all of it, and only the tables are copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Departed {
    flows: FxHashMap<i64, Arc<Flow>>,
    params: FxHashMap<i64, Arc<ParamFlow>>,
    /// From before a restart, until their rules are loaded.
    saved_flows: FxHashMap<i64, Arc<(SavedFlow, Account)>>,
    saved_params: FxHashMap<i64, Arc<SavedParam>>,
    restart: Restart,
}

/// What the values of a hot-parameter rule had used before a restart.
#[derive(Debug, Default)]
pub(crate) struct SavedParam {
    /// Those of one record together.
    pub(crate) values: Vec<Vec<(Key, Saved)>>,
    pub(crate) shared: Option<Saved>,
    /// What they take of the room that hot values have.
    account: Account,
}

impl SavedParam {
    /// Takes in what one value, or several, had used together.
    fn join(&mut self, saved: Saved) {
        match &mut self.shared {
            Some(shared) => shared.join(saved),
            none => *none = Some(saved),
        }
    }
}

/// How long a rule may be missing after a restart and still find what it had used.
const UNCLAIMED: Duration = Duration::from_secs(24 * 3_600);

impl Departed {
    /// Takes in `flow`, unless there are `most` already.
    pub(crate) fn flow_left(&mut self, id: i64, flow: &Arc<Flow>, most: usize) {
        if self.flows.len() < most {
            self.flows.insert(id, Arc::clone(flow));
        }
    }

    /// As [`flow_left`](Self::flow_left).
    pub(crate) fn param_left(&mut self, id: i64, param: &Arc<ParamFlow>, most: usize) {
        if self.params.len() < most {
            self.params.insert(id, Arc::clone(param));
        }
    }

    /// Takes in what was saved before a restart by a clock that this one is `behind`: of `most`
    /// flows and hot-parameter rules each, and as much as there is `room` for. Values beyond it are
    /// joined to one that their rule begins to share, and flows beyond it count as if everything had
    /// been used when the last of it was.
    pub(crate) fn restore(
        &mut self,
        now: Tick,
        behind: Duration,
        records: impl IntoIterator<Item = Record>,
        (room, most): (&Room, usize),
    ) -> Restored {
        let (mut sum, mut params) = (Restored::default(), FxHashMap::<i64, SavedParam>::default());
        self.restart = Restart { at: now, behind };
        for Record(kind) in records {
            match kind {
                Kind::Flow(id, mut flow) if self.saved_flows.len() < most => {
                    if !room.has_bytes(flow.bytes() as u64) {
                        flow.condense();
                    }
                    let mut account = Account::default();
                    account.add(room, flow.bytes() as u64);
                    sum.flows += 1;
                    self.saved_flows.insert(id, Arc::new((flow, account)));
                }
                Kind::Values(id, mut values) if params.len() < most || params.contains_key(&id) => {
                    sum.values += values.len() as u64;
                    values.shrink_to_fit();
                    let bytes = values.iter().map(|(key, its)| value_bytes(key, its) as u64).sum();
                    let param = params.entry(id).or_default();
                    if room.has_bytes(bytes) {
                        param.account.add(room, bytes);
                        param.values.push(values);
                    } else {
                        values.into_iter().for_each(|(_, saved)| param.join(saved));
                    }
                }
                Kind::Shared(id, shared) if params.len() < most || params.contains_key(&id) => {
                    params.entry(id).or_default().join(shared);
                }
                Kind::Flow(..) | Kind::Values(..) | Kind::Shared(..) => {}
            }
        }
        self.saved_params = params.into_iter().map(|(id, param)| (id, Arc::new(param))).collect();
        sum
    }

    /// What the flow that is made had used before a restart.
    pub(crate) fn saved_flow(&mut self, id: i64) -> Option<(Arc<(SavedFlow, Account)>, Restart)> {
        Some((self.saved_flows.remove(&id)?, self.restart))
    }

    /// As [`saved_flow`](Self::saved_flow), for a hot-parameter rule.
    pub(crate) fn saved_param(&mut self, id: i64) -> Option<(Arc<SavedParam>, Restart)> {
        let mut saved = self.saved_params.remove(&id)?;
        // Room for the counters that are made from it, unless a snapshot of it is being written.
        if let Some(own) = Arc::get_mut(&mut saved) {
            own.account = Account::default();
        }
        Some((saved, self.restart))
    }

    /// Everything that still counts, for the next restart, a record at a time.
    pub(crate) fn save<E>(
        &self,
        now: Tick,
        mut sink: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        for (id, flow) in &self.flows {
            if let Some(saved) = flow.counter().and_then(|it| it.save(&flow.counting(), now)) {
                sink(Record(Kind::Flow(*id, saved)))?;
            }
        }
        for (id, param) in &self.params {
            param.counter().save(*id, &param.counting(), now, &mut sink)?;
        }
        // On a clock that is behind, the times of what nobody has claimed would be read wrongly.
        if !self.restart.behind.is_zero() {
            return Ok(());
        }
        for (id, flow) in &self.saved_flows {
            sink(Record(Kind::Flow(*id, flow.0.clone())))?;
        }
        for (id, param) in &self.saved_params {
            for values in &param.values {
                sink(Record(Kind::Values(*id, values.clone())))?;
            }
            if let Some(shared) = &param.shared {
                sink(Record(Kind::Shared(*id, shared.clone())))?;
            }
        }
        Ok(())
    }

    /// A flow rule of that id, which counts so, is in force again: what it goes on with.
    pub(crate) fn flow_back(&mut self, id: i64, counting: &Counting) -> Inherited {
        let flow = self.flows.remove(&id);
        flow.map_or_else(Inherited::default, |flow| flow.bequeath(counting))
    }

    /// As [`flow_back`](Self::flow_back), for a hot-parameter rule.
    pub(crate) fn param_back(&mut self, id: i64, counting: &Counting) -> Option<Arc<ParamCounter>> {
        let param = self.params.remove(&id).filter(|param| param.counting() == *counting);
        param.map(|param| param.counter())
    }

    /// How many flow rules and hot-parameter rules there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.flows.len(), self.params.len())
    }

    /// Forgets what no longer counts, and that no batch decides under any more. True if there was
    /// something of that kind.
    pub(crate) fn tidy(&mut self, now: Tick) -> bool {
        if now >= self.restart.at.plus(UNCLAIMED) {
            (self.saved_flows, self.saved_params) = Default::default();
        }
        let before = self.flows.len() + self.params.len();
        // Of a set that a batch looks at there is another reference to each of its rules, and nobody
        // makes one of the only one. So what is idle then stays idle.
        self.flows.retain(|_, flow| Arc::get_mut(flow).is_none() || !flow.is_idle(now));
        self.params.retain(|_, param| Arc::get_mut(param).is_none() || !param.is_idle(now));
        let has_forgotten = self.flows.len() + self.params.len() < before;
        // After a restart, or after many rules have gone, tables that are empty may be large.
        give_back_if_empty(&mut self.flows);
        give_back_if_empty(&mut self.params);
        give_back_if_empty(&mut self.saved_flows);
        give_back_if_empty(&mut self.saved_params);
        has_forgotten
    }
}

fn give_back_if_empty<T>(table: &mut FxHashMap<i64, T>) {
    if table.is_empty() {
        *table = FxHashMap::default();
    }
}
