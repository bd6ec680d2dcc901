//! The rules of a source, kept in force in an engine.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use limiter::{
    Applied, ClusterEngine,
    rule::{Finding, RuleErrors},
};
use rule_sources::{Changes, Loaded, RuleSource};
use tracing::{debug, error, info, warn};

use crate::{apart::apart, telemetry::Count};

/// Findings of one load that are logged one by one; of more, the rest is counted.
const LOGGED_MAX: usize = 100;

/// Loads rules, and loads them again when they may have changed. A load that fails leaves the
/// rules in force as they are.
#[derive(Debug)]
pub struct Rules {
    source: Arc<dyn RuleSource>,
    engine: Arc<ClusterEngine>,
    /// Held during a load, so that of two the later is in force.
    loading: Mutex<()>,
    /// Mistakes that the last load found.
    errors: AtomicU64,
    succeeded: Count,
    failed: Count,
}

impl Rules {
    /// Rules of `source` for `engine`. None are in force before the first [`load`](Self::load).
    #[must_use]
    pub fn new(source: Arc<dyn RuleSource>, engine: Arc<ClusterEngine>) -> Self {
        Self {
            source,
            engine,
            loading: Mutex::default(),
            errors: AtomicU64::new(0),
            succeeded: Count::default(),
            failed: Count::default(),
        }
    }

    /// Reads the source and puts its rules in force. Blocks while it reads.
    ///
    /// # Errors
    ///
    /// Every mistake; nothing has changed then.
    pub fn load(&self) -> Result<Applied, RuleErrors> {
        let _one_at_a_time = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = self.source.load().and_then(|Loaded { rules, warnings, skipped, files, .. }| {
            let before = self.engine.rules().applied();
            let applied = self.engine.replace(rules)?;
            log(&warnings, |finding| {
                warn!(file = %finding.source, line = finding.line, field = %finding.field, "{finding}");
            });
            if applied == before {
                debug!(source = self.source.describe(), "rules are unchanged");
            } else {
                let Applied { revision, hash, flows, params, .. } = applied;
                let hash = format!("{hash:016x}");
                info!(revision, hash, flows, params, skipped, files, "rules in force");
            }
            Ok(applied)
        });
        let errors = loaded.as_ref().map_or_else(|errors| errors.0.len() as u64, |_| 0);
        // Relaxed: a number for people; nothing is published with it.
        self.errors.store(errors, Ordering::Relaxed);
        if errors > 0 { &self.failed } else { &self.succeeded }.add_one();
        loaded
    }

    /// Loads in time that connections leave, and logs what is wrong. True when it went well.
    pub async fn reload(self: &Arc<Self>) -> bool {
        let rules = Arc::clone(self);
        match apart("rule-load", move || rules.load()).await {
            Ok(Some(Ok(_))) => true,
            Ok(Some(Err(errors))) => {
                log(&errors.0, |finding| {
                    let Finding { source, line, index, field, .. } = finding;
                    error!(file = %source, line, rule = index, %field, "{finding}");
                });
                false
            }
            Ok(None) => {
                error!("loading rules panicked");
                false
            }
            Err(error) => {
                error!(%error, "no thread to load rules");
                false
            }
        }
    }

    /// Reloads whenever the source may have changed; never ends.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut changes = match self.source.watch() {
            Ok(changes) => changes,
            Err(failed) => {
                let cause = failed.cause.to_string();
                error!(error = %failed, cause, "rules change only by a reload");
                return std::future::pending().await;
            }
        };
        loop {
            Changes::next(&mut changes).await;
            self.reload().await;
        }
    }

    /// Mistakes that the last load found; 0 when it went well.
    pub(crate) fn errors(&self) -> u64 {
        // Relaxed: as in `load`.
        self.errors.load(Ordering::Relaxed)
    }

    /// How many loads went well, and how many did not.
    pub(crate) fn loads(&self) -> [(&'static str, u64); 2] {
        [("ok", self.succeeded.get()), ("error", self.failed.get())]
    }
}

