//! The nodes of one resource: its counters over all calls, by context and by origin.

use std::sync::Arc;

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::{
    OVERFLOW,
    context::Entrance,
    stat::{BucketId, Stat},
    stay::Stay,
};
use crate::Tick;

/// No such node.
pub(super) const NONE: u32 = u32::MAX;

/// All counters of one resource.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// The cluster node: every call.
    pub(super) cluster: Stat,
    /// In order of the entrances' ids.
    contexts: Vec<ContextNode>,
    /// In order of their numbers, which are never given again.
    origins: Vec<OriginNode>,
    by_origin: HashMap<Arc<str>, u32, RandomState>,
    /// The number of the next origin.
    next_origin: u32,
    /// Of origins that share a node.
    stay: Stay,
}

/// A default node: the calls in one context.
#[derive(Debug)]
pub(super) struct ContextNode {
    pub(super) entrance: Arc<Entrance>,
    id: u32,
    /// The resource that it was first called from; `None`: from the entrance.
    pub(super) parent: Option<Arc<str>>,
    /// `None` as long as there is no other context: then the cluster node's counters are its own,
    /// too, and a call counts once instead of twice.
    own: Option<Box<Stat>>,
}

/// An origin node: the calls of one caller.
#[derive(Debug)]
struct OriginNode {
    number: u32,
    name: Arc<str>,
    stat: Box<Stat>,
}

