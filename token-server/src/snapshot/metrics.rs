//! What is told about snapshots.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::Snapshots;

/// Registers the metrics of `snapshots`.
pub(crate) fn register(registry: &mut Registry, snapshots: Arc<Snapshots>) {
    registry.register_collector(Box::new(Metrics(snapshots)));
}

#[derive(Debug)]
struct Metrics(Arc<Snapshots>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Snapshots of the counters, by what came of writing them";
        let name = "tollgate_snapshot_writes";
        let mut writes = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (result, count) in [("ok", &self.0.succeeded), ("error", &self.0.failed)] {
            let count = ConstCounter::new(count.get());
            count.encode(writes.encode_family(&[("result", result)])?)?;
        }
        let Some(last) = self.0.last() else { return Ok(()) };
        let at = last.at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        #[expect(clippy::cast_precision_loss, reason = "no file has 2^53 bytes")]
        let (bytes, records) = (last.written.bytes as f64, last.written.records as f64);
        for (name, help, value) in [
            ("timestamp_seconds", "When the last one was finished", at.as_secs_f64()),
            ("duration_seconds", "How long the last one took", last.took.as_secs_f64()),
            ("bytes", "Bytes of the last one", bytes),
            ("records", "Records of the last one", records),
        ] {
            let name = format!("tollgate_snapshot_last_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        Ok(())
    }
}
