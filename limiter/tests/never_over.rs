//! Whatever is done to a flow, in whatever order and at whatever ticks: no window ever holds more
//! tokens than the rule allowed when the last of them was admitted, counted from a list of every
//! token that was really used.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "small generated numbers"
)]

use std::time::{Duration, UNIX_EPOCH};

use limiter::{
    Ask, ClusterEngine, Decision, LeaseId, Record, Settings, Tick, What,
    rule::{Contents, NamespaceRules, merge, parse},
};
use proptest::prelude::*;

const TTL_MS: u64 = 150;

/// A window in milliseconds, and its buckets.
type Shape = (u64, u64);

const SHAPES: [Shape; 5] = [(1_000, 10), (1_000, 1), (600, 2), (300, 3), (2_000, 20)];

#[derive(Clone, Copy, Debug)]
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
    /// Another window, in which a flow begins anew.
    Window(Shape),
    /// The rule grants leases from now on, or no longer.
    Lends(Lends),
    /// The rule moves, or goes, or comes back.
    Namespace(Option<bool>),
    /// Saves everything and goes on in another engine.
    Restart,
    /// Forgets what does not count any more.
    Tidy,
}

fn step() -> impl Strategy<Value = Step> {
    let max_wait = prop_oneof![3 => Just(None), 1 => (0_u64..400).prop_map(Some)];
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
        2 => (0_u32..20).prop_map(Step::Count),
        1 => prop::sample::select(SHAPES.to_vec()).prop_map(Step::Window),
        1 => prop::sample::select(Lends::ALL.to_vec()).prop_map(Step::Lends),
        1 => prop::option::of(any::<bool>()).prop_map(Step::Namespace),
        1 => Just(Step::Restart),
        1 => Just(Step::Tidy),
    ]
}

/// Whether the rule grants leases: of up to 6 tokens, or of a client's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lends {
    No,
    Own,
    Share,
}

impl Lends {
    const ALL: [Self; 3] = [Self::No, Self::Own, Self::Share];

    /// Fields of `clusterConfig`.
    fn fields(self) -> String {
        match self {
            Self::No => String::new(),
            Self::Own => format!(r#","lease":{{"maxTokens":6,"ttlMs":{TTL_MS}}}"#),
            Self::Share => r#","overloadPolicy":"share""#.to_owned(),
        }
    }

    /// The largest lease that a rule with `count` grants the only client there is.
    fn most(self, count: u32) -> u32 {
        match self {
            Self::No => 0,
            Self::Own => 6,
            Self::Share => count.max(1),
        }
    }
}

/// The rule, as it is to be in force.
#[derive(Clone, Copy)]
struct Rule {
    count: u32,
    shape: Shape,
    lends: Lends,
    /// `None`: there is no rule.
    namespace: Option<bool>,
}

impl Rule {
    fn load(self, engine: &ClusterEngine) {
        engine.replace(self.parsed()).unwrap();
    }

    fn parsed(self) -> Vec<NamespaceRules> {
        let Self { count, shape: (ms, buckets), lends, namespace } = self;
        let Some(other) = namespace else { return Vec::new() };
        let name = if other { "b" } else { "a" };
        let lease = lends.fields();
        let text = format!(
            r#"[{{"resource":"f","count":{count},"clusterMode":true,"clusterConfig":{{
                "flowId":1,"thresholdType":1,"thresholdUnit":"window",
                "windowIntervalMs":{ms},"sampleCount":{buckets}{lease}}}}}]"#
        );
        merge(vec![parse(&text, "test", name, Contents::Mixed, true).unwrap()]).unwrap()
    }
}

fn engine() -> ClusterEngine {
    ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() })
}

/// When tokens were admitted, in the order of all of them, and the count in force then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Admitted {
    order: usize,
    count: u32,
}

/// One lease as its client sees it.
struct Purse {
    id: LeaseId,
    admitted: Admitted,
    left: u32,
    spent: u32,
    until: u64,
}

/// Tokens that were really used in the window that there is: when, how many, and how they came.
#[derive(Default)]
struct Truth(Vec<(u64, u64, Admitted)>);

impl Truth {
    fn used(&mut self, ms: u64, tokens: u64, admitted: Admitted) {
        self.0.push((ms, tokens, admitted));
    }

