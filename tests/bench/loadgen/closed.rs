//! The closed loop: each connection begins a batch when the one before is complete.

use std::time::Duration;

use anyhow::{Result, ensure};
use limiter::{Clock, MonotonicClock};
use mio::{Events, Poll};

use crate::{
    Args, SILENCE_MAX,
    connection::Connection,
    report::{Measured, Report},
    wire::Wire,
};

/// Opens the connections, warms up, measures, and closes them.
pub(crate) fn run(wire: &impl Wire, args: &Args) -> Result<Report> {
    let clock = MonotonicClock::start();
    let mut poll = Poll::new()?;
    let mut connections = Connection::open_all(args, wire, &poll)?;
    let mut now = clock.now();
    for connection in &mut connections {
        connection.begin(wire, now)?;
    }
    let warm_at = now.plus(Duration::from_secs_f64(args.warmup));
    let end_at = warm_at.plus(Duration::from_secs_f64(args.seconds));
    let mut warm = args.warmup == 0.0;
    let mut measured = Measured::begin(now, args.pid)?;
    let mut events = Events::with_capacity(connections.len());
    let patience = if args.spin { Duration::ZERO } else { SILENCE_MAX };
    while now < end_at {
        poll.poll(&mut events, Some(patience))?;
        if events.is_empty() {
            let silence = clock.now().since(now);
            ensure!(silence < SILENCE_MAX, "no answer in {silence:?}");
            continue;
        }
        if !warm && now >= warm_at {
            (warm, measured) = (true, Measured::begin(clock.now(), args.pid)?);
        }
        for event in &events {
            let Some(connection) = connections.get_mut(event.token().0) else { continue };
            connection.write(wire)?;
            if connection.read(wire, &mut measured.tally)? == connection.begun {
                now = clock.now();
                measured.complete(connection.began, now);
                connection.begin(wire, now)?;
            }
        }
    }
    measured.end(clock.now(), args.pid)
}
