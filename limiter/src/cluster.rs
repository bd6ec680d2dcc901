//! The cluster engine: who may take how many tokens of which flow, for all clients together.
//!
//! [`ClusterEngine`] owns the rules in force, the counters and the namespaces. A caller asks
//! through a [`Snapshot`], which is one whole [`RuleSet`] per batch.

mod engine;
mod flow;
mod key;
mod limit;
mod local;
mod namespace;
mod param;
mod rule_set;
mod settings;
mod totals;
mod values;

pub use engine::{ClusterEngine, Snapshot};
pub use flow::Flow;
pub use key::Param;
pub use local::{LocalFlow, LocalLimit, LocalParam};
pub use namespace::{Membership, Namespace, NamespacesFull};
pub use param::{ParamFlow, ParamTotals};
pub use rule_set::{Applied, RuleSet};
pub use settings::Settings;
pub use totals::{FlowTotals, SecondTotals};