fn log(findings: &[Finding], line: impl Fn(&Finding)) {
    findings.iter().take(LOGGED_MAX).for_each(line);
    if findings.len() > LOGGED_MAX {
        warn!(more = findings.len() - LOGGED_MAX, "further findings about the rules");
    }
}

#[cfg(test)]
mod tests {
    use limiter::{Settings, rule};
    use rule_sources::WatchError;
    use tokio::{sync::Notify, task::JoinSet};

    use super::*;
    use crate::testing::Log;

    /// A source that holds a text, and is told by hand that it changed.
    #[derive(Debug, Default)]
    struct Text {
        text: Mutex<String>,
        changed: Arc<Notify>,
    }

    impl Text {
        fn set(&self, ids: &[i64]) {
            let rule = |id| {
                format!(
                    r#"{{"resource": "r", "count": 1, "clusterMode": true,
                        "clusterConfig": {{"flowId": {id}}}}}"#
                )
            };
            let rules: Vec<String> = ids.iter().map(rule).collect();
            *self.text.lock().unwrap() = format!("[{}]", rules.join(",\n"));
        }
    }

    impl RuleSource for Text {
        fn describe(&self) -> String {
            "a text".into()
        }

        fn load(&self) -> Result<Loaded, RuleErrors> {
            let text = self.text.lock().unwrap();
            let parsed = rule::parse(&text, "text", "n", rule::Contents::Mixed, true)?;
            Ok(Loaded { rules: rule::merge(vec![parsed])?, ..Loaded::default() })
        }

        fn watch(&self) -> Result<Changes, WatchError> {
            Ok(Changes::new(Arc::clone(&self.changed), ()))
        }
    }

    fn rules() -> (Arc<Rules>, Arc<Text>, Arc<ClusterEngine>) {
        let source = Arc::<Text>::default();
        let engine = Arc::new(ClusterEngine::new(Settings::default()));
        (Arc::new(Rules::new(source.clone(), Arc::clone(&engine))), source, engine)
    }

    #[test]
    fn mistakes_keep_the_rules_in_force_and_are_counted_until_they_are_mended() {
        let (rules, source, engine) = rules();
        source.set(&[1, 2]);
        let applied = rules.load().unwrap();
        assert_eq!((applied.revision, applied.flows), (1, 2));
        source.set(&[0, 1, -1]);
        assert_eq!(rules.load().unwrap_err().0.len(), 2);
        assert_eq!((rules.errors(), engine.rules().applied()), (2, applied));
        source.set(&[1]);
        assert_eq!(rules.load().unwrap().revision, 2);
        assert_eq!((rules.errors(), rules.loads()), (0, [("ok", 2), ("error", 1)]));
    }

    #[tokio::test]
    async fn what_fails_to_reload_is_one_error_line_a_mistake() {
        let log = Log::start();
        let (rules, source, _) = rules();
        source.set(&[0, 1, -1]);
        assert!(!rules.reload().await);
        log.assert(&[
            "text:2: rule 0: clusterConfig.flowId = 0",
            "text:6: rule 2: clusterConfig.flowId = -1",
        ]);
    }

    #[tokio::test]
    async fn a_change_is_in_force_once_it_is_told() {
        let log = Log::start();
        let (rules, source, engine) = rules();
        source.set(&[1]);
        rules.load().unwrap();
        let mut keeping = JoinSet::new();
        keeping.spawn(rules.keep());
        for (revision, ids) in [(2, &[1, 2][..]), (3, &[2])] {
            source.set(ids);
            source.changed.notify_one();
            while engine.rules().applied().revision < revision {
                tokio::task::yield_now().await;
            }
            assert_eq!(engine.rules().applied().flows, ids.len());
        }
        log.assert(&[]);
    }

    #[tokio::test]
    async fn a_flood_of_mistakes_is_cut_in_the_log_and_counted() {
        let log = Log::start();
        let (rules, source, _) = rules();
        source.set(&[0; 250]);
        rules.reload().await;
        assert_eq!(rules.errors(), 250);
        let lines: Vec<&str> = [&["rule"; 100][..], &["more=150"]].concat();
        log.assert(&lines);
    }
}
