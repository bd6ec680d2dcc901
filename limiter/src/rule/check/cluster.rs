//! `clusterMode` and `clusterConfig`.

use super::{
    ANY_INT, ANY_LONG, I32_MAX,
    able::{self, Numbers},
    counting::Counting,
    lease::lease,
};
use crate::rule::{
    Algorithm, COUNT_MAX, ClusterConfig, ControlBehavior, FallbackPolicy, Mode, OverloadPolicy,
    Scope,
    cluster::Rare,
    object::{Object, Owner},
    report::Report,
};

/// Default of `resourceTimeout` and of `clientOfflineTime`, in milliseconds.
const LIFETIME_MS: u32 = Rare::DEFAULT.resource_timeout_ms;

/// The rule that a configuration belongs to, with the behaviour that is in force. Sentinel has a
/// class for each kind (`ClusterFlowConfig`, `ParamFlowClusterConfig`), and checks some fields for
/// one grade only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// A flow rule of grade 0, which neither paces nor warms up.
    Concurrency,
    Flow(ControlBehavior),
    Param(ControlBehavior),
}

/// What a rule needs for its tokens to be lent.
pub(super) const LENT: &str =
    "needs a flow rule with grade 1, controlBehavior 0 and algorithm slidingWindow";

impl Of {
    /// Whether clients may hold tokens of the rule in advance.
    pub(super) fn is_lent(self, algorithm: &Algorithm) -> bool {
        self == Self::Flow(ControlBehavior::Reject) && *algorithm == Algorithm::SlidingWindow
    }

    pub(super) fn behavior(self) -> ControlBehavior {
        match self {
            Self::Concurrency => ControlBehavior::Reject,
            Self::Flow(behavior) | Self::Param(behavior) => behavior,
        }
    }
}

/// `None` for a local rule, and for a wrong one (said in `report`).
pub(super) fn config(
    f: &mut Object<'_>,
    report: &mut Report<'_>,
    of: Of,
    numbers: &Numbers<'_, '_>,
) -> Option<ClusterConfig> {
    let on = f.bool(report, "clusterMode", false);
    let config = f.object("clusterConfig", Owner::ClusterConfig);
    if !on {
        return None;
    }
    let Some(mut c) = config else {
        f.error(report, "clusterConfig", "clusterMode needs it: {\"flowId\": …}");
        return None;
    };
    if !c.gives("flowId") {
        c.error(report, "flowId", "required: a positive number, unique");
    }
    let flow_id = c.int(report, "flowId", 1, (1, i64::MAX));
    let scope = scope(&mut c, report);
    let Counting { window, unit, algorithm } = Counting::read(&mut c, report, of);
    let rare = rare(&mut c, report, of, &algorithm);
    let (fallback, overload) = without_server(&mut c, report, of, &algorithm);
    let modes = [
        ("enforce", Mode::Enforce),
        ("shadow", Mode::Shadow),
        ("pass", Mode::Pass),
        ("block", Mode::Block),
    ];
    let mode = c.choice(report, "mode", Mode::Enforce, &modes);
    c.warn_unknown(report, &["@type"]);
    let rare = rare.kept();
    let config =
        ClusterConfig { flow_id, window, algorithm, scope, unit, fallback, overload, mode, rare };
    able::check((f, &c), report, &config, of.behavior(), numbers);
    Some(config)
}

/// What few rules have.
fn rare(c: &mut Object<'_>, report: &mut Report<'_>, of: Of, algorithm: &Algorithm) -> Rare {
    let (resource_timeout_ms, client_offline_ms) = match of {
        Of::Flow(_) => lifetimes(c, report, false),
        Of::Concurrency => lifetimes(c, report, true),
        Of::Param(_) => (LIFETIME_MS, LIFETIME_MS),
    };
    let default = Rare::DEFAULT.cold_factor;
    let cold = c.whole(report, "coldFactor", (2, 100)).and_then(|cold| u8::try_from(cold).ok());
    let warms_up = matches!(of.behavior(), ControlBehavior::WarmUp | ControlBehavior::WarmUpPacing);
    let is_idle = !warms_up && cold.is_some_and(|cold| cold != default);
    c.idle(report, "coldFactor", is_idle, "only controlBehavior 1 and 3 of a flow rule warm up");
    Rare {
        local_count: c.measure(report, "localCount", "calls per second", COUNT_MAX),
        lease: lease(c, report, of, algorithm),
        resource_timeout_ms,
        client_offline_ms,
        cold_factor: cold.unwrap_or(default),
    }
}

