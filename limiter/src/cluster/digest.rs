//! What tells one rule set from another, wherever they are: a digest that does not depend on the
//! order of namespaces or rules.
//!
//! A server may be given a hundred thousand changed rules a second, so a rule is fed as bytes; only
//! what few rules have is fed as text.

use std::fmt::Debug;

use sha2::{Digest, Sha256};

use crate::rule::{Algorithm, ClusterConfig, FlowRule, NamespaceRules, ParamRule};

/// The sum of the first eight bytes of each cluster rule's SHA-256.
pub(super) fn of(rules: &[NamespaceRules]) -> u64 {
    let (mut feed, mut sum) = (Feed::default(), 0_u64);
    for set in rules {
        for rule in &set.flow {
            let Some(cluster) = &rule.cluster else { continue };
            sum = sum.wrapping_add(feed.digest(&set.namespace, |feed| feed.flow(rule, cluster)));
        }
        for rule in &set.param {
            let Some(cluster) = &rule.cluster else { continue };
            sum = sum.wrapping_add(feed.digest(&set.namespace, |feed| feed.param(rule, cluster)));
        }
    }
    sum
}

/// The bytes of one rule: each field in its turn, of a fixed length or with its length before it,
/// so that no two different rules give the same.
#[derive(Default)]
struct Feed(Vec<u8>);

impl Feed {
    fn digest(&mut self, namespace: &str, rule: impl Fn(&mut Self)) -> u64 {
        self.0.clear();
        self.text(namespace);
        rule(self);
        let digest = Sha256::digest(&self.0);
        digest.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
    }

    // Every field is named in what follows, so that a new one cannot be forgotten.

    fn flow(&mut self, rule: &FlowRule, cluster: &ClusterConfig) {
        let FlowRule {
            resource,
            names,
            regex,
            grade,
            count,
            strategy,
            behavior,
            warm_up_period_sec,
            max_queueing_time_ms,
            cluster: _,
        } = rule;
        self.0.extend([b'f', u8::from(*regex), *grade as u8, *strategy as u8, *behavior as u8]);
        self.text(resource);
        self.number(*count);
        self.0.extend(warm_up_period_sec.to_be_bytes());
        self.0.extend(max_queueing_time_ms.to_be_bytes());
        self.rare(names.as_ref());
        self.cluster(cluster);
    }

    fn param(&mut self, rule: &ParamRule, cluster: &ClusterConfig) {
        let ParamRule {
            resource,
            // Never of a cluster rule.
            regex: _,
            param_idx,
            count,
            grade,
            behavior,
            max_queueing_time_ms,
            burst_count,
            duration_sec,
            items,
            cluster: _,
        } = rule;
        self.0.extend([b'p', *behavior as u8]);
        self.text(resource);
        self.0.extend(param_idx.to_be_bytes());
        self.number(*count);
        self.0.extend(grade.to_be_bytes());
        self.0.extend(max_queueing_time_ms.to_be_bytes());
        self.0.extend(burst_count.to_be_bytes());
        self.0.extend(duration_sec.to_be_bytes());
        self.rare((!items.is_empty()).then_some(items));
        self.cluster(cluster);
    }

    fn cluster(&mut self, cluster: &ClusterConfig) {
        let ClusterConfig {
            flow_id,
            window,
            algorithm,
            scope,
            unit,
            fallback,
            overload,
            mode,
            rare,
        } = cluster;
        self.0.extend(flow_id.to_be_bytes());
        self.0.extend(window.interval_ms().to_be_bytes());
        self.0.extend(window.buckets().to_be_bytes());
        self.0.extend([*scope as u8, *unit as u8, *fallback as u8, *overload as u8, *mode as u8]);
        self.rare((*algorithm != Algorithm::SlidingWindow).then_some(algorithm));
        self.rare(rare.as_ref());
    }

    fn text(&mut self, text: &str) {
        self.0.extend((text.len() as u64).to_be_bytes());
        self.0.extend(text.as_bytes());
    }

