//! What a client enforces by itself while no server decides: one rule, counted in one process.
//!
//! | limit            | count                               | window                          |
//! |------------------|-------------------------------------|---------------------------------|
//! | own              | `localCount`                        | one second                      |
//! | own, without it  | the rule's count                    | as below, without clients       |
//! | share, global    | the rule's count through clients    | `thresholdUnit: window`: the    |
//! | share, a client  | the rule's count                    | rule's, otherwise one second    |
//!
//! Algorithm, windows, `controlBehavior` and comparison are those of [`Flow`] and [`ParamFlow`],
//! since it is they that decide; a `localCount` has no algorithm of its own. A grade 0 rule is
//! counted as calls per second, as a server does for such a request.

use std::time::Duration;

use super::{
    Ask, Flow, Namespace, Param, ParamFlow, Settings, counting::Counting, namespace::Namespaces,
    recipe::Recipe, values::Room,
};
use crate::{
    Decision, INTERVAL_MS_MAX, Tick, WindowShape,
    rule::{Algorithm, ClusterConfig, FlowRule, ParamItem, ParamRule, Scope, ThresholdUnit},
    sync::Arc,
};

/// How much of a rule one client may use by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalLimit {
    /// `localCount` per second, or the whole rule where there is none
    /// ([`FallbackPolicy::Local`](crate::rule::FallbackPolicy::Local)).
    Own,
    /// An equal part of what the server would grant to all clients together
    /// ([`FallbackPolicy::Share`](crate::rule::FallbackPolicy::Share)).
    Share {
        /// Clients that share the rule; 0 counts as 1.
        clients: u32,
    },
}

/// A flow rule as one client enforces it.
#[derive(Debug)]
pub struct LocalFlow(Flow);

impl LocalFlow {
    /// The rule under `limit`; `None` for a rule without cluster configuration. What `before` has
    /// counted is kept if it is counted in the same way.
    #[must_use]
    pub fn new(rule: &FlowRule, limit: LocalLimit, before: Option<&Self>) -> Option<Self> {
        let (config, count) = alone(rule.cluster.as_ref()?, rule.count, limit);
        let inherited =
            before.map(|before| before.0.bequeath(&Counting::of(&config, rule.behavior)));
        let rule = FlowRule { count, cluster: Some(config.clone()), ..rule.clone() };
        let inherited = inherited.unwrap_or_default();
        let namespace = namespace();
        let recipe = Recipe::of_flow(&rule, &config, namespace.exceed_count()).map(Arc::new);
        Some(Self(Flow::new(rule, &config, namespace, recipe, inherited)))
    }

    /// Takes `count` tokens, now or, where `controlBehavior` paces, after a wait of at most
    /// `maxQueueingTimeMs` and `max_wait` (`None`: any). A refusal takes nothing.
    #[must_use]
    pub fn acquire(&self, now: Tick, count: u32, max_wait: Option<Duration>) -> Decision {
        let ask = Ask { max_wait, ..Ask::default() };
        self.0.decide(&mut self.0.lock(), now, count.into(), ask).into()
    }

    /// Counts tokens that a server granted, so that they are not granted here a second time.
    pub fn granted(&self, now: Tick, count: u32) {
        self.0.charge(now, count);
    }
}

/// A hot-parameter rule as one client enforces it.
#[derive(Debug)]
pub struct LocalParam(ParamFlow);

