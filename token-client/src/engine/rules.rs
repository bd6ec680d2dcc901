//! Rules from a source, put in force and kept so.

use std::{future::pending, sync::Arc};

use limiter::rule::{Finding, RuleErrors};
use rule_sources::{Changes, Loaded, RuleSource};
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::{Engine, Shared};

/// Findings of one load that are logged one by one; of more, the rest is counted.
const LOGGED_MAX: usize = 100;

impl Engine {
    /// Reads a source and puts everything that it holds in force, in place of the rules before, kind
    /// after kind. What equal rules remember stays. It blocks while it reads.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use token_client::{Engine, limiter::local::LocalSettings, rule_sources::FileSource};
    ///
    /// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::new(LocalSettings::default());
    /// let rules = Arc::new(FileSource::of_service("rules/"));
    /// engine.load(&*rules)?;
    /// tokio::spawn(engine.follow(rules));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Every mistake, each with file, line, field, value and what would do. Nothing has changed then.
    pub fn load(&self, source: &dyn RuleSource) -> Result<(), RuleErrors> {
        self.shared.load(source)
    }

    /// Loads the source again whenever it may have changed, until the last clone of the engine is
    /// dropped. A load that finds a mistake changes nothing, and says all mistakes in the log.
    pub fn follow(&self, source: Arc<dyn RuleSource>) -> impl Future<Output = ()> + Send + 'static {
        let stop = self.shared.alive.token().clone();
        let engine = Arc::downgrade(&self.shared);
        let followed = async move {
            let mut changes = match source.watch() {
                Ok(changes) => changes,
                Err(failed) => {
                    error!(error = %failed, cause = %failed.cause, "rules do not change any more");
                    return pending().await;
                }
            };
            loop {
                Changes::next(&mut changes).await;
                let Some(engine) = engine.upgrade() else { return };
                let source = Arc::clone(&source);
                match spawn_blocking(move || engine.load(&*source)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(RuleErrors(found))) => log(&found, |finding| {
                        let Finding { source, line, index, field, .. } = finding;
                        error!(file = %source, line, rule = index, %field, "{finding}");
                    }),
                    Err(error) => error!(%error, "loading rules panicked"),
                }
            }
        };
        async move { stop.run_until_cancelled_owned(followed).await.unwrap_or(()) }
    }
}

impl Shared {
    fn load(&self, source: &dyn RuleSource) -> Result<(), RuleErrors> {
        let Loaded { rules, local, warnings, files, .. } = source.load()?;
        log(&warnings, |finding| {
            warn!(file = %finding.source, line = finding.line, field = %finding.field, "{finding}");
        });
        let before = self.local.revision();
        let (mut flow, mut param) = (Vec::new(), Vec::new());
        for mut set in rules {
            flow.append(&mut set.flow);
            param.append(&mut set.param);
        }
        let refused = [
            self.local.load_authority(local.authority),
            self.local.load_system(&local.system),
            self.local.load_gateway(local.gateway),
            self.local.load_param(param),
            self.local.load_flow(flow),
            self.local.load_degrade(local.degrade),
        ];
        for resource in refused.iter().flat_map(|loaded| &loaded.refused) {
            warn!(%resource, "a further rule for the resource was left out");
        }
        if self.local.revision() != before {
            let rules: usize = refused.iter().map(|loaded| loaded.rules).sum();
            info!(source = source.describe(), rules, files, "rules in force");
        }
        Ok(())
    }
}

fn log(findings: &[Finding], line: impl Fn(&Finding)) {
    findings.iter().take(LOGGED_MAX).for_each(line);
    if findings.len() > LOGGED_MAX {
        warn!(more = findings.len() - LOGGED_MAX, "further findings about the rules");
    }
}
