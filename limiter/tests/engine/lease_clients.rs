//! Clients spend their leases whenever they like within the time to live, counted from when they
//! sent the request, and give them back late, or never: no window ever admits more than the rule
//! allows, whatever happens to rule, process and clock meanwhile.

use std::time::{Duration, UNIX_EPOCH};

use limiter::{Ask, ClusterEngine, Decision, LeaseId, Tick, What};
use proptest::prelude::*;

use super::{
    START, engine,
    kinds::{Kind, OTHERS, SLIDING, Went},
    rules_of,
};

const LEASE: &str = r#","lease":{"maxTokens":6,"ttlMs":350}"#;
const SHARE: &str = r#","overloadPolicy":"share""#;

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(i32, bool),
    Charge(i32),
    /// Wants so many; the request is so long on its way.
    Lease(u32, u64),
    /// Spends so many of one of the leases, now.
    Spend(prop::sample::Index, u32),
    Return(prop::sample::Index),
    Clock(u64),
    Back(u64),
    Count(f64),
    Counts(Kind),
    /// The rule's fields that say what leases it grants.
    Lends(&'static str),
    Away(u64),
    Restart(u64),
}

fn step() -> impl Strategy<Value = Step> {
    // What is spent of a lease does not stand in line.
    let kinds = SLIDING.into_iter().chain(OTHERS).filter(|kind| !kind.is_queue());
    let any_kind = prop::sample::select(kinds.collect::<Vec<_>>());
    prop_oneof![
        10 => (1_i32..5, any::<bool>()).prop_map(|(count, prioritized)| Step::Ask(count, prioritized)),
        1 => (1_i32..4).prop_map(Step::Charge),
        8 => (1_u32..8, 0_u64..100_000_000).prop_map(|(want, late)| Step::Lease(want, late)),
        12 => (any::<prop::sample::Index>(), 1_u32..4).prop_map(|(which, n)| Step::Spend(which, n)),
        3 => any::<prop::sample::Index>().prop_map(Step::Return),
        12 => (0_u64..120_000_000).prop_map(Step::Clock),
        1 => (0_u64..3_000_000_000).prop_map(Step::Clock),
        1 => (0_u64..1_000_000_000).prop_map(Step::Back),
        1 => prop::sample::select(vec![0.0, 1.0, 5.0, 12.0]).prop_map(Step::Count),
        1 => any_kind.prop_map(Step::Counts),
        1 => prop::sample::select(vec!["", LEASE, SHARE]).prop_map(Step::Lends),
        1 => (0_u64..500_000_000).prop_map(Step::Away),
        1 => prop_oneof![Just(0), 0_u64..900_000_000].prop_map(Step::Restart),
    ]
}

/// A lease as its client knows it.
struct Held {
    id: LeaseId,
    tokens: u32,
    spent: u32,
    /// In the client's time.
    until: u64,
    count: f64,
}

struct Run {
    kind: Kind,
    lends: &'static str,
    engine: ClusterEngine,
    count: f64,
    now: u64,
    /// How far the server's clock stepped back so far.
    behind: u64,
    seen: u64,
    floor: u64,
    went: Vec<Went>,
    held: Vec<Held>,
}

impl Run {
    fn load(&self) {
        let lends = matches!(self.kind, Kind::Sliding { .. });
        let rule = self.kind.rule(self.count, "", if lends { self.lends } else { "" });
        self.engine.replace(vec![rules_of("ns", &[rule])]).unwrap();
    }

    fn see(&mut self) -> u64 {
        self.seen = self.seen.max(self.now - self.now % self.kind.grain());
        self.seen
    }

    fn went(&mut self, went: Went) {
        self.went.push(went);
        self.went.sort_by_key(|went| went.at);
    }

    /// What the clients' clocks show.
    fn clients_now(&self) -> u64 {
        self.now + self.behind
    }

