//! Every kind of call, each by itself, so that a failure names it.

use std::{borrow::Cow, time::Duration};

use limiter::{
    Param, Tick,
    local::{Arg, Call, Checked, EntryType, GatewayRequest, Step},
    rule::ResourceMode,
};

use crate::world::{
    Outcome::{self, *},
    Tally, World,
};

type Calls = fn(&World, Tick, &mut Tally);

/// Each with the outcomes that its calls must have.
pub(crate) const KINDS: [(&str, Calls, &[Outcome]); 15] = [
    ("flow rules", flow, &[Passed, Flow]),
    ("checks without a call to guard", checks, &[Passed, Waited, Flow]),
    ("borrowing from the next half second", borrowing, &[Passed, Waited, Flow]),
    ("pacing", pacing, &[Passed, Waited, Flow]),
    ("a wait that is given up", given_up, &[Passed, Waited]),
    ("hot parameters", hot, &[Passed, Param]),
    ("a collection of eight hot values", eight_values, &[Passed, Param]),
    ("paced hot values", paced_values, &[Passed, Waited, Param]),
    ("a gateway's request", gateway, &[Passed, Waited, Gateway]),
    ("authority", authority, &[Passed, Authority]),
    ("system", system, &[Passed, System]),
    ("breakers", breakers, &[Passed, Degrade]),
    ("default breakers", default_breakers, &[Passed, Degrade]),
    ("user slots", user_slots, &[Passed, Custom]),
    ("calls inside of calls, and above the bounds", inside_and_above, &[Passed, Flow]),
];

fn flow(world: &World, now: Tick, tally: &mut Tally) {
    for number in 0..30 {
        world.call(now, Call::new("other"), false, tally);
        let call = Call::new("flow");
        let call = if number % 2 == 0 { call } else { call.context(&world.web).origin("app") };
        world.call(now, call, number % 3 == 0, tally);
    }
}

fn checks(world: &World, now: Tick, tally: &mut Tally) {
    for number in 0..30 {
        let resource = if number % 2 == 0 { "flow" } else { "paced" };
        tally.count(match world.engine.check(now, resource, 1) {
            Checked::Pass => Passed,
            Checked::Wait(_) => Waited,
            Checked::Blocked(_) => Flow,
        });
    }
}

fn borrowing(world: &World, now: Tick, tally: &mut Tally) {
    for _ in 0..30 {
        world.call(now, Call::new("flow").prioritized(), false, tally);
    }
}

fn pacing(world: &World, now: Tick, tally: &mut Tally) {
    for _ in 0..20 {
        world.call(now, Call::new("paced"), false, tally);
    }
}

fn given_up(world: &World, now: Tick, tally: &mut Tally) {
    for _ in 0..3 {
        match world.engine.enter(now, Call::new("paced")) {
            // Dropped, as a future that is cancelled.
            Step::Wait(_) => tally.count(Waited),
            Step::Passed(_) => tally.count(Passed),
            Step::Ask(_) | Step::Blocked(_) => {}
        }
    }
}

fn hot(world: &World, now: Tick, tally: &mut Tally) {
    let args = [Arg::One(Param::Str("hot".into())), Arg::One(Param::Int(7))];
    let mut open = [None, None, None];
    for entry in &mut open {
        *entry = world.begin(now, Call::new("hot").args(&args), tally);
    }
    for entry in open.into_iter().flatten() {
        entry.exit(now);
    }
}

fn eight_values(world: &World, now: Tick, tally: &mut Tally) {
    let values = [1, 2, 3, 4, 5, 6, 7, 8].map(Param::Long);
    let args = [Arg::Null, Arg::Many(&values)];
    let call = || Call::new("hot").args(&args);
    let mut open = [None, None, None];
    for entry in &mut open {
        *entry = world.begin(now, call(), tally);
    }
    drop(open);
}

fn paced_values(world: &World, now: Tick, tally: &mut Tally) {
    let args = [Arg::One(Param::Str("hot".into()))];
    for _ in 0..4 {
        world.call(now, Call::new("paced value").args(&args), false, tally);
    }
}

struct Request;

impl GatewayRequest for Request {
    fn client_ip(&self) -> Option<Cow<'_, str>> {
        Some("10.1.2.3".into())
    }

    fn host(&self) -> Option<Cow<'_, str>> {
        Some("example.com".into())
    }

    fn header(&self, _: &str) -> Option<Cow<'_, str>> {
        Some("vip".into())
    }

    fn url_param(&self, _: &str) -> Option<Cow<'_, str>> {
        Some("1".into())
    }
}

fn gateway(world: &World, now: Tick, tally: &mut Tally) {
    for route in ["route", "paced route"] {
        let call = || Call::new(route).gateway(ResourceMode::Route, &Request);
        let mut open = [None, None, None];
        for entry in &mut open {
            *entry = world.begin(now, call(), tally);
        }
        drop(open);
        for _ in 0..7 {
            world.call(now, call(), false, tally);
        }
    }
}

fn authority(world: &World, now: Tick, tally: &mut Tally) {
    for origin in ["friend", "stranger"] {
        world.call(now, Call::new("private").origin(origin), false, tally);
    }
}

fn system(world: &World, now: Tick, tally: &mut Tally) {
    for _ in 0..10 {
        world.call(now, Call::new("other").entry_type(EntryType::In), false, tally);
    }
}

/// Each round fails until the breakers are open; then calls are refused, and a probe fails, too.
fn breakers(world: &World, now: Tick, tally: &mut Tally) {
    fail_often(world, "broken", now, tally);
}

fn default_breakers(world: &World, now: Tick, tally: &mut Tally) {
    fail_often(world, "without own", now, tally);
}

/// All calls fail in two of three seconds, and none in the third.
fn fail_often(world: &World, resource: &str, now: Tick, tally: &mut Tally) {
    let turns = world.turns();
    let fails = !(now.0 / 1_000_000_000).is_multiple_of(3);
    for _ in 0..5 {
        if let Some(mut entry) = world.begin(now, Call::new(resource), tally) {
            if fails {
                entry.fail();
            }
            entry.exit(now.plus(Duration::from_millis(30)));
        }
    }
    // Each opens, is half open and closes, again and again.
    tally.turned += world.turns() - turns;
}

fn user_slots(world: &World, now: Tick, tally: &mut Tally) {
    for origin in ["good", "bad"] {
        world.call(now, Call::new("other").origin(origin), false, tally);
    }
}

fn inside_and_above(world: &World, now: Tick, tally: &mut Tally) {
    for origin in ["a", "b", "c", "d", "e", "f"] {
        let call = Call::new("other").context(&world.above).origin(origin);
        let Some(outer) = world.begin(now, call, tally) else { continue };
        for resource in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "/few/1", "/few/2"] {
            world.call(now, Call::new(resource).parent(&outer), false, tally);
        }
        let inner = world.begin(now, Call::new("other").context(&world.web), tally);
        if let Some(inner) = &inner {
            world.call(now, Call::new("flow").parent(inner), false, tally);
        }
        outer.exit(now);
        drop(inner);
    }
}
