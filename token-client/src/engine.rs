//! The local engine for async code: guards, waits and readings without a server.

mod attempt;
mod cluster;
mod guard;
mod keep;
mod logs;
mod metrics;
mod rules;
mod system;

use std::sync::Arc;

use limiter::{
    Clock, MonotonicClock, Tick,
    local::{Call, Checked, ContextHandle, LocalEngine, LocalSettings, Trace},
};
use prometheus_client::registry::Registry;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::{
    attempt::{Attempt, NotNow, RunError},
    cluster::ClusterMode,
    guard::Guard,
    logs::{LogSettings, MetricLine, MetricSearch},
    system::SystemReader,
};

/// Protects the resources of this process: Sentinel's local engine, with a clock, for async code.
///
/// Make one for the process and clone it: clones are the same engine. Rules, user slots, observers
/// and readings are those of the [local engine](Self::local) beneath.
///
/// ```
/// use token_client::{Engine, RunError, limiter::{local::LocalSettings, rule}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rule::RuleErrors> {
/// let engine = Engine::new(LocalSettings::default());
/// let text = r#"[{"resource": "GET:/orders", "count": 1}]"#;
/// let rules = rule::parse(text, "flow rules", "", rule::Contents::Flow, false)?.rules;
/// engine.local().load_flow(rules.flow);
///
/// let load = async || Ok::<_, std::io::Error>("orders");
/// assert_eq!(engine.entry("GET:/orders").run(load()).await.unwrap(), "orders");
/// let refused = engine.entry("GET:/orders").run(load()).await.unwrap_err();
/// assert!(matches!(refused, RunError::Blocked(_)));
/// assert_eq!(refused.to_string(), "flow rule of GET:/orders: 1 calls per second");
/// # Ok(())
/// # }
/// ```
///
/// System rules on load and processors need [`Self::keep`] to run.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// What clones of an engine share. Guards, metrics and the task that keeps the engine do not hold
/// it.
#[derive(Debug)]
struct Shared {
    local: Arc<LocalEngine>,
    clock: Arc<dyn Clock>,
    cluster: cluster::Cluster,
    /// Ends [`Engine::keep`] with the last clone.
    alive: DropGuard,
}

impl Engine {
    /// An engine without rules, which counts and lets everything pass, on the system's clock.
    #[must_use]
    pub fn new(settings: LocalSettings) -> Self {
        Self::with_clock(settings, Arc::new(MonotonicClock::start()))
    }

    /// The same on another clock, which decides. Waits are slept on the runtime's clock, so both
    /// should go at the same pace.
    #[must_use]
    pub fn with_clock(settings: LocalSettings, clock: Arc<dyn Clock>) -> Self {
        let local = Arc::new(LocalEngine::new(settings));
        let alive = CancellationToken::new().drop_guard();
        let cluster = cluster::Cluster::default();
        Self { shared: Arc::new(Shared { local, clock, cluster, alive }) }
    }

    /// A call of `resource`, to be made with [`Attempt::acquire`] or [`Attempt::run`].
    pub fn entry<'a>(&'a self, resource: &'a str) -> Attempt<'a> {
        Attempt { engine: self, call: Call::new(resource) }
    }

    /// Asks only the flow rules of `resource` for `n` tokens, now: a rate limit where there is no
    /// call to guard. Its `Wait` is the caller's to sleep; see [`LocalEngine::check`].
    pub fn check(&self, resource: &str, n: u32) -> Checked {
        self.shared.local.check(self.now(), resource, n)
    }

    /// The engine beneath: loads rules, takes slots and observers, and tells what is counted.
    #[must_use]
    pub fn local(&self) -> &Arc<LocalEngine> {
        &self.shared.local
    }

    /// The tick of now, for readings.
    #[must_use]
    pub fn now(&self) -> Tick {
        self.shared.clock.now()
    }

    /// The context of that name, for [`Attempt::context`]. Get it once and keep it.
    #[must_use]
    pub fn context(&self, name: &str) -> ContextHandle {
        self.shared.local.context(name)
    }

    /// An empty trace for [`Attempt::traced`], on the clock of the engine.
    #[must_use]
    pub fn trace(&self) -> Trace {
        Trace::new(Arc::clone(&self.shared.clock))
    }

    /// Looks after the engine once a second, until its last clone is dropped: gives unused memory
    /// back, tells system rules how busy the machine is, and warns, once for each resource and
    /// rule, of calls without the argument that a hot-parameter rule looks at.
    ///
    /// A process spawns it once. Without it the engine decides as ever, but knows no load and no
    /// processors, so that system rules on these limit nothing.
    pub fn keep(&self) -> impl Future<Output = ()> + Send + 'static {
        self.keep_with(SystemReader::default())
    }

    /// The same, with what tells how busy the machine is.
    pub fn keep_with(&self, reader: SystemReader) -> impl Future<Output = ()> + Send + 'static {
        let stop = self.shared.alive.token().clone();
        let kept = keep::keep(Arc::downgrade(&self.shared), reader);
        async move { stop.run_until_cancelled_owned(kept).await.unwrap_or(()) }
    }

    /// Shows what the engine counts in a Prometheus registry, named `tollgate_local_…`. The
    /// registry does not keep [`Self::keep`] running.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(metrics::Shown::new(&self.shared)));
    }
}
