//! The engine: rules in force, namespaces, and the one place where rules are replaced.

use std::{hash::BuildHasher, num::NonZeroU64, ops::Deref, sync::Arc as Shared, time::SystemTime};

use foldhash::quality::RandomState;

use super::{
    Applied, Membership, Namespace, NamespacesFull, RuleSet, Settings, Switches,
    departed::Departed,
    namespace::Namespaces,
    saved::{Kind, Record, Restored},
    successor::Ground,
    values::Room,
};
use crate::{
    Concurrency, OwnerId, Tick,
    rule::{NamespaceRules, RuleErrors},
    swap::{HeldIn, SwapIn},
    sync::{Arc, AtomicU64, Mutex, Ordering, lock},
};

/// Decides for all clients of all namespaces. Shared by reference; every method takes `&self`.
///
/// ```
/// use limiter::{ClusterEngine, Decision, Settings, Tick, rule};
///
/// let engine = ClusterEngine::new(Settings::default());
/// let text = r#"[{"resource": "GET:/orders", "count": 2, "clusterMode": true,
///                 "clusterConfig": {"flowId": 101, "thresholdType": 1}}]"#;
/// let parsed = rule::parse(text, "example", "default", rule::Contents::Mixed, true)?;
/// engine.replace(rule::merge(vec![parsed])?)?;
///
/// let rules = engine.snapshot();
/// let now = Tick::from_ms(1_700_000_000_000);
/// assert_eq!(rules.acquire_flow(now, 101, 2, false), Ok(Decision::Pass { remaining: 0 }));
/// assert_eq!(rules.acquire_flow(now, 101, 1, false), Ok(Decision::Block));
/// # Ok::<(), rule::RuleErrors>(())
/// ```
#[derive(Debug)]
pub struct ClusterEngine {
    settings: Settings,
    namespaces: Namespaces,
    rules: SwapIn<Arc<RuleSet>>,
    /// For the hot values of all rules.
    room: Room,
    concurrency: Arc<Concurrency>,
    owners: AtomicU64,
    /// Counters without a rule, as they were for a snapshot that is being written.
    departed: Mutex<Shared<Departed>>,
    /// Held while a set is built from the one before, so that none is lost.
    replacing: Mutex<()>,
    /// Replaced sets, which a batch may still look at.
    retired: Mutex<Vec<Arc<RuleSet>>>,
}

