//! Purses of several clients against the engine that grants them their leases, in a time of its
//! own: whatever is slow, lost or late, no window ever admits more than the rule.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use limiter::{
    ClusterEngine, Decision, LeaseId, Settings, Tick,
    rule::{Contents, Share, merge, parse},
};

use super::*;

const START: u64 = 1_700_000_000_000_000_000;
const MS: u64 = 1_000_000;
const CLIENTS: usize = 3;

/// What happens, at a time in nanoseconds from the start; the number keeps the order.
type At = Reverse<(u64, u64, Event)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Somebody calls.
    Call(usize),
    /// The keeper looks.
    Look(usize),
    /// A request reaches the server: want, and the lease that comes back with what was used of it.
    Asked(usize, Request),
    /// Nobody waits any longer.
    TimedOut(usize, u64),
    Answered(usize, Request, Option<(i64, u32)>),
    /// A plain request reaches the server.
    Plain(u32, bool),
    /// A call for so many tokens that waited for a lease takes what it can, and goes.
    Leaves(usize, u32),
    /// Another connection, or none at first.
    Reconnect(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    number: u64,
    session: u64,
    want: u32,
    back: Option<(i64, u32)>,
}

struct Client {
    purse: Purse,
    session: u64,
    /// Number and time of the request that is waited for.
    waits: Option<(u64, Instant, NonZeroU64)>,
    /// Tokens of each call that waits for a lease.
    calls: Vec<u32>,
    /// How its clock runs, in millionths.
    pace: u64,
    /// Usual time between two calls, at most.
    gap: u64,
    connected: bool,
}

struct World {
    random: fastrand::Rng,
    engine: ClusterEngine,
    base: Instant,
    now: u64,
    events: BinaryHeap<At>,
    numbers: u64,
    clients: Vec<Client>,
    ttl: u64,
    /// By how much a keeper is late, at most.
    stall: u64,
    timeout: u64,
    bucket_ms: u64,
    /// Whether the server may refuse calls since the namespace is over its limit, and lend all the
    /// same.
    shares: bool,
    /// Tokens by the number of the bucket that they were admitted in.
    admitted: BTreeMap<u64, u64>,
    seen: Seen,
}

/// That it was not about nothing.
#[derive(Debug, Default)]
struct Seen {
    granted: u64,
    spent: u64,
    returned: u64,
    lost: u64,
    held: u64,
    late: u64,
    plain: u64,
    /// Calls that waited for what they spent.
    waited: u64,
    /// Of `spent`, while the namespace was over its limit.
    shared: u64,
}

/// An engine with flow rule 1, so many tokens in a window of milliseconds and buckets, and a
/// client's share of it if it `lends` one.
fn engine(
    count: u64,
    (window, buckets): (u64, u64),
    lends: &str,
) -> (ClusterEngine, Option<Share>) {
    let rule = format!(
        r#"[{{"resource":"r","count":{count},"clusterMode":true,"clusterConfig":{{"flowId":1,
            "thresholdType":1,"thresholdUnit":"window","windowIntervalMs":{window},
            "sampleCount":{buckets}{lends}}}}}]"#
    );
    let engine = ClusterEngine::new(Settings::default());
    let rules = parse(&rule, "test", "ns", Contents::Flow, true).unwrap();
    let share = rules.rules.flow[0].share(3);
    engine.replace(merge(vec![rules]).unwrap()).unwrap();
    (engine, share)
}

