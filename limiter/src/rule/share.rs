//! `overloadPolicy: share`: how much one client holds at a time while its namespace is over its
//! request limit.

use super::{Algorithm, ControlBehavior, FlowRule, Grade, OverloadPolicy, Scope, ThresholdUnit};

/// Leases in a window. A lease counts until a window after its end, so with as many a client that
/// takes one after the other gets 10/11 of its share at least.
const PARTS: u64 = 10;

/// Longest life of such a lease: what a vanished client held is missing no longer than that and a
/// window.
const TTL_MS_MAX: u64 = 1_000;

/// One client's share of a flow rule, which it takes as leases, a part at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Tokens of a window, rounded up, at least 1: the most that one lease has.
    pub tokens: u32,
    /// Tokens for the life of a lease, rounded up: what a client takes at a time, unless a single
    /// call needs more.
    pub part: u32,
    /// How long a lease may be spent, in milliseconds: a tenth of the window, 1 ..= 1 000.
    pub ttl_ms: u32,
}

impl FlowRule {
    /// What each of `clients` (0 counts as 1) holds under `overloadPolicy: share`; `None` under
    /// another policy, and for a rule that cannot lend: grade 0, a `controlBehavior` other than 0,
    /// an algorithm other than the sliding window.
    #[must_use]
    pub fn share(&self, clients: u32) -> Option<Share> {
        let config = self.cluster.as_ref()?;
        let lends = config.overload == OverloadPolicy::Share
            && config.algorithm == Algorithm::SlidingWindow
            && self.behavior == ControlBehavior::Reject
            && self.grade == Grade::Qps;
        if !lends {
            return None;
        }
        let window_ms = config.window.interval_ms();
        let ttl_ms = (window_ms / PARTS).clamp(1, TTL_MS_MAX);
        let seconds = match config.unit {
            ThresholdUnit::Sentinel => config.window.interval_sec(),
            ThresholdUnit::Window => 1.0,
        };
        let clients = match config.scope {
            Scope::Global => clients.max(1),
            Scope::PerClient => 1,
        };
        let tokens = whole_up(self.count * seconds / f64::from(clients));
        let part = u64::from(tokens).div_ceil(window_ms / ttl_ms);
        Some(Share { tokens, part: narrow(part), ttl_ms: narrow(ttl_ms) })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at least 1; a number that is too large saturates"
)]
fn whole_up(tokens: f64) -> u32 {
    tokens.ceil().max(1.0) as u32
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Contents, parse};

    fn share(count: f64, rule: &str, config: &str, clients: u32) -> Option<(u32, u32, u32)> {
        let text = format!(
            r#"[{{"resource": "r", "count": {count}, "clusterMode": true{rule},
                 "clusterConfig": {{"flowId": 1, "overloadPolicy": "share"{config}}}}}]"#
        );
        let rule = parse(&text, "test", "ns", Contents::Flow, true).unwrap().rules.flow.remove(0);
        rule.share(clients).map(|Share { tokens, part, ttl_ms }| (tokens, part, ttl_ms))
    }

    const GLOBAL: &str = r#", "thresholdType": 1"#;

    #[test]
    fn a_share_is_taken_in_tenths_of_the_window() {
        assert_eq!(share(100.0, "", GLOBAL, 8), Some((13, 2, 100)));
        assert_eq!(share(1_000.0, "", GLOBAL, 4), Some((250, 25, 100)));
        assert_eq!(share(100.0, "", GLOBAL, 0), Some((100, 10, 100)), "as one client");
        assert_eq!(share(100.0, "", r#", "thresholdType": 0"#, 8), Some((100, 10, 100)), "each");
        let window = |ms, buckets, unit| {
            format!(
                r#"{GLOBAL}, "windowIntervalMs": {ms}, "sampleCount": {buckets},
                   "thresholdUnit": "{unit}""#
            )
        };
        assert_eq!(share(100.0, "", &window(1_000, 1, "window"), 4), Some((25, 3, 100)));
        assert_eq!(share(5.0, "", &window(10_000, 10, "sentinel"), 2), Some((25, 3, 1_000)));
        assert_eq!(share(60.0, "", &window(60_000, 10, "window"), 1), Some((60, 1, 1_000)));
        assert_eq!(share(8.0, "", &window(4, 1, "window"), 1), Some((8, 2, 1)));
        let day = window(86_400_000, 1, "window");
        assert_eq!(share(5.0, "", &day, 8), Some((1, 1, 1_000)));
        assert_eq!(share(2.0_f64.powi(53), "", GLOBAL, 1).unwrap().0, u32::MAX);
    }

    #[test]
    fn what_cannot_be_lent_and_what_is_not_shared_has_none() {
        for rule in [r#", "grade": 0"#, r#", "controlBehavior": 1"#, r#", "controlBehavior": 2"#] {
            assert_eq!(share(100.0, rule, GLOBAL, 8), None, "{rule}");
        }
        for config in [
            r#", "thresholdType": 1, "algorithm": "tokenBucket""#,
            r#", "thresholdType": 1, "calendar": "day""#,
        ] {
            assert_eq!(share(100.0, "", config, 8), None, "{config}");
        }
        for policy in ["reject", "local"] {
            let text = format!(
                r#"[{{"resource": "r", "count": 9, "clusterMode": true, "clusterConfig":
                    {{"flowId": 1, "fallbackPolicy": "share", "overloadPolicy": "{policy}"}}}}]"#
            );
            let parsed = parse(&text, "test", "ns", Contents::Flow, true).unwrap();
            assert_eq!(parsed.rules.flow[0].share(8), None);
        }
    }
}
