//! The open loop: batches leave when they are due, whatever the answers do.
//!
//! Users do not wait for each other: when a server stalls, those who come meanwhile wait too. So
//! the time of a batch is counted from when it was due, and not from when it could be written, and
//! all that are due are waited for. How late the generator itself was is measured beside it: with a
//! generator that cannot keep up, that is what the latency shows.

use std::time::Duration;

use anyhow::{Result, ensure};
use limiter::{Clock, MonotonicClock, Tick};
use mio::{Events, Poll, Token};

use crate::{
    Args, SILENCE_MAX,
    connection::Connection,
    report::{Measured, Report},
    timer::Timer,
    wire::Wire,
};

/// When each batch is due: evenly, from a start on.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    start: Tick,
    depth: u64,
    /// Requests a second.
    rate: u64,
}

impl Schedule {
    fn due(&self, batch: usize) -> Tick {
        let nanos = batch as u128 * u128::from(self.depth) * 1_000_000_000 / u128::from(self.rate);
        self.start.plus(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// The first batch that is due `time` after the start or later.
    fn first_after(&self, time: Duration) -> usize {
        let requests = time.as_nanos() * u128::from(self.rate);
        let batches = requests.div_ceil(u128::from(self.depth) * 1_000_000_000);
        usize::try_from(batches).unwrap_or(usize::MAX)
    }
}

/// Opens the connections, warms up, measures, and closes them. The batches go round the
/// connections.
pub(crate) fn run(wire: &impl Wire, args: &Args, rate: u32) -> Result<Report> {
    let clock = MonotonicClock::start();
    let mut poll = Poll::new()?;
    let mut connections = Connection::open_all(args, wire, &poll)?;
    let round = connections.len();
    let mut events = Events::with_capacity(round + 1);
    let timer = Timer::new(&poll, Token(round))?;
    let schedule = Schedule { start: clock.now(), depth: args.depth.into(), rate: rate.into() };
    let warm = Duration::from_secs_f64(args.warmup);
    let first = schedule.first_after(warm);
    let end = schedule.first_after(warm + Duration::from_secs_f64(args.seconds));
    let mut measured = Measured::begin(schedule.start, args.pid)?;
    let (mut begun, mut complete) = (0, 0);
    let mut now = clock.now();
    let mut heard_at = now;
    while complete < end {
        while begun < end && schedule.due(begun) <= now {
            if begun == first {
                measured = Measured::begin(now, args.pid)?;
            }
            let Some(connection) = connections.get_mut(begun % round) else { break };
            if begun >= first {
                measured.begun(schedule.due(begun), clock.now());
            }
            connection.begin(wire, now)?;
            begun += 1;
            now = clock.now();
        }
        if args.spin {
            poll.poll(&mut events, Some(Duration::ZERO))?;
        } else {
            let patience = if begun < end { schedule.due(begun).since(now) } else { SILENCE_MAX };
            timer.set(patience)?;
            poll.poll(&mut events, None)?;
        }
        for event in &events {
            let number = event.token().0;
            let Some(connection) = connections.get_mut(number) else { continue };
            connection.write(wire)?;
            let before = connection.complete();
            let after = connection.read(wire, &mut measured.tally)?;
            now = clock.now();
            for batch in (before..after).map(|batch| batch * round + number) {
                complete += 1;
                heard_at = now;
                if batch >= first {
                    measured.complete(schedule.due(batch), now);
                }
            }
        }
        now = clock.now();
        let silence = now.since(heard_at);
        ensure!(begun == complete || silence < SILENCE_MAX, "no answer in {silence:?}");
    }
    measured.end(now, args.pid)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
    };

    use bytes::BytesMut;
    use clap::Parser;
    use protocol::{Response, Status};

    use super::*;
    use crate::sentinel::Flow;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn batches_are_due_evenly_and_no_fraction_adds_up() {
        let schedule = Schedule { start: Tick(5), depth: 2, rate: 6 };
        let due: Vec<u64> = (0..4).map(|batch| schedule.due(batch).0 - 5).collect();
        assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000]);
        assert_eq!(schedule.due(3 * 86_400), Tick(5).plus(86_400 * SECOND));
    }

    #[test]
    fn as_many_batches_as_the_rate_says_are_due_before_a_time() {
        for (rate, depth, before) in [(50_000, 1, 50_000), (50_000, 16, 3_125), (10, 3, 4)] {
            let schedule = Schedule { start: Tick(7), depth, rate };
            let first = schedule.first_after(SECOND);
            assert_eq!(first, before);
            assert!(schedule.due(first) >= schedule.start.plus(SECOND));
            assert!(schedule.due(first - 1) < schedule.start.plus(SECOND));
        }
        assert_eq!(Schedule { start: Tick(0), depth: 1, rate: 9 }.first_after(Duration::ZERO), 0);
    }

    #[test]
    fn requests_leave_while_no_answer_comes_and_the_wait_counts_from_when_each_was_due() {
        const REQUESTS: i32 = 50;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut requests = [0; 20 * REQUESTS as usize];
            stream.read_exact(&mut requests).unwrap();
            let mut answers = BytesMut::new();
            for xid in 0..REQUESTS {
                let (status, remaining, wait_ms) = (Status::Ok, 0, 0);
                Response::Flow { xid, status, remaining, wait_ms }.encode(&mut answers);
            }
            stream.write_all(&answers).unwrap();
        });
        let flags = ["--connections", "1", "--seconds", "0.05", "--warmup", "0", "--rate", "1000"];
        let args = ["loadgen", "--protocol", "sentinel", "--addr", &addr];
        let args = Args::parse_from(args.iter().chain(&flags));
        let report = run(&Flow::new(100, 1), &args, 1_000).unwrap();
        server.join().unwrap();
        let report = serde_json::to_value(report).unwrap();
        assert_eq!(report["completed"], REQUESTS);
        // The first was due 49 ms before the last, and they were answered together.
        assert!(report["latency_us"]["max"].as_f64().unwrap() >= 49_000.0, "{report}");
    }
}
