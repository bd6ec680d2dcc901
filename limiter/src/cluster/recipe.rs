//! From a rule's numbers to the parameters of its algorithm, whenever the rule or the number of
//! clients changes.

use std::time::Duration;

use super::{Namespace, limit::TOKENS_MAX, machine::Machine};
use crate::{
    Tick,
    algorithm::{
        CalendarWindow, FixedWindow, Invalid, LeakyQueue, Per, Period, SlidingLog, SlidingWarmUp,
        TokenBucket, WarmUpPacing,
    },
    rule::{Algorithm, ClusterConfig, ControlBehavior, FlowRule, ParamRule, Scope, ThresholdUnit},
    sync::Arc,
};

/// What a machine is made from: everything of a rule but its count and the number of clients.
///
/// Nearly all rules of a set have one of few, so they share it. No two rules with the same id do:
/// each set has its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recipe {
    /// With no flow id.
    config: ClusterConfig,
    behavior: ControlBehavior,
    /// How long a cold start takes.
    warm_up: Duration,
    /// Longest wait in a queue.
    longest: Duration,
    /// Factor on the count, beside the clients.
    factor: f64,
}

impl Recipe {
    /// For a flow rule, or `None` if the plain sliding window decides. `factor` is `exceedCount`.
    pub(crate) fn of_flow(rule: &FlowRule, config: &ClusterConfig, factor: f64) -> Option<Self> {
        let warm_up = Duration::from_secs(rule.warm_up_period_sec.into());
        let longest = Duration::from_millis(rule.max_queueing_time_ms.into());
        Self::of(config, rule.behavior, warm_up, longest, factor)
    }

    /// What a hot-parameter rule does with what is over its threshold. Sentinel knows no warm-up of
    /// hot parameters: the behaviours that warm up refuse.
    pub(crate) fn behavior_of_param(rule: &ParamRule) -> ControlBehavior {
        match rule.behavior {
            ControlBehavior::Pacing => ControlBehavior::Pacing,
            ControlBehavior::Reject | ControlBehavior::WarmUp | ControlBehavior::WarmUpPacing => {
                ControlBehavior::Reject
            }
        }
    }

    /// For a hot-parameter rule, or `None` if the plain sliding window decides.
    pub(crate) fn of_param(rule: &ParamRule, config: &ClusterConfig) -> Option<Self> {
        let longest = Duration::from_millis(rule.max_queueing_time_ms.into());
        Self::of(config, Self::behavior_of_param(rule), Duration::ZERO, longest, 1.0)
    }

    fn of(
        config: &ClusterConfig,
        behavior: ControlBehavior,
        warm_up: Duration,
        longest: Duration,
        factor: f64,
    ) -> Option<Self> {
        if config.algorithm == Algorithm::SlidingWindow && behavior == ControlBehavior::Reject {
            return None;
        }
        let config = ClusterConfig { flow_id: 0, ..config.clone() };
        Some(Self { config, behavior, warm_up, longest, factor })
    }

    /// How many times the count is in force now.
    #[inline]
    pub(crate) fn clients(&self, namespace: &Namespace) -> u32 {
        if self.config.scope == Scope::PerClient { namespace.connected() } else { 1 }
    }

    /// The tokens that are in force for `count`.
    pub(crate) fn threshold(&self, count: f64, clients: u32) -> f64 {
        (count * (f64::from(clients) * self.factor)).min(TOKENS_MAX)
    }

    /// The machine that holds `count` to so many clients; `None` when nothing passes.
    ///
    /// A rule was checked with its count as it stands, so all that can be too much for an algorithm
    /// is a product: more than it can count is cut to what it can, and next to nothing blocks.
    pub(crate) fn machine(
        &self,
        count: f64,
        clients: u32,
        namespace: &Namespace,
    ) -> Option<Machine> {
        let (threshold, times) = (self.threshold(count, clients), f64::from(clients) * self.factor);
        if threshold > 0.0 { self.build(threshold, times, namespace).ok() } else { None }
    }

    /// A machine that keeps account of what was used while nothing passes. Meanwhile nearly nothing
    /// drips into a bucket, and the next in line goes much later; of other algorithms the number
    /// does not matter.
    pub(crate) fn stand_in(&self, namespace: &Namespace) -> Machine {
        let count = if self.has_pace() { 1.0 / 1_024.0 } else { 1_000.0 };
        self.build(count, 1.0, namespace).unwrap_or(Machine::Never)
    }

