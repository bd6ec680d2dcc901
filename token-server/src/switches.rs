//! The operator's switches: what becomes of all decisions, or of a namespace's, whatever the rules
//! say. They can be thrown while the server runs.

use std::{fmt, sync::Arc};

use limiter::{ClusterEngine, Switches, rule::Mode};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Registry,
};
use tracing::{info, warn};

/// All modes with their names.
pub(crate) const MODES: [(&str, Mode); 4] = [
    ("enforce", Mode::Enforce),
    ("shadow", Mode::Shadow),
    ("pass", Mode::Pass),
    ("block", Mode::Block),
];

/// Namespaces that one log line names; of more, the rest is counted.
const NAMED_MAX: usize = 20;

pub(crate) fn name(mode: Mode) -> &'static str {
    MODES.iter().find(|(_, its)| *its == mode).map_or("", |(name, _)| name)
}

/// Puts `switches` in force, and logs what is not enforced then. It is logged again each time, since
/// it is easily forgotten.
pub fn apply(engine: &ClusterEngine, switches: &Switches) {
    let before = off(&engine.switches());
    engine.switch(switches.clone());
    let now = off(switches);
    if !now.is_empty() {
        warn!(switched = some(&now), "rules are not enforced everywhere");
    } else if !before.is_empty() {
        info!("all rules are enforced");
    }
    let known = engine.namespaces();
    let is_known =
        |name: &str| known.binary_search_by(|namespace| namespace.name().cmp(name)).is_ok();
    let names = switches.namespaces.keys().filter(|name| !is_known(name));
    let unknown: Vec<String> = names.map(ToString::to_string).collect();
    if !unknown.is_empty() {
        let namespaces = some(&unknown);
        warn!(namespaces, "switches of namespaces that have neither rules nor clients");
    }
}

/// What is not at [`Mode::Enforce`].
fn off(switches: &Switches) -> Vec<String> {
    let whole = [("server", switches.mode)].into_iter();
    let namespaces = switches.namespaces.iter().map(|(name, own)| (&**name, own.mode));
    let off = whole.chain(namespaces).filter(|(_, mode)| *mode != Mode::Enforce);
    off.map(|(who, mode)| format!("{who}={}", name(mode))).collect()
}

fn some(names: &[String]) -> String {
    let (shown, rest) = names.split_at(names.len().min(NAMED_MAX));
    let mut text = shown.join(", ");
    if !rest.is_empty() {
        text += &format!(" and {} more", rest.len());
    }
    text
}

/// Registers which modes are switched on.
pub(crate) fn register(registry: &mut Registry, engine: Arc<ClusterEngine>) {
    registry.register_collector(Box::new(Metrics(engine)));
}

#[derive(Debug)]
struct Metrics(Arc<ClusterEngine>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Switches { mode, namespaces } = self.0.switches();
        let help = "1 for the mode of the whole server, 0 for the others";
        let mut series =
            encoder.encode_descriptor("tollgate_mode", help, None, MetricType::Gauge)?;
        for (name, its) in MODES {
            let value = f64::from(u8::from(its == mode));
            ConstGauge::new(value).encode(series.encode_family(&[("mode", name)])?)?;
        }
        let help = "1 for each namespace that the configuration switches, with its own mode";
        let family = "tollgate_namespace_mode";
        let mut series = encoder.encode_descriptor(family, help, None, MetricType::Gauge)?;
        for (namespace, own) in &namespaces {
            let labels = [("namespace", &**namespace), ("mode", name(own.mode))];
            ConstGauge::new(1.0).encode(series.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use limiter::{NamespaceSwitches, Settings};
    use prometheus_client::encoding::text;

    use super::*;
    use crate::testing::{Log, engine};

    fn switches(mode: Mode, namespaces: &[(&str, Mode)]) -> Switches {
        let own = |mode| NamespaceSwitches { mode, ..NamespaceSwitches::default() };
        let namespaces = namespaces.iter().map(|(name, mode)| ((*name).into(), own(*mode)));
        Switches { mode, namespaces: namespaces.collect() }
    }

    #[test]
    fn what_is_not_enforced_is_said_each_time_and_namespaces_that_nobody_knows_too() {
        let (engine, log) = (engine(Settings::default()), Log::start());
        apply(&engine, &Switches::default());
        let some = switches(Mode::Shadow, &[("default", Mode::Block), ("defualt", Mode::Pass)]);
        apply(&engine, &some);
        assert_eq!(engine.switches(), some);
        apply(&engine, &switches(Mode::Enforce, &[("default", Mode::Enforce)]));
        log.assert(&["server=shadow, default=block, defualt=pass", "defualt"]);
    }

    #[test]
    fn of_a_great_many_namespaces_the_log_names_some() {
        let names: Vec<String> = (10..35).map(|n| n.to_string()).collect();
        let text = some(&names);
        assert!(text.starts_with("10, 11, ") && text.ends_with(", 29 and 5 more"), "{text}");
    }

    #[test]
    fn metrics_show_the_modes_that_are_switched_on() {
        let engine = engine(Settings::default());
        apply(&engine, &switches(Mode::Enforce, &[("default", Mode::Block)]));
        let mut registry = Registry::default();
        register(&mut registry, engine);
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        for line in [
            "tollgate_mode{mode=\"enforce\"} 1.0",
            "tollgate_mode{mode=\"pass\"} 0.0",
            "tollgate_namespace_mode{namespace=\"default\",mode=\"block\"} 1.0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
    }
}