impl LocalParam {
    /// As [`LocalFlow::new`]. Items with a count of their own share it like the rule's count, and
    /// keep it beside a `localCount`. Without one the window is `durationInSec`, as in Sentinel's
    /// local check.
    #[must_use]
    pub fn new(rule: &ParamRule, limit: LocalLimit, before: Option<&Self>) -> Option<Self> {
        let cluster = rule.cluster.as_ref()?;
        let (mut config, count) = alone(cluster, rule.count, limit);
        if limit == LocalLimit::Own
            && cluster.local_count().is_none()
            && cluster.unit == ThresholdUnit::Sentinel
        {
            let ms = rule.duration_sec.saturating_mul(1_000).min(INTERVAL_MS_MAX);
            config.window = WindowShape::new(ms, 10).unwrap_or(WindowShape::SECOND);
        }
        let item_count = |own: f64| match limit {
            LocalLimit::Own => own,
            LocalLimit::Share { .. } => alone(cluster, own, limit).1,
        };
        let items = rule
            .items
            .iter()
            .map(|item| ParamItem { value: item.value.clone(), count: item_count(item.count) });
        let items = items.collect();
        let rule = ParamRule { count, items, cluster: Some(config.clone()), ..rule.clone() };
        let counting = Counting::of(&config, Recipe::behavior_of_param(&rule));
        let before = before.map(|before| &before.0);
        let room = before.map_or_else(|| Room::new(&settings()), |before| before.room().clone());
        let before = before.filter(|before| before.counting() == counting);
        let counter = before.map(ParamFlow::counter).unwrap_or_default();
        let recipe = Recipe::of_param(&rule, &config).map(Arc::new);
        Some(Self(ParamFlow::new(rule, &config, room, namespace(), recipe, counter)))
    }

    /// As [`LocalFlow::acquire`], of each value, all or none. No value at all is refused.
    #[must_use]
    pub fn acquire<'a>(
        &self,
        now: Tick,
        count: u32,
        max_wait: Option<Duration>,
        params: impl Iterator<Item = Param<'a>>,
    ) -> Decision {
        let ask = Ask { max_wait, ..Ask::default() };
        self.0.acquire(now, count, ask, params).unwrap_or(Decision::Block)
    }

    /// As [`LocalFlow::granted`], for each value.
    pub fn granted<'a>(&self, now: Tick, count: u32, params: impl Iterator<Item = Param<'a>>) {
        self.0.charge(now, count, params);
    }
}

/// The configuration and the count under which a rule is checked by one client.
fn alone(config: &ClusterConfig, count: f64, limit: LocalLimit) -> (ClusterConfig, f64) {
    let second = (WindowShape::SECOND, ThresholdUnit::Window);
    let of_rule = match config.unit {
        ThresholdUnit::Sentinel => second,
        ThresholdUnit::Window => (config.window, ThresholdUnit::Window),
    };
    let algorithm = match limit {
        LocalLimit::Own if config.local_count().is_some() => Algorithm::SlidingWindow,
        LocalLimit::Own => config.algorithm.clone(),
        LocalLimit::Share { clients } => match config.scope {
            Scope::PerClient => config.algorithm.clone(),
            Scope::Global => config.algorithm.shared_by(clients.max(1)),
        },
    };
    let ((window, unit), count) = match (limit, config.local_count(), config.scope) {
        (LocalLimit::Own, Some(local), _) => (second, local),
        (LocalLimit::Own, None, _) | (LocalLimit::Share { .. }, _, Scope::PerClient) => {
            (of_rule, count)
        }
        (LocalLimit::Share { clients }, _, Scope::Global) => {
            (of_rule, count / f64::from(clients.max(1)))
        }
    };
    (ClusterConfig { scope: Scope::Global, window, unit, algorithm, ..config.clone() }, count)
}

fn settings() -> Settings {
    Settings { max_allowed_qps: None, ..Settings::default() }
}

