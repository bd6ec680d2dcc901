//! Our limiters, asked the questions of `vectors/guava.txt`.

use std::time::Duration;

use limiter::{
    Tick,
    algorithm::{
        Algorithm, Level, Rate, SmoothBursty, SmoothWarmingUp, SmoothWarmingUpState, Verdict,
    },
};

/// A limiter that one of the lines made.
#[derive(Debug)]
pub(crate) enum Ours {
    Bursty { storage: Duration, bursty: SmoothBursty, state: Level },
    Warming { period: Duration, cold: u32, warming: SmoothWarmingUp, state: SmoothWarmingUpState },
}

/// How long a call waits; `None` when it is refused.
pub(crate) type Answer = Option<Duration>;

/// When limiters are created: with a tick of zero nothing could be before it.
const CREATED: Tick = Tick(1_700_000_040_000_000_000);

impl Ours {
    /// The limiter of a line that makes one.
    pub(crate) fn create(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["bursty", count, storage] => {
                let storage = us(storage);
                let bursty = SmoothBursty::new(rate(count), storage);
                Some(Self::Bursty { storage, bursty, state: bursty.start(CREATED) })
            }
            ["warming", count, period, cold] => {
                let (period, cold) = (us(period), cold.parse().unwrap());
                let warming = SmoothWarmingUp::new(rate(count), period, cold).unwrap();
                Some(Self::Warming { period, cold, warming, state: Default::default() })
            }
            _ => None,
        }
    }

    /// The answer to a line that asks this limiter; `None` of one that changes its rate.
    pub(crate) fn ask(&mut self, line: &str) -> Option<Answer> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let now = CREATED.plus(us(words[0]));
        match words[1..] {
            ["acquire", n] => Some(self.take(now, n.parse().unwrap(), Duration::MAX)),
            ["try", n, timeout] => Some(self.take(now, n.parse().unwrap(), us(timeout))),
            _ => {
                assert_eq!(words[1], "rate", "{line}");
                self.set_rate(now, rate(words[2]));
                None
            }
        }
    }

    fn take(&mut self, now: Tick, n: u64, timeout: Duration) -> Answer {
        let verdict = match self {
            Self::Bursty { bursty, state, .. } => bursty.try_take(state, now, n, timeout),
            Self::Warming { warming, state, .. } => warming.try_take(state, now, n, timeout),
        };
        match verdict {
            Verdict::Pass { .. } => Some(Duration::ZERO),
            Verdict::Wait { wait } => Some(wait),
            Verdict::Block { .. } => None,
        }
    }

    fn set_rate(&mut self, now: Tick, rate: Rate) {
        match self {
            Self::Bursty { storage, bursty, state } => {
                let new = SmoothBursty::new(rate, *storage);
                new.adopt(state, bursty, now);
                *bursty = new;
            }
            Self::Warming { period, cold, warming, state } => {
                let new = SmoothWarmingUp::new(rate, *period, *cold).unwrap();
                new.adopt(state, warming, now);
                *warming = new;
            }
        }
    }
}

fn us(word: &str) -> Duration {
    Duration::from_micros(word.parse().unwrap())
}

fn rate(word: &str) -> Rate {
    Rate::new(word.parse().unwrap(), Duration::from_secs(1)).unwrap()
}

/// Whether an answer is Guava's, which is `refused` or microseconds, after so many calls.
///
/// Ours are exact. Guava cuts each cost to whole microseconds, that of cold, warm and fresh permits
/// separately: after `calls` its next call may go up to 3 µs earlier for each. Its storage then
/// fills from that moment on, and of a fuller storage a cold permit costs more.
pub(crate) fn agrees(ours: Answer, guava: &str, calls: u32) -> bool {
    let Some(ours) = ours else { return guava == "refused" };
    let Ok(guava) = guava.parse().map(Duration::from_micros) else { return false };
    ours.abs_diff(guava) <= Duration::from_micros(3) * calls
}
