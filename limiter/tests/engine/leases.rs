//! Leases: whenever their clients spend them, no window admits more than the rule allows, and what
//! a lease costs others is its tokens, from the grant until one window after its end.

use std::collections::BTreeMap;

use limiter::{Ask, ClusterEngine, Decision, LeaseId, Leased, Tick, What};
use proptest::prelude::*;

use super::{
    START, at, engine,
    kinds::{Kind, OTHERS, SLIDING},
    load, ms,
};

const LEASE: &str = r#","lease":{"maxTokens":6,"ttlMs":350}"#;
const TTL: u64 = 350_000_000;

fn lease(engine: &ClusterEngine, now: Tick, want: u32, returned: Option<(LeaseId, u32)>) -> Leased {
    engine.rules().lease(now, 1, want, returned).unwrap().unwrap()
}

fn ask(
    engine: &ClusterEngine,
    now: Tick,
    count: i32,
    ask: Ask,
) -> (Decision, Option<std::time::Duration>) {
    let explained = engine.rules().ask(now, &What::Flow { id: 1, count }, ask).unwrap();
    (explained.decision, explained.retry)
}

/// The slow model: a lease that lives is in every window, and one that has ended was spent at its
/// end.
struct Model {
    bucket: u64,
    buckets: u64,
    taken: BTreeMap<u64, u64>,
    leases: Vec<(LeaseId, u64, u64)>,
}

impl Model {
    /// Tokens in the window that ends with bucket `end`.
    fn sum(&self, end: u64, now: u64) -> u64 {
        let window = (end + 1).saturating_sub(self.buckets)..=end;
        let taken: u64 = self.taken.range(window.clone()).map(|(_, tokens)| tokens).sum();
        let counts = |until: u64| until > now || window.contains(&(until / self.bucket));
        let leased = self.leases.iter().filter(|(_, until, _)| counts(*until));
        taken + leased.map(|(_, _, tokens)| tokens).sum::<u64>()
    }

    fn room(&self, end: u64, now: u64, most: f64, count: u64) -> f64 {
        most - self.sum(end, now) as f64 - count as f64
    }

    fn ask(&mut self, now: u64, most: f64, count: u64, prioritized: bool) -> Decision {
        let head = now / self.bucket;
        let booked = self.taken.get(&(head + 1)).copied().unwrap_or(0);
        let mut room = self.room(head, now, most, count);
        if booked > 0 && self.buckets > 1 {
            room = room.min(self.room(head + 1, now, most, count));
        }
        if room >= 0.0 {
            *self.taken.entry(head).or_default() += count;
            return Decision::Pass { remaining: room as u64 };
        }
        if prioritized && booked as f64 <= most && self.room(head + 1, now, most, count) >= 0.0 {
            *self.taken.entry(head + 1).or_default() += count;
            return Decision::Wait { wait: Tick((head + 1) * self.bucket).since(Tick(now)) };
        }
        Decision::Block
    }

