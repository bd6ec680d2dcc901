//! Namespaces: who is connected to each, and the guard on how much one may ask.

use std::{collections::BTreeMap, fmt};

use super::Settings;
use crate::{
    Tick, WindowShape,
    sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock},
    window::Ring,
};

/// One namespace: its connected clients and its request guard.
#[derive(Debug)]
pub struct Namespace {
    name: Box<str>,
    connected: AtomicU32,
    guard: Option<Guard>,
    /// The engine's, here because each decision looks at its namespace anyway.
    exceed_count: f64,
    max_occupy_ratio: f64,
    vacated: Arc<AtomicBool>,
}

/// Sentinel's `RequestLimiter`: counts requests of any kind and size, 1 s in 10 buckets.
#[derive(Debug)]
struct Guard {
    max_qps: f64,
    ring: Mutex<Ring>,
    refused: AtomicU64,
}

impl Namespace {
    fn new(name: &str, settings: &Settings, vacated: Arc<AtomicBool>) -> Self {
        let guard = settings.max_allowed_qps.map(|max_qps| Guard {
            max_qps,
            ring: Mutex::default(),
            refused: AtomicU64::new(0),
        });
        Self {
            name: name.into(),
            connected: AtomicU32::new(0),
            guard,
            exceed_count: settings.exceed_count,
            max_occupy_ratio: settings.max_occupy_ratio,
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

    /// Requests that the guard refused so far.
    #[must_use]
    pub fn refused(&self) -> u64 {
        // Relaxed: as in `connected`.
        self.guard.as_ref().map_or(0, |guard| guard.refused.load(Ordering::Relaxed))
    }

    /// Counts one request, or refuses it when the namespace has made all it may.
    #[inline]
    pub(crate) fn admit(&self, now: Tick) -> bool {
        self.guard.as_ref().is_none_or(|guard| guard.admit(now))
    }
}

impl Guard {
    fn admit(&self, now: Tick) -> bool {
        let ring = &mut *lock(&self.ring);
        ring.advance(WindowShape::SECOND, now);
        #[expect(clippy::cast_precision_loss, reason = "requests of one second, far below 2^53")]
        let admitted = ring.sum() as f64 + 1.0 <= self.max_qps;
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
    by_name: Mutex<BTreeMap<Box<str>, Arc<Namespace>>>,
    /// Set when a namespace may have lost its last rule or member, so that peers who name one
    /// namespace after the other at the bound do not cost a look at all of them each time.
    vacated: Arc<AtomicBool>,
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
        Self { settings, by_name: Mutex::default(), vacated: Arc::default() }
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
        if by_name.len() >= max && !by_name.contains_key(name) {
            // Relaxed: the lock orders everything that is looked at.
            if self.vacated.swap(false, Ordering::Relaxed) {
                // Every rule and every member holds a clone, made under this lock or from one.
                by_name.retain(|_, namespace| Arc::strong_count(namespace) > 1);
            }
            if by_name.len() >= max {
                return Err(NamespacesFull { max });
            }
        }
        Ok(self.get_or_make(by_name, name))
    }

    fn get_or_make(
        &self,
        by_name: &mut BTreeMap<Box<str>, Arc<Namespace>>,
        name: &str,
    ) -> Arc<Namespace> {
        if let Some(namespace) = by_name.get(name) {
            return Arc::clone(namespace);
        }
        let namespace = Namespace::new(name, &self.settings, Arc::clone(&self.vacated));
        let namespace = Arc::new(namespace);
        by_name.insert(name.into(), Arc::clone(&namespace));
        namespace
    }

    /// Says that rules have gone, and perhaps the last of a namespace.
    pub(crate) fn vacated(&self) {
        // Relaxed: as in `of_peer`.
        self.vacated.store(true, Ordering::Relaxed);
    }

    /// All namespaces now, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Namespace>> {
        lock(&self.by_name).values().map(Arc::clone).collect()
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