    /// Equal numbers give equal bytes: zero has no sign.
    fn number(&mut self, number: f64) {
        self.0.extend((number + 0.0).to_be_bytes());
    }

    /// What few rules have, as text; nothing is no text.
    fn rare(&mut self, value: Option<impl Debug>) {
        self.text(&value.map_or_else(String::new, |value| format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Contents, parse};

    fn rules(namespace: &str, list: &str) -> NamespaceRules {
        parse(&format!("[{list}]"), "test", namespace, Contents::Mixed, true).unwrap().rules
    }

    fn rule(fields: &str, config: &str) -> String {
        format!(
            r#"{{{fields} "resource": "r", "count": 7, "clusterMode": true,
                "clusterConfig": {{{config} "flowId": 1, "thresholdType": 1}}}}"#
        )
    }

    #[test]
    fn every_field_counts() {
        let fields = [
            "",
            r#""resource": "q","#,
            r#""count": 8,"#,
            r#""grade": 0,"#,
            r#""controlBehavior": 1,"#,
            r#""controlBehavior": 1, "warmUpPeriodSec": 20,"#,
            r#""controlBehavior": 2,"#,
            r#""maxQueueingTimeMs": 600,"#,
            r#""strategy": 1, "refResource": "q","#,
            r#""limitApp": "app","#,
            r#""paramIdx": 0,"#,
            r#""paramIdx": 1,"#,
            r#""paramIdx": 0, "grade": 2,"#,
            r#""paramIdx": 0, "controlBehavior": 2,"#,
            r#""paramIdx": 0, "maxQueueingTimeMs": 1,"#,
            r#""paramIdx": 0, "burstCount": 1,"#,
            r#""paramIdx": 0, "durationInSec": 2,"#,
            r#""paramIdx": 0, "paramFlowItemList": [{"object": "1", "classType": "int", "count": 1}],"#,
            r#""paramIdx": 0, "paramFlowItemList": [{"object": "1", "classType": "long", "count": 1}],"#,
        ];
        let configs = [
            r#""flowId": 2,"#,
            r#""thresholdType": 0,"#,
            r#""windowIntervalMs": 2000,"#,
            r#""sampleCount": 20,"#,
            r#""thresholdUnit": "window","#,
            r#""fallbackPolicy": "block","#,
            r#""overloadPolicy": "share","#,
            r#""mode": "shadow","#,
            r#""algorithm": "gcra","#,
            r#""algorithm": "gcra", "burst": 9,"#,
            r#""calendar": "day","#,
            r#""calendar": "day", "timeZone": "Asia/Tokyo","#,
            r#""localCount": 0,"#,
            r#""lease": {"maxTokens": 5, "ttlMs": 100},"#,
        ];
        let mut digests: Vec<u64> = fields
            .iter()
            .map(|fields| rule(fields, ""))
            .chain(configs.iter().map(|config| rule("", config)))
            .map(|rule| of(&[rules("n", &rule)]))
            .chain([of(&[]), of(&[rules("m", &rule("", ""))])])
            .collect();
        let amount = digests.len();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), amount);
    }

    #[test]
    fn the_order_of_rules_and_namespaces_does_not_count_and_zero_has_no_sign() {
        let (a, b) = (rule("", ""), rule("", r#""flowId": 2,"#));
        let one = [rules("n", &format!("{a},{b}")), rules("m", &a)];
        let other = [rules("m", &a), rules("n", &format!("{b},{a}"))];
        assert_eq!(of(&one), of(&other));
        let zero = |count| of(&[rules("n", &rule(&format!(r#""count": {count},"#), ""))]);
        assert_eq!(zero("0"), zero("-0.0"));
    }

    #[test]
    fn local_rules_do_not_count() {
        let local = r#"{"resource": "r", "count": 1}"#;
        let with = parse(&format!("[{local}]"), "t", "n", Contents::Mixed, false).unwrap().rules;
        assert_eq!((with.flow.len(), of(&[with])), (1, of(&[])));
    }
}
