//! What the server counts. What moves with every request is counted by each connection for itself
//! and summed up when somebody looks; the list of all metrics is in [`metrics`].

pub(crate) mod metrics;

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use protocol::{Status, kind};

use crate::Close;

/// A count that only rises.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds one; any number of threads may.
    pub(crate) fn add_one(&self) {
        // Relaxed: the count is the whole state; no other memory is published with it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds `n`, if nobody else adds to this count at the same time: not one locked instruction.
    #[inline]
    fn add_alone(&self, n: u64) {
        // Relaxed: as in `add_one`.
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: as in `add_one`.
        self.0.load(Ordering::Relaxed)
    }
}

/// Places of the counts of one connection.
const BATCHES: usize = 0;
const BYTES_READ: usize = 1;
const BYTES_WRITTEN: usize = 2;
const BAD_BODIES: usize = 3;
const BAD_FRAMES: usize = 4;
const TOKENS_ACQUIRED: usize = 5;
const TOKENS_REFUSED: usize = 6;
const TOKENS_RELEASED: usize = 7;
/// The twelve types of request, and unknown ones.
const REQUESTS: usize = 8;
const REQUEST_TYPES: usize = 13;
/// Statuses from -4 up, as many places as a mask leaves.
const ANSWERS: usize = REQUESTS + REQUEST_TYPES;
const STATUSES: usize = 16;
const PLACES: usize = ANSWERS + STATUSES;

/// Digests of clients' rules that are shown by themselves: during a roll-out there are two.
const DIGESTS_SHOWN_MAX: usize = 16;

/// What one connection did. Only its task adds; anybody may read.
#[derive(Debug)]
pub(crate) struct Traffic {
    counts: [Count; PLACES],
    /// Digest of the rules that the client enforces; 0 when it has not said.
    rules: AtomicU64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { counts: [const { Count(AtomicU64::new(0)) }; PLACES], rules: AtomicU64::new(0) }
    }
}

impl Traffic {
    /// Counts a frame that was read, by the type in its head.
    #[inline]
    pub(crate) fn request(&self, kind: i8) {
        self.add(REQUESTS + request_place(kind), 1);
    }

    /// Counts an answer.
    #[inline]
    pub(crate) fn answer(&self, status: Status) {
        self.add(ANSWERS + answer_place(status), 1);
    }

    /// Counts what came of a request about a concurrency token, if it was one.
    pub(crate) fn tokens(&self, kind: i8, status: Status) {
        let place = match (kind, status) {
            (kind::CONCURRENT_ACQUIRE, Status::Ok) => TOKENS_ACQUIRED,
            (kind::CONCURRENT_ACQUIRE, Status::Blocked) => TOKENS_REFUSED,
            (kind::CONCURRENT_RELEASE, Status::ReleaseOk) => TOKENS_RELEASED,
            _ => return,
        };
        self.add(place, 1);
    }

    /// Takes note of the rules that the client enforces.
    pub(crate) fn enforces(&self, digest: u64) {
        // Relaxed: the digest is the whole state.
        self.rules.store(digest, Ordering::Relaxed);
    }

    /// Counts a frame with a head and nothing sensible behind it.
    pub(crate) fn bad_body(&self) {
        self.add(BAD_BODIES, 1);
    }

    /// Counts what was read and what is to be written, which makes a batch if it is anything, and
    /// the frames that had no usable head.
    #[inline]
    pub(crate) fn batch(&self, read: usize, written: usize, bad_frames: u64) {
        self.add(BATCHES, u64::from(written > 0));
        self.add(BYTES_READ, read as u64);
        self.add(BYTES_WRITTEN, written as u64);
        self.add(BAD_FRAMES, bad_frames);
    }

    #[inline]
    fn add(&self, place: usize, n: u64) {
        if let Some(count) = self.counts.get(place) {
            count.add_alone(n);
        }
    }
}