    fn step(&mut self, step: Step) {
        let (now, rules) = (Tick(self.now), self.engine.rules());
        match step {
            Step::Ask(count, prioritized) => {
                let count = count.min(self.kind.largest(self.count));
                let ask = Ask { prioritized, ..Ask::default() };
                let what = What::Flow { id: 1, count };
                let decision = rules.ask(now, &what, ask).unwrap().decision;
                self.floor = self.floor.max(self.now);
                let (seen, grain) = (self.see(), self.kind.grain());
                let goes = match decision {
                    Decision::Pass { .. } => seen,
                    Decision::Wait { wait } => {
                        let from = if grain == 1 { seen } else { self.now };
                        from + wait.as_nanos() as u64
                    }
                    Decision::Block => return,
                };
                let (at, tokens) = (goes - goes % grain, count as u64);
                self.went(Went { at, asked: at, tokens, count: self.count, spent: None });
            }
            Step::Charge(count) => {
                rules.charge(now, &What::Flow { id: 1, count }).unwrap();
                self.floor = self.floor.max(self.now);
            }
            Step::Lease(want, late) => {
                self.floor = self.floor.max(self.now);
                let Ok(leased) = rules.lease(now, 1, want, None).unwrap() else { return };
                self.see();
                let until = self.clients_now() - late + leased.ttl.as_nanos() as u64;
                let (tokens, count) = (leased.granted, self.count);
                self.held.extend(leased.id.map(|id| Held { id, tokens, spent: 0, until, count }));
            }
            Step::Spend(..) | Step::Return(_) if self.held.is_empty() => {}
            Step::Spend(which, n) => {
                let (which, clients_now) = (which.index(self.held.len()), self.clients_now());
                let held = &mut self.held[which];
                let n = n.min(held.tokens - held.spent);
                if held.until >= clients_now && n > 0 {
                    held.spent += n;
                    let (at, count) = (self.now - self.now % self.kind.grain(), held.count);
                    self.went(Went {
                        at,
                        asked: at,
                        tokens: n.into(),
                        count,
                        spent: Some(self.now),
                    });
                }
            }
            Step::Return(which) => {
                self.floor = self.floor.max(self.now);
                let held = self.held.swap_remove(which.index(self.held.len()));
                let _not_lent = rules.lease(now, 1, 0, Some((held.id, held.spent))).unwrap();
            }
            _ => self.change(step),
        }
    }

    /// What happens to rule, process and clock.
    fn change(&mut self, step: Step) {
        match step {
            Step::Clock(by) => self.now += by,
            Step::Back(by) => {
                let by = by.min(self.now - self.floor.min(self.now));
                (self.now, self.behind) = (self.now - by, self.behind + by);
                // The server's clock did not see that time yet.
                let grain = self.kind.grain();
                for went in self.went.iter_mut().filter(|went| went.spent > Some(self.now)) {
                    (went.at, went.spent) = (self.now - self.now % grain, Some(self.now));
                }
                self.went.sort_by_key(|went| went.at);
            }
            Step::Count(count) => {
                self.count = count;
                self.load();
            }
            Step::Counts(kind) => {
                // What was used before counts no more, but what is on lease does.
                if kind != self.kind {
                    (self.kind, self.seen) = (kind, 0);
                    self.went.clear();
                }
                self.load();
            }
            Step::Lends(lends) => {
                self.lends = lends;
                self.load();
            }
            Step::Away(by) => {
                self.engine.replace(Vec::new()).unwrap();
                self.now = self.now.max(self.seen) + by;
                self.floor = self.now;
                self.engine.tidy(Tick(self.now), UNIX_EPOCH + Duration::from_nanos(self.now));
                self.load();
            }
            Step::Restart(behind) => self.restart(behind),
            _ => unreachable!("a request"),
        }
    }

    fn restart(&mut self, behind: u64) {
        let (saved_at, mut records) = (Tick(self.now), Vec::new());
        let saved: Result<(), ()> = self.engine.save(saved_at, |record| {
            records.push(record);
            Ok(())
        });
        saved.unwrap();
        (self.now, self.behind) = (self.now - behind, self.behind + behind);
        self.engine = engine();
        self.engine.restore(Tick(self.now), saved_at, records);
        self.load();
        self.floor = self.now;
        let (grain, window) = (self.kind.grain(), self.kind.window());
        let moved = behind - behind % grain;
        let bucket = self.seen.max(saved_at.0 - saved_at.0 % grain);
        self.went.retain(|went| went.at + window > bucket);
        self.seen = if self.went.is_empty() { 0 } else { self.seen.saturating_sub(moved) };
        for went in &mut self.went {
            went.spent = went.spent.map(|at| at - behind);
            went.at = went.spent.map_or(went.at - moved, |at| at - at % grain);
        }
        self.went.sort_by_key(|went| went.at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn no_window_admits_more_than_its_rule_allows_whenever_leases_are_spent(
        kind in prop::sample::select(SLIDING.to_vec()),
        lends in prop::sample::select(vec![LEASE, SHARE]),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let engine = engine();
        let (now, went, held) = (START * 1_000_000, Vec::new(), Vec::new());
        let (lends, count, behind, seen, floor) = (lends, 12.0, 0, 0, 0);
        let mut run = Run { kind, lends, engine, count, now, behind, seen, floor, went, held };
        run.load();
        for step in steps {
            run.step(step);
            run.kind.allows(&run.went).map_err(TestCaseError::fail)?;
        }
    }
}
