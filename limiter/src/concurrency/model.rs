//! The store against a slow model: a list of every token ever taken, with its end.

use std::num::NonZeroU64;

use proptest::prelude::*;

use super::*;
use crate::{Tick, sync::Arc};

/// Homes of the levels: two share a shard, one is alone.
const HOMES: [usize; 3] = [0, 0, 1];
/// Whose they are: two of them are one tenant's, in two shards.
const TENANTS: [usize; 3] = [0, 1, 1];
const TIMEOUTS_MS: [u32; 5] = [0, 1, 5, 20, 1_000];

#[derive(Clone, Debug)]
enum Step {
    /// Nanoseconds forward, or back.
    Clock(i64),
    Acquire {
        level: usize,
        threshold: f64,
        hold: Hold,
    },
    /// Of a token taken earlier, held or not; one in many names none.
    Release(usize),
    Renew(usize, OwnerId),
    OwnerGone(OwnerId),
    Expire,
}

#[derive(Debug)]
struct Taken {
    level: usize,
    hold: Hold,
    owner: Option<OwnerId>,
    ends: u64,
    released: bool,
}

#[derive(Debug, Default)]
struct Model {
    tokens: Vec<Taken>,
    /// The last tick that each shard saw.
    now: [u64; 2],
}

impl Model {
    fn see(&mut self, level: usize, now: u64) -> u64 {
        let seen = &mut self.now[HOMES[level]];
        *seen = now.max(*seen);
        *seen
    }

    fn held(&self) -> impl Iterator<Item = &Taken> {
        self.tokens.iter().filter(|t| !t.released && t.ends > self.now[HOMES[t.level]])
    }

    fn held_by(&self, tenant: usize) -> u64 {
        self.held().filter(|t| TENANTS[t.level] == tenant).count() as u64
    }

    fn in_use(&self, level: usize) -> u64 {
        self.held().filter(|t| t.level == level).map(|t| u64::from(t.hold.count)).sum()
    }

    /// `Err` when no more are free than the tenant holds.
    fn acquire(
        &mut self,
        now: u64,
        level: usize,
        threshold: f64,
        hold: Hold,
        max: usize,
    ) -> Result<bool, ()> {
        let now = self.see(level, now);
        if (self.in_use(level) + u64::from(hold.count)) as f64 > threshold {
            return Ok(false);
        }
        let live = || self.tokens.iter().filter(|t| !t.released && t.ends > now);
        let held = live().filter(|t| TENANTS[t.level] == TENANTS[level]).count();
        if held >= max - live().count() {
            return Err(());
        }
        let ends = now + u64::from(hold.resource_timeout_ms) * 1_000_000;
        self.tokens.push(Taken { level, hold, owner: Some(hold.owner), ends, released: false });
        Ok(true)
    }

    fn token(&mut self, now: u64, which: usize) -> Option<(u64, &mut Taken)> {
        let level = self.tokens[which].level;
        let now = self.see(level, now);
        Some((now, &mut self.tokens[which])).filter(|(now, t)| !t.released && t.ends > *now)
    }

    fn owner_gone(&mut self, now: u64, owner: OwnerId) {
        self.see_all(now);
        for token in &mut self.tokens {
            if token.owner == Some(owner) {
                let offline = u64::from(token.hold.client_offline_ms) * 1_000_000;
                token.owner = None;
                token.ends = token.ends.min(self.now[HOMES[token.level]] + offline);
            }
        }
    }

    fn see_all(&mut self, now: u64) {
        self.now = self.now.map(|seen| seen.max(now));
    }
}

fn owner() -> impl Strategy<Value = OwnerId> {
    (1_u64..4).prop_map(|n| OwnerId(NonZeroU64::new(n).unwrap()))
}

