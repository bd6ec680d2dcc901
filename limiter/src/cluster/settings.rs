//! What the operator sets for the whole engine.

/// Engine-wide settings, with Sentinel's defaults (`ServerFlowConfig.java`) and our bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Factor on the threshold of every flow rule, not of hot-parameter rules; 0 blocks all.
    pub exceed_count: f64,
    /// Share of the threshold that may wait in bookings when one more is asked for. Compared
    /// before the new booking, as Sentinel does: with 0 one booking at a time is possible.
    pub max_occupy_ratio: f64,
    /// Whether `controlBehavior` means nothing to rules of the server, as in Sentinel: what is over
    /// the threshold is refused, and nobody is paced or warms up.
    pub ignore_control_behavior: bool,
    /// Requests per second that one namespace may make, whatever they ask for; `None`: any.
    pub max_allowed_qps: Option<f64>,
    /// Namespaces that may exist at once, with rules or with connections.
    pub namespaces_max: usize,
    /// Cluster rules of all namespaces together.
    pub rules_max: usize,
    /// Live hot values of one rule; further new ones share one counter.
    pub values_max: usize,
    /// Bytes of memory for the live hot values of all rules together; beyond, new ones share their
    /// rule's one counter, and sliding logs join entries, so that a token may count for up to two
    /// windows. A value of eight bytes in a window of ten buckets takes about 250.
    pub values_bytes_max: u64,
    /// Concurrency tokens of all rules that may be held at once, 64 bytes each; at most
    /// [`Concurrency::TOKENS_MAX`](crate::Concurrency::TOKENS_MAX). One namespace may hold as many
    /// as are free: half of them when no other holds any. See [`Tenant`](crate::Tenant).
    pub tokens_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            exceed_count: 1.0,
            max_occupy_ratio: 1.0,
            ignore_control_behavior: false,
            max_allowed_qps: Some(30_000.0),
            namespaces_max: 10_000,
            rules_max: 2_000_000,
            values_max: 1_000_000,
            values_bytes_max: 2 << 30,
            tokens_max: 1_000_000,
        }
    }
}
