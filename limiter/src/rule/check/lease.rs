//! `lease`: tokens that a client may hold in advance.

use super::cluster::{LENT, Of};
use crate::rule::{
    Algorithm, Lease,
    object::{Object, Owner},
    report::Report,
};

/// `None` when there is none, and when it is wrong (said in `report`).
pub(super) fn lease(
    c: &mut Object<'_>,
    report: &mut Report<'_>,
    of: Of,
    algorithm: &Algorithm,
) -> Option<Lease> {
    let is_there = c.gives("lease");
    let fields = c.object("lease", Owner::Lease);
    if !is_there {
        return None;
    }
    if !of.is_lent(algorithm) {
        c.error(report, "lease", LENT);
    }
    let Some(mut fields) = fields else {
        c.error(report, "lease", "must be an object: {\"maxTokens\": …, \"ttlMs\": …}");
        return None;
    };
    let mut field = |name, max| {
        if !fields.gives(name) {
            fields.error(report, name, &format!("required: a whole number from 1 to {max}"));
        }
        u32::try_from(fields.whole(report, name, (1, max))?).ok()
    };
    let lease = (field("maxTokens", 1_000_000), field("ttlMs", 60_000));
    fields.warn_unknown(report, &["@type"]);
    Some(Lease { max_tokens: lease.0?, ttl_ms: lease.1? })
}
