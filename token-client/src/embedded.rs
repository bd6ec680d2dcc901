//! The process that decides by itself: its client asks the engine that its server serves.

use std::sync::Arc;

use limiter::{Clock, ClusterEngine, Decision, Membership, Undecided};
use protocol::Status;

use crate::{Answer, Param, decide::as_value};

/// An engine in this process, of whose clients this is one.
#[derive(Debug)]
pub(crate) struct Embedded {
    pub(crate) engine: Arc<ClusterEngine>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Sentinel's embedded server counts itself among the clients of its namespace
    /// (`SentinelDefaultTokenServer.java`), and so do we.
    pub(crate) membership: Membership,
}

impl Embedded {
    pub(crate) fn flow(&self, flow_id: i64, count: i32, priority: bool) -> Answer {
        let rules = self.engine.rules();
        answer(rules.acquire_flow(self.clock.now(), flow_id, count, priority))
    }

    pub(crate) fn param(&self, flow_id: i64, count: i32, params: &[Param<'_>]) -> Answer {
        let rules = self.engine.rules();
        let values = params.iter().map(as_value);
        answer(rules.acquire_param(self.clock.now(), flow_id, count, values))
    }

    /// Clients of the namespace, this one included.
    pub(crate) fn clients(&self) -> u32 {
        self.membership.namespace().connected()
    }
}

/// As a server would write it, but with the wait as it is.
fn answer(decided: Result<Decision, Undecided>) -> Answer {
    match decided {
        Ok(Decision::Pass { remaining }) => {
            Answer::new(Status::Ok, i32::try_from(remaining).unwrap_or(i32::MAX), 0)
        }
        Ok(Decision::Wait { wait }) => Answer { status: Status::ShouldWait, remaining: 0, wait },
        Ok(Decision::Block) => Answer::new(Status::Blocked, 0, 0),
        Err(Undecided::BadRequest) => Answer::new(Status::BadRequest, 0, 0),
        Err(Undecided::NoRule) => Answer::new(Status::NoRuleExists, 0, 0),
        Err(Undecided::TooManyRequests) => Answer::new(Status::TooManyRequest, 0, 0),
    }
}