impl ClusterEngine {
    /// An engine without rules.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            namespaces: Namespaces::new(settings),
            rules: SwapIn::new(RuleSet::default()),
            room: Room::new(&settings),
            concurrency: Arc::new(Concurrency::new(
                settings.tokens_max,
                RandomState::default().hash_one(0),
            )),
            owners: AtomicU64::new(1),
            departed: Mutex::default(),
            replacing: Mutex::new(()),
            retired: Mutex::default(),
        }
    }

    /// What the engine was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Puts `rules` in force in place of all that were. A flow keeps what it has used when it is
    /// counted in the same way as before, also after it was away or moved to another namespace; a
    /// batch that is being decided finishes under the rules it began with.
    ///
    /// # Errors
    ///
    /// Every rule that cannot be in force beside the others; then nothing changes.
    pub fn replace(&self, rules: Vec<NamespaceRules>) -> Result<Applied, RuleErrors> {
        let _one_at_a_time = lock(&self.replacing);
        let ground = Ground {
            settings: &self.settings,
            namespaces: &self.namespaces,
            tokens: &self.concurrency,
            room: &self.room,
        };
        let old = self.rules.load();
        let next = old.successor(rules, ground, Shared::make_mut(&mut lock(&self.departed)))?;
        drop(old);
        let applied = next.applied();
        let old = self.rules.swap(Arc::new(next));
        lock(&self.retired).push(old);
        self.free_retired();
        self.namespaces.vacated();
        Ok(applied)
    }

    /// Frees sets that were replaced. One that a batch still looks at is freed the next time, not
    /// by the batch.
    fn free_retired(&self) {
        let mut free = Vec::new();
        lock(&self.retired).retain(|set| {
            let held = Arc::strong_count(set) > 1;
            if !held {
                free.push(Arc::clone(set));
            }
            held
        });
    }

    /// Frees what nobody needs any more: rule sets that were replaced, hot values that fell idle,
    /// the logs of flows that were far longer, concurrency tokens that are due, counters without a rule. No decision waits for it, and none
    /// changes by it but for calendar windows, which take wall time from here: call it before the
    /// first decision and about once a second, from a thread that may be busy for a while.
    pub fn tidy(&self, now: Tick, wall: SystemTime) {
        self.namespaces.wall().set(now, wall);
        self.free_retired();
        let rules = self.rules.load();
        rules.logs.iter().for_each(|flow| flow.tidy(now));
        for (_, param) in rules.params() {
            param.tidy(now);
        }
        drop(rules);
        // Nothing is forgotten while a snapshot of it is being written.
        let has_forgotten =
            Shared::get_mut(&mut lock(&self.departed)).is_some_and(|it| it.tidy(now));
        if has_forgotten {
            self.namespaces.vacated();
        }
        self.concurrency.expire(now);
    }

    /// What all flows have used and what still counts of it at `now`, a part at a time, for
    /// [`restore`](Self::restore) in the next process. Decisions go on meanwhile. Tokens of calls in
    /// progress are not among it: they are held by connections, which do not outlive the process.
    ///
    /// # Errors
    ///
    /// The first one of `sink`, which then gets no more.
    pub fn save<E>(
        &self,
        now: Tick,
        mut sink: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        // While no rule goes or comes back, so that each is found here or there.
        let (rules, departed) = {
            let _unchanged = lock(&self.replacing);
            (self.rules.load(), Shared::clone(&lock(&self.departed)))
        };
        departed.save(now, &mut sink)?;
        drop(departed);
        for (id, flow) in rules.flows() {
            let Some(counter) = flow.counter() else { continue };
            if let Some(saved) = counter.save(&flow.counting(), now) {
                sink(Record(Kind::Flow(id, saved)))?;
            }
        }
        for (id, param) in rules.params() {
            param.counter().save(id, &param.counting(), now, &mut sink)?;
        }
        Ok(())
    }

    /// Takes in what was saved at `saved_at` by the process before. Comes before the first
    /// [`replace`](Self::replace): a rule that is made finds there what its id had used, and goes
    /// on with it if it is counted in the same way. What no rule claims within a day is forgotten.
    ///
    /// What waits for its rule takes of the room that hot values have. Values beyond it, those that
    /// are read last, share one counter of their rule; a flow beyond it counts as if all of it had
    /// been used at once. Neither is ever admitted more by it. Of more than twice as many rules as
    /// there may be, further ones are forgotten.
    ///
    /// On a clock that is behind `saved_at` everything that was used moves back with it, rounded so
    /// that nothing is forgotten early: what is counted in buckets or windows may count for longer,
    /// by less than one of them.
    pub fn restore(
        &self,
        now: Tick,
        saved_at: Tick,
        records: impl IntoIterator<Item = Record>,
    ) -> Restored {
        Shared::make_mut(&mut lock(&self.departed)).restore(
            now,
            saved_at.since(now),
            records,
            (&self.room, self.settings.rules_max.saturating_mul(2)),
        )
    }

    /// The room of the hot values.
    #[cfg(test)]
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Puts `switches` in force in place of those that were; they act on the next decision.
    pub fn switch(&self, switches: Switches) {
        self.namespaces.switch(switches);
    }

    /// The switches in force.
    #[must_use]
    pub fn switches(&self) -> Switches {
        self.namespaces.switches()
    }

    /// The rules in force, for one batch of requests: not to be kept, and never held across a
    /// wait.
    #[must_use]
    #[inline]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.rules.hold())
    }

    /// The rules in force now, to keep for longer than a batch.
    #[must_use]
    pub fn rules(&self) -> Arc<RuleSet> {
        self.rules.load()
    }

    /// Makes a connection a member of `namespace` until the membership is dropped. A connection
    /// that changes its namespace drops the old one.
    ///
    /// # Errors
    ///
    /// When the namespace does not exist and no more can be made.
    pub fn join(&self, namespace: &str) -> Result<Membership, NamespacesFull> {
        Ok(Membership::join(self.namespaces.of_peer(namespace)?))
    }

    /// The concurrency tokens that are held, of all thread-grade rules: to release, renew and
    /// expire them. They are acquired through [`RuleSet::acquire_concurrent`].
    #[must_use]
    pub fn concurrency(&self) -> &Concurrency {
        &self.concurrency
    }

    /// A new holder of concurrency tokens: one for each connection.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        // Relaxed: a number that nobody else gets is all that is wanted.
        let number = self.owners.fetch_add(1, Ordering::Relaxed);
        OwnerId::new(number).unwrap_or(OwnerId(NonZeroU64::MIN))
    }

    /// All namespaces with rules or connections, and such as had them, by name.
    #[must_use]
    pub fn namespaces(&self) -> Vec<Arc<Namespace>> {
        self.namespaces.all()
    }
}

