//! The order of slots (`Constants.java`, `ORDER_*_SLOT`).

use std::sync::Arc;

use super::Slot;

/// Where a link stands: its order, and among equals the number in which it came. Built-in ones
/// come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    order: i32,
    number: u32,
}

/// Below this a refusal is no business of the statistics, which count what the slots behind them say.
const STATISTICS: i32 = -7_000;

/// What a link of the chain is.
#[derive(Clone, Debug)]
pub(super) enum Link {
    NodeSelection,
    ClusterNode,
    Log,
    Statistics,
    Authority,
    System,
    Gateway,
    Param,
    Flow,
    DefaultBreaker,
    Breaker,
    User(Arc<dyn Slot>),
}

/// All slots in order; never changed, only replaced by a longer one.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    links: Vec<(Key, Link)>,
    users: u32,
}

impl Default for Chain {
    fn default() -> Self {
        let links = [
            (-10_000, Link::NodeSelection),
            (-9_000, Link::ClusterNode),
            (-8_000, Link::Log),
            (STATISTICS, Link::Statistics),
            (-6_000, Link::Authority),
            (-5_000, Link::System),
            (-4_000, Link::Gateway),
            (-3_000, Link::Param),
            (-2_000, Link::Flow),
            (-1_500, Link::DefaultBreaker),
            (-1_000, Link::Breaker),
        ];
        let links = links.map(|(order, link)| (Key { order, number: 0 }, link));
        Self { links: links.into(), users: 0 }
    }
}

impl Chain {
    /// The chain with one more slot, behind those of the same order.
    pub(super) fn with(&self, order: i32, slot: Arc<dyn Slot>) -> Self {
        let mut chain = self.clone();
        chain.users += 1;
        let key = Key { order, number: chain.users };
        let at = chain.links.partition_point(|(other, _)| *other < key);
        chain.links.insert(at, (key, Link::User(slot)));
        chain
    }

    /// The chain without the links that have nothing to do.
    pub(super) fn only(&self, has_work: impl Fn(&Link) -> bool) -> Self {
        let links = self.links.iter().filter(|(_, link)| has_work(link)).cloned();
        Self { links: links.collect::<Box<[_]>>().into(), users: self.users }
    }

    /// Slots of the user's.
    pub(super) const fn users(&self) -> u32 {
        self.users
    }

    /// The links of a call that has come to `passed`; of user slots only the first `users`, those
    /// that were there when the call began.
    #[inline]
    pub(super) fn after(&self, passed: Key, users: u32) -> impl Iterator<Item = (Key, &Link)> {
        let start = self.links.iter().position(|(key, _)| *key > passed);
        let start = start.unwrap_or(self.links.len());
        let rest = self.links.get(start..).unwrap_or_default();
        rest.iter().filter(move |(key, _)| key.number <= users).map(|(key, link)| (*key, link))
    }

    /// The user slots that a call has come through, in order.
    pub(super) fn passed(&self, until: Key, users: u32) -> impl Iterator<Item = &Arc<dyn Slot>> {
        let mine = move |key: &Key| *key <= until && key.number <= users;
        self.links.iter().filter(move |(key, _)| mine(key)).filter_map(|(_, link)| match link {
            Link::User(slot) => Some(slot),
            _ => None,
        })
    }
}

impl Key {
    /// Before every link.
    pub(super) const START: Self = Self { order: i32::MIN, number: 0 };

    pub(super) const fn order(self) -> i32 {
        self.order
    }

    /// Whether the statistics count what this link refuses.
    pub(super) const fn is_counted(self) -> bool {
        self.order >= STATISTICS
    }
}
