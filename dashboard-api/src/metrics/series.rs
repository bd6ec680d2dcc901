//! Metric families as samples with labels.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// Longest label value in bytes, so that a resource that is a whole URL does not fill the scrape.
const LABEL_LEN_MAX: usize = 128;

/// The label of the sum of all that have no series of their own. Its other labels are empty, which
/// is to be absent.
pub(super) const OTHER: &str = "other";

/// The labels of one sample.
pub(super) type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// A value as a label shows it: what is over the bound is cut, and an ellipsis says so.
pub(super) fn label(value: &str) -> String {
    if value.len() <= LABEL_LEN_MAX {
        return value.into();
    }
    let kept = value.floor_char_boundary(LABEL_LEN_MAX - '…'.len_utf8());
    format!("{}…", value.get(..kept).unwrap_or_default())
}

/// Writes a family of counters; `_total` is added to its name.
pub(super) fn counters<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in samples {
        ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Writes a family of gauges.
pub(super) fn gauges<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Labels<'a, N>, f64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A count as gauges have it.
#[expect(clippy::cast_precision_loss, reason = "counts of what a process holds are below 2^53")]
pub(super) fn gauge(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_cut_between_characters() {
        assert_eq!(label(&"a".repeat(128)), "a".repeat(128));
        assert_eq!(label(&"a".repeat(129)), format!("{}…", "a".repeat(125)));
        assert_eq!(label(&"ü".repeat(65)), format!("{}…", "ü".repeat(62)));
    }
}
