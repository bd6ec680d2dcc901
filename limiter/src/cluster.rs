//! The cluster engine: who may take how many tokens of which flow, for all clients together.
//!
//! [`ClusterEngine`] owns the rules in force, the counters and the namespaces. A caller asks
//! through a [`Snapshot`], which is one whole [`RuleSet`] per batch.

mod all;
mod ask;
mod counter;
mod counting;
mod departed;
mod digest;
mod engine;
mod flow;
pub(crate) mod key;
mod ledger;
pub(crate) mod limit;
mod local;
mod machine;
mod namespace;
mod param;
mod recipe;
mod rule_set;
mod saved;
mod settings;
mod sliding;
mod successor;
mod switches;
mod totals;
mod tuned;
pub(crate) mod values;
mod wall;
mod weighed;

pub use ask::{All, Ask, Explained, Unit, What, limit_in_words};
pub use engine::{ClusterEngine, Snapshot};
pub use flow::{Flow, LeaseRefused, Leased};
pub use key::Param;
pub use ledger::LeaseId;
pub use local::{LocalFlow, LocalLimit, LocalParam};
pub use namespace::{Membership, Namespace, NamespacesFull};
pub use param::{ParamFlow, ParamTotals};
pub use rule_set::{Applied, RuleSet};
pub use saved::{Record, Restored};
pub use settings::Settings;
pub use switches::{NamespaceSwitches, Switches};
pub use totals::{FlowTotals, SecondTotals};
