//! What the server counts, and how: plain numbers during a batch, atomics once after it.
//!
//! The list of all metrics is in [`metrics`].

pub(crate) mod metrics;

use std::sync::atomic::{AtomicU64, Ordering};

use protocol::{Status, kind};

use crate::Close;

/// Cells that connections spread their counts over, so that threads seldom meet in one.
const SHARDS: usize = 16;

/// Places for request types: the six that there are, and unknown ones.
const REQUESTS: usize = 7;

/// Places for statuses: -4 to 7, rounded up to where a mask can stand for a check.
const ANSWERS: usize = 16;

/// A count that only rises.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: the count is the whole state; no other memory is published with it.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: as in `add`.
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of one batch of requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    requests: [u32; REQUESTS],
    answers: [u32; ANSWERS],
    /// Frames with a head and nothing sensible behind it.
    pub(crate) bad_bodies: u64,
    /// Frames without a usable head.
    pub(crate) bad_frames: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

impl Tally {
    #[inline]
    pub(crate) fn request(&mut self, kind: i8) {
        let place = match kind {
            kind::PING => 0,
            kind::FLOW => 1,
            kind::PARAM => 2,
            kind::CONCURRENT_ACQUIRE => 3,
            kind::CONCURRENT_RELEASE => 4,
            kind::HELLO => 5,
            _ => 6,
        };
        if let Some(count) = self.requests.get_mut(place) {
            *count += 1;
        }
    }

    #[inline]
    pub(crate) fn answer(&mut self, status: Status) {
        if let Some(count) = self.answers.get_mut(answer_place(status)) {
            *count += 1;
        }
    }
}

/// The place of a status among the [`ANSWERS`]. Every status that is sent has one of its own.
#[inline]
fn answer_place(status: Status) -> usize {
    usize::from(i8::from(status).wrapping_add(4).cast_unsigned()) % ANSWERS
}

/// The counts of the connections that share a cell, apart from those of all others.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    batches: Count,
    bytes_read: Count,
    bytes_written: Count,
    bad_bodies: Count,
    bad_frames: Count,
    requests: [Count; REQUESTS],
    answers: [Count; ANSWERS],
}

/// Everything that the server counts besides what the engine does.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    shards: [Shard; SHARDS],
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

impl Telemetry {
    /// Adds one batch of the connection with that number.
    #[inline]
    pub(crate) fn add(&self, connection: usize, tally: &Tally) {
        let Some(shard) = self.shards.get(connection % SHARDS) else { return };
        shard.batches.add(1);
        shard.bytes_read.add(tally.bytes_read);
        shard.bytes_written.add(tally.bytes_written);
        let requests = shard.requests.iter().zip(tally.requests);
        for (count, n) in requests.chain(shard.answers.iter().zip(tally.answers)) {
            if n > 0 {
                count.add(u64::from(n));
            }
        }
        if tally.bad_bodies + tally.bad_frames > 0 {
            shard.bad_bodies.add(tally.bad_bodies);
            shard.bad_frames.add(tally.bad_frames);
        }
    }

    /// Counts a connection that ended by itself.
    pub(crate) fn closed(&self, why: Close) {
        if let Some(count) = self.closed.get(why.place()) {
            count.add(1);
        }
    }

    fn sum(&self, count: impl Fn(&Shard) -> u64) -> u64 {
        self.shards.iter().map(count).sum()
    }

    fn requests(&self, place: usize) -> u64 {
        self.sum(|shard| shard.requests.get(place).map_or(0, Count::get))
    }

    fn answers(&self, status: Status) -> u64 {
        self.sum(|shard| shard.answers.get(answer_place(status)).map_or(0, Count::get))
    }
}
