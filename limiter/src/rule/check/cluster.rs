//! `clusterMode` and `clusterConfig`.

use super::{ANY_INT, ANY_LONG, I32_MAX};
use crate::{
    BUCKETS_MAX, INTERVAL_MS_MAX, WindowShape,
    rule::{
        ClusterConfig, FallbackPolicy, Grade, OverloadPolicy, Scope, ThresholdUnit,
        object::{Object, Owner},
        report::Report,
    },
};

/// The rule that a configuration belongs to. Sentinel has a class for each kind
/// (`ClusterFlowConfig`, `ParamFlowClusterConfig`), and checks some fields for one grade only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Flow(Grade),
    Param,
}

/// Default of `resourceTimeout` and of `clientOfflineTime`, in milliseconds.
const LIFETIME_MS: u32 = 2_000;

/// `None` for a local rule, and for a wrong one (said in `report`).
pub(super) fn config(f: &mut Object<'_>, report: &mut Report<'_>, of: Of) -> Option<ClusterConfig> {
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
    let window = window(&mut c, report);
    let unit = c.choice(
        report,
        "thresholdUnit",
        ThresholdUnit::Sentinel,
        &[("sentinel", ThresholdUnit::Sentinel), ("window", ThresholdUnit::Window)],
    );
    let (resource_timeout_ms, client_offline_ms) = match of {
        Of::Flow(grade) => lifetimes(&mut c, report, grade),
        Of::Param => (LIFETIME_MS, LIFETIME_MS),
    };
    // Sentinel's defaults differ: true for flow rules, false for hot-parameter rules.
    let local = c.bool(report, "fallbackToLocalWhenFail", of != Of::Param);
    let config = ClusterConfig {
        flow_id,
        scope,
        window,
        unit,
        local_count: c.threshold(report, "localCount"),
        fallback: c.choice(
            report,
            "fallbackPolicy",
            if local { FallbackPolicy::Local } else { FallbackPolicy::Pass },
            &[
                ("local", FallbackPolicy::Local),
                ("share", FallbackPolicy::Share),
                ("pass", FallbackPolicy::Pass),
                ("block", FallbackPolicy::Block),
            ],
        ),
        overload: c.choice(
            report,
            "overloadPolicy",
            OverloadPolicy::Local,
            &[
                ("reject", OverloadPolicy::Reject),
                ("share", OverloadPolicy::Share),
                ("local", OverloadPolicy::Local),
            ],
        ),
        resource_timeout_ms,
        client_offline_ms,
    };
    c.warn_unknown(report, &["@type"]);
    Some(config)
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

fn window(c: &mut Object<'_>, report: &mut Report<'_>) -> WindowShape {
    let before = report.errors.len();
    let buckets = c.int(report, "sampleCount", 10, (1, i64::from(BUCKETS_MAX)));
    let interval_max = i64::try_from(INTERVAL_MS_MAX).unwrap_or(i64::MAX);
    let interval = c.int(report, "windowIntervalMs", 1_000, (1, interval_max));
    let shape = WindowShape::new(interval.unsigned_abs(), u32::try_from(buckets).unwrap_or(1));
    if report.errors.len() > before {
        return WindowShape::SECOND;
    }
    shape.unwrap_or_else(|| {
        let remedy = format!("must be a multiple of sampleCount ({buckets})");
        c.error(report, "windowIntervalMs", &remedy);
        WindowShape::SECOND
    })
}

/// `resourceTimeout` and `clientOfflineTime`, and the strategies beside them. Sentinel looks at
/// all but `strategy` for thread-grade rules only, and at that for the others.
fn lifetimes(c: &mut Object<'_>, report: &mut Report<'_>, grade: Grade) -> (u32, u32) {
    let concurrent = grade == Grade::Thread;
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
