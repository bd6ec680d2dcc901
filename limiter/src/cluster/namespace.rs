//! Namespaces: who is connected to each, and the guard on how much one may ask.

use std::{collections::BTreeMap, fmt};

use super::{Settings, Switches, wall::Wall};
use crate::{
    Tenant, Tick, WindowShape,
    rule::Mode,
    sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock},
    window::Ring,
};

/// One namespace: its connected clients and its request guard.
#[derive(Debug)]
pub struct Namespace {
    name: Box<str>,
    connected: AtomicU32,
    /// The [`Mode`] that is switched on for all rules, and [`UNGUARDED`]: one number, since each
    /// decision looks at it.
    switches: AtomicU32,
    guard: Guard,
    /// Holds the concurrency tokens of all rules.
    tenant: Arc<Tenant>,
    /// The engine's, here because each decision looks at its namespace anyway.
    exceed_count: f64,
    max_occupy_ratio: f64,
    wall: Arc<Wall>,
    vacated: Arc<AtomicBool>,
}

/// There is no bound on requests.
const UNGUARDED: u32 = 4;

/// Sentinel's `RequestLimiter`: counts requests of any kind and size, 1 s in 10 buckets.
///
/// What asks for something is refused once there were too many. What gives back, holds on or
/// corrects is counted, too, and never refused: otherwise tokens would be lost when they are most
/// wanted. Requests for leases of which each stands for many are refused once there were too many of
/// these alone: so a namespace has twice its limit answered at most.
#[derive(Debug)]
struct Guard {
    /// Requests a second as the bits of a number, which may be infinite.
    max_qps: AtomicU64,
    ring: Mutex<Ring>,
    /// Of those, the ones for leases of rules with `overloadPolicy: share`.
    shares: Mutex<Ring>,
    refused: AtomicU64,
}

impl Namespace {
    fn new(name: &str, settings: &Settings, wall: Arc<Wall>, vacated: Arc<AtomicBool>) -> Self {
        let guard = Guard {
            max_qps: AtomicU64::new(0),
            ring: Mutex::default(),
            shares: Mutex::default(),
            refused: AtomicU64::new(0),
        };
        Self {
            name: name.into(),
            connected: AtomicU32::new(0),
            switches: AtomicU32::new(0),
            guard,
            tenant: Arc::default(),
            exceed_count: settings.exceed_count,
            max_occupy_ratio: settings.max_occupy_ratio,
            wall,
            vacated,
        }
    }

    /// The name, as rules and pings spell it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connections that are members now.
    #[must_use]
    #[inline]
    pub fn connected(&self) -> u32 {
        // Relaxed: the count is the whole state; no other memory is published with it.
        self.connected.load(Ordering::Relaxed)
    }

    /// [`Settings::exceed_count`].
    #[inline]
    pub(crate) fn exceed_count(&self) -> f64 {
        self.exceed_count
    }

    /// [`Settings::max_occupy_ratio`].
    pub(crate) fn max_occupy_ratio(&self) -> f64 {
        self.max_occupy_ratio
    }

    /// Wall time of the engine, for calendars.
    pub(crate) fn wall(&self) -> &Arc<Wall> {
        &self.wall
    }

    /// The mode that is switched on for all rules of the namespace, by itself or by the engine.
    #[must_use]
    #[inline]
    pub fn mode(&self) -> Mode {
        // Relaxed: as in `connected`.
        match self.switches.load(Ordering::Relaxed) & !UNGUARDED {
            1 => Mode::Shadow,
            2 => Mode::Pass,
            3 => Mode::Block,
            _ => Mode::Enforce,
        }
    }

    /// Requests per second that the guard lets through; `None`: any number.
    #[must_use]
    pub fn max_allowed_qps(&self) -> Option<f64> {
        Some(self.guard.max_qps()).filter(|max| max.is_finite())
    }

    /// Requests that the guard refused so far.
    #[must_use]
    pub fn refused(&self) -> u64 {
        // Relaxed: as in `connected`.
        self.guard.refused.load(Ordering::Relaxed)
    }

    /// The concurrency tokens that are held of the namespace's rules.
    #[must_use]
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Counts one request, or refuses it when the namespace has made all it may.
    #[inline]
    pub(crate) fn admit(&self, now: Tick) -> bool {
        // Relaxed: as in `connected`.
        self.switches.load(Ordering::Relaxed) & UNGUARDED != 0 || self.guard.admit(now)
    }

    /// Counts one request for a lease of a rule with `overloadPolicy: share`, or refuses it when these
    /// alone are all the requests that the namespace may make.
    pub(crate) fn admit_share(&self, now: Tick) -> bool {
        // Relaxed: as in `connected`.
        self.switches.load(Ordering::Relaxed) & UNGUARDED != 0 || self.guard.admit_share(now)
    }

    /// Counts one request that is not to be refused: it gives something back, holds it on, or
    /// corrects a count.
    pub fn count(&self, now: Tick) {
        // Relaxed: as in `connected`.
        if self.switches.load(Ordering::Relaxed) & UNGUARDED == 0 {
            self.guard.count(now);
        }
    }

    /// Whether decisions are what the rules say.
    #[inline]
    pub(crate) fn enforces(&self) -> bool {
        // Relaxed: as in `connected`.
        self.switches.load(Ordering::Relaxed) & !UNGUARDED == 0
    }