/// A namespace that nobody joins: what is checked here counts no connections.
fn namespace() -> Arc<Namespace> {
    Namespaces::new(settings()).of_rules("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Contents, ControlBehavior, parse};

    const START: u64 = 1_700_000_000_000;

    fn flow_rule(count: f64, cluster: &str) -> FlowRule {
        let text = format!(
            r#"[{{"resource": "r", "count": {count}, "clusterMode": true,
                 "clusterConfig": {{"flowId": 1, {cluster}}}}}]"#
        );
        parse(&text, "test", "ns", Contents::Flow, true).unwrap().rules.flow.remove(0)
    }

    fn param_rule(rest: &str, cluster: &str) -> ParamRule {
        let text = format!(
            r#"[{{"resource": "r", "paramIdx": 0, "clusterMode": true, {rest},
                 "clusterConfig": {{"flowId": 1, {cluster}}}}}]"#
        );
        parse(&text, "test", "ns", Contents::Param, true).unwrap().rules.param.remove(0)
    }

    fn passes(flow: &LocalFlow, ms: u64, calls: u32) -> usize {
        let now = Tick::from_ms(START + ms);
        (0..calls).filter(|_| flow.acquire(now, 1, None) != Decision::Block).count()
    }

    const SHARE_OF_4: LocalLimit = LocalLimit::Share { clients: 4 };

    #[test]
    fn the_local_count_is_per_second_and_the_rule_stands_in_for_it() {
        let local = |count, cluster| {
            LocalFlow::new(&flow_rule(count, cluster), LocalLimit::Own, None).unwrap()
        };
        let flow = local(100.0, r#""thresholdType": 1, "localCount": 10"#);
        assert_eq!((passes(&flow, 0, 40), passes(&flow, 1_000, 40)), (10, 10));
        assert_eq!(passes(&local(15.0, r#""thresholdType": 0"#), 0, 40), 15, "per client");
        let sentinel = local(5.0, r#""thresholdType": 1, "windowIntervalMs": 4000"#);
        assert_eq!((passes(&sentinel, 0, 40), passes(&sentinel, 1_000, 40)), (5, 5));
        let window = r#""thresholdType": 1, "windowIntervalMs": 4000, "thresholdUnit": "window""#;
        let window = local(5.0, window);
        assert_eq!((passes(&window, 0, 40), passes(&window, 3_999, 40)), (5, 0));
    }

    #[test]
    fn a_share_is_the_global_count_through_the_clients() {
        let global = flow_rule(100.0, r#""thresholdType": 1, "localCount": 3"#);
        let share = |clients| LocalFlow::new(&global, LocalLimit::Share { clients }, None).unwrap();
        assert_eq!(passes(&share(4), 0, 40), 25);
        assert_eq!(passes(&share(3), 0, 40), 33, "three such shares stay below the count");
        assert_eq!(passes(&share(0), 0, 140), 100, "as one client");
        let per_client = flow_rule(7.0, r#""thresholdType": 0"#);
        assert_eq!(passes(&LocalFlow::new(&per_client, SHARE_OF_4, None).unwrap(), 0, 40), 7);
    }

    const PACED: &str = r#""controlBehavior": 2, "maxQueueingTimeMs": 250"#;

    #[test]
    fn a_rule_that_paces_says_how_long_to_wait_within_its_queue_and_what_the_caller_keeps() {
        let rule = flow_rule(100.0, r#""thresholdType": 1, "localCount": 10"#);
        let rule =
            FlowRule { behavior: ControlBehavior::Pacing, max_queueing_time_ms: 250, ..rule };
        let now = Tick::from_ms(START);
        let wait = |ms| Decision::Wait { wait: Duration::from_millis(ms) };
        let flow = LocalFlow::new(&rule, LocalLimit::Own, None).unwrap();
        let take =
            |max_wait: Option<u64>| flow.acquire(now, 1, max_wait.map(Duration::from_millis));
        assert!(matches!(take(None), Decision::Pass { .. }));
        assert_eq!((take(Some(99)), take(Some(100))), (Decision::Block, wait(100)));
        assert_eq!((take(Some(0)), take(None)), (Decision::Block, wait(200)));
        assert_eq!(take(None), Decision::Block, "300 ms are more than the queue");
        let share = LocalFlow::new(&rule, SHARE_OF_4, None).unwrap();
        assert!(matches!(share.acquire(now, 1, None), Decision::Pass { .. }));
        assert_eq!(share.acquire(now, 1, None), wait(40), "25 a second");
    }

    #[test]
    fn each_value_has_a_queue_of_its_own() {
        let rule = param_rule(&format!(r#""count": 10, {PACED}"#), r#""thresholdType": 1"#);
        let flow = LocalParam::new(&rule, LocalLimit::Own, None).unwrap();
        let take = |value| flow.acquire(Tick::from_ms(START), 1, None, [value].into_iter());
        assert!(matches!(take(Param::Int(1)), Decision::Pass { .. }));
        assert_eq!(take(Param::Int(1)), Decision::Wait { wait: Duration::from_millis(100) });
        assert!(matches!(take(Param::Int(2)), Decision::Pass { .. }));
    }

    #[test]
    fn what_the_server_granted_is_in_the_window_even_beyond_the_share() {
        let rule = flow_rule(100.0, r#""thresholdType": 1"#);
        let flow = LocalFlow::new(&rule, SHARE_OF_4, None).unwrap();
        flow.granted(Tick::from_ms(START), 30);
        flow.granted(Tick::from_ms(START + 500), 20);
        assert_eq!(passes(&flow, 900, 40), 0, "50 in the window, 25 allowed");
        assert_eq!(passes(&flow, 1_000, 40), 5, "30 have left it");
    }

    #[test]
    fn another_share_keeps_what_was_counted() {
        let rule = flow_rule(100.0, r#""thresholdType": 1"#);
        let of_4 = LocalFlow::new(&rule, SHARE_OF_4, None).unwrap();
        assert_eq!(passes(&of_4, 0, 20), 20);
        let of_2 = LocalFlow::new(&rule, LocalLimit::Share { clients: 2 }, Some(&of_4)).unwrap();
        assert_eq!(passes(&of_2, 500, 100), 30, "50 less the 20 that were used");
    }

    #[test]
    fn a_rule_without_cluster_configuration_has_no_stand_in() {
        let rule = FlowRule { cluster: None, ..flow_rule(1.0, r#""thresholdType": 1"#) };
        assert!(LocalFlow::new(&rule, LocalLimit::Own, None).is_none());
    }

    fn param_passes(flow: &LocalParam, ms: u64, value: i32) -> usize {
        let now = Tick::from_ms(START + ms);
        let value = [Param::Int(value)];
        let take = || flow.acquire(now, 1, None, value.iter().cloned());
        (0..100).filter(|_| take() != Decision::Block).count()
    }

    #[test]
    fn each_value_has_a_share_of_its_own_count() {
        let items = r#""count": 20, "paramFlowItemList":
            [{"object": "7", "count": 40, "classType": "int"}]"#;
        let rule = param_rule(items, r#""thresholdType": 1"#);
        let flow = LocalParam::new(&rule, SHARE_OF_4, None).unwrap();
        assert_eq!((param_passes(&flow, 0, 1), param_passes(&flow, 0, 7)), (5, 10));
        flow.granted(Tick::from_ms(START + 1_000), 8, [Param::Int(7)].iter().cloned());
        assert_eq!((param_passes(&flow, 1_000, 1), param_passes(&flow, 1_000, 7)), (5, 2));
        let nothing = flow.acquire(Tick::from_ms(START), 1, None, std::iter::empty());
        assert_eq!(nothing, Decision::Block);
    }

    #[test]
    fn a_param_rule_by_itself_is_per_duration_unless_it_has_a_local_count() {
        let own = |cluster| {
            let rule = param_rule(r#""count": 6, "durationInSec": 3"#, cluster);
            LocalParam::new(&rule, LocalLimit::Own, None).unwrap()
        };
        let flow = own(r#""thresholdType": 1"#);
        assert_eq!((param_passes(&flow, 0, 1), param_passes(&flow, 2_000, 1)), (6, 0));
        let flow = own(r#""thresholdType": 1, "localCount": 2"#);
        assert_eq!((param_passes(&flow, 0, 1), param_passes(&flow, 2_000, 1)), (2, 2));
    }

    #[test]
    fn memory_that_a_rule_before_had_taken_is_given_back_once() {
        let rule = param_rule(r#""count": 1"#, r#""thresholdType": 1"#);
        let first = LocalParam::new(&rule, LocalLimit::Own, None).unwrap();
        assert_eq!(param_passes(&first, 0, 1), 1);
        let next = LocalParam::new(&rule, LocalLimit::Own, Some(&first)).unwrap();
        drop(first);
        for value in 1..100 {
            assert_eq!(param_passes(&next, 5_000, value), 1);
        }
        assert_eq!(next.0.totals().overflow_uses, 0);
    }
}
