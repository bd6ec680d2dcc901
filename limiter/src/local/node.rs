//! The nodes of one resource: its counters over all calls, by context and by origin.

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::{
    OVERFLOW,
    context::Entrance,
    stat::{BucketId, Stat},
};
use crate::{Tick, sync::Arc};

/// No such node.
pub(super) const NONE: u32 = u32::MAX;

/// All counters of one resource.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// The cluster node: every call.
    pub(super) cluster: Stat,
    contexts: Vec<ContextNode>,
    /// Positions in `contexts` by the entrance's id.
    by_context: Vec<u32>,
    origins: Vec<(Box<str>, Stat)>,
    by_origin: HashMap<Box<str>, u32, RandomState>,
}

/// A default node: the calls in one context.
#[derive(Debug)]
pub(super) struct ContextNode {
    pub(super) entrance: Arc<Entrance>,
    /// The resource that it was first called from; `None`: from the entrance.
    pub(super) parent: Option<Arc<str>>,
    /// `None` as long as there is no other context: then the cluster node's counters are its own,
    /// too, and a call counts once instead of twice.
    own: Option<Stat>,
}

/// Which nodes a call counts in, beside the cluster node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) context: u32,
    /// [`NONE`] for a call without origin.
    pub(super) origin: u32,
}

/// Which node a rule compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Cluster,
    Context(u32),
    Origin(u32),
}

impl Nodes {
    /// The node of calls in the context, if there is one.
    #[inline]
    pub(super) fn context(&self, entrance: u32) -> Option<u32> {
        self.by_context.get(entrance as usize).copied().filter(|at| *at != NONE)
    }

    /// Adds the node of calls in a context, first called from `parent`.
    pub(super) fn add_context(
        &mut self,
        entrance: &Arc<Entrance>,
        parent: Option<Arc<str>>,
    ) -> u32 {
        let own = if self.contexts.is_empty() {
            // Most have one, and a vector's first room is for four.
            self.contexts.reserve_exact(1);
            None
        } else {
            self.split();
            Some(Stat::default())
        };
        let at = u32::try_from(self.contexts.len()).unwrap_or(NONE);
        self.contexts.push(ContextNode { entrance: Arc::clone(entrance), parent, own });
        let id = entrance.id as usize;
        if self.by_context.len() <= id {
            self.by_context.resize(id + 1, NONE);
        }
        if let Some(place) = self.by_context.get_mut(id) {
            *place = at;
        }
        at
    }

    /// The node of an origin, which is not empty.
    pub(super) fn origin(&self, origin: &str) -> Option<u32> {
        self.by_origin.get(origin).copied()
    }

    /// Adds the node of an origin; above `max` only if it `is_named` by a rule. `None`: it shares
    /// a node with others, which this adds if need be.
    pub(super) fn add_origin(&mut self, origin: &str, max: usize, is_named: bool) -> Option<u32> {
        if self.origins.len() >= max && !is_named {
            return None;
        }
        Some(self.push_origin(origin))
    }

    /// The node of the origins above the bound.
    pub(super) fn other_origins(&mut self) -> u32 {
        self.origin(OVERFLOW).unwrap_or_else(|| self.push_origin(OVERFLOW))
    }

    fn push_origin(&mut self, origin: &str) -> u32 {
        let at = u32::try_from(self.origins.len()).unwrap_or(NONE);
        self.origins.push((origin.into(), Stat::default()));
        self.by_origin.insert(origin.into(), at);
        at
    }

    /// Gives the only context counters of its own: from here on they differ from the cluster
    /// node's.
    pub(super) fn split(&mut self) {
        if let Some(first) = self.contexts.first_mut()
            && first.own.is_none()
        {
            first.own = Some(self.cluster.clone());
        }
    }

    /// One node's counters. `None` only for a target that is not of these nodes.
    #[inline]
    pub(super) fn stat(&mut self, target: Target) -> Option<&mut Stat> {
        match target {
            Target::Cluster => Some(&mut self.cluster),
            Target::Context(at) => {
                let node = self.contexts.get_mut(at as usize)?;
                Some(node.own.as_mut().unwrap_or(&mut self.cluster))
            }
            Target::Origin(at) => self.origins.get_mut(at as usize).map(|(_, stat)| stat),
        }
    }

    /// Does the same to all counters of a call.
    #[inline]
    pub(super) fn each(&mut self, seat: Seat, mut change: impl FnMut(&mut Stat)) {
        change(&mut self.cluster);
        if let Some(ContextNode { own: Some(own), .. }) =
            self.contexts.get_mut(seat.context as usize)
        {
            change(own);
        }
        if seat.origin != NONE
            && let Some((_, origin)) = self.origins.get_mut(seat.origin as usize)
        {
            change(origin);
        }
    }

    /// Counts a call and `n` tokens in all its nodes, which were brought to the same tick.
    #[inline]
    pub(super) fn take(&mut self, seat: Seat, n: u64) -> BucketId {
        let mut bucket = BucketId::default();
        self.each(seat, |stat| bucket = stat.take(n));
        bucket
    }

    /// Brings every node to `now`.
    pub(super) fn advance(&mut self, now: Tick) {
        self.cluster.advance(now);
        for own in self.contexts.iter_mut().filter_map(|node| node.own.as_mut()) {
            own.advance(now);
        }
        for (_, stat) in &mut self.origins {
            stat.advance(now);
        }
    }

    /// The nodes by context, each with its counters.
    pub(super) fn contexts(&self) -> impl Iterator<Item = (&ContextNode, &Stat)> {
        self.contexts.iter().map(|node| (node, node.own.as_ref().unwrap_or(&self.cluster)))
    }

    /// The nodes by origin.
    pub(super) fn origins(&self) -> impl Iterator<Item = (&str, &Stat)> {
        self.origins.iter().map(|(name, stat)| (&**name, stat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrance(id: u32) -> Arc<Entrance> {
        Arc::new(Entrance { name: format!("c{id}").into(), id })
    }

    fn call(nodes: &mut Nodes, context: u32) {
        nodes.take(Seat { context, origin: NONE }, 1);
    }

    #[test]
    fn a_second_context_takes_nothing_from_the_first() {
        let mut nodes = Nodes::default();
        nodes.advance(Tick::from_ms(1_000));
        let first = nodes.add_context(&entrance(0), None);
        call(&mut nodes, first);
        let second = nodes.add_context(&entrance(7), Some("outer".into()));
        nodes.advance(Tick::from_ms(1_000));
        call(&mut nodes, second);
        call(&mut nodes, second);
        let passed: Vec<u64> = nodes.contexts().map(|(_, stat)| stat.passed()).collect();
        assert_eq!((passed, nodes.cluster.passed()), (vec![1, 2], 3));
        assert_eq!((nodes.context(7), nodes.context(3)), (Some(second), None));
    }

    #[test]
    fn origins_above_the_bound_share_a_node_but_for_those_that_rules_name() {
        let mut nodes = Nodes::default();
        assert_eq!(nodes.add_origin("a", 1, false), Some(0));
        assert_eq!(nodes.add_origin("b", 1, false), None);
        assert_eq!((nodes.other_origins(), nodes.other_origins()), (1, 1));
        assert_eq!(nodes.add_origin("c", 1, true), Some(2));
    }
}
