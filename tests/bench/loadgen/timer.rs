//! A timer that wakes a poll to the microsecond: a poll's own patience counts in milliseconds.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use anyhow::Result;
use mio::{Interest, Poll, Token, unix::SourceFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

#[derive(Debug)]
pub(crate) struct Timer(OwnedFd);

impl Timer {
    /// A timer whose events bear `token`.
    pub(crate) fn new(poll: &Poll, token: Token) -> Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self(timer))
    }

    /// Gives one event in `time`, and none for a time set before. It need not be read: setting it
    /// again makes the next one new.
    pub(crate) fn set(&self, time: Duration) -> Result<()> {
        // Zero would stop it.
        let it_value = Timespec::try_from(time.max(Duration::from_nanos(1)))?;
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(
            &self.0,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval, it_value },
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mio::Events;

    use super::*;

    #[test]
    fn a_timer_is_heard_each_time_that_it_is_set() {
        let mut poll = Poll::new().unwrap();
        let timer = Timer::new(&poll, Token(7)).unwrap();
        let mut events = Events::with_capacity(1);
        for _ in 0..3 {
            timer.set(Duration::from_micros(10)).unwrap();
            poll.poll(&mut events, None).unwrap();
            assert_eq!(events.iter().map(|event| event.token()).collect::<Vec<_>>(), [Token(7)]);
        }
    }
}