    fn switch(&self, settings: &Settings, switches: &Switches) {
        let mode = match switches.mode_of(&self.name) {
            Mode::Enforce => 0,
            Mode::Shadow => 1,
            Mode::Pass => 2,
            Mode::Block => 3,
        };
        let max_qps = switches.max_qps_of(&self.name, settings.max_allowed_qps);
        let unguarded = if max_qps.is_infinite() { UNGUARDED } else { 0 };
        // Relaxed: as in `connected`.
        self.guard.max_qps.store(max_qps.to_bits(), Ordering::Relaxed);
        self.switches.store(mode | unguarded, Ordering::Relaxed);
    }
}

impl Guard {
    fn max_qps(&self) -> f64 {
        // Relaxed: as in `connected`.
        f64::from_bits(self.max_qps.load(Ordering::Relaxed))
    }

    fn count(&self, now: Tick) {
        let ring = &mut *lock(&self.ring);
        ring.advance(WindowShape::SECOND, now);
        ring.add(1);
    }

    fn admit(&self, now: Tick) -> bool {
        self.admit_to(&self.ring, now)
    }

    fn admit_share(&self, now: Tick) -> bool {
        let admitted = self.admit_to(&self.shares, now);
        if admitted {
            self.count(now);
        }
        admitted
    }

    fn admit_to(&self, ring: &Mutex<Ring>, now: Tick) -> bool {
        let ring = &mut *lock(ring);
        ring.advance(WindowShape::SECOND, now);
        #[expect(clippy::cast_precision_loss, reason = "requests of one second, far below 2^53")]
        let admitted = ring.sum() as f64 + 1.0 <= self.max_qps();
        if admitted {
            ring.add(1);
        } else {
            // Relaxed: as in `connected`.
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }
}

/// The namespaces that exist: those with rules, and those that a connection is a member of.
#[derive(Debug)]
pub(crate) struct Namespaces {
    settings: Settings,
    by_name: Mutex<ByName>,
    wall: Arc<Wall>,
    /// Set when a namespace may have lost its last rule or member, so that peers who name one
    /// namespace after the other at the bound do not cost a look at all of them each time.
    vacated: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct ByName {
    namespaces: BTreeMap<Box<str>, Arc<Namespace>>,
    switches: Switches,
}

/// No further namespace can be made: as many exist as the settings allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{max} namespaces exist, which is the limit")]
pub struct NamespacesFull {
    /// The limit.
    pub max: usize,
}

impl Namespaces {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, by_name: Mutex::default(), wall: Arc::default(), vacated: Arc::default() }
    }

    /// What calendars take for wall time.
    pub(crate) fn wall(&self) -> &Wall {
        &self.wall
    }

    /// The namespace of that name, made if need be, for rules: what an operator writes is not
    /// bounded by what peers have named.
    pub(crate) fn of_rules(&self, name: &str) -> Arc<Namespace> {
        self.get_or_make(&mut lock(&self.by_name), name)
    }

    /// The namespace of that name, made if need be, for a peer. At the bound, namespaces that have
    /// neither rules nor connections make room.
    pub(crate) fn of_peer(&self, name: &str) -> Result<Arc<Namespace>, NamespacesFull> {
        let by_name = &mut *lock(&self.by_name);
        let max = self.settings.namespaces_max;
        let namespaces = &mut by_name.namespaces;
        if namespaces.len() >= max && !namespaces.contains_key(name) {
            // Relaxed: the lock orders everything that is looked at.
            if self.vacated.swap(false, Ordering::Relaxed) {
                // Every rule and every member holds a clone, made under this lock or from one.
                namespaces.retain(|_, namespace| Arc::strong_count(namespace) > 1);
            }
            if namespaces.len() >= max {
                return Err(NamespacesFull { max });
            }
        }
        Ok(self.get_or_make(by_name, name))
    }

    fn get_or_make(&self, by_name: &mut ByName, name: &str) -> Arc<Namespace> {
        if let Some(namespace) = by_name.namespaces.get(name) {
            return Arc::clone(namespace);
        }
        let (wall, vacated) = (Arc::clone(&self.wall), Arc::clone(&self.vacated));
        let namespace = Namespace::new(name, &self.settings, wall, vacated);
        namespace.switch(&self.settings, &by_name.switches);
        let namespace = Arc::new(namespace);
        by_name.namespaces.insert(name.into(), Arc::clone(&namespace));
        namespace
    }

    /// Puts `switches` in force in place of those that were, for the namespaces that are and for
    /// those to come.
    pub(crate) fn switch(&self, switches: Switches) {
        let by_name = &mut *lock(&self.by_name);
        by_name.switches = switches;
        for namespace in by_name.namespaces.values() {
            namespace.switch(&self.settings, &by_name.switches);
        }
    }

    /// The switches in force.
    pub(crate) fn switches(&self) -> Switches {
        lock(&self.by_name).switches.clone()
    }

    /// Says that rules have gone, and perhaps the last of a namespace.
    pub(crate) fn vacated(&self) {
        // Relaxed: as in `of_peer`.
        self.vacated.store(true, Ordering::Relaxed);
    }

    /// All namespaces now, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Namespace>> {
        lock(&self.by_name).namespaces.values().map(Arc::clone).collect()
    }
}

/// One connection's place in a namespace; leaves when dropped.
pub struct Membership(Arc<Namespace>);

impl Membership {
    pub(crate) fn join(namespace: Arc<Namespace>) -> Self {
        // Relaxed: as in `Namespace::connected`.
        namespace.connected.fetch_add(1, Ordering::Relaxed);
        Self(namespace)
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.0
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // Relaxed: as in `Namespace::connected`.
        if self.0.connected.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.vacated.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Membership").field(&self.0.name()).finish()
    }
}
