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

    /// Whether nothing that was taken counts any more at `now`.
    pub(crate) fn is_idle(&self, now: Tick) -> bool {
        self.0.is_idle(now)
    }

    /// Counts tokens that a server granted, to be used after `wait`, so that they are not granted
    /// here a second time. They count as long as those that are granted here: for a window; of a
    /// bucket no more than all it holds; and a queue goes on behind the call that got them.
    pub fn granted(&self, now: Tick, count: u32, wait: Duration) {
        self.0.granted(now, count, wait);
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
        let room = before.map_or_else(|| Room::new(&settings()), |before| before.0.room().clone());
        Self::within(rule, limit, before, room)
    }

    /// As [`Self::new`], with its values in a room that others share.
    pub(crate) fn within(
        rule: &ParamRule,
        limit: LocalLimit,
        before: Option<&Self>,
        room: Room,
    ) -> Option<Self> {
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
        let before = before.map(|before| &before.0).filter(|before| before.counting() == counting);
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

    /// Forgets some values of which nothing counts any more; true when there may be more.
    pub(crate) fn tidy(&self, now: Tick) -> bool {
        self.0.tidy_some(now)
    }

    /// Whether nothing that values have used counts any more at `now`, and all are forgotten.
    pub(crate) fn is_idle(&self, now: Tick) -> bool {
        self.0.is_forgotten(now)
    }

    /// Values with a counter, and how often one found no room.
    pub(crate) fn values(&self) -> (usize, u64) {
        let totals = self.0.totals();
        (totals.values, totals.overflow_uses)
    }

    /// As [`LocalFlow::granted`], for each value.
    pub fn granted<'a>(
        &self,
        now: Tick,
        count: u32,
        wait: Duration,
        params: impl Iterator<Item = Param<'a>>,
    ) {
        self.0.granted(now, count, wait, params);
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
        flow.granted(Tick::from_ms(START), 30, Duration::ZERO);
        flow.granted(Tick::from_ms(START + 500), 20, Duration::ZERO);
        assert_eq!(passes(&flow, 900, 40), 0, "50 in the window, 25 allowed");
        assert_eq!(passes(&flow, 1_000, 40), 5, "30 have left it");
    }

    /// The share of one in four of a rule of 100 a second, of which the server has granted this
    /// client 60 a second for the ten minutes before [`TEN_MINUTES`], the last 17 ms before.
    fn served_more_than_its_share(cluster: &str, behavior: ControlBehavior) -> LocalFlow {
        let rule = flow_rule(100.0, &format!(r#""thresholdType": 1{cluster}"#));
        let rule = FlowRule { behavior, max_queueing_time_ms: 500, ..rule };
        let flow = LocalFlow::new(&rule, SHARE_OF_4, None).unwrap();
        for i in 0..36_000 {
            flow.granted(Tick::from_ms(START + i * 1_000 / 60), 1, Duration::ZERO);
        }
        flow
    }

    const TEN_MINUTES: u64 = 600_000;

    /// When the first call is let go, in ms after [`TEN_MINUTES`], and how many are in ten seconds,
    /// of a call in each millisecond that does not wait.
    fn ten_seconds_alone(flow: &LocalFlow) -> (Option<u64>, usize) {
        let goes = |ms: &u64| {
            let now = Tick::from_ms(START + TEN_MINUTES + ms);
            flow.acquire(now, 1, Some(Duration::ZERO)) != Decision::Block
        };
        let gone: Vec<u64> = (0..10_000).filter(goes).collect();
        (gone.first().copied(), gone.len())
    }

    /// One token in 40 ms is a quarter of 100 a second.
    fn goes_on_with_an_empty_bucket(algorithm: &str) {
        let cluster = format!(r#", "algorithm": "{algorithm}""#);
        let flow = served_more_than_its_share(&cluster, ControlBehavior::Reject);
        assert_eq!(ten_seconds_alone(&flow), (Some(23), 250), "{algorithm}");
    }

    #[test]
    fn a_token_bucket_is_empty_at_worst_after_more_than_the_share() {
        goes_on_with_an_empty_bucket("tokenBucket");
    }

    #[test]
    fn a_leaky_bucket_is_full_at_worst_after_more_than_the_share() {
        goes_on_with_an_empty_bucket("leakyBucket");
    }

    #[test]
    fn gcra_is_a_burst_late_at_worst_after_more_than_the_share() {
        goes_on_with_an_empty_bucket("gcra");
    }

    #[test]
    fn a_paced_client_goes_on_an_interval_after_its_last_call_at_the_server() {
        let flow = served_more_than_its_share("", ControlBehavior::Pacing);
        assert_eq!(ten_seconds_alone(&flow), (Some(23), 250));
    }

    #[test]
    fn a_paced_client_that_the_server_warmed_up_goes_on_an_interval_after_its_last_call() {
        let flow = served_more_than_its_share("", ControlBehavior::WarmUpPacing);
        assert_eq!(ten_seconds_alone(&flow), (Some(23), 250));
    }

    #[test]
    fn windows_forget_more_than_the_share_within_a_window() {
        for algorithm in ["slidingWindow", "fixedWindow", "slidingLog"] {
            let cluster = format!(r#", "algorithm": "{algorithm}""#);
            let flow = served_more_than_its_share(&cluster, ControlBehavior::Reject);
            let (first, passed) = ten_seconds_alone(&flow);
            assert!(first.is_some_and(|first| first < 1_000), "{algorithm}: {first:?}");
            assert!((226..=250).contains(&passed), "{algorithm}: {passed}");
        }
    }

    #[test]
    fn what_the_server_granted_is_missing_from_a_bucket_and_no_more_than_it_holds() {
        let rule = flow_rule(100.0, r#""thresholdType": 1, "algorithm": "tokenBucket""#);
        let of_4 = || LocalFlow::new(&rule, SHARE_OF_4, None).unwrap();
        let some = of_4();
        some.granted(Tick::from_ms(START), 10, Duration::ZERO);
        assert_eq!(passes(&some, 0, 40), 15);
        let all = of_4();
        all.granted(Tick::from_ms(START), 100, Duration::ZERO);
        assert_eq!((passes(&all, 39, 40), passes(&all, 40, 40)), (0, 1));
    }

    #[test]
    fn a_paced_client_goes_behind_the_call_that_the_server_told_to_wait() {
        let rule = flow_rule(100.0, r#""thresholdType": 1"#);
        let rule =
            FlowRule { behavior: ControlBehavior::Pacing, max_queueing_time_ms: 500, ..rule };
        let flow = LocalFlow::new(&rule, SHARE_OF_4, None).unwrap();
        let (now, ms) = (Tick::from_ms(START), Duration::from_millis);
        flow.granted(now, 1, ms(300));
        flow.granted(now, 1, ms(100));
        assert_eq!(flow.acquire(now, 1, None), Decision::Wait { wait: ms(340) });
        flow.granted(now, 1, Duration::from_secs(86_400));
        assert_eq!(flow.acquire(now, 1, None), Decision::Block, "500 ms is the whole queue");
        let later = Tick::from_ms(START + 40);
        assert_eq!(flow.acquire(later, 1, None), Decision::Wait { wait: ms(500) });
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
        flow.granted(
            Tick::from_ms(START + 1_000),
            8,
            Duration::ZERO,
            [Param::Int(7)].iter().cloned(),
        );
        assert_eq!((param_passes(&flow, 1_000, 1), param_passes(&flow, 1_000, 7)), (5, 2));
        let nothing = flow.acquire(Tick::from_ms(START), 1, None, std::iter::empty());
        assert_eq!(nothing, Decision::Block);
    }

    #[test]
    fn a_value_that_the_server_served_more_than_its_share_goes_on_after_a_token_s_time() {
        for (rest, cluster) in [
            (r#""count": 100"#.to_owned(), r#""thresholdType": 1, "algorithm": "tokenBucket""#),
            (format!(r#""count": 100, {PACED}"#), r#""thresholdType": 1"#),
        ] {
            let flow = LocalParam::new(&param_rule(&rest, cluster), SHARE_OF_4, None).unwrap();
            for _ in 0..1_000 {
                let served = [Param::Int(7)].into_iter();
                flow.granted(Tick::from_ms(START), 1, Duration::ZERO, served);
            }
            let goes = |ms| {
                let (now, value) = (Tick::from_ms(START + ms), [Param::Int(7)].into_iter());
                flow.acquire(now, 1, Some(Duration::ZERO), value) != Decision::Block
            };
            assert_eq!((goes(39), goes(40), goes(41)), (false, true, false), "{cluster}");
        }
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
