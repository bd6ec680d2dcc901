//! Flow rules.

use std::fmt;

use limiter::{Flow, FlowTotals, RuleSet, Tick, rule::Scope};
use prometheus_client::encoding::DescriptorEncoder;

use super::{
    bounded::Bounded,
    series::{Labels, OTHER, counters, gauge, gauges, label},
};

/// One flow's samples, or those of all that are not shown.
struct Row {
    flow_id: String,
    namespace: String,
    resource: String,
    totals: FlowTotals,
    window: u64,
    booked: u64,
    /// Tokens of the last whole second that were admitted, and that were refused.
    last_second: (u64, u64),
}

impl Row {
    fn labels(&self) -> Labels<'_, 3> {
        [("flow_id", &self.flow_id), ("namespace", &self.namespace), ("resource", &self.resource)]
    }

    /// One sample a decision; `shadow` is a pass that would be a block if the rule were enforced.
    fn decisions(&self, values: [u64; 4]) -> [(Labels<'_, 4>, u64); 4] {
        let [flow_id, namespace, resource] = self.labels();
        let sample =
            |decision, value| ([flow_id, namespace, resource, ("decision", decision)], value);
        let [pass, wait, block, shadow] = values;
        [
            sample("pass", pass),
            sample("wait", wait),
            sample("block", block),
            sample("shadow", shadow),
        ]
    }
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    rules: &RuleSet,
    exceed_count: f64,
    now: Tick,
    bounded: &Bounded<i64>,
) -> fmt::Result {
    let all = rules.flows().map(|(id, flow)| (id, flow, flow.totals())).collect();
    let requests =
        |t: &FlowTotals| t.pass_requests + t.wait_requests + t.block_requests + t.shadow_requests;
    let (shown, rest) = bounded.split(all, |(id, ..)| *id, |(.., totals)| requests(totals));

    let mut rows: Vec<Row> =
        shown.iter().map(|(id, flow, totals)| row(*id, flow, *totals, now)).collect();
    if !rest.is_empty() {
        rows.push(sum(&rest, now));
    }

    counters(
        encoder,
        "tollgate_flow_requests",
        "Requests decided by a flow rule.",
        rows.iter().flat_map(|row| {
            let t = &row.totals;
            row.decisions([t.pass_requests, t.wait_requests, t.block_requests, t.shadow_requests])
        }),
    )?;
    counters(
        encoder,
        "tollgate_flow_tokens",
        "Tokens of the requests decided by a flow rule.",
        rows.iter().flat_map(|row| {
            let t = &row.totals;
            row.decisions([t.pass_tokens, t.wait_tokens, t.block_tokens, t.shadow_tokens])
        }),
    )?;
    gauges(
        encoder,
        "tollgate_flow_threshold_tokens",
        "Tokens that the flow rule allows in one window now.",
        rows.iter()
            .zip(&shown)
            .map(|(row, (_, flow, _))| (row.labels(), allowed(flow, exceed_count))),
    )?;
    gauges(
        encoder,
        "tollgate_flow_window_tokens",
        "Tokens taken in the window that ends now.",
        rows.iter().map(|row| (row.labels(), gauge(row.window))),
    )?;
    gauges(
        encoder,
        "tollgate_flow_booked_tokens",
        "Tokens booked for the bucket that comes next.",
        rows.iter().map(|row| (row.labels(), gauge(row.booked))),
    )?;
    type OfSecond = fn(&Row) -> u64;
    let decisions: [(&str, OfSecond); 2] =
        [("admitted", |row| row.last_second.0), ("blocked", |row| row.last_second.1)];
    for (decision, tokens) in decisions {
        gauges(
            encoder,
            &format!("tollgate_flow_last_second_{decision}_tokens"),
            &format!("Tokens {decision} in the last whole second of the epoch."),
            rows.iter().map(|row| (row.labels(), gauge(tokens(row)))),
        )?;
    }
    Ok(())
}

fn row(id: i64, flow: &Flow, totals: FlowTotals, now: Tick) -> Row {
    let (window, booked) = flow.usage(now);
    let last = flow.last_second(now);
    Row {
        flow_id: id.to_string(),
        namespace: label(flow.namespace().name()),
        resource: label(&flow.rule().resource),
        totals,
        window,
        booked,
        last_second: (last.admitted_tokens, last.blocked_tokens),
    }
}

fn sum(flows: &[(i64, &Flow, FlowTotals)], now: Tick) -> Row {
    let mut sum = Row {
        flow_id: OTHER.into(),
        namespace: String::new(),
        resource: String::new(),
        totals: FlowTotals::default(),
        window: 0,
        booked: 0,
        last_second: (0, 0),
    };
    for (_, flow, totals) in flows {
        sum.totals.pass_requests += totals.pass_requests;
        sum.totals.pass_tokens += totals.pass_tokens;
        sum.totals.wait_requests += totals.wait_requests;
        sum.totals.wait_tokens += totals.wait_tokens;
        sum.totals.block_requests += totals.block_requests;
        sum.totals.block_tokens += totals.block_tokens;
        sum.totals.shadow_requests += totals.shadow_requests;
        sum.totals.shadow_tokens += totals.shadow_tokens;
        let (window, booked) = flow.usage(now);
        let last = flow.last_second(now);
        sum.window += window;
        sum.booked += booked;
        sum.last_second.0 += last.admitted_tokens;
        sum.last_second.1 += last.blocked_tokens;
    }
    sum
}

/// Tokens that the rule allows in one window: its count, times `exceed_count`, times the connected
/// clients for a rule that counts per client.
fn allowed(flow: &Flow, exceed_count: f64) -> f64 {
    let rule = flow.rule();
    let Some(cluster) = &rule.cluster else { return 0.0 };
    let clients = match cluster.scope {
        Scope::Global => 1.0,
        Scope::PerClient => f64::from(flow.namespace().connected()),
    };
    cluster.tokens(rule.count * clients * exceed_count)
}
