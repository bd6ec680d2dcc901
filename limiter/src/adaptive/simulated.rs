//! The limits on a simulated server: they find its workers, follow them, and share.
//!
//! Forty workers that take 100 ms for a call serve 400 a second; 800 come.

use std::time::Duration;

use super::{
    AdaptiveLimiter, Aimd, AimdSettings, Bounds, Gradient2, Gradient2Settings, Limit, Shares,
    Vegas, VegasSettings, Windowed,
    server::{Server, Stream, World},
};

const WORKERS: usize = 40;
const SERVICE: Duration = ms(100);
const CAPACITY: u32 = 400;
const WIDE: Bounds = Bounds { min: 1, initial: 20, max: 1_000 };

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn vegas() -> Windowed<Vegas> {
    let settings = VegasSettings { bounds: WIDE, ..VegasSettings::default() };
    Windowed::averages(Vegas::new(settings).unwrap())
}

fn gradient2() -> Windowed<Gradient2> {
    let settings = Gradient2Settings { bounds: WIDE, ..Gradient2Settings::default() };
    Windowed::averages(Gradient2::new(settings).unwrap())
}

/// With a time-out of twice what a call takes.
fn aimd() -> Windowed<Aimd> {
    let settings = AimdSettings { bounds: WIDE, timeout: SERVICE * 2, ..AimdSettings::default() };
    Windowed::averages(Aimd::new(settings).unwrap())
}

fn server() -> Server {
    Server::new(WORKERS, SERVICE)
}

fn world<L: Limit>(limit: L, per_second: u32) -> World<L> {
    World::new(AdaptiveLimiter::new(limit), server(), vec![Stream::new("", per_second)])
}

fn overloaded<L: Limit>(limit: L) -> World<L> {
    world(limit, 2 * CAPACITY)
}

#[test]
fn vegas_finds_the_workers_and_a_queue_of_alpha_to_beta() {
    let mut world = overloaded(vegas());
    world.run(10);
    let seen = world.run(60);
    let limits = seen.limits.clone();
    assert!(*limits.start() >= 43 && *limits.end() <= 46, "{seen:?}");
    assert_eq!(seen.served, 60 * CAPACITY);
    assert!(seen.mean_rtt <= ms(115), "{seen:?}");
}

#[test]
fn vegas_follows_the_number_of_workers_down_and_up() {
    let mut world = overloaded(vegas());
    world.run(30);
    world.employ(10);
    world.run(40);
    let few = world.run(20);
    // A queue of ten, not the thirty-three that were in flight too many.
    assert!((10..=20).contains(few.limits.end()), "{few:?}");
    assert_eq!(few.served, 20 * CAPACITY / 4);
    assert!(few.mean_rtt <= SERVICE * 2, "{few:?}");
    world.employ(WORKERS);
    world.run(10);
    let many = world.run(20);
    assert!((43..=46).contains(many.limits.end()), "{many:?}");
    assert_eq!(many.served, 20 * CAPACITY);
}

#[test]
fn vegas_sheds_load_from_a_slow_server_and_gets_used_to_it_by_a_probe() {
    let settings = VegasSettings { bounds: WIDE, probe: 4, ..VegasSettings::default() };
    let mut world = overloaded(Windowed::averages(Vegas::new(settings).unwrap()));
    world.run(30);
    world.server.service = SERVICE * 5;
    let slow = world.run(30);
    assert!(*slow.limits.start() <= 30, "it takes the time for a queue: {slow:?}");
    world.run(200);
    let used = world.run(60);
    assert!(*used.limits.start() > 39, "five times the time is no load now: {used:?}");
    assert_eq!(used.served, 60 * CAPACITY / 5);
    world.server.service = SERVICE;
    world.run(10);
    let fast = world.run(60);
    assert_eq!(fast.served, 60 * CAPACITY);
}

#[test]
fn gradient2_finds_the_workers_times_its_tolerance() {
    let mut world = overloaded(gradient2());
    world.run(70);
    let seen = world.run(20);
    assert!(*seen.limits.start() >= 60 && *seen.limits.end() <= 70, "{seen:?}");
    assert_eq!(seen.served, 20 * CAPACITY);
}

#[test]
fn gradient2_follows_the_number_of_workers_down_and_up() {
    let mut world = overloaded(gradient2());
    world.run(60);
    world.employ(10);
    world.run(20);
    let few = world.run(20);
    assert!((20..=40).contains(few.limits.end()), "{few:?}");
    assert_eq!(few.served, 20 * CAPACITY / 4);
    world.employ(WORKERS);
    world.run(30);
    let many = world.run(20);
    assert_eq!(many.served, 20 * CAPACITY);
}

