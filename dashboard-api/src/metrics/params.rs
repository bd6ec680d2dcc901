//! Hot-parameter rules. The values themselves are never labels: they are the users' data, and
//! there is no end to them.

use std::fmt;

use limiter::{ParamTotals, RuleSet};
use prometheus_client::encoding::DescriptorEncoder;

use super::{
    bounded::Bounded,
    series::{Labels, OTHER, counters, gauge, gauges, label},
};

/// One rule's samples, or those of all that are not shown.
struct Row {
    flow_id: String,
    namespace: String,
    resource: String,
    totals: ParamTotals,
}

impl Row {
    fn labels(&self) -> Labels<'_, 3> {
        [("flow_id", &self.flow_id), ("namespace", &self.namespace), ("resource", &self.resource)]
    }
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    rules: &RuleSet,
    bounded: &Bounded<i64>,
) -> fmt::Result {
    let all = rules.params().map(|(id, flow)| (id, flow, flow.totals())).collect();
    // Values without a request there are none; uses of the overflow counter come with requests.
    let requests =
        |t: &ParamTotals| t.pass_requests + t.wait_requests + t.block_requests + t.shadow_requests;
    let (shown, rest) = bounded.split(all, |(id, ..)| *id, |(.., totals)| requests(totals));

    let row = |(id, flow, totals): &(i64, &limiter::ParamFlow, ParamTotals)| Row {
        flow_id: id.to_string(),
        namespace: label(flow.namespace().name()),
        resource: label(&flow.rule().resource),
        totals: *totals,
    };
    let mut rows: Vec<Row> = shown.iter().map(row).collect();
    if !rest.is_empty() {
        rows.push(sum(rest.iter().map(|(.., totals)| *totals)));
    }

    counters(
        encoder,
        "tollgate_param_requests",
        "Requests decided by a hot-parameter rule.",
        rows.iter().flat_map(|row| {
            let [flow_id, namespace, resource] = row.labels();
            let sample =
                |decision, value| ([flow_id, namespace, resource, ("decision", decision)], value);
            [
                sample("pass", row.totals.pass_requests),
                sample("wait", row.totals.wait_requests),
                sample("block", row.totals.block_requests),
                sample("shadow", row.totals.shadow_requests),
            ]
        }),
    )?;
    gauges(
        encoder,
        "tollgate_param_values",
        "Values of the rule that have a counter of their own.",
        rows.iter().map(|row| (row.labels(), gauge(row.totals.values as u64))),
    )?;
    counters(
        encoder,
        "tollgate_param_overflow_uses",
        "Uses of the counter that values beyond the bound share.",
        rows.iter().map(|row| (row.labels(), row.totals.overflow_uses)),
    )
}

fn sum(all: impl Iterator<Item = ParamTotals>) -> Row {
    let mut totals = ParamTotals::default();
    for of in all {
        totals.pass_requests += of.pass_requests;
        totals.wait_requests += of.wait_requests;
        totals.block_requests += of.block_requests;
        totals.shadow_requests += of.shadow_requests;
        totals.overflow_uses += of.overflow_uses;
        totals.values += of.values;
    }
    Row { flow_id: OTHER.into(), namespace: String::new(), resource: String::new(), totals }
}