fn step() -> impl Strategy<Value = Step> {
    let timeout = || prop::sample::select(TIMEOUTS_MS.to_vec());
    let hold = (0_u32..4, owner(), timeout(), timeout()).prop_map(
        |(count, owner, resource_timeout_ms, client_offline_ms)| Hold {
            count,
            owner,
            resource_timeout_ms,
            client_offline_ms,
        },
    );
    prop_oneof![
        4 => (0_i64..1_500_000).prop_map(Step::Clock),
        1 => (0_i64..30_000_000).prop_map(Step::Clock),
        1 => (-30_000_000_i64..0).prop_map(Step::Clock),
        1 => (0_i64..2_000_000_000).prop_map(Step::Clock),
        12 => (0_usize..3, 0_u32..17, hold).prop_map(|(level, halves, hold)| {
            Step::Acquire { level, threshold: f64::from(halves) / 2.0, hold }
        }),
        6 => (0_usize..300).prop_map(Step::Release),
        4 => (0_usize..300, owner()).prop_map(|(which, owner)| Step::Renew(which, owner)),
        1 => owner().prop_map(Step::OwnerGone),
        2 => Just(Step::Expire),
    ]
}

/// Plays `steps`; with `forward` a clock step back is one forward, since at the bound on live
/// tokens the shards' clocks depend on which of them holds tokens that are due.
fn play(max: usize, forward: bool, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let tokens = Concurrency::new(max as u64, 42);
    let tenants = [Arc::new(Tenant::default()), Arc::default()];
    let level = |level: usize| Level::new(HOMES[level], Arc::clone(&tenants[TENANTS[level]]));
    let levels = [0, 1, 2].map(|it| Arc::new(level(it)));
    let mut model = Model::default();
    let mut ids: Vec<TokenId> = Vec::new();
    let mut now = 1_000_000_000_u64;
    for step in steps {
        let at = Tick(now);
        if forward {
            model.see_all(now);
        }
        match step {
            Step::Clock(by) if forward => now += by.unsigned_abs(),
            Step::Clock(by) => now = now.saturating_add_signed(by),
            Step::Acquire { level, threshold, hold } => {
                let ours = tokens.acquire(at, &levels[level], threshold, hold);
                let slow = model.acquire(now, level, threshold, hold, max);
                prop_assert_eq!(ours.map(|id| id.is_some()).map_err(|_| ()), slow);
                if let Ok(Some(id)) = ours {
                    prop_assert!(id.0 > 0 && !ids.contains(&id));
                    prop_assert!(levels[level].in_use() as f64 <= threshold, "above the level");
                    ids.push(id);
                } else if ours.is_ok() {
                    prop_assert_eq!(levels[level].in_use(), model.in_use(level));
                }
            }
            Step::Release(which) if which < ids.len() => {
                let slow = match model.token(now, which) {
                    Some((_, token)) => {
                        token.released = true;
                        Released::Ok
                    }
                    None => Released::AlreadyReleased,
                };
                prop_assert_eq!(tokens.release(at, ids[which]), slow);
            }
            Step::Renew(which, owner) if which < ids.len() => {
                let slow = model.token(now, which).map(|(now, token)| {
                    token.ends = now + u64::from(token.hold.resource_timeout_ms) * 1_000_000;
                    token.owner = Some(owner);
                });
                prop_assert_eq!(tokens.renew(at, ids[which], owner), slow.is_some());
            }
            // Ids made up: their home is one that no level has.
            Step::Release(which) | Step::Renew(which, _) => {
                let id = TokenId(i64::try_from(which).unwrap() << 30 | 9);
                prop_assert_eq!(tokens.release(at, id), Released::AlreadyReleased);
            }
            Step::OwnerGone(owner) => {
                tokens.owner_gone(at, owner);
                model.owner_gone(now, owner);
            }
            Step::Expire => {
                tokens.expire(at);
                model.see_all(now);
                for (level, ours) in levels.iter().enumerate() {
                    prop_assert_eq!(ours.in_use(), model.in_use(level));
                }
                prop_assert_eq!(tokens.live(), model.held().count() as u64);
                let held = [0, 1].map(|tenant| model.held_by(tenant));
                prop_assert_eq!([tenants[0].held(), tenants[1].held()], held);
                prop_assert_eq!(tokens.next_expiry(), model.held().map(|t| Tick(t.ends)).min());
            }
        }
        for (level, ours) in levels.iter().enumerate() {
            prop_assert!(ours.in_use() >= model.in_use(level), "forgotten");
        }
        prop_assert!(tokens.live() <= max as u64);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_answers_as_the_model(steps in prop::collection::vec(step(), 1..200)) {
        play(1_000, false, steps)?;
    }

    #[test]
    fn any_sequence_at_the_bound_answers_as_the_model(
        max in 0_usize..9,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        play(max, true, steps)?;
    }
}
