//! One flow rule in force.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use super::{Ask, Watched, control::Control};
use crate::{
    local::{node::Nodes, succession::Successor},
    rule::{ControlBehavior, FlowRule, Grade, Strategy},
};

/// `limitApp`: every caller.
const DEFAULT: &str = "default";
/// `limitApp`: callers that no other rule names.
const OTHER: &str = "other";

#[derive(Debug)]
pub(super) struct Guard {
    /// The same as long as the control goes on.
    pub(super) number: u32,
    pub(super) rule: Arc<FlowRule>,
    pub(super) who: Who,
    pub(super) whose: Whose,
    pub(super) control: Control,
}

/// Whose calls a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Everybody,
    /// Callers that no other rule names.
    Others,
    /// The caller that the rule names.
    One,
}

impl Who {
    pub(super) fn of(rule: &FlowRule) -> Self {
        match rule.limit_app() {
            DEFAULT => Self::Everybody,
            OTHER => Self::Others,
            _ => Self::One,
        }
    }
}

/// Whose counters a rule compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The resource's own: of all calls, or of the caller.
    Own,
    /// The resource's own of all calls, whoever calls.
    Cluster,
    /// Another resource's, a position in the list of readings.
    Related(usize),
    /// The resource's own, as called in one context.
    Chain,
}

impl Whose {
    /// `None` for a rule that never applies. Names of other resources go to `related`.
    pub(super) fn of(rule: &FlowRule, resource: &str, related: &mut Vec<Box<str>>) -> Option<Self> {
        let other = rule.ref_resource();
        match rule.strategy {
            Strategy::Direct => Some(Self::Own),
            Strategy::Chain => other.map(|_| Self::Chain),
            Strategy::Relate => {
                let other = other?;
                if other == resource {
                    return Some(Self::Cluster);
                }
                let at = related.iter().position(|name| **name == *other);
                Some(Self::Related(at.unwrap_or_else(|| {
                    related.push(other.into());
                    related.len() - 1
                })))
            }
        }
    }
}

impl Guard {
    /// Lets a call that was refused borrow from the next bucket, if it may and there is room.
    /// Another resource's future is not lent.
    pub(super) fn borrow(
        &self,
        nodes: &mut Nodes,
        target: Watched,
        ask: &Ask<'_>,
    ) -> Option<Duration> {
        let may = ask.prioritized
            && self.rule.grade == Grade::Qps
            && self.rule.behavior == ControlBehavior::Reject;
        let Watched::Own(target) = target else { return None };
        let count = self.control.count().filter(|_| may)?;
        // Only the node that the rule compares counts what is borrowed.
        nodes.split();
        nodes.stat(target)?.borrow(ask.now, ask.n, count)
    }
}

impl Successor for Guard {
    /// For the same calls, and compared with the same counters.
    fn is_akin(&self, other: &Self) -> bool {
        subject(&self.rule) == subject(&other.rule)
    }

    fn likeness(&self, other: &Self) -> u32 {
        let (one, other) = (&*self.rule, &*other.rule);
        let flow_id = |rule: &FlowRule| rule.cluster.as_ref().map(|cluster| cluster.flow_id);
        let numbers = u32::from(one.count == other.count)
            + u32::from(one.warm_up_period_sec == other.warm_up_period_sec)
            + u32::from(one.max_queueing_time_ms == other.max_queueing_time_ms);
        u32::from(flow_id(one) == flow_id(other)) << 4
            | u32::from(one.behavior == other.behavior) << 3
            | u32::from(one.grade == other.grade) << 2
            | numbers
    }

    fn strictness(&self, other: &Self) -> Ordering {
        let remembered = self.control.strictness(&other.control);
        remembered.then(other.rule.count.total_cmp(&self.rule.count))
    }
}

fn subject(rule: &FlowRule) -> (&str, bool, &str, Strategy, Option<&str>) {
    (&rule.resource, rule.regex, rule.limit_app(), rule.strategy, rule.ref_resource())
}