/// Which nodes a call counts in, beside the cluster node. They stay while something is counted in
/// them; a call that is counted nowhere yet may find them gone after it has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    /// An entrance's id.
    pub(super) context: u32,
    /// An origin's number; [`NONE`] for a call without origin.
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
    /// Whether there is a node of calls in the context.
    #[inline]
    pub(super) fn has_context(&self, entrance: u32) -> bool {
        match self.contexts.as_slice() {
            [only] => only.id == entrance,
            several => several.binary_search_by_key(&entrance, |node| node.id).is_ok(),
        }
    }

    /// Whether the nodes of the call are there.
    pub(super) fn has(&self, seat: Seat) -> bool {
        let has_origin = || self.origins.binary_search_by_key(&seat.origin, |o| o.number).is_ok();
        self.has_context(seat.context) && (seat.origin == NONE || has_origin())
    }

    /// Adds the node of calls in a context that has none, first called from `parent`.
    pub(super) fn add_context(&mut self, entrance: &Arc<Entrance>, parent: Option<Arc<str>>) {
        let own = if self.contexts.is_empty() {
            // Most have one, and a vector's first room is for four.
            self.contexts.reserve_exact(1);
            None
        } else {
            self.split();
            Some(Box::default())
        };
        let id = entrance.id;
        let at = self.contexts.partition_point(|node| node.id < id);
        self.contexts.insert(at, ContextNode { entrance: Arc::clone(entrance), id, parent, own });
    }

    /// The node of an origin, which is not empty.
    pub(super) fn origin(&self, origin: &str) -> Option<u32> {
        self.by_origin.get(origin).copied()
    }

    /// Origins with a node.
    pub(super) fn origins_len(&self) -> usize {
        self.origins.len()
    }

    /// Adds the node of an origin that has none.
    pub(super) fn add_origin(&mut self, origin: &str) -> u32 {
        let (number, name) = (self.next_origin, Arc::from(origin));
        // Four billion take some years, since each is there for a minute; the last is then shared.
        self.next_origin = (number + 1).min(NONE - 1);
        self.by_origin.insert(Arc::clone(&name), number);
        self.origins.push(OriginNode { number, name, stat: Box::default() });
        number
    }

    /// The node of all origins without one, which they share since there is no room for their own.
    pub(super) fn share_origin(&mut self) -> Option<u32> {
        self.stay.begin();
        self.origin(OVERFLOW)
    }

    /// The same if they go on to share it, now that there is room.
    pub(super) fn origin_that_stays_shared(&mut self, now: Tick) -> Option<u32> {
        let shared = self.origin(OVERFLOW)?;
        let is_seen = self.origin_mut(shared)?.is_seen(now);
        (is_seen && self.stay.goes_on(now)).then_some(shared)
    }

    /// Nodes beside the cluster node, but for that of one context, which each resource has.
    pub(super) fn extra(&self) -> usize {
        self.origins.len() + self.contexts.len().saturating_sub(1)
    }

    /// Gives back what is idle: nodes in which nothing was counted for a minute, and minutes in
    /// which there is nothing. True when that is all: then none has counted anything for a minute.
    pub(super) fn rest(&mut self, now: Tick) -> bool {
        let is_idle = self.cluster.rest(now);
        let before = self.origins.len();
        self.origins.retain_mut(|origin| {
            let is_idle = origin.stat.rest(now);
            if is_idle {
                self.by_origin.remove(&origin.name);
            }
            !is_idle
        });
        if self.origins.len() < before {
            self.origins.shrink_to_fit();
            self.by_origin.shrink_to_fit();
        }
        let before = self.contexts.len();
        self.contexts.retain_mut(|node| node.own.as_mut().is_none_or(|own| !own.rest(now)));
        if self.contexts.len() < before {
            self.contexts.shrink_to_fit();
        }
        is_idle && self.extra() == 0
    }

    /// The name of an origin, to keep: that of its node, if it has one of its own; else a copy.
    pub(super) fn origin_name(&self, at: u32, origin: &str) -> Arc<str> {
        let place = self.origins.binary_search_by_key(&at, |origin| origin.number);
        match place.ok().and_then(|place| self.origins.get(place)) {
            Some(node) if *node.name == *origin => Arc::clone(&node.name),
            _ => origin.into(),
        }
    }

    /// Gives the only context counters of its own: from here on they differ from the cluster
    /// node's.
    pub(super) fn split(&mut self) {
        if let Some(first) = self.contexts.first_mut()
            && first.own.is_none()
        {
            first.own = Some(Box::new(self.cluster.clone()));
        }
    }

    /// One node's counters. `None` only for a target that is not of these nodes.
    #[inline]
    pub(super) fn stat(&mut self, target: Target) -> Option<&mut Stat> {
        match target {
            Target::Cluster => Some(&mut self.cluster),
            Target::Context(entrance) => {
                let at = self.contexts.binary_search_by_key(&entrance, |node| node.id).ok()?;
                let node = self.contexts.get_mut(at)?;
                Some(node.own.as_deref_mut().unwrap_or(&mut self.cluster))
            }
            Target::Origin(number) => self.origin_mut(number),
        }
    }

    fn origin_mut(&mut self, number: u32) -> Option<&mut Stat> {
        let at = self.origins.binary_search_by_key(&number, |origin| origin.number).ok()?;
        Some(&mut self.origins.get_mut(at)?.stat)
    }

    /// The counters of a context, if they are not those of the cluster node.
    #[inline]
    fn own_mut(&mut self, entrance: u32) -> Option<&mut Stat> {
        match self.contexts.as_mut_slice() {
            [only] => only.own.as_deref_mut().filter(|_| only.id == entrance),
            several => {
                let at = several.binary_search_by_key(&entrance, |node| node.id).ok()?;
                several.get_mut(at)?.own.as_deref_mut()
            }
        }
    }

    /// Does the same to all counters of a call.
    #[inline]
    pub(super) fn each(&mut self, seat: Seat, mut change: impl FnMut(&mut Stat)) {
        change(&mut self.cluster);
        if let Some(own) = self.own_mut(seat.context) {
            change(own);
        }
        if seat.origin != NONE
            && let Some(origin) = self.origin_mut(seat.origin)
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
        for origin in &mut self.origins {
            origin.stat.advance(now);
        }
    }

    /// The nodes by context, each with its counters.
    pub(super) fn contexts(&self) -> impl Iterator<Item = (&ContextNode, &Stat)> {
        self.contexts.iter().map(|node| (node, node.own.as_deref().unwrap_or(&self.cluster)))
    }

    /// The nodes by origin.
    pub(super) fn origins(&self) -> impl Iterator<Item = (&str, &Stat)> {
        self.origins.iter().map(|origin| (&*origin.name, &*origin.stat))
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
        nodes.add_context(&entrance(7), Some("outer".into()));
        call(&mut nodes, 7);
        nodes.add_context(&entrance(0), None);
        nodes.advance(Tick::from_ms(1_000));
        call(&mut nodes, 0);
        call(&mut nodes, 0);
        let passed: Vec<u64> = nodes.contexts().map(|(_, stat)| stat.passed()).collect();
        assert_eq!((passed, nodes.cluster.passed()), (vec![2, 1], 3));
        assert!(nodes.has_context(7) && !nodes.has_context(3));
        assert_eq!(nodes.stat(Target::Context(7)).map(|stat| stat.passed()), Some(1));
    }

    #[test]
    fn idle_nodes_go_and_those_that_count_stay_where_they_are() {
        let mut nodes = Nodes::default();
        nodes.advance(Tick::from_ms(1_000));
        for id in 0..3 {
            nodes.add_context(&entrance(id), None);
        }
        let [first, second, third] = ["a", "b", "c"].map(|name| nodes.add_origin(name));
        let seats = [(0, first), (1, second), (2, third)].map(|(context, origin)| {
            nodes.advance(Tick::from_ms(1_000));
            let seat = Seat { context, origin };
            nodes.take(seat, 1);
            seat
        });
        for seat in [seats[0], seats[2]] {
            nodes.each(seat, |stat| stat.complete(1, 0, false));
        }
        // What was counted in second 1 is in the minute that ends with second 60.
        assert!(!nodes.rest(Tick::from_ms(60_999)));
        assert_eq!(nodes.extra(), 3 + 2);
        assert!(!nodes.rest(Tick::from_ms(61_000)), "b is called still");
        assert_eq!(seats.map(|seat| nodes.has(seat)), [false, true, false]);
        assert_eq!((nodes.origin("a"), nodes.origin("b")), (None, Some(second)));
        assert_ne!(nodes.add_origin("d"), first);
        nodes.each(seats[1], |stat| stat.end());
        assert!(nodes.rest(Tick::from_ms(61_000)));
        assert_eq!((nodes.extra(), nodes.origins.capacity()), (0, 0));
    }
}
