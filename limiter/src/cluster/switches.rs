//! What an operator switches while the engine runs, for all rules or for those of a namespace.

use std::collections::BTreeMap;

use crate::rule::Mode;

/// Everything that can be switched. Namespaces that are not named have the settings of
/// [`Settings`](crate::Settings).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Switches {
    /// What becomes of all decisions. Anything but [`Mode::Enforce`] is in force whatever
    /// namespaces and rules say.
    pub mode: Mode,
    /// By name.
    pub namespaces: BTreeMap<Box<str>, NamespaceSwitches>,
}

/// What can be switched for one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct NamespaceSwitches {
    /// What becomes of the namespace's decisions. Anything but [`Mode::Enforce`] is in force
    /// whatever its rules say.
    pub mode: Mode,
    /// Requests per second that it may make; `None`: as all others.
    pub max_allowed_qps: Option<f64>,
}

impl Switches {
    /// The mode of everything in that namespace: the widest switch that is not at
    /// [`Mode::Enforce`] decides.
    pub(crate) fn mode_of(&self, namespace: &str) -> Mode {
        if self.mode != Mode::Enforce {
            return self.mode;
        }
        self.namespaces.get(namespace).map_or(Mode::Enforce, |own| own.mode)
    }

    pub(crate) fn max_qps_of(&self, namespace: &str, default: Option<f64>) -> f64 {
        let own = self.namespaces.get(namespace).and_then(|own| own.max_allowed_qps);
        own.or(default).unwrap_or(f64::INFINITY)
    }
}