    fn has_pace(&self) -> bool {
        use Algorithm::{Gcra, LeakyBucket, TokenBucket};
        match self.behavior {
            ControlBehavior::Pacing | ControlBehavior::WarmUpPacing => true,
            ControlBehavior::WarmUp => false,
            ControlBehavior::Reject => matches!(
                self.config.algorithm,
                TokenBucket { .. } | LeakyBucket { .. } | Gcra { .. }
            ),
        }
    }

    fn build(&self, count: f64, times: f64, namespace: &Namespace) -> Result<Machine, Invalid> {
        let config = &self.config;
        let window = Duration::from_millis(config.window.interval_ms());
        match self.behavior {
            ControlBehavior::Reject => {}
            ControlBehavior::Pacing => {
                let queue = LeakyQueue::new(config.rate(count)?, self.longest);
                return Ok(Machine::Queue(queue));
            }
            ControlBehavior::WarmUp => {
                let per = match config.unit {
                    ThresholdUnit::Sentinel => Per::Second,
                    ThresholdUnit::Window => Per::Window,
                };
                let (count, cold) = (count.min(self.warm_up_max()), config.cold_factor());
                let warm_up = SlidingWarmUp::new(count, per, config.window, self.warm_up, cold)?;
                return Ok(Machine::WarmUp(Box::new(warm_up)));
            }
            ControlBehavior::WarmUpPacing => {
                let (count, cold) = (count.min(self.warm_up_max()), config.cold_factor());
                let pacing = WarmUpPacing::new(count, self.warm_up, cold, self.longest)?;
                return Ok(Machine::WarmUpQueue(Box::new(pacing)));
            }
        }
        let tokens = config.tokens(count).min(TOKENS_MAX);
        Ok(match &config.algorithm {
            // One that only rejects has no recipe.
            Algorithm::SlidingWindow => Machine::Never,
            Algorithm::FixedWindow => Machine::Fixed(FixedWindow::new(tokens, window)?),
            Algorithm::Calendar(calendar) => {
                let calendar = CalendarWindow::new(count, (**calendar).clone())?;
                Machine::Calendar(calendar, Arc::clone(namespace.wall()))
            }
            Algorithm::SlidingLog => {
                Machine::Log(SlidingLog::new(tokens.min(SlidingLog::COUNT_MAX), window)?)
            }
            Algorithm::TokenBucket { burst }
            | Algorithm::LeakyBucket { burst }
            | Algorithm::Gcra { burst } => {
                let bucket = TokenBucket::new(config.rate(count)?, burst.of(count, times))?;
                Machine::Bucket(bucket)
            }
        })
    }

    /// The largest count that a warm-up of this length can count.
    fn warm_up_max(&self) -> f64 {
        TOKENS_MAX / self.warm_up.as_secs_f64().max(1.0)
    }
}

/// Length of the window of `config` in milliseconds; of a calendar, of the period that `now` is in.
pub(super) fn window_ms(config: &ClusterConfig, namespace: &Namespace, now: Tick) -> u64 {
    let Algorithm::Calendar(calendar) = &config.algorithm else {
        return config.window.interval_ms();
    };
    let Period { start, end } = calendar.period(namespace.wall().at(now));
    u64::try_from(end.since(start).as_millis()).unwrap_or(u64::MAX)
}

/// Recipes of a rule set that is being made, so that equal ones become one.
#[derive(Debug, Default)]
pub(super) struct Recipes(Vec<Arc<Recipe>>);

impl Recipes {
    /// How many are compared with.
    const MOST: usize = 16;

    /// The one that is equal to `recipe`, if that was among the last.
    pub(super) fn shared(&mut self, recipe: Recipe) -> Arc<Recipe> {
        if let Some(known) = self.0.iter().find(|known| ***known == recipe) {
            return Arc::clone(known);
        }
        if self.0.len() == Self::MOST {
            self.0.remove(0);
        }
        let recipe = Arc::new(recipe);
        self.0.push(Arc::clone(&recipe));
        recipe
    }
}