fn own(max: u32, ttl: u64) -> String {
    format!(r#","lease":{{"maxTokens":{max},"ttlMs":{ttl}}}"#)
}

const SHARE: &str = r#","overloadPolicy":"share""#;

impl World {
    /// A world of random rules, and the rule's count and number of buckets.
    fn new(seed: u64) -> (Self, u64, u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (count, buckets) = (random.u64(1..200), [1, 2, 10][random.usize(0..3)]);
        // Long leases show what clocks differ by, short ones are overtaken by their answers.
        let (window, ttl) = match random.u32(0..4) {
            0 => (200, random.u64(5_000..20_000)),
            _ => ([200, 1_000][random.usize(0..2)], random.u64(1..600)),
        };
        let max = random.u32(1..100);
        let (has_own, shares) = [(true, false), (false, true), (true, true)][random.usize(0..3)];
        let mut lends = if shares { SHARE.to_owned() } else { String::new() };
        if has_own {
            lends += &own(max, ttl);
        }
        let (engine, share) = engine(count, (window, buckets), &lends);
        let base = crate::time::now();
        let terms = match share.filter(|_| !has_own) {
            Some(Share { tokens, part, ttl_ms }) => Terms {
                max: part,
                max_for_call: tokens,
                ttl: Duration::from_millis(ttl_ms.into()),
                fixed: None,
                only_over: true,
            },
            None => Terms {
                max,
                max_for_call: max,
                ttl: Duration::from_millis(ttl),
                fixed: random.bool().then(|| random.u32(1..=max)),
                only_over: false,
            },
        };
        let ttl = u64::try_from(terms.ttl.as_millis()).unwrap();
        let gaps = [MS, 4 * MS, ttl * MS / 20, ttl * MS / 5];
        let clients = (0..CLIENTS).map(|_| Client {
            purse: Purse::new(terms, base),
            session: 1,
            waits: None,
            calls: Vec::new(),
            // All that two clocks may differ by.
            pace: [999_000, 1_000_000, 1_001_000][random.usize(0..3)],
            gap: gaps[random.usize(0..4)].max(MS / 2),
            connected: true,
        });
        let clients = clients.collect();
        let [stall, timeout] = [MS, 20 * MS].map(|short| [short, 2 * ttl * MS][random.usize(0..2)]);
        let world = Self {
            random,
            engine,
            base,
            now: 0,
            events: BinaryHeap::new(),
            numbers: 0,
            clients,
            stall,
            timeout,
            ttl: ttl * MS,
            bucket_ms: window / buckets,
            shares,
            admitted: BTreeMap::new(),
            seen: Seen::default(),
        };
        (world, count, buckets)
    }

    fn after(&mut self, nanos: u64, event: Event) {
        self.numbers += 1;
        self.events.push(Reverse((self.now + nanos, self.numbers, event)));
    }

    /// Time on the way: mostly short, sometimes longer than a lease lives.
    fn way(&mut self) -> u64 {
        match self.random.u32(0..20) {
            0 => self.random.u64(0..2 * self.ttl),
            1..5 => self.random.u64(0..10 * MS),
            _ => self.random.u64(0..MS),
        }
    }

    fn tick(&self) -> Tick {
        Tick(START + self.now)
    }

    /// What the client's own clock shows.
    fn clock(&self, client: usize) -> Instant {
        let shown = u128::from(self.now) * u128::from(self.clients[client].pace) / 1_000_000;
        self.base + Duration::from_nanos(u64::try_from(shown).unwrap())
    }

    fn admit(&mut self, at: Tick, count: u32) {
        *self.admitted.entry(at.ms() / self.bucket_ms).or_default() += u64::from(count);
    }

    fn run(&mut self, until: u64) {
        for client in 0..CLIENTS {
            self.after(0, Event::Call(client));
            self.after(self.ttl, Event::Reconnect(client));
        }
        while let Some(Reverse((at, _, event))) = self.events.pop()
            && at < until
        {
            self.now = at;
            self.happen(event);
        }
        for client in &self.clients {
            self.seen.held += client.purse.leases.iter().map(|it| u64::from(it.left)).sum::<u64>();
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Call(client) => self.call(client),
            Event::Look(client) => self.look(client),
            Event::Asked(client, request) => self.asked(client, request),
            Event::TimedOut(client, number) => {
                self.settle(client, number, Answered::NoAnswer);
            }
            Event::Answered(client, request, granted) => {
                let ttl = Duration::from_nanos(self.ttl);
                let granted = granted.map(|(id, tokens)| Answered::Granted { id, tokens, ttl });
                self.settle(client, request.number, granted.unwrap_or(Answered::Nothing));
            }
            Event::Plain(count, priority) => {
                let (rules, now) = (self.engine.rules(), self.tick());
                let decided = rules.acquire_flow(now, 1, count.cast_signed(), priority).unwrap();
                match decided {
                    Decision::Pass { .. } => self.admit(now, count),
                    Decision::Wait { wait } => self.admit(now.plus(wait), count),
                    Decision::Block => {}
                }
                self.seen.plain += u64::from(decided != Decision::Block);
            }
            Event::Leaves(client, count) => {
                let now = self.clock(client);
                let purse = &mut self.clients[client].purse;
                let (taken, call) = (purse.take(now, count), purse.leave());
                if taken {
                    self.seen.waited += 1;
                    self.spent(client, count);
                }
                if call {
                    self.look(client);
                }
            }
            Event::Reconnect(client) => {
                let number = self.clients[client].waits.map(|(number, ..)| number);
                if let Some(number) = number {
                    self.settle(client, number, Answered::NoAnswer);
                }
                let it = &mut self.clients[client];
                it.session += 1;
                it.connected = !it.connected || self.random.bool();
                let next = self.random.u64(0..20 * self.ttl);
                self.after(next, Event::Reconnect(client));
            }
        }
    }

    fn call(&mut self, client: usize) {
        let (now, count) = (self.clock(client), self.random.u32(1..4));
        // Now and then a pause that outlasts a lease.
        let pause = match self.random.u32(0..100) {
            0 => self.random.u64(0..3 * self.ttl),
            _ => self.random.u64(0..self.clients[client].gap),
        };
        self.after(pause, Event::Call(client));
        let mut spent = self.clients[client].purse.spend(now, count);
        let is_refused = self.shares && !spent.taken && self.random.u32(0..4) == 0;
        if is_refused {
            spent.call |= self.clients[client].purse.refused(now, count);
        }
        let it = &mut self.clients[client];
        if (is_refused || spent.over) && it.purse.wait(count) {
            it.calls.push(count);
        }
        if spent.call {
            let delay = self.random.u64(0..self.stall);
            self.after(delay, Event::Look(client));
        }
        if spent.taken {
            self.spent(client, count);
        } else if !is_refused && !spent.over && self.random.u32(0..4) == 0 {
            let (way, priority) = (self.way(), self.random.u32(0..4) == 0);
            self.after(way, Event::Plain(count, priority));
        }
    }

    fn spent(&mut self, client: usize, count: u32) {
        self.seen.spent += u64::from(count);
        if self.clients[client].purse.is_over(self.clock(client)) {
            self.seen.shared += u64::from(count);
        }
        self.admit(self.tick(), count);
    }

    fn look(&mut self, client: usize) {
        let now = self.clock(client);
        let it = &mut self.clients[client];
        let session = NonZeroU64::new(it.session).filter(|_| it.connected);
        let look = it.purse.look(now, session);
        assert!(it.purse.leases.len() <= 4, "{:?}", it.purse.leases);
        self.seen.lost += look.lost;
        let mut backs = look.back;
        if let Some(alarm) = look.alarm {
            assert!(alarm > now, "it would never rest");
            let rest = u64::try_from((alarm - now).as_nanos()).unwrap();
            let late = self.random.u64(0..self.stall);
            self.after(rest + late, Event::Look(client));
        }
        if let Some(Ask { session, want, back }) = look.ask {
            let request = self.request(session, want, back);
            self.clients[client].waits = Some((request.number, now, session));
            self.after(self.timeout, Event::TimedOut(client, request.number));
            self.send(client, request);
            self.seen.returned += back.map_or(0, |back| back.unspent.into());
        }
        for back in backs.drain(..) {
            self.seen.returned += u64::from(back.unspent);
            let request = self.request(session.unwrap(), 0, Some(back));
            self.send(client, request);
        }
    }

    fn request(&mut self, session: NonZeroU64, want: u32, back: Option<Back>) -> Request {
        self.numbers += 1;
        let back = back.map(|back| (back.id, back.used));
        Request { number: self.numbers, session: session.get(), want, back }
    }

    /// One request in thirty never arrives.
    fn send(&mut self, client: usize, request: Request) {
        let way = self.way();
        if self.random.u32(0..30) > 0 {
            self.after(way, Event::Asked(client, request));
        }
    }

    fn asked(&mut self, client: usize, request: Request) {
        let (rules, now) = (self.engine.rules(), self.tick());
        let back = request.back.map(|(id, used)| (LeaseId(id), used));
        let leased = rules.lease(now, 1, request.want, back).unwrap().unwrap();
        let way = self.way();
        if request.want > 0 {
            let granted = leased.id.map(|LeaseId(id)| (id, leased.granted));
            self.after(way, Event::Answered(client, request, granted));
        }
    }

    /// What comes after the time-out, or over a connection that is gone, is nobody's.
    fn settle(&mut self, client: usize, number: u64, answered: Answered) {
        let now = self.clock(client);
        let it = &mut self.clients[client];
        let Some((_, sent, session)) = it.waits.take_if(|(waits, ..)| *waits == number) else {
            self.seen.late += u64::from(matches!(answered, Answered::Granted { .. }));
            return;
        };
        if let Answered::Granted { tokens, .. } = answered {
            self.seen.granted += u64::from(tokens);
        }
        let stretch = 0.8 + 0.4 * self.random.f64();
        it.purse.settle(now, sent, session, answered, stretch);
        // Those that waited for it, sooner or later than the keeper.
        for count in std::mem::take(&mut self.clients[client].calls) {
            let delay = self.random.u64(0..self.stall);
            self.after(delay, Event::Leaves(client, count));
        }
        self.look(client);
    }
}

#[test]
fn no_window_admits_more_than_the_rule_whatever_is_slow_lost_or_late() {
    let mut total = Seen::default();
    for seed in 0..500 {
        let (mut world, count, buckets) = World::new(seed);
        world.run((3 * world.ttl).max(1_500 * MS));
        for first in world.admitted.keys() {
            let window = world.admitted.range(first..&(first + buckets));
            let sum: u64 = window.map(|(_, tokens)| tokens).sum();
            assert!(sum <= count, "seed {seed}: {sum} of {count} from bucket {first}");
        }
        let Seen { granted, spent, returned, lost, held, late, plain, waited, shared } = world.seen;
        assert_eq!(granted, spent + returned + lost + held, "seed {seed}");
        total.spent += spent;
        total.returned += returned;
        total.lost += lost;
        total.late += late;
        total.plain += plain;
        total.waited += waited;
        total.shared += shared;
    }
    let Seen { spent, returned, lost, late, plain, waited, shared, .. } = total;
    let seen = [spent, returned, lost, late, plain, waited, shared];
    assert!(seen.iter().all(|&it| it > 100), "{total:?}");
}

/// The last moment of a lease, which the random worlds seldom meet: the client's clock is slow, and
/// others take whatever the server gives.
#[test]
fn a_slow_clock_admits_nothing_after_the_server_has_written_a_lease_off() {
    let ttl = 20_000;
    let ((engine, _), base) = (engine(10, (10, 1), &own(5, ttl)), crate::time::now());
    let terms = Terms {
        max: 5,
        max_for_call: 5,
        ttl: Duration::from_millis(ttl),
        fixed: None,
        only_over: false,
    };
    let mut purse = Purse::new(terms, base);
    let start = Tick(START);
    let leased = engine.rules().lease(start, 1, 5, None).unwrap().unwrap();
    let (id, ttl) = (leased.id.unwrap().0, leased.ttl);
    let granted = Answered::Granted { id, tokens: 5, ttl };
    purse.settle(base, base, NonZeroU64::MIN, granted, 1.0);
    let (mut spent, mut before) = (0, 0);
    for half_ms in 39_999..40_080_u32 {
        let now = start.plus(half_ms * Duration::from_micros(500));
        let shown = base + half_ms * Duration::from_nanos(499_500);
        while let Ok(Decision::Pass { .. }) = engine.rules().acquire_flow(now, 1, 1, false) {}
        // At the end of each bucket, in which others have taken what they can.
        if half_ms % 20 == 19 {
            let taken = u64::from(purse.spend(shown, 1).taken);
            spent += taken;
            let others = engine.rules().flow(1).unwrap().totals().pass_tokens - before;
            before += others;
            assert!(others + taken <= 10, "{taken} and {others} by {half_ms}");
        }
    }
    assert_eq!(spent, 1, "at its very last moment");
}
