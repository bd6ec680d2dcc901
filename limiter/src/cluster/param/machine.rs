//! Hot-parameter rules that are decided by an algorithm other than the plain sliding window.

use std::time::Duration;

use super::{Asked, ParamFlow, Used};
use crate::{
    Tick, Undecided,
    algorithm::Verdict,
    cluster::{
        Ask, Namespace,
        key::{KeyRef, Param},
        machine::{Machine, NEVER},
        recipe::Recipe,
        values::{Gauge, Tally, Tuned},
    },
    sync::Arc,
};

/// The machines of one rule: one for each of its counts. A value keeps the one that it was used
/// under last, and is brought to the new one when it is next asked for.
#[derive(Debug)]
pub(crate) struct Machines {
    recipe: Arc<Recipe>,
    clients: u32,
    of_counts: Box<[OfCount]>,
}

/// The machine of one count.
#[derive(Clone, Debug)]
pub(crate) struct OfCount {
    pub(crate) machine: Arc<Machine>,
    /// Nothing passes: the threshold is zero. The machine stands in, for values without one.
    pub(crate) is_shut: bool,
}

impl Machines {
    pub(super) fn new(
        recipe: &Arc<Recipe>,
        counts: &[f64],
        clients: u32,
        namespace: &Namespace,
    ) -> Self {
        let of_count = |count: &f64| {
            let machine = recipe.machine(*count, clients, namespace);
            let is_shut = machine.is_none();
            let machine = Arc::new(machine.unwrap_or_else(|| recipe.stand_in(namespace)));
            OfCount { machine, is_shut }
        };
        let of_counts = counts.iter().map(of_count).collect();
        Self { recipe: Arc::clone(recipe), clients, of_counts }
    }

    /// The machine of the rule's count at `index`.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the rule's own count is the first")]
    pub(crate) fn get(&self, index: u32) -> &OfCount {
        self.of_counts.get(index as usize).unwrap_or(&self.of_counts[0])
    }
}

impl ParamFlow {
    /// What the rule says, as [`weigh`](Self::weigh).
    pub(super) fn weigh_by_machines<'a>(
        &self,
        used: &mut Used,
        recipe: &Arc<Recipe>,
        now: Tick,
        count: u64,
        ask: Ask,
        params: impl Iterator<Item = Param<'a>>,
    ) -> Result<Verdict, Undecided> {
        self.tune(used, recipe);
        let Used { values, machines: Some(machines), asked_at, .. } = used else {
            return Err(Undecided::BadRequest);
        };
        let gauge = Gauge::Machines(machines);
        asked_at.clear();
        let mut sum = Verdict::Pass { remaining: u64::MAX };
        for param in params {
            let key = KeyRef::of(&param);
            let own = self.own(key);
            let (at, is_new) = values.locate(key, gauge, now, &self.room, own.is_some());
            let index = own.map_or(0, |own| own.index);
            let counter = values.counter(at, gauge, index, now);
            counter.asked += count;
            let verdict = match &counter.tally {
                Tally::Tuned(Tuned { machine, state, .. }) if !machines.get(index).is_shut => {
                    machine.peek(state, now, counter.asked, ask.max_wait)
                }
                Tally::Tuned(_) | Tally::Ring(_) => NEVER,
            };
            asked_at.push(Asked { at, index, is_new });
            sum = both(sum, verdict);
        }
        if asked_at.is_empty() {
            return Err(Undecided::BadRequest);
        }
        Ok(sum)
    }

    /// Brings the machines to the rule and to the clients there are.
    #[inline]
    pub(super) fn tune(&self, used: &mut Used, recipe: &Arc<Recipe>) {
        let clients = recipe.clients(&self.namespace);
        let is_tuned = used.machines.as_ref().is_some_and(|machines| {
            machines.clients == clients && Arc::ptr_eq(&machines.recipe, recipe)
        });
        if !is_tuned {
            let machines = Machines::new(recipe, &self.counts, clients, &self.namespace);
            used.machines = Some(Box::new(machines));
        }
    }
}

