//! A server in virtual time, and its callers: what the limits are tried on.

use std::collections::{BTreeMap, BinaryHeap};
use std::{cmp::Reverse, ops::RangeInclusive, time::Duration};

use super::{AdaptiveLimiter, Limit, Outcome, Permit};
use crate::Tick;

/// Workers that each serve one call at a time, first come, first served, and a queue before them.
pub(super) struct Server {
    /// When each worker is free.
    free_at: BinaryHeap<Reverse<u64>>,
    /// How long a worker takes for a call.
    pub(super) service: Duration,
    /// A call that would wait longer is refused at once.
    pub(super) patience: Duration,
}

impl Server {
    pub(super) fn new(workers: usize, service: Duration) -> Self {
        let free_at = std::iter::repeat_n(Reverse(0), workers).collect();
        Self { free_at, service, patience: Duration::MAX }
    }

    /// From now on so many workers; those that go finish what they do.
    pub(super) fn employ(&mut self, workers: usize, now: u64) {
        while self.free_at.len() > workers {
            self.free_at.pop();
        }
        self.free_at.extend((self.free_at.len()..workers).map(|_| Reverse(now)));
    }

    /// When a call that comes now is served; `None` when it is refused.
    fn serve(&mut self, now: u64) -> Option<u64> {
        let Reverse(free) = *self.free_at.peek()?;
        let start = free.max(now);
        if u128::from(start - now) > self.patience.as_nanos() {
            return None;
        }
        let end = Tick(start).plus(self.service).0;
        self.free_at.pop();
        self.free_at.push(Reverse(end));
        Some(end)
    }
}

/// Callers that come at even intervals, whether they are let through or not.
pub(super) struct Stream {
    pub(super) name: &'static str,
    next: u64,
    pub(super) interval: Duration,
    /// Calls that were served.
    pub(super) served: u32,
}

impl Stream {
    pub(super) fn new(name: &'static str, per_second: u32) -> Self {
        Self { name, next: 0, interval: interval(per_second), served: 0 }
    }
}

pub(super) fn interval(per_second: u32) -> Duration {
    Duration::from_secs(1) / per_second
}

/// What was seen in a stretch of time.
#[derive(Debug)]
pub(super) struct Seen {
    /// Of the limit.
    pub(super) limits: RangeInclusive<u32>,
    pub(super) served: u32,
    pub(super) mean_rtt: Duration,
}

/// Callers, a limiter and a server.
pub(super) struct World<L: Limit> {
    pub(super) limiter: AdaptiveLimiter<L>,
    pub(super) server: Server,
    pub(super) streams: Vec<Stream>,
    now: u64,
    calls: u64,
    /// By the time of their ends, then in the order in which they came.
    in_flight: BTreeMap<(u64, u64), (Permit<L>, u64, usize)>,
}

impl<L: Limit> World<L> {
    pub(super) fn new(limiter: AdaptiveLimiter<L>, server: Server, streams: Vec<Stream>) -> Self {
        Self { limiter, server, streams, now: 0, calls: 0, in_flight: BTreeMap::new() }
    }

    /// From now on so many workers.
    pub(super) fn employ(&mut self, workers: usize) {
        self.server.employ(workers, self.now);
    }

    /// Lets so many seconds go by.
    pub(super) fn run(&mut self, seconds: u64) -> Seen {
        let until = self.now + seconds * 1_000_000_000;
        let (mut least, mut most) = (u32::MAX, 0);
        let (mut served, mut rtts) = (0, Duration::ZERO);
        self.streams.iter_mut().for_each(|stream| stream.served = 0);
        while let Some(step) = self.next(until) {
            match step {
                Step::End => {
                    let Some(((end, _), (permit, start, stream))) = self.in_flight.pop_first()
                    else {
                        continue;
                    };
                    self.now = end;
                    let rtt = Duration::from_nanos(end - start);
                    permit.release(Tick(end), Outcome::Success { rtt });
                    (served, rtts) = (served + 1, rtts + rtt);
                    self.streams[stream].served += 1;
                }
                Step::Arrival(stream) => self.arrive(stream),
            }
            let limit = self.limiter.limit();
            (least, most) = (least.min(limit), most.max(limit));
        }
        self.now = until;
        Seen { limits: least..=most, served, mean_rtt: rtts / served.max(1) }
    }

    fn next(&self, until: u64) -> Option<Step> {
        let end = self.in_flight.keys().next().map_or(u64::MAX, |(end, _)| *end);
        let (stream, arrival) = self
            .streams
            .iter()
            .map(|stream| stream.next)
            .enumerate()
            .min_by_key(|(_, next)| *next)
            .unwrap_or((0, u64::MAX));
        if end.min(arrival) >= until {
            None
        } else if end <= arrival {
            Some(Step::End)
        } else {
            Some(Step::Arrival(stream))
        }
    }

    fn arrive(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        self.now = stream.next;
        stream.next = Tick(stream.next).plus(stream.interval).0;
        let Some(permit) = self.limiter.acquire_for(stream.name) else { return };
        match self.server.serve(self.now) {
            Some(end) => {
                self.calls += 1;
                self.in_flight.insert((end, self.calls), (permit, self.now, index));
            }
            None => permit.release(Tick(self.now), Outcome::Dropped),
        }
    }
}

enum Step {
    End,
    Arrival(usize),
}