#[inline]
fn request_place(kind: i8) -> usize {
    match kind {
        kind::PING => 0,
        kind::FLOW => 1,
        kind::PARAM => 2,
        kind::CONCURRENT_ACQUIRE => 3,
        kind::CONCURRENT_RELEASE => 4,
        kind::HELLO => 5,
        kind::RENEW => 6,
        kind::ASK => 7,
        kind::ADJUST => 8,
        kind::ACQUIRE_ALL => 9,
        kind::LEASE => 10,
        kind::RULES => 11,
        _ => 12,
    }
}

/// Every status that is sent has a place of its own.
#[inline]
fn answer_place(status: Status) -> usize {
    usize::from(i8::from(status).wrapping_add(4).cast_unsigned()) % STATUSES
}

/// Everything that the server counts besides what the engine does.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    traffic: Mutex<AllTraffic>,
    /// Connections that were let in.
    pub(crate) opened: Count,
    closed: [Count; Close::REASONS.len()],
    /// Connections whose task did not end by itself: cut off by a shutdown, or a panic.
    pub(crate) cut: Count,
    /// Connections from addresses that are not allowed.
    pub(crate) refused: Count,
    /// Accepts that failed for want of something on our side.
    pub(crate) accept_errors: Count,
    /// How often the connection limit was reached.
    pub(crate) limit_reached: Count,
    /// Pings that were answered -1 although they named a namespace.
    pub(crate) pings_refused: Count,
}

/// What the connections did: those that are open, and all that were.
#[derive(Debug)]
struct AllTraffic {
    open: HashMap<u64, Arc<Traffic>>,
    ended: [u64; PLACES],
    opened: u64,
}

impl Default for AllTraffic {
    fn default() -> Self {
        Self { open: HashMap::new(), ended: [0; PLACES], opened: 0 }
    }
}

/// A connection's place among the open ones; leaves when dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    telemetry: Arc<Telemetry>,
    number: u64,
    pub(crate) traffic: Arc<Traffic>,
}

impl Telemetry {
    /// Begins to count the traffic of one connection.
    pub(crate) fn connection(self: &Arc<Self>) -> Counted {
        let traffic = Arc::<Traffic>::default();
        let all = &mut *self.all_traffic();
        all.opened += 1;
        all.open.insert(all.opened, Arc::clone(&traffic));
        Counted { telemetry: Arc::clone(self), number: all.opened, traffic }
    }

    /// Counts a connection that ended by itself.
    pub(crate) fn closed(&self, why: Close) {
        if let Some(count) = self.closed.get(why.place()) {
            count.add_one();
        }
    }

    /// The traffic of all connections that are or were.
    fn sums(&self) -> [u64; PLACES] {
        let all = self.all_traffic();
        let mut sums = all.ended;
        all.open.values().for_each(|traffic| add(&mut sums, traffic));
        sums
    }

    /// How many of the open connections are of clients that enforce which rules, by digest: the most
    /// frequent ones, and the rest. Connections that have not said are left out.
    fn enforced(&self) -> (Vec<(u64, u64)>, u64) {
        let mut by_digest = HashMap::<u64, u64>::new();
        for traffic in self.all_traffic().open.values() {
            // Relaxed: as in `enforces`.
            let digest = traffic.rules.load(Ordering::Relaxed);
            if digest != 0 {
                *by_digest.entry(digest).or_default() += 1;
            }
        }
        let mut digests: Vec<(u64, u64)> = by_digest.into_iter().collect();
        digests.sort_unstable_by_key(|&(digest, clients)| (Reverse(clients), digest));
        let rest = digests.split_off(digests.len().min(DIGESTS_SHOWN_MAX));
        (digests, rest.iter().map(|(_, clients)| clients).sum())
    }

    fn all_traffic(&self) -> MutexGuard<'_, AllTraffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let all = &mut *self.telemetry.all_traffic();
        all.open.remove(&self.number);
        add(&mut all.ended, &self.traffic);
    }
}

fn add(sums: &mut [u64; PLACES], traffic: &Traffic) {
    for (sum, count) in sums.iter_mut().zip(&traffic.counts) {
        *sum += count.get();
    }
}