#[test]
fn gradient2_sheds_load_from_a_slow_server_and_recovers() {
    let mut world = overloaded(gradient2());
    world.run(60);
    world.server.service = SERVICE * 5;
    world.run(30);
    let slow = world.run(20);
    assert!((5..=20).contains(slow.limits.start()), "{slow:?}");
    world.server.service = SERVICE;
    world.run(50);
    let fast = world.run(10);
    assert_eq!(fast.served, 10 * CAPACITY);
}

/// What its documentation says of an overload that does not end.
#[test]
fn gradient2_rises_with_an_overload_that_goes_on() {
    let mut world = overloaded(gradient2());
    world.run(100);
    let early = world.run(1);
    world.run(120);
    let late = world.run(1);
    assert!(late.limits.start() > early.limits.end(), "{early:?} {late:?}");
}

#[test]
fn aimd_swings_below_the_limit_at_which_calls_time_out() {
    let mut world = overloaded(aimd());
    world.run(100);
    let seen = world.run(60);
    // Twice the time of a call is a queue as long as the workers: 81 is too many, 72 is left.
    assert_eq!(seen.limits, 72..=81);
    assert_eq!(seen.served, 60 * CAPACITY);
    world.employ(10);
    world.run(30);
    let few = world.run(30);
    assert_eq!(few.limits, 18..=21);
    world.employ(WORKERS);
    world.run(90);
    assert_eq!(world.run(30).limits, 72..=81);
}

#[test]
fn without_load_no_limit_drifts() {
    // Eight or nine of twenty in flight: nobody asks for more.
    fn drifts<L: Limit>(limit: L) {
        let mut world = world(limit, 85);
        let seen = world.run(300);
        assert_eq!(seen.limits, 20..=20);
        assert!(seen.served >= 300 * 85 - 9, "but the last ones, all were served: {seen:?}");
    }
    drifts(vegas());
    drifts(gradient2());
    drifts(aimd());
    drifts(Vegas::default());
    drifts(Gradient2::default());
    drifts(Aimd::default());
}

#[test]
fn a_server_that_refuses_at_once_what_it_has_no_room_for_is_not_overrun() {
    fn holds<L: Limit>(limit: L) {
        let mut world = overloaded(limit);
        // Room for eight: at 49 in flight one is refused.
        world.server.patience = SERVICE / 5;
        world.run(100);
        let seen = world.run(60);
        assert!(*seen.limits.end() <= 56, "{seen:?}");
        assert!(seen.served >= 60 * CAPACITY * 9 / 10, "{seen:?}");
    }
    holds(vegas());
    holds(gradient2());
    holds(aimd());
}

/// How many of `live`'s calls are served in a minute, and how many of `batch`'s.
fn shared(shares: &[(&str, u32)], live: u32, batch: u32) -> [u32; 2] {
    let shares = Shares::new(shares.iter().copied()).unwrap();
    let streams = vec![Stream::new("batch", batch), Stream::new("live", live)];
    let mut world = World::new(AdaptiveLimiter::with_shares(vegas(), shares), server(), streams);
    world.run(30);
    world.run(60);
    [world.streams[1].served, world.streams[0].served]
}

#[test]
fn a_flood_takes_nothing_from_who_stays_within_a_share() {
    const MINUTE: u32 = 60;
    let wanted = 240;
    let [without, _] = shared(&[], wanted, 4_000);
    assert!(without < wanted * MINUTE / 2, "without shares it starves: {without}");
    let [live, batch] = shared(&[("live", 70)], wanted, 4_000);
    assert!(live >= wanted * MINUTE * 99 / 100, "{live}");
    assert!(batch >= (CAPACITY - wanted) * MINUTE * 99 / 100, "and the rest is used: {batch}");
}

#[test]
fn who_all_want_more_than_their_shares_get_them() {
    let [live, batch] = shared(&[("live", 70), ("batch", 30)], 1_000, 1_000);
    let sum = live + batch;
    assert_eq!(sum, 60 * CAPACITY);
    // Borrowed calls are above the limit for a while, so a share is a little less of the whole.
    assert!((65..=75).contains(&(live * 100 / sum)), "{live} of {sum}");
}

#[test]
fn a_share_that_nobody_uses_is_used_by_others() {
    let [live, batch] = shared(&[("live", 70), ("batch", 30)], 1, 4_000);
    assert!(live >= 59);
    assert_eq!(live + batch, 60 * CAPACITY);
}
