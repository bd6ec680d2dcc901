//! File descriptors: a connection needs one, and the usual soft limit is 1 024.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

/// Descriptors beside those of token connections: listeners, HTTP, rule files, the runtime.
const OTHERS: u64 = 128;

/// Raises the soft limit of this process as far as the hard one allows, and warns when it still
/// does not reach for `connections` at once.
pub fn raise(connections: usize) {
    let needed = (connections as u64).saturating_add(OTHERS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` is no limit.
    let Some(soft) = current.filter(|soft| *soft < needed) else { return };
    let wanted = maximum.map_or(needed, |hard| hard.min(needed));
    let raised = Rlimit { current: Some(wanted), maximum };
    let soft = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        Err(_not_allowed) => soft,
    };
    if soft < needed {
        warn!(
            limit = soft,
            needed,
            "too few file descriptors for connections_max: raise the limit (ulimit -n, \
             LimitNOFILE) or lower the key"
        );
    } else {
        info!(limit = soft, "raised the limit of file descriptors");
    }
}