    /// The tokens of every run of buckets that begins with one, and the count that was in force when
    /// the last of them was admitted. None is admitted into a full window, so they are no more.
    fn windows(&self, (ms, buckets): Shape) -> impl Iterator<Item = (u64, u32)> {
        let bucket = move |at: u64| at * buckets / ms;
        self.0.iter().map(move |(first, ..)| {
            let window = bucket(*first)..bucket(*first) + buckets;
            let within = self.0.iter().filter(|(at, n, _)| *n > 0 && window.contains(&bucket(*at)));
            let last = within.clone().map(|(.., admitted)| admitted).max();
            (within.map(|(_, n, _)| n).sum(), last.map_or(0, |last| last.count))
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_window_holds_more_than_was_in_force_when_its_last_token_was_admitted(
        start in 1_000_000_u64..1_001_000,
        lends in prop::sample::select(Lends::ALL.to_vec()),
        shape in prop::sample::select(SHAPES.to_vec()),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let (mut engine, mut truth) = (engine(), Truth::default());
        let mut rule = Rule { count: 10, shape, lends, namespace: Some(false) };
        rule.load(&engine);
        // The window that the flow was counted in last.
        let mut counted = shape;
        // `now` may step back; the time that the flow has seen does not. Nor does that of a flow
        // whose counter is another one: none remembers the time for it.
        let (mut now, mut latest, mut floor) = (start, 0, 0);
        let mut purses: Vec<Purse> = Vec::new();
        let mut taken: Vec<(usize, u64)> = Vec::new();
        for (order, step) in steps.into_iter().enumerate() {
            if rule.namespace.is_some() && !matches!(step, Step::Clock(_)) {
                latest = latest.max(now);
                let peek = Ask { peek: true, ..Ask::default() };
                engine.snapshot().ask(Tick::from_ms(now), &What::Flow { id: 1, count: 1 }, peek).unwrap();
            }
            let admitted = Admitted { order, count: rule.count };
            let uses = truth.0.len();
            let bucket_ms = rule.shape.0 / rule.shape.1;
            match step {
                Step::Clock(by) => now = now.saturating_add_signed(by).max(floor),
                Step::Count(count) => rule.count = count,
                Step::Window(shape) => rule.shape = shape,
                Step::Lends(lends) => rule.lends = lends,
                Step::Namespace(namespace) => rule.namespace = namespace,
                Step::Tidy => {
                    now = now.max(latest);
                    floor = now;
                    engine.tidy(Tick::from_ms(now), UNIX_EPOCH + Duration::from_millis(now));
                }
                Step::Restart => {
                    let mut records: Vec<Record> = Vec::new();
                    engine.save(Tick::from_ms(latest), |record| {
                        records.push(record);
                        Ok::<(), ()>(())
                    }).unwrap();
                    engine = self::engine();
                    engine.restore(Tick::from_ms(latest), Tick::from_ms(latest), records);
                    rule.load(&engine);
                    // A clock that starts again does not start before the last one's end.
                    now = now.max(latest);
                    floor = now;
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
                            truth.used(latest, tokens, admitted);
                        }
                        Ok(Decision::Wait { wait }) => {
                            prop_assert!(prioritized && max_wait.is_none_or(|max| wait <= max));
                            taken.push((truth.0.len(), now));
                            truth.used(latest + bucket_ms, tokens, admitted);
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
                        prop_assert!(leased.granted <= want.min(rule.lends.most(rule.count)));
                        // Counted from when it was sent: at the tick that the server saw, or before.
                        let until = now + leased.ttl.as_millis() as u64;
                        purses.push(Purse { id, admitted, left: leased.granted, spent: 0, until });
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
                    if taken.is_empty() || rule.namespace.is_none() {
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
            if matches!(
                step,
                Step::Count(_) | Step::Window(_) | Step::Lends(_) | Step::Namespace(_)
            ) {
                rule.load(&engine);
            }
            if rule.namespace.is_some() && rule.shape != counted {
                // What was taken before does not count, and nothing of it can be given back; what
                // is on lease counts on.
                counted = rule.shape;
                (truth, taken) = (Truth::default(), Vec::new());
                now = now.max(latest);
                floor = now;
            }
            if truth.0.len() > uses {
                for (tokens, most) in truth.windows(counted) {
                    prop_assert!(tokens <= u64::from(most), "{tokens} of {most} after {order}");
                }
            }
        }
    }
}

/// Spends what the lease has left, while its time is not over.
fn spend(purse: &mut Purse, count: u32, now: u64, truth: &mut Truth) {
    let count = count.min(purse.left);
    if now < purse.until && count > 0 {
        (purse.left, purse.spent) = (purse.left - count, purse.spent + count);
        truth.used(now, count.into(), purse.admitted);
    }
}