/// What comes of two values of one request: the worse.
fn both(a: Verdict, b: Verdict) -> Verdict {
    match (a, b) {
        (Verdict::Block { retry: a }, Verdict::Block { retry: b }) => {
            Verdict::Block { retry: longest(a, b) }
        }
        (block @ Verdict::Block { .. }, _) | (_, block @ Verdict::Block { .. }) => block,
        (Verdict::Wait { wait: a }, Verdict::Wait { wait: b }) => Verdict::Wait { wait: a.max(b) },
        (wait @ Verdict::Wait { .. }, _) | (_, wait @ Verdict::Wait { .. }) => wait,
        (Verdict::Pass { remaining: a }, Verdict::Pass { remaining: b }) => {
            Verdict::Pass { remaining: a.min(b) }
        }
    }
}

/// The longest of the times, `None` standing for never.
pub(super) fn longest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.zip(b).map(|(a, b)| a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ClusterEngine, Decision, Settings, What,
        cluster::values::At,
        rule::{Contents, merge, parse},
        sync::lock,
    };

    const BOUND: u64 = 1 << 18;

    fn engine(count: u32) -> ClusterEngine {
        let text = format!(
            r#"[{{"resource":"r","paramIdx":0,"count":{count},"clusterMode":true,
                "clusterConfig":{{"flowId":1,"thresholdType":1,"algorithm":"slidingLog"}}}}]"#
        );
        let settings =
            Settings { values_bytes_max: BOUND, max_allowed_qps: None, ..Settings::default() };
        let engine = ClusterEngine::new(settings);
        let parsed = parse(&text, "test", "ns", Contents::Mixed, true).unwrap();
        engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        engine
    }

    /// What the rule's logs allocate, and what the account of the engine says in all.
    fn bytes(engine: &ClusterEngine) -> (u64, u64) {
        let rules = engine.rules();
        let param = rules.param(1).unwrap();
        let (mut logs, used) = (0, lock(&param.counter.0));
        used.values.each(0, u32::MAX, |_, counter| logs += counter.heap_bytes());
        (logs + used.values.peek(At::Shared).heap_bytes(), param.room.used())
    }

    fn passes(engine: &ClusterEngine, ms: u64, value: i64) -> bool {
        let decided = engine.rules().acquire_param(Tick::from_ms(ms), 1, 1, [Param::Long(value)]);
        decided.unwrap() != Decision::Block
    }

    #[test]
    fn a_flood_that_grows_logs_stays_within_the_bound_and_within_the_count() {
        // Each at 500 ticks: three times as much as there is room for.
        const VALUES: usize = 100;
        let engine = engine(500);
        let mut passed = vec![Vec::new(); VALUES];
        for ms in (10_000..13_000).step_by(2) {
            for (value, passed) in (0..).zip(&mut passed) {
                if passes(&engine, ms, value) {
                    passed.push(ms);
                }
            }
            let (logs, account) = bytes(&engine);
            assert!(logs <= account && account <= BOUND, "{logs} {account} at {ms}");
        }
        assert_eq!(engine.rules().param(1).unwrap().totals().values, VALUES);
        for passed in &passed {
            assert_eq!(passed.iter().filter(|ms| **ms < 11_000).count(), 500, "the first window");
            let is_within = |run: &[u64]| run[500] - run[0] >= 1_000;
            assert!(passed.windows(501).all(is_within));
            // Half of what there might be in three windows, at the worst.
            assert!(passed.len() >= 750, "{}", passed.len());
        }
        // Of whom few are left, much is given back.
        for (value, _) in (0..).zip(&passed) {
            assert!(passes(&engine, 20_000, value));
        }
        let (logs, account) = bytes(&engine);
        assert!(logs <= account && account < 100 * (176 + 32 + 128) * 2, "{logs} {account}");
        engine.tidy(Tick::from_ms(30_000), std::time::UNIX_EPOCH);
        assert_eq!(bytes(&engine).1, 0);
    }

    #[test]
    fn what_is_charged_or_reset_is_in_the_account_too() {
        let engine = engine(500);
        let what = What::Param { id: 1, count: 3, values: &[Param::Long(7)] };
        for ms in 0..100 {
            engine.rules().charge(Tick::from_ms(ms), &what).unwrap();
        }
        let (logs, account) = bytes(&engine);
        assert!(logs >= 1_600 && logs <= account, "{logs} {account}");
        engine.rules().reset(Tick::from_ms(100), &what).unwrap();
        assert_eq!(account - bytes(&engine).1, 128 * 16 - 64, "as one that was hardly used");
    }
}