    /// How much is granted: half of what any window leaves, rounded up.
    fn grant(&self, now: u64, most: f64, want: u64) -> u64 {
        let head = now / self.bucket;
        let room = self.room(head, now, most, 0).min(self.room(head + 1, now, most, 0));
        want.min(6).min((room.max(0.0) as u64).div_ceil(2))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask(i32, bool),
    /// Wants so many, and gives one back of which such a part was spent.
    Lease(u32, Option<(prop::sample::Index, u32)>),
    Clock(u64),
    Count(f64),
}

fn step() -> impl Strategy<Value = Step> {
    let returned = prop::option::of((any::<prop::sample::Index>(), 0_u32..8));
    prop_oneof![
        10 => (1_i32..5, any::<bool>()).prop_map(|(count, prioritized)| Step::Ask(count, prioritized)),
        5 => (0_u32..8, returned).prop_map(|(want, returned)| Step::Lease(want, returned)),
        8 => (0_u64..150_000_000).prop_map(Step::Clock),
        1 => (0_u64..4_000_000_000).prop_map(Step::Clock),
        1 => prop::sample::select(vec![0.0, 1.0, 4.5, 10.0, 20.0]).prop_map(Step::Count),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// So what a lease costs others is known: never more than its tokens, never longer than until
    /// one window after its end.
    #[test]
    fn with_leases_every_answer_is_that_of_the_model(
        kind in prop::sample::select(SLIDING.to_vec()),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let Kind::Sliding { ms, buckets } = kind else { unreachable!() };
        let (taken, leases) = (BTreeMap::new(), Vec::new());
        let mut model = Model { bucket: ms * 1_000_000 / buckets, buckets, taken, leases };
        let (mut now, mut most) = (START * 1_000_000, 10.0);
        let engine = engine();
        load(&engine, &[kind.rule(most, "", LEASE)]);
        for step in steps {
            match step {
                Step::Clock(by) => now += by,
                Step::Count(count) => {
                    most = count;
                    load(&engine, &[kind.rule(most, "", LEASE)]);
                }
                Step::Ask(count, prioritized) => {
                    let ask = Ask { prioritized, ..Ask::default() };
                    let (ours, _) = super::leases::ask(&engine, Tick(now), count, ask);
                    prop_assert_eq!(ours, model.ask(now, most, count as u64, prioritized));
                }
                Step::Lease(want, returned) => {
                    let returned = returned.filter(|_| !model.leases.is_empty());
                    let returned = returned.map(|(which, spent)| {
                        let which = which.index(model.leases.len());
                        let (id, until, tokens) = model.leases[which];
                        if until > now {
                            let spent = u64::from(spent).min(tokens);
                            *model.taken.entry(now / model.bucket).or_default() += spent;
                            model.leases.swap_remove(which);
                        }
                        (id, spent)
                    });
                    let granted = model.grant(now, most, want.into());
                    let ours = lease(&engine, Tick(now), want, returned);
                    prop_assert_eq!(u64::from(ours.granted), granted);
                    if let Some(id) = ours.id {
                        model.leases.push((id, now + TTL, granted));
                    }
                }
            }
        }
    }
}

#[test]
fn a_lease_is_in_the_next_window_too_where_others_have_booked() {
    // One bucket: what is taken now is not in the next window, but a lease may be spent there.
    let engine = engine();
    load(&engine, &[Kind::Sliding { ms: 1_000, buckets: 1 }.rule(10.0, "", LEASE)]);
    let booking = Ask { prioritized: true, ..Ask::default() };
    assert_eq!(ask(&engine, at(900), 9, Ask::default()).0, Decision::Pass { remaining: 1 });
    assert_eq!(ask(&engine, at(900), 10, booking).0, Decision::Wait { wait: ms(100) });
    assert_eq!(lease(&engine, at(900), 5, None).granted, 0, "the next window is booked full");
}

#[test]
fn a_lease_that_outlives_a_restart_counts_whatever_the_rule_says_then() {
    let kind = Kind::Sliding { ms: 1_000, buckets: 10 };
    let others = [
        kind.rule(10.0, "", ""),
        Kind::Sliding { ms: 600, buckets: 2 }.rule(10.0, "", ""),
        Kind::Bucket { name: "gcra", ms: 60_000 }.rule(10.0, "", ""),
    ];
    for other in others {
        let before = engine();
        load(&before, &[kind.rule(10.0, "", LEASE)]);
        assert_eq!(lease(&before, at(100), 9, None).granted, 5);
        // The same in one process, and in the next.
        load(&before, std::slice::from_ref(&other));
        let mut records = Vec::new();
        let after = engine();
        load(&after, &[kind.rule(10.0, "", LEASE)]);
        assert_eq!(lease(&after, at(100), 9, None).granted, 5);
        let saved: Result<(), ()> = after.save(at(150), |record| {
            records.push(record);
            Ok(())
        });
        saved.unwrap();
        let after = engine();
        after.restore(at(150), at(150), records);
        load(&after, std::slice::from_ref(&other));
        for engine in [before, after] {
            assert_eq!(ask(&engine, at(200), 6, Ask::default()).0, Decision::Block, "{other}");
            assert_eq!(ask(&engine, at(200), 5, Ask::default()).0, Decision::Pass { remaining: 0 });
        }
    }
}

#[test]
fn a_reset_leaves_what_is_on_lease_whatever_the_rule_became() {
    let kind = Kind::Sliding { ms: 1_000, buckets: 10 };
    for other in SLIDING.into_iter().chain(OTHERS) {
        let engine = engine();
        load(&engine, &[kind.rule(10.0, "", LEASE)]);
        assert_eq!(lease(&engine, at(100), 9, None).granted, 5);
        load(&engine, &[other.rule(10.0, "", "")]);
        let usage = || engine.rules().flow(1).unwrap().usage(at(100));
        let what = What::Flow { id: 1, count: 2 };
        // Its machine is made by who first looks.
        engine.rules().ask(at(100), &what, Ask { peek: true, ..Ask::default() }).unwrap();
        let leased = usage();
        assert!(leased.0 >= 4, "{other:?} {leased:?}");
        for _ in 0..2 {
            engine.rules().charge(at(100), &what).unwrap();
            assert_eq!(usage().0, leased.0 + 2, "{other:?}");
            engine.rules().reset(at(100), &what).unwrap();
            assert_eq!(usage(), leased, "{other:?}");
        }
        // Once it has ended it is forgotten as all that was used.
        engine.rules().reset(at(450), &what).unwrap();
        assert_eq!(usage(), (0, 0), "{other:?}");
    }
}

#[test]
fn a_batch_under_rules_that_were_replaced_grants_no_lease_that_the_new_ones_do_not_know() {
    let old = Kind::Sliding { ms: 1_000, buckets: 10 };
    let with_lease = |kind: Kind| kind.rule(10.0, "", LEASE);
    for other in SLIDING.into_iter().chain(OTHERS).filter(|kind| *kind != old) {
        for (was_used, stood_between, went) in
            [(false, false, false), (true, false, false), (false, true, false), (true, false, true)]
        {
            let engine = engine();
            load(&engine, &[with_lease(old)]);
            let batch = engine.rules();
            if was_used {
                assert_eq!(lease(&engine, at(0), 2, None).granted, 2);
            }
            if stood_between {
                // Counted in the same way, and without leases.
                load(&engine, &[old.rule(10.0, "", "")]);
            }
            if went {
                load(&engine, &[]);
            }
            load(&engine, &[other.rule(10.0, "", "")]);
            let granted = batch.lease(at(0), 1, 6, None).unwrap().unwrap();
            assert_eq!((granted.id, granted.granted), (None, 0), "{other:?}");
            // Also when all that it had lent has come back, or ended.
            let later = batch.lease(at(9_000), 1, 6, None).unwrap().unwrap();
            assert_eq!(later.id, None, "{other:?}");
        }
    }
}

#[test]
fn a_batch_under_rules_that_are_counted_on_grants_leases_that_the_new_ones_know() {
    let (engine, kind) = (engine(), Kind::Sliding { ms: 1_000, buckets: 10 });
    load(&engine, &[kind.rule(10.0, "", LEASE)]);
    let batch = engine.rules();
    load(&engine, &[kind.rule(8.0, "", LEASE)]);
    assert_eq!(batch.lease(at(0), 1, 6, None).unwrap().unwrap().granted, 5);
    assert_eq!(ask(&engine, at(0), 4, Ask::default()).0, Decision::Block);
    assert_eq!(ask(&engine, at(0), 3, Ask::default()).0, Decision::Pass { remaining: 0 });
}

#[test]
fn a_batch_under_rules_without_leases_sees_those_that_were_granted_meanwhile() {
    let (engine, kind) = (engine(), Kind::Sliding { ms: 1_000, buckets: 10 });
    load(&engine, &[kind.rule(10.0, "", "")]);
    let batch = engine.rules();
    load(&engine, &[kind.rule(10.0, "", LEASE)]);
    assert_eq!(lease(&engine, at(0), 9, None).granted, 5);
    assert_eq!(batch.acquire_flow(at(0), 1, 6, false), Ok(Decision::Block));
    assert_eq!(batch.acquire_flow(at(0), 1, 5, false), Ok(Decision::Pass { remaining: 0 }));
}
