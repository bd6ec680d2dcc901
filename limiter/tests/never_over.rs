//! Whatever is done to a flow, in whatever order and at whatever ticks: no window ever holds more
//! tokens than the rule allows, counted from a list of every token that was really used.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "small generated numbers"
)]

use std::time::Duration;

use limiter::{
    Ask, ClusterEngine, Decision, LeaseId, Record, Settings, Tick, What,
    rule::{Contents, NamespaceRules, merge, parse},
};
use proptest::prelude::*;

const TTL_MS: u64 = 150;
const BUCKET_MS: u64 = 100;
const BUCKETS: u64 = 10;

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        count: i32,
        prioritized: bool,
        max_wait_ms: Option<u64>,
    },
    /// Forward by so many ms, or back.
    Clock(i64),
    Lease {
        want: u32,
        spent_first: u32,
    },
    /// Spends of the youngest lease, if its time is not over.
    Spend(u32),
    /// Returns the youngest lease.
    Return,
    /// Gives back a part of an earlier request.
    GiveBack {
        which: usize,
        part: u32,
    },
    Count(u32),
    /// The rule moves, or goes, or comes back.
    Namespace(Option<bool>),
    /// Saves everything and goes on in another engine.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let max_wait = prop_oneof![3 => Just(None), 1 => (0_u64..120).prop_map(Some)];
    prop_oneof![
        12 => (1_i32..5, any::<bool>(), max_wait).prop_map(|(count, prioritized, max_wait_ms)| {
            Step::Acquire { count, prioritized, max_wait_ms }
        }),
        8 => (0_i64..160).prop_map(Step::Clock),
        1 => (160_i64..5_000).prop_map(Step::Clock),
        1 => (-700_i64..0).prop_map(Step::Clock),
        3 => (0_u32..9, 0_u32..9).prop_map(|(want, spent_first)| Step::Lease { want, spent_first }),
        4 => (1_u32..6).prop_map(Step::Spend),
        1 => Just(Step::Return),
        2 => (any::<usize>(), 1_u32..4).prop_map(|(which, part)| Step::GiveBack { which, part }),
        1 => (0_u32..20).prop_map(Step::Count),
        1 => prop::option::of(any::<bool>()).prop_map(Step::Namespace),
        1 => Just(Step::Restart),
    ]
}

fn rules(count: u32, namespace: Option<bool>, lease: bool) -> Vec<NamespaceRules> {
    let Some(other) = namespace else { return Vec::new() };
    let name = if other { "b" } else { "a" };
    let lease = if lease {
        format!(r#","lease":{{"maxTokens":6,"ttlMs":{TTL_MS}}}"#)
    } else {
        String::new()
    };
    let text = format!(
        r#"[{{"resource":"f","count":{count},"clusterMode":true,
            "clusterConfig":{{"flowId":1,"thresholdType":1{lease}}}}}]"#
    );
    merge(vec![parse(&text, "test", name, Contents::Mixed, true).unwrap()]).unwrap()
}

fn engine() -> ClusterEngine {
    ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() })
}

/// One lease as its client sees it.
struct Purse {
    id: LeaseId,
    left: u32,
    spent: u32,
    until: u64,
}

/// Tokens that were really used: bucket and number.
#[derive(Default)]
struct Truth(Vec<(u64, u64)>);

impl Truth {
    fn used(&mut self, ms: u64, count: u64) {
        self.0.push((ms / BUCKET_MS, count));
    }

