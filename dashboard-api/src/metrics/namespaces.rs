//! Namespaces: peers name them, so here above all the number of series needs its bound.

use std::{collections::BTreeMap, fmt, sync::Arc};

use limiter::Namespace;
use prometheus_client::encoding::DescriptorEncoder;

use super::{
    bounded::Bounded,
    series::{OTHER, counters, gauge, gauges, label},
};

/// Connected clients, refused requests, and concurrency tokens.
#[derive(Default)]
struct Row {
    connected: u64,
    refused: u64,
    tokens_held: u64,
    tokens_refused: u64,
}

impl Row {
    fn of(namespace: &Namespace) -> Self {
        Self {
            connected: namespace.connected().into(),
            refused: namespace.refused(),
            tokens_held: namespace.tenant().held(),
            tokens_refused: namespace.tenant().refused(),
        }
    }

    fn traffic(&self) -> u64 {
        self.connected + self.refused + self.tokens_held + self.tokens_refused
    }

    fn add(&mut self, other: &Self) {
        self.connected += other.connected;
        self.refused += other.refused;
        self.tokens_held += other.tokens_held;
        self.tokens_refused += other.tokens_refused;
    }
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    namespaces: &[Arc<Namespace>],
    bounded: &Bounded<String>,
) -> fmt::Result {
    // Long names can be equal once they are cut; a series must not stand twice.
    let mut all: BTreeMap<String, Row> = BTreeMap::new();
    for namespace in namespaces {
        all.entry(label(namespace.name())).or_default().add(&Row::of(namespace));
    }
    let traffic = |(_, row): &(String, Row)| row.traffic();
    let (shown, rest) = bounded.split(all.into_iter().collect(), |(name, _)| name.clone(), traffic);
    let mut rows: BTreeMap<String, Row> = shown.into_iter().collect();
    if !rest.is_empty() {
        // A namespace may have this very name.
        let sum = rows.entry(OTHER.into()).or_default();
        for (_, row) in rest {
            sum.add(&row);
        }
    }

    gauges(
        encoder,
        "tollgate_namespace_connected_clients",
        "Connections that are members of the namespace.",
        rows.iter().map(|(name, row)| ([("namespace", name.as_str())], gauge(row.connected))),
    )?;
    gauges(
        encoder,
        "tollgate_namespace_concurrency_tokens_held",
        "Concurrency tokens of the namespace's rules that are held.",
        rows.iter().map(|(name, row)| ([("namespace", name.as_str())], gauge(row.tokens_held))),
    )?;
    counters(
        encoder,
        "tollgate_namespace_refused_concurrency_tokens",
        "Concurrency tokens refused since the namespace held as many as were free for all.",
        rows.iter().map(|(name, row)| ([("namespace", name.as_str())], row.tokens_refused)),
    )?;
    counters(
        encoder,
        "tollgate_namespace_refused_requests",
        "Requests that the namespace's guard refused before any rule was looked at.",
        rows.iter().map(|(name, row)| ([("namespace", name.as_str())], row.refused)),
    )
}