/// What a client does when the server does not decide.
fn without_server(
    c: &mut Object<'_>,
    report: &mut Report<'_>,
    of: Of,
    algorithm: &Algorithm,
) -> (FallbackPolicy, OverloadPolicy) {
    // Sentinel's defaults differ: true for flow rules, false for hot-parameter rules.
    let local = c.bool(report, "fallbackToLocalWhenFail", !matches!(of, Of::Param(_)));
    let fallbacks = [
        ("local", FallbackPolicy::Local),
        ("share", FallbackPolicy::Share),
        ("pass", FallbackPolicy::Pass),
        ("block", FallbackPolicy::Block),
    ];
    let default = if local { FallbackPolicy::Local } else { FallbackPolicy::Pass };
    let fallback = c.choice(report, "fallbackPolicy", default, &fallbacks);
    let overloads = [
        ("reject", OverloadPolicy::Reject),
        ("share", OverloadPolicy::Share),
        ("local", OverloadPolicy::Local),
    ];
    let overload = c.choice(report, "overloadPolicy", OverloadPolicy::Local, &overloads);
    if overload == OverloadPolicy::Share && !of.is_lent(algorithm) {
        let remedy = format!("acts as reject here: to be lent, it {LENT}; or let local decide");
        c.warn(report, "overloadPolicy", &remedy);
    }
    (fallback, overload)
}

fn scope(c: &mut Object<'_>, report: &mut Report<'_>) -> Scope {
    match c.int(report, "thresholdType", 0, ANY_INT) {
        1 => Scope::Global,
        0 => Scope::PerClient,
        _ => {
            let remedy = "unknown; taken as 0 (average per client), as Sentinel does";
            c.warn(report, "thresholdType", remedy);
            Scope::PerClient
        }
    }
}

/// `resourceTimeout` and `clientOfflineTime`, and the strategies beside them. Sentinel looks at
/// all but `strategy` for thread-grade rules only, and at that for the others.
fn lifetimes(c: &mut Object<'_>, report: &mut Report<'_>, concurrent: bool) -> (u32, u32) {
    let strategy = c.int(report, "strategy", 0, ANY_INT);
    if !concurrent && strategy != 0 {
        c.error(report, "strategy", "must be 0");
    }
    c.unused(report, "strategy", concurrent && strategy != 0, "there is one way to count");
    let strategies = if concurrent { (0, I32_MAX) } else { ANY_INT };
    for (name, instead) in [
        ("resourceTimeoutStrategy", "a call whose time is over is given back"),
        ("acquireRefuseStrategy", "what is over the threshold is refused"),
    ] {
        let strategy = c.int(report, name, 0, strategies);
        c.unused(report, name, strategy != 0, instead);
    }
    let mut lifetime = |name| {
        let range = if concurrent { (1, i64::MAX) } else { ANY_LONG };
        let ms = c.int(report, name, LIFETIME_MS.into(), range);
        if !concurrent {
            let instead = "only calls in progress (grade 0) have a time to live";
            c.unused(report, name, ms != i64::from(LIFETIME_MS), instead);
            return LIFETIME_MS;
        }
        u32::try_from(ms).unwrap_or_else(|_| {
            c.warn(report, name, "taken as 4294967295, which is 49 days");
            u32::MAX
        })
    };
    (lifetime("resourceTimeout"), lifetime("clientOfflineTime"))
}
