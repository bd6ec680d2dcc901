//! Namespaces: peers name them, so here above all the number of series needs its bound.

use std::{collections::BTreeMap, fmt, sync::Arc};

use limiter::Namespace;
use prometheus_client::encoding::DescriptorEncoder;

use super::{
    bounded::Bounded,
    series::{OTHER, counters, gauge, gauges, label},
};

/// Connected clients and refused requests.
#[derive(Default)]
struct Row {
    connected: u64,
    refused: u64,
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    namespaces: &[Arc<Namespace>],
    bounded: &Bounded<String>,
) -> fmt::Result {
    // Long names can be equal once they are cut; a series must not stand twice.
    let mut all: BTreeMap<String, Row> = BTreeMap::new();
    for namespace in namespaces {
        let row = all.entry(label(namespace.name())).or_default();
        row.connected += u64::from(namespace.connected());
        row.refused += namespace.refused();
    }
    let traffic = |(_, row): &(String, Row)| row.connected + row.refused;
    let (shown, rest) = bounded.split(all.into_iter().collect(), |(name, _)| name.clone(), traffic);
    let mut rows: BTreeMap<String, Row> = shown.into_iter().collect();
    if !rest.is_empty() {
        // A namespace may have this very name.
        let sum = rows.entry(OTHER.into()).or_default();
        for (_, row) in rest {
            sum.connected += row.connected;
            sum.refused += row.refused;
        }
    }

    gauges(
        encoder,
        "tollgate_namespace_connected_clients",
        "Connections that are members of the namespace.",
        rows.iter().map(|(name, row)| ([("namespace", name.as_str())], gauge(row.connected))),
    )?;
    counters(
        encoder,
        "tollgate_namespace_refused_requests",
        "Requests that the namespace's guard refused before any rule was looked at.",
        rows.iter().map(|(name, row)| ([("namespace", name.as_str())], row.refused)),
    )
}