    /// Most tokens in a run of buckets.
    fn fullest(&self) -> u64 {
        let in_window = |first: u64| {
            let window = first..first + BUCKETS;
            self.0.iter().filter(|(bucket, _)| window.contains(bucket)).map(|(_, n)| n).sum()
        };
        self.0.iter().map(|(bucket, _)| in_window(*bucket)).max().unwrap_or(0)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_window_holds_more_than_the_highest_count_that_was_in_force(
        start in 1_000_000_u64..1_001_000,
        has_leases in any::<bool>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let (mut engine, mut truth) = (engine(), Truth::default());
        let (mut count, mut namespace, mut most) = (10, Some(false), 10);
        engine.replace(rules(count, namespace, has_leases)).unwrap();
        // `now` may step back; the time that the flow has seen does not.
        let (mut now, mut latest) = (start, 0);
        let mut purses: Vec<Purse> = Vec::new();
        let mut taken: Vec<(usize, u64)> = Vec::new();
        for step in steps {
            if namespace.is_some() && !matches!(step, Step::Clock(_)) {
                latest = latest.max(now);
                let peek = Ask { peek: true, ..Ask::default() };
                engine.snapshot().ask(Tick::from_ms(now), &What::Flow { id: 1, count: 1 }, peek).unwrap();
            }
            match step {
                Step::Clock(by) => now = now.saturating_add_signed(by),
                Step::Count(to) => {
                    (count, most) = (to, most.max(to));
                    engine.replace(rules(count, namespace, has_leases)).unwrap();
                }
                Step::Namespace(to) => {
                    namespace = to;
                    engine.replace(rules(count, namespace, has_leases)).unwrap();
                }
                Step::Restart => {
                    let mut records: Vec<Record> = Vec::new();
                    engine.save(Tick::from_ms(latest), |record| {
                        records.push(record);
                        Ok::<(), ()>(())
                    }).unwrap();
                    engine = self::engine();
                    engine.restore(Tick::from_ms(latest), Tick::from_ms(latest), records);
                    engine.replace(rules(count, namespace, has_leases)).unwrap();
                    // A clock that starts again does not start before the last one's end.
                    now = now.max(latest);
                }
                Step::Acquire { count, prioritized, max_wait_ms } => {
                    let max_wait = max_wait_ms.map(Duration::from_millis);
                    let ask = Ask { prioritized, peek: false, max_wait };
                    let what = What::Flow { id: 1, count };
                    let asked = engine.snapshot().ask(Tick::from_ms(now), &what, ask);
                    let tokens = u64::from(count.unsigned_abs());
                    match asked.map(|explained| explained.decision) {
                        Ok(Decision::Pass { .. }) => {
                            taken.push((truth.0.len(), now));
                            truth.used(latest, tokens);
                        }
                        Ok(Decision::Wait { wait }) => {
                            prop_assert!(prioritized && max_wait.is_none_or(|max| wait <= max));
                            taken.push((truth.0.len(), now));
                            truth.used(latest + BUCKET_MS, tokens);
                        }
                        Ok(Decision::Block) | Err(_) => {}
                    }
                }
                Step::Lease { want, spent_first } => {
                    let returned = purses.pop().map(|mut purse| {
                        spend(&mut purse, spent_first, latest, &mut truth);
                        (purse.id, purse.spent)
                    });
                    let leased = engine.snapshot().lease(Tick::from_ms(now), 1, want, returned);
                    if let Ok(Ok(leased)) = leased
                        && let Some(id) = leased.id
                    {
                        prop_assert!(leased.granted <= want.min(6));
                        // Counted from when it was sent: at the tick that the server saw, or before.
                        let until = now + leased.ttl.as_millis() as u64;
                        purses.push(Purse { id, left: leased.granted, spent: 0, until });
                    }
                }
                Step::Spend(count) => {
                    if let Some(purse) = purses.last_mut() {
                        spend(purse, count, latest, &mut truth);
                    }
                }
                Step::Return => {
                    let returned = purses.pop().map(|purse| (purse.id, purse.spent));
                    let _no_rule = engine.snapshot().lease(Tick::from_ms(now), 1, 0, returned);
                }
                Step::GiveBack { which, part } => {
                    if taken.is_empty() || namespace.is_none() {
                        continue;
                    }
                    let (index, at) = taken.swap_remove(which % taken.len());
                    let back = truth.0[index].1.min(u64::from(part));
                    let age = Duration::from_millis(now.saturating_sub(at));
                    let what = What::Flow { id: 1, count: back as i32 };
                    engine.snapshot().give_back(Tick::from_ms(now), &what, age).unwrap();
                    truth.0[index].1 -= back;
                }
            }
            prop_assert!(truth.fullest() <= u64::from(most), "{} of {most}", truth.fullest());
        }
    }
}

/// Spends what the lease has left, while its time is not over.
fn spend(purse: &mut Purse, count: u32, now: u64, truth: &mut Truth) {
    let count = count.min(purse.left);
    if now < purse.until && count > 0 {
        (purse.left, purse.spent) = (purse.left - count, purse.spent + count);
        truth.used(now, count.into());
    }
}
