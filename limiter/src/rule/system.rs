//! The rule that protects the whole process.

/// A validated system rule (Sentinel's `SystemRule.java`). It holds for all inbound calls together;
/// of several rules the smallest of each value counts. `None` sets no limit, which is what a
/// negative value means in JSON.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SystemRule {
    /// `highestSystemLoad`: the load average of one minute above which calls are refused that the
    /// process cannot work off at the pace it has shown.
    pub load: Option<f64>,
    /// `highestCpuUsage`: the share of the processors above which calls are refused, from 0 to 1.
    pub cpu: Option<f64>,
    /// `qps`: calls per second.
    pub qps: Option<f64>,
    /// `avgRt`: average response time in milliseconds.
    pub avg_rt_ms: Option<u64>,
    /// `maxThread`: calls in progress.
    pub max_thread: Option<u64>,
}
