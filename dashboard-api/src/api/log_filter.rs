//! `/api/v1/log-filter`: how much the process logs, read and changed while it runs.

use axum::{
    extract::{State, rejection::StringRejection},
    http::StatusCode,
};

use super::{Shared, own_machine::OwnMachine, problem::Problem};

pub(super) async fn read(State(Shared { api, .. }): State<Shared>) -> String {
    api.log.filter()
}

/// Takes directives as plain text, such as `info,token_server=debug`, and answers with what is in
/// force then. White space around them does not count: `curl --data-binary @file` sends the line
/// break.
pub(super) async fn change(
    _: OwnMachine,
    State(Shared { api, .. }): State<Shared>,
    directives: Result<String, StringRejection>,
) -> Result<String, Problem> {
    let directives = directives.map_err(|e| Problem::new(e.status(), e.body_text()))?;
    let changed = api.log.set_filter(directives.trim());
    changed.map_err(|reason| Problem::new(StatusCode::BAD_REQUEST, reason))?;
    Ok(api.log.filter())
}