/// The rules in force when a batch began, whole.
#[derive(Debug)]
pub struct Snapshot(HeldIn<Arc<RuleSet>>);

impl Deref for Snapshot {
    type Target = RuleSet;

    #[inline]
    fn deref(&self) -> &RuleSet {
        &self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::{
        Param,
        rule::{Contents, merge, parse},
    };

    #[test]
    fn rules_go_and_come_back_while_a_snapshot_is_written_and_each_is_in_it_once() {
        let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
        let load = |ids: &[i64]| {
            let rule = |id| {
                format!(
                    r#"{{"resource":"p","paramIdx":0,"count":5,"clusterMode":true,
                        "clusterConfig":{{"flowId":{id},"thresholdType":1}}}}"#
                )
            };
            let text = format!("[{}]", ids.iter().map(rule).collect::<Vec<_>>().join(","));
            let parsed = parse(&text, "test", "ns", Contents::Mixed, true).unwrap();
            engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        };
        let now = Tick::from_ms(5_000);
        load(&[1, 2, 3]);
        for (id, value) in (1..=3).flat_map(|id| (0..3_000).map(move |value| (id, value))) {
            engine.rules().acquire_param(now, id, 1, [Param::Long(value)]).unwrap();
        }
        load(&[3]);
        let mut values = [0; 4];
        let mut records = 0_u64;
        let keep = |Record(kind)| {
            let Kind::Values(id, its) = kind else { return Err("of no value") };
            values[usize::try_from(id).unwrap()] += its.len();
            records += 1;
            // Waits for no lock, and the snapshot sees nothing of it.
            load(if records.is_multiple_of(2) { &[3] } else { &[1, 2] });
            engine.tidy(now, UNIX_EPOCH);
            Ok(())
        };
        engine.save(now, keep).unwrap();
        assert_eq!(values, [0, 3_000, 3_000, 3_000]);
        assert!(records > 9, "what departed comes in pieces, too: {records}");
        load(&[1, 2]);
        let taken = engine.rules().acquire_param(now, 1, 5, [Param::Long(7)]);
        assert_eq!(taken, Ok(crate::Decision::Block), "nothing was forgotten by it");
        load(&[]);
        engine.tidy(Tick::from_ms(6_000), UNIX_EPOCH);
        assert_eq!(lock(&engine.departed).len(), (0, 0));
    }

    #[test]
    fn a_rule_that_has_gone_is_kept_until_no_batch_decides_under_it_and_nothing_of_it_counts() {
        let engine = ClusterEngine::new(Settings { namespaces_max: 1, ..Settings::default() });
        let config = r#""clusterMode":true,"clusterConfig":{"flowId":1,"thresholdType":1}"#;
        let text = format!(
            r#"[{{"resource":"f","count":5,{config}}},{{"resource":"p","paramIdx":0,"count":5,{config}}}]"#
        );
        let parsed = parse(&text, "test", "ns", Contents::Mixed, true).unwrap();
        engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        let now = Tick::from_ms(5_000);
        let batch = engine.snapshot();
        engine.replace(Vec::new()).unwrap();
        let kept = |ms| {
            engine.tidy(Tick::from_ms(ms), UNIX_EPOCH);
            lock(&engine.departed).len()
        };
        assert_eq!(kept(5_000), (1, 1));
        batch.acquire_flow(now, 1, 1, false).unwrap();
        drop(batch);
        assert_eq!(kept(5_999), (1, 0));
        assert!(engine.join("other").is_err(), "its namespace is in use");
        assert_eq!(kept(6_000), (0, 0));
        assert!(engine.join("other").is_ok());
    }
}
