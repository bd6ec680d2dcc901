//! The process that decides by itself: its client asks the engine that its server serves.

use std::{sync::Arc, time::Duration};

use limiter::{Ask, Clock, ClusterEngine, Membership, OwnerId};
use protocol::{Adjustment, Status};

use crate::{
    AllAnswer, Answer, NoAnswer, Param, What,
    decide::as_value,
    told::{Manner, Told, decided, status},
};

/// An engine in this process, of whose clients this is one.
#[derive(Debug)]
pub(crate) struct Embedded {
    pub(crate) engine: Arc<ClusterEngine>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Sentinel's embedded server counts itself among the clients of its namespace
    /// (`SentinelDefaultTokenServer.java`), and so do we.
    pub(crate) membership: Membership,
    /// Whose concurrency tokens are this client's.
    pub(crate) owner: OwnerId,
}

impl Drop for Embedded {
    /// What guards still hold ends as after a connection has closed.
    fn drop(&mut self) {
        self.engine.concurrency().owner_gone(self.clock.now(), self.owner);
    }
}

impl Embedded {
    pub(crate) fn flow(&self, flow_id: i64, count: i32, priority: bool) -> Answer {
        let rules = self.engine.rules();
        decided(rules.acquire_flow(self.clock.now(), flow_id, count, priority))
    }

    pub(crate) fn param(&self, flow_id: i64, count: i32, params: &[Param<'_>]) -> Answer {
        let rules = self.engine.rules();
        let values = params.iter().map(as_value);
        decided(rules.acquire_param(self.clock.now(), flow_id, count, values))
    }

    pub(crate) fn ask(&self, what: &What<'_>, count: i32, manner: Manner) -> Told {
        let (now, values) = (self.clock.now(), values(what));
        match self.engine.rules().ask(now, &engines(what, count, &values), manner.into()) {
            Ok(explained) => Told::of_engine(explained),
            Err(undecided) => decided(Err(undecided)).into(),
        }
    }

    /// Asks for what the namespace's guard has refused.
    pub(crate) fn unguarded(&self, what: &What<'_>, manner: Manner) -> Result<Answer, NoAnswer> {
        let count = what.check()?;
        let values = values(what);
        let rules = self.engine.rules();
        let asked =
            rules.ask_unguarded(self.clock.now(), &engines(what, count, &values), manner.into());
        Ok(decided(asked.map(|explained| explained.decision)))
    }

    pub(crate) fn adjust(
        &self,
        op: Adjustment,
        age: Duration,
        what: &What<'_>,
        count: i32,
    ) -> Status {
        let (now, values, rules) = (self.clock.now(), values(what), self.engine.rules());
        let what = engines(what, count, &values);
        let adjusted = match op {
            Adjustment::GiveBack => rules.give_back(now, &what, age),
            Adjustment::Charge => rules.charge(now, &what),
            Adjustment::Reset => rules.reset(now, &what),
        };
        adjusted.map_or_else(status, |()| Status::Ok)
    }

    pub(crate) fn all(&self, all: &[(What<'_>, bool)], counts: &[i32]) -> AllAnswer {
        let values: Vec<_> = all.iter().map(|(what, _)| values(what)).collect();
        let wanted = all.iter().zip(counts).zip(&values);
        let wanted = wanted
            .map(|(((what, priority), count), values)| (engines(what, *count, values), *priority));
        let wanted: Vec<_> = wanted.collect();
        AllAnswer::of_engine(self.engine.rules().acquire_all(self.clock.now(), &wanted))
    }

    /// Clients of the namespace, this one included.
    pub(crate) fn clients(&self) -> u32 {
        self.membership.namespace().connected()
    }
}

impl From<Manner> for Ask {
    fn from(Manner { priority: prioritized, peek, max_wait }: Manner) -> Self {
        Self { prioritized, peek, max_wait }
    }
}

/// The values of `what`, in the engine's type.
fn values<'a>(what: &What<'a>) -> Vec<limiter::Param<'a>> {
    match *what {
        What::Flow { .. } => Vec::new(),
        What::Param { params, .. } => params.iter().map(as_value).collect(),
    }
}

/// The same, in the engine's type.
fn engines<'a>(what: &What<'_>, count: i32, values: &'a [limiter::Param<'a>]) -> limiter::What<'a> {
    match *what {
        What::Flow { id, .. } => limiter::What::Flow { id, count },
        What::Param { id, .. } => limiter::What::Param { id, count, values },
    }
}
