//! A call that a token server is to decide.

use std::sync::Arc;

use super::{
    LocalEngine, Step, Waiting,
    arg::values_at,
    passage::{Ended, Passage},
};
use crate::{
    Param, Tick,
    rule::{FlowRule, ParamRule},
};

/// A call that stands at a rule with `clusterMode`: whoever reaches a token server asks it, keeps
/// the wait that it may be told, and says what came of it. Dropped, the call is given up.
///
/// There are none before [`LocalEngine::ask_servers`].
#[derive(Debug)]
#[must_use = "a call that does not go on is given up"]
pub struct Asking<'a> {
    engine: Arc<LocalEngine>,
    passage: Passage<'a>,
    rule: Asked,
}

/// The rule that a server is asked for.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Flow(Arc<FlowRule>),
    Param(Arc<ParamRule>),
}

/// What a server is to be asked.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Question<'q> {
    /// Tokens of a flow rule; of grade 0, calls in progress.
    Flow {
        /// The rule, which has a [`cluster`](FlowRule::cluster) configuration.
        rule: &'q FlowRule,
        /// How many.
        count: u32,
        /// Whether the call may borrow from the time to come.
        prioritized: bool,
    },
    /// Tokens of a hot-parameter rule.
    Param {
        /// The rule, which has a [`cluster`](ParamRule::cluster) configuration.
        rule: &'q ParamRule,
        /// How many of each value.
        count: u32,
        /// The values, at least one.
        values: &'q [Param<'q>],
    },
}

/// What a server said of the rule with that id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(super) flow_id: i64,
    pub(super) pass: bool,
}

impl Asked {
    fn flow_id(&self) -> Option<i64> {
        let cluster = match self {
            Self::Flow(rule) => rule.cluster.as_ref(),
            Self::Param(rule) => rule.cluster.as_ref(),
        };
        cluster.map(|cluster| cluster.flow_id)
    }
}

impl<'a> Asking<'a> {
    pub(super) fn new(engine: &Arc<LocalEngine>, passage: Passage<'a>, rule: Asked) -> Self {
        Self { engine: Arc::clone(engine), passage, rule }
    }

    /// What to ask.
    #[must_use]
    pub fn question(&self) -> Question<'_> {
        let call = self.passage.call();
        match &self.rule {
            Asked::Flow(rule) => {
                Question::Flow { rule, count: call.count, prioritized: call.prioritized }
            }
            Asked::Param(rule) => Question::Param {
                rule,
                count: call.count,
                values: values_at(call.args, rule.param_idx).unwrap_or_default(),
            },
        }
    }

    /// Goes on at `now` with what came of it: whether the call may `pass`, after any wait; `None`
    /// when there is nobody to ask, and then the call goes on as without a server. Rules that compare counters are asked once more,
    /// since others may have passed meanwhile. If the rule is no longer in force, nobody minds what
    /// came of it.
    pub fn resume(self, now: Tick, pass: Option<bool>) -> Step<'a> {
        let Self { engine, mut passage, rule } = self;
        passage.place.is_alone |= pass.is_none();
        let told = pass.and_then(|pass| Some(Told { flow_id: rule.flow_id()?, pass }));
        match rule {
            Asked::Flow(_) => passage.place.flow.told = told,
            Asked::Param(_) => passage.place.param.told = told,
        }
        match passage.run(&engine, now) {
            Ended::Through => Step::Passed(passage.admit()),
            Ended::Refused(block) => Step::Blocked(block),
            Ended::Wait(wait) => Step::Wait(Waiting::new(&engine, passage, wait)),
            Ended::Ask(rule) => Step::Ask(Self { engine, passage, rule }),
        }
    }
}
