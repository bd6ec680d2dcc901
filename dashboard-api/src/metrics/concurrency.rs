//! Concurrency tokens: how many are held, and how many calls of each thread-grade rule are in
//! progress. A token that is due and in nobody's way is counted until the engine is next tidied.

use std::{fmt, sync::Arc};

use limiter::{
    ClusterEngine, Flow,
    rule::{Grade, Scope},
};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::{
    bounded::Bounded,
    series::{Labels, OTHER, gauge, gauges, label},
};

/// Reads the engine's concurrency tokens at each scrape.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) engine: Arc<ClusterEngine>,
    pub(super) levels: Bounded<i64>,
}

/// One rule's samples, or those of all that are not shown.
struct Row {
    flow_id: String,
    namespace: String,
    resource: String,
    in_progress: u64,
    allowed: f64,
}

impl Row {
    fn of(id: i64, flow: &Flow, in_progress: u64) -> Self {
        Self {
            flow_id: id.to_string(),
            namespace: label(flow.namespace().name()),
            resource: label(&flow.rule().resource),
            in_progress,
            allowed: allowed(flow),
        }
    }

    fn labels(&self) -> Labels<'_, 3> {
        [("flow_id", &self.flow_id), ("namespace", &self.namespace), ("resource", &self.resource)]
    }
}

impl Collector for Tokens {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        for (name, help, value) in [
            (
                "tollgate_concurrency_tokens_held",
                "Concurrency tokens that are held, of all rules.",
                self.engine.concurrency().live(),
            ),
            (
                "tollgate_concurrency_tokens_max",
                "Concurrency tokens that may be held at once.",
                self.engine.settings().tokens_max,
            ),
        ] {
            gauges(encoder, name, help, [([], gauge(value))])?;
        }

        let rules = self.engine.rules();
        let thread_grade = rules.flows().filter(|(_, flow)| flow.rule().grade == Grade::Thread);
        let all = thread_grade.map(|(id, flow)| (id, flow, flow.in_use().unwrap_or(0))).collect();
        let (shown, rest) = self.levels.split(all, |(id, ..)| *id, |(.., in_use)| *in_use);
        let mut rows: Vec<Row> =
            shown.iter().map(|(id, flow, in_use)| Row::of(*id, flow, *in_use)).collect();
        if !rest.is_empty() {
            rows.push(Row {
                flow_id: OTHER.into(),
                namespace: String::new(),
                resource: String::new(),
                in_progress: rest.iter().map(|(.., in_use)| in_use).sum(),
                allowed: rest.iter().map(|(_, flow, _)| allowed(flow)).sum(),
            });
        }
        gauges(
            encoder,
            "tollgate_flow_calls_in_progress",
            "Calls in progress, as concurrency tokens count them.",
            rows.iter().map(|row| (row.labels(), gauge(row.in_progress))),
        )?;
        gauges(
            encoder,
            "tollgate_flow_calls_allowed",
            "Calls that may be in progress at once now.",
            rows.iter().map(|row| (row.labels(), row.allowed)),
        )
    }
}

/// Calls that the rule allows at once: its count, times the connected clients for a rule that
/// counts per client. `exceed_count` is for rates only.
fn allowed(flow: &Flow) -> f64 {
    let rule = flow.rule();
    match rule.cluster.as_ref().map(|cluster| cluster.scope) {
        Some(Scope::Global) => rule.count,
        Some(Scope::PerClient) => rule.count * f64::from(flow.namespace().connected()),
        None => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use limiter::{Settings, Tick, rule};
    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;

    fn engine(rules: &[String]) -> Arc<ClusterEngine> {
        let engine = ClusterEngine::new(Settings { tokens_max: 9, ..Settings::default() });
        let text = format!("[{}]", rules.join(","));
        let parsed = rule::parse(&text, "test", "shop", rule::Contents::Mixed, true).unwrap();
        engine.replace(rule::merge(vec![parsed]).unwrap()).unwrap();
        Arc::new(engine)
    }

    fn rule(id: i64, grade: u8, scope: u8) -> String {
        format!(
            r#"{{"resource": "r{id}", "grade": {grade}, "count": 3, "clusterMode": true,
                 "clusterConfig": {{"flowId": {id}, "thresholdType": {scope}}}}}"#
        )
    }

    fn acquire(engine: &ClusterEngine, id: i64, count: i32) {
        let now = Tick::from_ms(1_700_000_000_000);
        let taken = engine.rules().acquire_concurrent(now, id, count, engine.owner());
        assert!(taken.unwrap().is_some());
    }

    fn page(engine: &Arc<ClusterEngine>, bound: usize) -> Vec<String> {
        let mut registry = Registry::default();
        let (engine, levels) = (Arc::clone(engine), Bounded::new(bound));
        registry.register_collector(Box::new(Tokens { engine, levels }));
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn thread_grade_rules_show_their_calls_and_how_many_may_be() {
        let engine = engine(&[rule(1, 0, 1), rule(2, 0, 0), rule(3, 1, 1)]);
        let _clients = ["shop", "shop"].map(|name| engine.join(name).unwrap());
        acquire(&engine, 1, 2);
        acquire(&engine, 1, 1);
        acquire(&engine, 2, 4);
        let labels = |id| format!(r#"{{flow_id="{id}",namespace="shop",resource="r{id}"}}"#);
        assert_eq!(
            page(&engine, 9),
            [
                "tollgate_concurrency_tokens_held 3.0".into(),
                "tollgate_concurrency_tokens_max 9.0".into(),
                format!("tollgate_flow_calls_in_progress{} 3.0", labels(1)),
                format!("tollgate_flow_calls_in_progress{} 4.0", labels(2)),
                format!("tollgate_flow_calls_allowed{} 3.0", labels(1)),
                format!("tollgate_flow_calls_allowed{} 6.0", labels(2)),
            ]
        );
    }

    #[test]
    fn beyond_the_bound_the_busiest_have_series_and_the_others_a_sum() {
        let engine = engine(&[rule(1, 0, 1), rule(2, 0, 1), rule(3, 0, 1)]);
        acquire(&engine, 1, 1);
        acquire(&engine, 2, 2);
        let other = r#"{flow_id="other",namespace="",resource=""}"#;
        let page = page(&engine, 1);
        assert!(page[2].contains(r#"flow_id="2""#), "{page:#?}");
        assert_eq!(page[3], format!("tollgate_flow_calls_in_progress{other} 1.0"));
        assert_eq!(page[5], format!("tollgate_flow_calls_allowed{other} 6.0"));
    }
}
